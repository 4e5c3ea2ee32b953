//! Reload of a changed configuration file, or of a changed file that it names. The new configuration is parsed and
//! built completely before it replaces the current one.

mod changes;
mod files;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::Instant;
use vmcp_audit_log::LogHandle;
use vmcp_egress::Egress;

pub use self::files::NamedFiles;
use self::files::stamp;
use super::auth_server::{Issuer, IssuerError};
use crate::auth_audit::Logins;
use crate::parts::{Issuing, Measures, Parts, Records};
use crate::routes::Shared;
use crate::stream_scope::StreamScope;

/// Poll interval of files. A mounted ConfigMap changes by a symbolic link swap, which file events miss.
const LOOK: Duration = Duration::from_secs(1);

/// First and longest delay before a retry of a reload that failed for a reason outside the file.
const RETRY_PAUSE: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(60));

/// Error of a reload.
enum ReloadError {
    /// Permanent: the file has to change.
    File(String),
    /// Temporary: something that the file names cannot be read, reached or written now.
    Passing(String),
}

/// Time of the next retry.
#[derive(Clone, Copy)]
struct Retry {
    at: Instant,
    pause: Duration,
}

impl Retry {
    /// Returns the next retry after another failure.
    fn after(last: Option<Self>) -> Self {
        let pause = last.map_or(RETRY_PAUSE.0, |last| RETRY_PAUSE.1.min(last.pause * 2));
        Self { at: Instant::now() + pause, pause }
    }
}

