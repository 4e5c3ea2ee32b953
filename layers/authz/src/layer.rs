//! Whose policy, and who enforces it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tower_layer::Layer;
use vmcp_core::Identity;

use crate::hints::Learned;
use crate::{Admitting, Authorize, Policy};

/// The epochs of this process's layers.
static EPOCHS: AtomicU64 = AtomicU64::new(1);

/// Decides what callers may see and do. See the [crate docs](crate) for an example.
///
/// Policies are replaced by a new layer; requests go on under the one they came in by.
pub struct AuthorizeLayer<P> {
    policy: Arc<P>,
    epoch: u64,
    /// What the service behind a gate said of its tools; `None` where that service asks the admission.
    learned: Option<Arc<Learned>>,
}

impl<P: Policy> AuthorizeLayer<P> {
    /// Enforces `policy` in front of any MCP service: refuses what it denies, and cuts what it hides
    /// out of lists.
    #[must_use]
    pub fn new(policy: P) -> Self {
        let epoch = EPOCHS.fetch_add(1, Ordering::Relaxed);
        Self { policy: Arc::new(policy), epoch, learned: Some(Arc::default()) }
    }

    /// Leaves it to the service behind, which must ask the request's [`Admission`] wherever it lists
    /// and routes, and mark its lists as [`Filtered`]. A list without that mark becomes an internal
    /// error, so that a service which knows of neither shows nothing.
    ///
    /// [`Admission`]: vmcp_core::Admission
    /// [`Filtered`]: vmcp_core::Filtered
    #[must_use]
    pub fn handing_inward(mut self) -> Self {
        self.learned = None;
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
    pub fn admission(&self, identity: &Identity) -> Admitting {
        self.policy.admission(identity, self.epoch)
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    pub(crate) fn learned(&self) -> Option<&Arc<Learned>> {
        self.learned.as_ref()
    }
}

impl<P> Clone for AuthorizeLayer<P> {
    fn clone(&self) -> Self {
        let Self { policy, epoch, learned } = self;
        Self { policy: Arc::clone(policy), epoch: *epoch, learned: learned.clone() }
    }
}

impl<P> fmt::Debug for AuthorizeLayer<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthorizeLayer")
            .field("epoch", &self.epoch)
            .field("enforces", &self.learned.is_some())
            .finish_non_exhaustive()
    }
}

impl<S, P> Layer<S> for AuthorizeLayer<P> {
    type Service = Authorize<S, P>;

    fn layer(&self, inner: S) -> Authorize<S, P> {
        Authorize::new(inner, self.clone())
    }
}
