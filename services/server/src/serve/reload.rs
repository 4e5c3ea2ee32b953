//! Reload of a changed configuration file, of a changed file that it names, or of changed resources of the cluster. The new
//! configuration is parsed and built completely before it replaces the current one.

mod changes;
mod files;
mod watcher;

use std::sync::Arc;

use vmcp_egress::Egress;

pub use self::files::NamedFiles;
pub(super) use self::files::{FileStamp, stamp};
pub(super) use self::watcher::watch;
use super::Options;
use crate::auth_audit::AuthAuditRecorder;
use crate::auth_server::{AuthServerError, AuthServerRuntime};
use crate::parts::{
    AuditParts, AuthServerParts, DiscoveredBackends, Environment, Parts, PartsError,
    SessionStorageParts, TelemetryParts, discovers_backends,
};
use crate::routes::ServerState;
use crate::stream_scope::StreamScope;

/// Inputs of each reload, besides the configuration.
#[derive(Debug)]
pub(super) struct Inputs {
    egress: Egress,
    environment: Environment,
    set_debug: fn(bool),
    /// `true` for a replica of a VirtualMCPServer.
    is_replica: bool,
}

/// Error of a reload.
enum ReloadError {
    /// Permanent: the file has to change.
    Permanent(String),
    /// Temporary: something that the file names cannot be read, reached or written now.
    Temporary(String),
}

impl Inputs {
    pub(super) fn new(egress: &Egress, options: &Options) -> Self {
        let (egress, environment) = (egress.clone(), options.environment.clone());
        let is_replica = options.virtual_server.is_some();
        Self { egress, environment, set_debug: options.set_debug, is_replica }
    }
}

impl From<PartsError> for ReloadError {
    fn from(error: PartsError) -> Self {
        let message = error.to_string();
        if error.is_permanent() { Self::Permanent(message) } else { Self::Temporary(message) }
    }
}

/// Builds the components of `text` with the discovered backends, and checks those that apply only at start. Of invalid backends
/// that were discovered, each leaves only itself out.
fn build(
    text: &str,
    mut discovered: DiscoveredBackends,
    shared: &ServerState,
    inputs: &Inputs,
) -> Result<(Parts, String), ReloadError> {
    let Inputs { egress, environment, set_debug: _, is_replica } = inputs;
    let running = shared.state.telemetry.as_ref();
    let builder = Parts::builder(egress).environment(environment).replica(*is_replica);
    let builder = builder.running_telemetry(running);
    let (file, mut parts, merged) = loop {
        let merged = discovered.merge(text);
        let merged = merged.map_err(|error| ReloadError::Permanent(error.to_string()))?;
        match builder.read(&merged) {
            Ok((file, parts)) => break (file, parts, merged.into_owned()),
            // Each round leaves out one backend at least.
            Err(error) if discovered.leave_out(&error) => {}
            Err(error) => return Err(error.into()),
        }
    };
    parts.info.is_discovered = discovers_backends(text);
    if parts.info.is_discovered && shared.state.cluster.is_none() {
        let error =
            "outgoingAuth.source: discovered needs access to the API server: restart the server";
        return Err(ReloadError::Permanent(error.to_owned()));
    }
    let known = shared.info.load();
    let new = discovered.left_out.iter().filter(|one| !known.left_out.contains(one));
    parts.warnings.extend(new.map(|one| one.warning("backends".to_owned())));
    parts.info.left_out.extend(discovered.left_out);
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
    Ok((parts, merged))
}

/// Replaces the configuration of the running server, and returns its text with the discovered backends.
async fn apply(
    text: &str,
    discovered: DiscoveredBackends,
    shared: &ServerState,
    inputs: &Inputs,
) -> Result<String, ReloadError> {
    let (parts, merged) = build(text, discovered, shared, inputs)?;
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
    } = parts;
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
    Ok(merged)
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
