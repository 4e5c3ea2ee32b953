//! Whose policy, and who enforces it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tower_layer::Layer;
use vmcp_core::Identity;

use crate::annotations::AnnotationCache;
use crate::{Authorization, PermissionsFuture, Policy};

/// The epochs of this process's layers.
static NEXT_EPOCH: AtomicU64 = AtomicU64::new(1);

/// Decides what callers may see and do. See the [crate docs](crate) for an example.
///
/// Policies are replaced by a new layer; requests go on under the one they came in by.
pub struct AuthorizationLayer<P> {
    policy: Arc<P>,
    epoch: u64,
    /// What the service behind a gate said of its tools; `None` where that service asks the admission.
    annotations: Option<Arc<AnnotationCache>>,
}

impl<P: Policy> AuthorizationLayer<P> {
    /// Enforces `policy` in front of any MCP service: refuses what it denies, and cuts what it hides
    /// out of lists.
    #[must_use]
    pub fn new(policy: P) -> Self {
        let epoch = NEXT_EPOCH.fetch_add(1, Ordering::Relaxed);
        Self { policy: Arc::new(policy), epoch, annotations: Some(Arc::default()) }
    }

    /// Leaves it to the service behind, which must ask the request's [`Admission`] wherever it lists
    /// and routes, and mark its lists as [`Filtered`]. A list without that mark becomes an internal
    /// error, so that a service which knows of neither shows nothing.
    ///
    /// [`Admission`]: vmcp_core::Admission
    /// [`Filtered`]: vmcp_core::Filtered
    #[must_use]
    pub fn delegate_to_inner(mut self) -> Self {
        self.annotations = None;
        self
    }

    /// The policy.
    #[must_use]
    pub fn policy(&self) -> &Arc<P> {
        &self.policy
    }

    /// What the policy lets `identity` see and do, outside of a request: for what is sent on streams that
    /// were opened earlier, perhaps under other policies.
    #[must_use]
    pub fn permissions(&self, identity: &Identity) -> PermissionsFuture {
        self.policy.permissions(identity, self.epoch)
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    pub(crate) fn annotations(&self) -> Option<&Arc<AnnotationCache>> {
        self.annotations.as_ref()
    }
}

impl<P> Clone for AuthorizationLayer<P> {
    fn clone(&self) -> Self {
        let Self { policy, epoch, annotations } = self;
        Self { policy: Arc::clone(policy), epoch: *epoch, annotations: annotations.clone() }
    }
}

impl<P> fmt::Debug for AuthorizationLayer<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthorizeLayer")
            .field("epoch", &self.epoch)
            .field("enforces", &self.annotations.is_some())
            .finish_non_exhaustive()
    }
}

impl<S, P> Layer<S> for AuthorizationLayer<P> {
    type Service = Authorization<S, P>;

    fn layer(&self, inner: S) -> Authorization<S, P> {
        Authorization::new(inner, self.clone())
    }
}
