//! Reload of a changed configuration file, or of a changed file that it names. The new configuration is parsed and
//! built completely before it replaces the current one.

mod changes;
mod files;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::time::Instant;
use vmcp_audit_log::LogHandle;
use vmcp_egress::Egress;

pub use self::files::NamedFiles;
pub(super) use self::files::{FileStamp, stamp};
use super::Options;
use crate::auth_audit::AuthAuditRecorder;
use crate::auth_server::{AuthServerError, AuthServerRuntime};
use crate::parts::{
    AuditParts, AuthServerParts, Environment, Parts, SessionStorageParts, TelemetryParts,
};
use crate::routes::ServerState;
use crate::stream_scope::StreamScope;

/// Poll interval of files. A mounted ConfigMap changes by a symbolic link swap, which file events miss.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// First and longest delay before a retry of a reload that failed for a reason outside the file.
const RETRY_DELAYS: (Duration, Duration) = (Duration::from_secs(2), Duration::from_mins(1));

/// Inputs of each reload, besides the configuration.
#[derive(Debug)]
pub(super) struct Inputs {
    egress: Egress,
    environment: Environment,
    set_debug: fn(bool),
}

/// Error of a reload.
enum ReloadError {
    /// Permanent: the file has to change.
    Permanent(String),
    /// Temporary: something that the file names cannot be read, reached or written now.
    Temporary(String),
}

/// Time of the next retry.
#[derive(Clone, Copy)]
struct Retry {
    at: Instant,
    delay: Duration,
}

impl Inputs {
    pub(super) fn new(egress: &Egress, options: &Options) -> Self {
        let (egress, environment) = (egress.clone(), options.environment.clone());
        Self { egress, environment, set_debug: options.set_debug }
    }
}

impl Retry {
    /// Returns the next retry after another failure.
    fn after(last: Option<Self>) -> Self {
        let delay = last.map_or(RETRY_DELAYS.0, |last| RETRY_DELAYS.1.min(last.delay * 2));
        Self { at: Instant::now() + delay, delay }
    }
}

/// Watches `path`, and the `files` that its `text` names, until the process ends.
pub(super) fn watch(
    path: PathBuf,
    mut text: String,
    mut files: NamedFiles,
    shared: Arc<ServerState>,
    inputs: Inputs,
) {
    // Installed first: without a handler, the signal ends the process.
    let mut hangup = signal(SignalKind::hangup()).ok();
    tokio::spawn(async move {
        // The first poll reads the file, which may have changed since `text` was read.
        let mut last_stamp = None;
        let mut retry: Option<Retry> = None;
        loop {
            let is_requested = tokio::select! {
                () = tokio::time::sleep(POLL_INTERVAL) => false,
                () = sighup(&mut hangup) => true,
            };
            let now = stamp(&path);
            let is_due = retry.is_some_and(|retry| retry.at <= Instant::now());
            let is_forced = files.have_changed() || is_requested || is_due;
            if !is_forced && now == last_stamp {
                continue;
            }
            last_stamp = now;
            if is_requested && let Some(audit_pipeline) = &shared.reloadable.load().audit_pipeline {
                // Log rotation sends the same signal.
                audit_pipeline.log.reopen();
            }
            if is_requested {
                shared.retired_logs().iter().for_each(LogHandle::reopen);
            }
            let before = text.clone();
            let outcome = match tokio::fs::read_to_string(&path).await {
                // The file was touched, but not changed.
                Ok(new) if !is_forced && new == text => continue,
                Ok(new) => {
                    text = new;
                    // Record the metadata before the files are read, so that the next poll detects changes in between.
                    files = NamedFiles::of(&text, &inputs.environment);
                    apply(&text, &shared, &inputs).await
                }
                Err(error) => {
                    let error = format!("cannot read {}: {error}", path.display());
                    Err(ReloadError::Temporary(error))
                }
            };
            retry = match &outcome {
                Err(ReloadError::Temporary(_)) => Some(Retry::after(retry.filter(|_| is_due))),
                Ok(()) | Err(ReloadError::Permanent(_)) => None,
            };
            let outcome = outcome.map(|()| describe_changes(&before, &text)).map_err(|error| {
                let (ReloadError::Permanent(error) | ReloadError::Temporary(error)) = error;
                error
            });
            shared.reloads.report(outcome, is_due);
        }
    });
}

