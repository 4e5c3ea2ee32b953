//! Takes over a changed configuration file: parsed and built as a whole first, swapped only if nothing
//! is wrong with it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};
use vmcp_config::{File, Format};
use vmcp_egress::Egress;

use super::issuer::{Issuer, IssuerError};
use crate::parts::{Issuing, Measures, Parts, Records};
use crate::routes::Shared;

/// How often the file is looked at. A mounted ConfigMap changes by a swapped link, which file events
/// miss and a look does not.
const LOOK: Duration = Duration::from_secs(1);

/// What became of the changes so far.
#[derive(Debug, Default)]
pub struct Reloads(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    taken: u64,
    refused: u64,
    last_error: Option<String>,
}

impl Reloads {
    pub(crate) fn to_json(&self) -> Value {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        json!({
            "reloads": state.taken,
            "refused_reloads": state.refused,
            "last_error": state.last_error,
        })
    }

    fn note(&self, outcome: Result<(), String>) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match outcome {
            Ok(()) => {
                state.taken += 1;
                state.last_error = None;
            }
            Err(error) => {
                state.refused += 1;
                state.last_error = Some(error);
            }
        }
    }
}

/// Watches `path` for as long as the process lives.
pub(crate) fn watch(path: PathBuf, mut text: String, shared: Arc<Shared>, egress: Egress) {
    // At once: until somebody listens for it, the signal ends the process.
    let mut hangup = signal(SignalKind::hangup()).ok();
    tokio::spawn(async move {
        // The first look reads the file: it may have changed since it became `text`.
        let mut seen = None;
        loop {
            let asked = tokio::select! {
                () = tokio::time::sleep(LOOK) => false,
                () = hung_up(&mut hangup) => true,
            };
            let now = stamp(&path);
            if !asked && now == seen {
                continue;
            }
            seen = now;
            if asked && let Some(recording) = &shared.stacks.load().recording {
                // Whoever rotates the file says so by the same signal.
                recording.log.reopen();
            }
            let outcome = match tokio::fs::read_to_string(&path).await {
                // Touched, not changed.
                Ok(new) if !asked && new == text => continue,
                Ok(new) => {
                    text = new;
                    take(&text, &shared, &egress).await
                }
                Err(error) => Err(format!("cannot read {}: {error}", path.display())),
            };
            match &outcome {
                Ok(()) => tracing::info!("took over the changed configuration"),
                Err(error) => {
                    tracing::error!("the changed configuration is not used:\n{error}");
                }
            }
            shared.reloads.note(outcome);
        }
    });
}

async fn hung_up(signal: &mut Option<tokio::signal::unix::Signal>) {
    match signal {
        Some(signal) => _ = signal.recv().await,
        None => std::future::pending().await,
    }
}

fn stamp(path: &Path) -> Option<(SystemTime, u64)> {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}

async fn take(text: &str, shared: &Shared, egress: &Egress) -> Result<(), String> {
    let file = File::parse(text, Format::Yaml).map_err(|mistakes| mistakes.to_string())?;
    let parts = Parts::new(file, egress).map_err(|error| error.to_string())?;
    let Parts { settings, guards, records, measures, issuing, warnings, about, debug } = parts;
    if !unchanged(measures.as_ref(), shared.fixed.measures.as_ref(), Measures::same) {
        return Err(
            "telemetry: changes are taken over at a restart only: restart the server, or undo them"
                .to_owned(),
        );
    }
    let current = shared.stacks.load_full();
    let issuer = issuer(issuing.as_ref(), current.issuer()).await.map_err(|e| e.to_string())?;
    let settings = settings.stacked(shared.fixed.telemetry.as_ref());
    crate::cli::log::set_debug(debug);
    let recorded = unchanged(records.as_ref(), current.recording.as_ref(), Records::same);
    let recording = match records {
        Some(records) if !recorded => Some(records.start().map_err(|error| error.to_string())?),
        _ => current.recording.clone().filter(|_| recorded),
    };
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    let is_issuer_kept = unchanged(issuer.as_ref(), current.issuer(), Issuer::is);
    if let Some(issuer) = issuer.as_ref().filter(|_| !is_issuer_kept) {
        issuer.take_over();
    }
    let guards = guards.for_sessions(issuer.as_ref().map(Issuer::sessions));
    shared.fixed.gateway.reload(settings).await;
    // Keys that were fetched and decisions that were made are kept where nothing changed.
    let guarded = is_issuer_kept && current.guards.same(&guards);
    if !guarded {
        shared.fixed.gateway.admit_by(guards.admissions());
    }
    if !guarded || !recorded {
        shared.stacks.store(Arc::new(shared.fixed.stacks(guards, recording, issuer)));
    }
    if !recorded && let Some(ended) = &current.recording {
        ended.log.close();
    }
    shared.about.store(Arc::new(about));
    Ok(())
}

/// The authorization server that the new configuration asks for: the one that is there, if it can be.
async fn issuer(
    wanted: Option<&Issuing>,
    current: Option<&Issuer>,
) -> Result<Option<Issuer>, IssuerError> {
    match (wanted, current) {
        (None, _) => Ok(None),
        (Some(wanted), Some(current)) => current.follow(wanted).map(Some),
        (Some(wanted), None) => Issuer::start(wanted).await.map(Some),
    }
}

/// Whether a section that may be missing is what it was.
fn unchanged<N, O>(new: Option<&N>, old: Option<&O>, same: impl Fn(&N, &O) -> bool) -> bool {
    match (new, old) {
        (Some(new), Some(old)) => same(new, old),
        (None, None) => true,
        (Some(_), None) | (None, Some(_)) => false,
    }
}
