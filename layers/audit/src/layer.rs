//! The layer.

use tower_layer::Layer;

use crate::{Audit, Auditor};

/// Applies [`Audit`] to requests. See the [crate docs](crate) for an example.
#[derive(Clone, Debug)]
pub struct AuditLayer {
    auditor: Auditor,
}

impl AuditLayer {
    /// Creates a layer that passes events to `auditor`.
    #[must_use]
    pub fn new(auditor: Auditor) -> Self {
        Self { auditor }
    }
}

impl<S> Layer<S> for AuditLayer {
    type Service = Audit<S>;

    fn layer(&self, inner: S) -> Audit<S> {
        Audit::new(inner, self.auditor.clone())
    }
}
