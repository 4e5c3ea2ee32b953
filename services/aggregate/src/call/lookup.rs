//! Lookup of a call's target, with the decision of the policies.

use std::borrow::Cow;
use std::sync::Arc;

use vmcp_core::{
    CallerPermissions, Decision, Generation, Item, ItemBackend, ItemKind, Rejection,
    ToolAnnotations,
};

use super::Call;
use crate::backend::BackendHandle;
use crate::catalog::Composite;
use crate::snapshot::BackendCatalog;

/// Reason for a missing target.
pub(super) enum LookupError {
    /// The target may still appear: the rejection, the kind, and the name or URI.
    Unknown(Rejection, ItemKind, Box<str>),
    Refused(Rejection),
}

impl From<LookupError> for Rejection {
    fn from(missing: LookupError) -> Self {
        match missing {
            LookupError::Unknown(rejection, ..) | LookupError::Refused(rejection) => rejection,
        }
    }
}

pub(super) fn refuse(message: impl Into<Cow<'static, str>>) -> LookupError {
    LookupError::Refused(Rejection::invalid_params(message))
}

/// Returns the result for an item that does not exist. Policies are evaluated as for a hidden item, so the response time does
/// not distinguish the two.
pub(super) fn missing(call: &Call, kind: ItemKind, name: &str) -> LookupError {
    if let Some(permissions) = &call.permissions {
        _ = permissions.is_visible(&Item {
            kind,
            name,
            annotations: ToolAnnotations::default(),
            backend: None,
        });
    }
    unknown(call, kind, name)
}

/// Returns the result for an item that does not exist or must be indistinguishable from one. In a completion, it is an invalid
/// parameter in both generations (MCP, Completion, Error Handling).
fn unknown(call: &Call, kind: ItemKind, name: &str) -> LookupError {
    let completes = call.message.method() == "completion/complete";
    let generation = if completes { Generation::Stateless } else { call.message.generation };
    LookupError::Unknown(kind.not_found(name, generation), kind, name.into())
}

/// Backend that serves a URI.
pub(super) struct UriOwner {
    pub(super) backend: Arc<BackendHandle>,
    /// Equivalent to [`CallTarget::decided`].
    pub(super) decided: Option<Generation>,
}

/// Finds the backend that serves a URI. Policies are evaluated first: a hidden URI is not searched for, so the response time
/// does not reveal whether it exists; a denied URI is searched for, and its existence may be known. If policies read the
/// backend, the search comes first and takes the same time for any result.
pub(super) fn owner(
    call: &Call,
    kind: ItemKind,
    uri: &str,
    all: &BackendCatalog,
) -> Result<UriOwner, LookupError> {
    let is_first = call.permissions.as_ref().is_some_and(CallerPermissions::reads_backend);
    let known = is_first.then(|| all.resource_evenly(uri));
    let backend = known.as_ref().and_then(Option::as_ref);
    let backend = backend.map(|backend| all.item_backend(backend, call.generation()));
    let decided = backend.map(|backend| backend.generation);
    let decision = call.decision(
        &Item { kind, name: uri, annotations: ToolAnnotations::default(), backend },
        None,
    );
    if decision == Decision::Hide {
        return Err(refused(call, decision, kind, uri));
    }
    let backend = known.unwrap_or_else(|| all.resource(uri));
    let backend = backend.ok_or_else(|| unknown(call, kind, uri))?;
    if decision == Decision::Allow {
        Ok(UriOwner { backend, decided })
    } else {
        Err(refused(call, decision, kind, uri))
    }
}

/// Checks that the caller may use an item with the outgoing arguments.
pub(super) fn admitted(
    call: &Call,
    item: &Item<'_>,
    arguments: Option<&[u8]>,
) -> Result<(), LookupError> {
    match call.decision(item, arguments) {
        Decision::Allow => Ok(()),
        decision => Err(refused(call, decision, item.kind, item.name)),
    }
}

