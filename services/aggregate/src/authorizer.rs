//! Authorization outside of a client's request: of messages on long-lived streams, and of the steps of composite tools.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use vmcp_core::{CallerPermissions, Identity, Rejection};

/// Current access of callers, for applications whose policies can change during long calls and while streams are open.
///
/// Wraps a closure from an identity to its access.
#[derive(Clone)]
pub struct CallerAuthorizer(Arc<AccessFn>);

type AccessFn = dyn Fn(&Identity) -> CallerAccess + Send + Sync;

/// Access of a caller.
pub enum CallerAccess {
    /// The caller may use everything.
    Unrestricted,
    /// The caller has these permissions.
    Restricted(CallerPermissions),
    /// The permissions depend on data to fetch, and are unavailable if that fails. Messages on streams do not wait for it: the
    /// permissions from when the stream was opened apply.
    Pending(Pin<Box<dyn Future<Output = Result<CallerPermissions, Rejection>> + Send>>),
    /// The caller may send no requests.
    Rejected(Rejection),
}

/// Slot for the authorizer of an application that has one.
#[derive(Debug, Default)]
pub(crate) struct AuthorizerSlot(ArcSwapOption<CallerAuthorizer>);

impl CallerAuthorizer {
    /// Creates the authorization from a closure.
    #[must_use]
    pub fn new(access: impl Fn(&Identity) -> CallerAccess + Send + Sync + 'static) -> Self {
        Self(Arc::new(access))
    }
}

impl AuthorizerSlot {
    pub(crate) fn set(&self, authorizer: Option<CallerAuthorizer>) {
        self.0.store(authorizer.map(Arc::new));
    }

    /// Returns the current access of a caller; `None` without an authorizer.
    pub(crate) fn access(&self, caller: &Identity) -> Option<CallerAccess> {
        let authorizer = self.0.load_full()?;
        Some((authorizer.0)(caller))
    }
}

impl fmt::Debug for CallerAuthorizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CallerAuthorizer")
    }
}

impl fmt::Debug for CallerAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unrestricted => f.write_str("Unrestricted"),
            Self::Restricted(permissions) => {
                f.debug_tuple("Restricted").field(permissions).finish()
            }
            Self::Pending(_) => f.write_str("Pending"),
            Self::Rejected(rejection) => f.debug_tuple("Rejected").field(rejection).finish(),
        }
    }
}