/// Describes the difference between two configurations.
fn describe_changes(before: &str, after: &str) -> String {
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

async fn sighup(signal: &mut Option<tokio::signal::unix::Signal>) {
    match signal {
        Some(signal) => _ = signal.recv().await,
        None => std::future::pending().await,
    }
}

/// Builds the components of `text`, and checks those that apply only at start.
fn build(text: &str, shared: &ServerState, inputs: &Inputs) -> Result<Parts, ReloadError> {
    let Inputs { egress, environment, set_debug: _ } = inputs;
    let running = shared.state.telemetry.as_ref();
    let builder = Parts::builder(egress).environment(environment);
    let built = builder.running_telemetry(running).read(text);
    let (file, parts) = built.map_err(|error| {
        let message = error.to_string();
        if error.is_permanent() {
            ReloadError::Permanent(message)
        } else {
            ReloadError::Temporary(message)
        }
    })?;
    if !unchanged(running, file.telemetry.as_ref(), TelemetryParts::is_section) {
        return Err(ReloadError::Permanent(
            "telemetry: changes apply at a restart only: restart the server, or undo them"
                .to_owned(),
        ));
    }
    let storage = shared.state.session_storage.as_ref();
    if !unchanged(parts.session_storage.as_ref(), storage, SessionStorageParts::is_section) {
        return Err(ReloadError::Permanent(
            "sessionStorage: changes apply at a restart only: restart the server, or undo them"
                .to_owned(),
        ));
    }
    let exposed = shared.state.exposure.check(&parts.incoming_auth);
    exposed.map_err(|error| ReloadError::Permanent(error.to_string()))?;
    Ok(parts)
}

/// Replaces the configuration of the running server.
async fn apply(text: &str, shared: &ServerState, inputs: &Inputs) -> Result<(), ReloadError> {
    let Parts {
        settings,
        incoming_auth,
        audit,
        telemetry: _,
        auth_server,
        session_storage: _,
        warnings,
        info,
        debug,
        gauges,
    } = build(text, shared, inputs)?;
    let current = shared.reloadable.load_full();
    let issuer = issuer(auth_server.as_ref(), current.issuer(), &shared.state.auth_audit);
    let issuer = issuer.await.map_err(|error| ReloadError::Temporary(error.to_string()))?;
    let is_audit_kept =
        unchanged(audit.as_ref(), current.audit_pipeline.as_ref(), AuditParts::is_same_config);
    let audit_pipeline = match audit {
        Some(audit) if !is_audit_kept => {
            let audit_pipeline = audit.start(shared.state.audit_options);
            Some(audit_pipeline.map_err(|error| ReloadError::Temporary(error.to_string()))?)
        }
        _ => current.audit_pipeline.clone().filter(|_| is_audit_kept),
    };
    // No error can occur after this point.
    (inputs.set_debug)(debug);
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    let is_issuer_kept = unchanged(issuer.as_ref(), current.issuer(), AuthServerRuntime::is_same);
    if let Some(issuer) = issuer.as_ref().filter(|_| !is_issuer_kept) {
        issuer.publish_revocations();
    }
    let incoming_auth =
        incoming_auth.for_sessions(issuer.as_ref().map(AuthServerRuntime::sessions));
    shared.state.gateway.reload(settings).await;
    // Keep fetched keys and cached decisions where nothing changed.
    let is_auth_kept = is_issuer_kept && current.incoming_auth.is_same_config(&incoming_auth);
    if !is_auth_kept {
        shared.state.gateway.set_caller_authorizer(Some(incoming_auth.caller_authorizer()));
    }
    shared.add_gauges(gauges);
    if !is_auth_kept || !is_audit_kept {
        shared.add_gauges(incoming_auth.gauges());
        let keeps_streams = incoming_auth.keeps_streams_of(&current.incoming_auth);
        let streams = if keeps_streams { current.streams.clone() } else { StreamScope::default() };
        let new = shared.state.reloadable(incoming_auth, audit_pipeline, issuer, streams);
        shared.reloadable.store(Arc::new(new));
        if !keeps_streams {
            current.streams.end();
        }
    }
    if !is_audit_kept && let Some(retired) = &current.audit_pipeline {
        // Requests under way still write events there. The log closes after the last of them.
        shared.retire(retired.log.handle());
    }
    shared.info.store(Arc::new(info));
    Ok(())
}

/// Returns the authorization server for the new configuration, which is the current one if possible.
async fn issuer(
    parts: Option<&AuthServerParts>,
    current: Option<&AuthServerRuntime>,
    auth_audit: &Arc<AuthAuditRecorder>,
) -> Result<Option<AuthServerRuntime>, AuthServerError> {
    match (parts, current) {
        (None, _) => Ok(None),
        (Some(parts), Some(current)) => current.reconfigure(parts).await.map(Some),
        (Some(parts), None) => AuthServerRuntime::start(parts, auth_audit).await.map(Some),
    }
}

/// Returns `true` if an optional section has not changed.
fn unchanged<N, O>(
    new: Option<&N>,
    old: Option<&O>,
    is_same_config: impl Fn(&N, &O) -> bool,
) -> bool {
    match (new, old) {
        (Some(new), Some(old)) => is_same_config(new, old),
        (None, None) => true,
        (Some(_), None) | (None, Some(_)) => false,
    }
}