/// Authorizes a call of a composite tool. Like the list, it hides one with a hidden step. Each step is authorized again, with
/// its arguments.
pub(crate) fn admit_composite(
    call: &Call,
    all: &BackendCatalog,
    name: &str,
    composite: &Composite,
    arguments: Option<&[u8]>,
) -> Result<(), Rejection> {
    let Some(permissions) = &call.permissions else { return Ok(()) };
    let kind = ItemKind::Tool;
    if !are_steps_visible(permissions, (all, call.generation()), composite) {
        return Err(refused(call, Decision::Hide, kind, composite.workflow.name()).into());
    }
    let item = Item { kind, name, annotations: composite.annotations, backend: None };
    Ok(admitted(call, &item, arguments)?)
}

/// Returns `true` if a composite tool and the tools of its steps are visible with these permissions.
pub(crate) fn is_composite_visible(
    permissions: &CallerPermissions,
    (all, generation): (&BackendCatalog, Generation),
    name: &str,
    composite: &Composite,
) -> bool {
    let (kind, annotations) = (ItemKind::Tool, composite.annotations);
    are_steps_visible(permissions, (all, generation), composite)
        && permissions.is_visible(&Item { kind, name, annotations, backend: None })
}

fn are_steps_visible(
    permissions: &CallerPermissions,
    (all, generation): (&BackendCatalog, Generation),
    composite: &Composite,
) -> bool {
    composite.tools.values().all(|tool| {
        let (kind, name, annotations) = (ItemKind::Tool, &*tool.name, tool.annotations);
        let route = all.tools.get(name).filter(|_| permissions.reads_backend());
        let backend = route.map(|route| all.item_backend(&route.backend, generation));
        permissions.is_visible(&Item { kind, name, annotations, backend })
    })
}

/// Converts a decision other than [`Decision::Allow`] into a rejection, and records the reason.
fn refused(call: &Call, decision: Decision, kind: ItemKind, name: &str) -> LookupError {
    let (reason, rejection) = match decision {
        // Treated like an unknown item, including the wait, so neither response nor time distinguishes them.
        Decision::Allow | Decision::Hide => ("hidden from the caller", unknown(call, kind, name)),
        Decision::Deny => {
            ("denied with these arguments", LookupError::Refused(Rejection::forbidden()))
        }
        Decision::InsufficientScope(scopes) => {
            ("the token lacks scopes", LookupError::Refused(Rejection::insufficient_scope(scopes)))
        }
    };
    if let Some(request_context) = &call.request_context {
        request_context.record_denied(reason);
    }
    rejection
}

impl Call {
    /// Returns the policy attributes of an item's backend, if policies read them.
    pub(super) fn item_backend<'a>(
        &self,
        all: &BackendCatalog,
        backend: &'a BackendHandle,
    ) -> Option<ItemBackend<'a>> {
        let is_read = self.permissions.as_ref().is_some_and(CallerPermissions::reads_backend);
        is_read.then(|| all.item_backend(backend, self.generation()))
    }

    /// Returns the decision of the policies on using an item with these arguments.
    fn decision(&self, item: &Item<'_>, arguments: Option<&[u8]>) -> Decision {
        let permissions = self.permissions.as_ref();
        permissions.map_or(Decision::Allow, |permissions| permissions.authorize(item, arguments))
    }

    /// Returns the backend that serves a resource, if it exists and is visible to the caller. Rejects a visible resource that
    /// the caller may not read.
    pub(crate) fn readable(
        &self,
        uri: &str,
        all: &BackendCatalog,
    ) -> Result<Option<Arc<BackendHandle>>, Rejection> {
        match owner(self, ItemKind::Resource, uri, all) {
            Ok(owner) => Ok(Some(owner.backend)),
            Err(LookupError::Unknown(..)) => Ok(None),
            Err(LookupError::Refused(rejection)) => Err(rejection),
        }
    }
}
