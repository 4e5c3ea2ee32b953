//! Access of a run's owner when a step starts. A run may wait for hours: for tools, for the user, for another request. Meanwhile
//! a reload may change policies and backends, and the user's token may expire or lose scopes. A step may do what a direct call
//! could do at the moment when it starts.

use std::sync::Arc;

use vmcp_core::{Caller, CallerPermissions, Rejection};

use super::CompositeCall;
use crate::authorizer::CallerAccess;
use crate::call::{Call, admit_composite};
use crate::catalog::Composite;
use crate::expiry::is_expired;
use crate::snapshot::{BackendCatalog, Snapshot};

/// Configuration, identity and permissions that hold when a step starts.
pub(super) struct StepAccess {
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) catalog: Arc<BackendCatalog>,
    pub(super) caller: Caller,
    pub(super) permissions: Option<CallerPermissions>,
    /// `true` if the configuration was reloaded since the client's request.
    pub(super) is_reloaded: bool,
    /// `true` if the composite tool has to be authorized again.
    pub(super) is_changed: bool,
}

/// Error of a step that may not start.
pub(super) enum StepAccessError {
    /// The caller may send no requests.
    Rejected(Rejection),
    /// The composite tool is not configured any more.
    Reconfigured,
}

impl From<Rejection> for StepAccessError {
    fn from(rejection: Rejection) -> Self {
        Self::Rejected(rejection)
    }
}

impl StepAccess {
    /// Returns the access of a run's owner at this moment.
    pub(super) async fn of(run: &CompositeCall) -> Result<Self, StepAccessError> {
        let call = &run.call;
        let context = &call.context;
        // A session has the most recent token of its owner, a request without a session brings its own.
        let caller = call.session.as_ref().map_or_else(|| call.caller.clone(), |it| it.caller());
        let identity = caller.identity();
        if is_expired(identity, &context.workflows.clock) {
            return Err(Rejection::token_expired().into());
        }
        let permissions = match context.authorizer.access(identity) {
            None => call.permissions.clone(),
            Some(CallerAccess::Unrestricted) => None,
            Some(CallerAccess::Restricted(permissions)) => Some(permissions),
            Some(CallerAccess::Pending(permissions)) => Some(permissions.await?),
            Some(CallerAccess::Rejected(rejection)) => return Err(rejection.into()),
        };
        let newest = context.catalogs.snapshot();
        let (snapshot, seen) = context.seen(&newest, &caller, call.cause()).await?;
        let is_reloaded = !Arc::ptr_eq(&snapshot, &call.snapshot);
        if !is_configured(&snapshot, run.composite()) {
            return Err(StepAccessError::Reconfigured);
        }
        // Requests about a task were not decided for its tool.
        let is_followed = call.message.method() != "tools/call";
        let is_changed = is_followed
            || is_reloaded
            || identity.credential_key() != call.caller.identity().credential_key();
        let catalog = Arc::clone(seen.catalogs.of(call.generation()));
        Ok(Self { snapshot, catalog, caller, permissions, is_reloaded, is_changed })
    }

    /// Authorizes the composite tool again if its caller may have other permissions now.
    pub(super) fn admit_composite(
        &self,
        run: &CompositeCall,
        step: &Call,
    ) -> Result<(), Rejection> {
        match self.catalog.configured_composite(&run.name) {
            Some(composite) if self.is_changed => {
                let arguments = run.arguments.as_deref();
                admit_composite(step, &self.catalog, &run.name, composite, arguments)
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Returns the name of a step's tool. A tool that no backend offers any more has its last name, so that a call of it fails
    /// like a direct one.
    pub(super) fn tool_name<'a>(&'a self, run: &'a CompositeCall, tool: &str) -> Option<&'a str> {
        let current = self.catalog.configured_composite(&run.name);
        let routed = [current, Some(run.composite())].into_iter().flatten();
        routed.filter_map(|it| it.tools.get(tool)).map(|tool| &*tool.name).next()
    }
}

/// Returns `true` if the configuration still has the composite tool.
fn is_configured(snapshot: &Snapshot, composite: &Composite) -> bool {
    let workflow = &composite.workflow;
    let mut configured = snapshot.rules.workflows.iter();
    configured.any(|it| it.name() == workflow.name() && it.definition() == workflow.definition())
}
