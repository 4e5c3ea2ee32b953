//! The layer and its policy.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tower_layer::Layer;
use vmcp_core::Identity;

use crate::annotations::AnnotationCache;
use crate::{Authorization, PermissionsFuture, Policy};

/// Source of the epochs of this process's layers. `Relaxed`: only uniqueness matters.
static NEXT_EPOCH: AtomicU64 = AtomicU64::new(1);

/// Applies a [`Policy`] to MCP requests. See the [crate docs](crate) for an example.
///
/// A policy is replaced by a new layer; requests in flight finish under the old one.
pub struct AuthorizationLayer<P> {
    policy: Arc<P>,
    epoch: u64,
    /// Annotations that the inner service listed; `None` if the inner service enforces the permissions.
    annotations: Option<Arc<AnnotationCache>>,
}

impl<P: Policy> AuthorizationLayer<P> {
    /// Creates a layer that enforces `policy` in front of any MCP service: it rejects what the policy denies and
    /// removes from lists what the policy hides.
    #[must_use]
    pub fn new(policy: P) -> Self {
        let epoch = NEXT_EPOCH.fetch_add(1, Ordering::Relaxed);
        Self { policy: Arc::new(policy), epoch, annotations: Some(Arc::default()) }
    }

    /// Delegates enforcement to the inner service, which must check the request's [`CallerPermissions`] wherever it lists and
    /// routes, and mark its lists as [`AlreadyFiltered`]. A list without that mark becomes an internal error, so that a
    /// service that knows neither type reveals nothing.
    ///
    /// [`CallerPermissions`]: vmcp_core::CallerPermissions
    /// [`AlreadyFiltered`]: vmcp_core::AlreadyFiltered
    #[must_use]
    pub fn delegate_to_inner(mut self) -> Self {
        self.annotations = None;
        self
    }

    /// Returns the policy.
    #[must_use]
    pub fn policy(&self) -> &Arc<P> {
        &self.policy
    }

    /// Returns the permissions of `identity` outside of a request, for messages on streams that were opened earlier,
    /// possibly under other policies.
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
        f.debug_struct("AuthorizationLayer")
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