/// Outcome of the reloads so far.
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

    /// Logs and counts the outcome of a reload. A retry that fails with the same error is neither logged nor counted.
    fn report(&self, outcome: Result<String, ReloadError>, retried: bool) {
        let outcome = outcome.map_err(|error| match error {
            ReloadError::File(error) | ReloadError::Passing(error) => error,
        });
        match &outcome {
            Ok(changes) => tracing::info!(changes, "configuration reloaded"),
            Err(error) if retried && self.is_last(error) => {
                tracing::debug!("failed to reload the configuration again:\n{error}");
                return;
            }
            Err(error) => tracing::error!(
                "failed to reload the configuration; the last valid one runs on:\n{error}"
            ),
        }
        self.note(outcome.map(|_| ()));
    }

    /// Returns `true` if the last reload failed with this message.
    fn is_last(&self, error: &str) -> bool {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.last_error.as_deref() == Some(error)
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

/// Watches `path`, and the `files` that its `text` names, until the process ends.
pub(crate) fn watch(
    path: PathBuf,
    mut text: String,
    mut files: NamedFiles,
    shared: Arc<Shared>,
    egress: Egress,
) {
    // Installed first: without a handler, the signal ends the process.
    let mut hangup = signal(SignalKind::hangup()).ok();
    tokio::spawn(async move {
        // The first poll reads the file, which may have changed since `text` was read.
        let mut seen = None;
        let mut retry: Option<Retry> = None;
        loop {
            let asked = tokio::select! {
                () = tokio::time::sleep(LOOK) => false,
                () = hung_up(&mut hangup) => true,
            };
            let now = stamp(&path);
            let due = retry.is_some_and(|retry| retry.at <= Instant::now());
            let again = files.have_changed() || asked || due;
            if !again && now == seen {
                continue;
            }
            seen = now;
            if asked && let Some(recording) = &shared.stacks.load().recording {
                // Log rotation sends the same signal.
                recording.log.reopen();
            }
            if asked {
                shared.retired_logs().iter().for_each(LogHandle::reopen);
            }
            let before = text.clone();
            let outcome = match tokio::fs::read_to_string(&path).await {
                // The file was touched, but not changed.
                Ok(new) if !again && new == text => continue,
                Ok(new) => {
                    text = new;
                    // Record the metadata before the files are read, so that the next poll detects changes in between.
                    files = NamedFiles::of(&text);
                    take(&text, &shared, &egress).await
                }
                Err(error) => {
                    let error = format!("cannot read {}: {error}", path.display());
                    Err(ReloadError::Passing(error))
                }
            };
            retry = match &outcome {
                Err(ReloadError::Passing(_)) => Some(Retry::after(retry.filter(|_| due))),
                Ok(()) | Err(ReloadError::File(_)) => None,
            };
            shared.reloads.report(outcome.map(|()| changed(&before, &text)), due);
        }
    });
}

/// Describes the difference between two configurations.
fn changed(before: &str, after: &str) -> String {
    let parse = |text| vmcp_config::File::parse(text, vmcp_config::Format::Yaml).ok();
    let changes = match (parse(before), parse(after)) {
        (Some(before), Some(after)) => changes::changes(&before, &after),
        // The text at the start was invalid, so all sections count as new.
        (None, _) | (_, None) => vec!["all sections".to_owned()],
    };
    if changes.is_empty() {
        "no setting; files that it names were read again".to_owned()
    } else {
        changes.join(", ")
    }
}

async fn hung_up(signal: &mut Option<tokio::signal::unix::Signal>) {
    match signal {
        Some(signal) => _ = signal.recv().await,
        None => std::future::pending().await,
    }
}

async fn take(text: &str, shared: &Shared, egress: &Egress) -> Result<(), ReloadError> {
    let (_, parts) = Parts::read(text, egress).map_err(|error| {
        let words = error.to_string();
        if error.is_permanent() { ReloadError::File(words) } else { ReloadError::Passing(words) }
    })?;
    let Parts { settings, guards, records, measures, issuing, warnings, about, debug, held } =
        parts;
    if !unchanged(measures.as_ref(), shared.fixed.measures.as_ref(), Measures::same) {
        return Err(ReloadError::File(
            "telemetry: changes are taken over at a restart only: restart the server, or undo them"
                .to_owned(),
        ));
    }
    let exposed = shared.fixed.exposure.check(&guards);
    exposed.map_err(|error| ReloadError::File(error.to_string()))?;
    let current = shared.stacks.load_full();
    let issuer = issuer(issuing.as_ref(), current.issuer(), &shared.fixed.logins);
    let issuer = issuer.await.map_err(|error| ReloadError::Passing(error.to_string()))?;
    let settings = settings.stacked(shared.fixed.telemetry.as_ref());
    let recorded = unchanged(records.as_ref(), current.recording.as_ref(), Records::same);
    let recording = match records {
        Some(records) if !recorded => {
            let recording = records.start(shared.fixed.recorded);
            Some(recording.map_err(|error| ReloadError::Passing(error.to_string()))?)
        }
        _ => current.recording.clone().filter(|_| recorded),
    };
    // No error can occur after this point.
    crate::cli::log::set_debug(debug);
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    let is_issuer_kept = unchanged(issuer.as_ref(), current.issuer(), Issuer::is);
    if let Some(issuer) = issuer.as_ref().filter(|_| !is_issuer_kept) {
        issuer.take_over();
    }
    let guards = guards.for_sessions(issuer.as_ref().map(Issuer::sessions));
    shared.fixed.gateway.reload(settings).await;
    // Keep fetched keys and cached decisions where nothing changed.
    let guarded = is_issuer_kept && current.guards.same(&guards);
    if !guarded {
        shared.fixed.gateway.set_notification_authorizer(guards.admissions());
    }
    shared.hold(held);
    if !guarded || !recorded {
        shared.hold(guards.held());
        let keeps_streams = guards.keep_streams_of(&current.guards);
        let streams = if keeps_streams { current.streams.clone() } else { StreamScope::default() };
        shared.stacks.store(Arc::new(shared.fixed.stacks(guards, recording, issuer, streams)));
        if !keeps_streams {
            current.streams.end();
        }
    }
    if !recorded && let Some(ended) = &current.recording {
        // Requests under way still write events there. The log closes after the last of them.
        shared.retire(ended.log.handle());
    }
    shared.about.store(Arc::new(about));
    Ok(())
}

/// Returns the authorization server for the new configuration, which is the current one if possible.
async fn issuer(
    wanted: Option<&Issuing>,
    current: Option<&Issuer>,
    logins: &Arc<Logins>,
) -> Result<Option<Issuer>, IssuerError> {
    match (wanted, current) {
        (None, _) => Ok(None),
        (Some(wanted), Some(current)) => current.follow(wanted).await.map(Some),
        (Some(wanted), None) => Issuer::start(wanted, logins).await.map(Some),
    }
}

/// Returns `true` if an optional section has not changed.
fn unchanged<N, O>(new: Option<&N>, old: Option<&O>, same: impl Fn(&N, &O) -> bool) -> bool {
    match (new, old) {
        (Some(new), Some(old)) => same(new, old),
        (None, None) => true,
        (Some(_), None) | (None, Some(_)) => false,
    }
}
