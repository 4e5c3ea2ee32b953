//! How the layer wraps a service.

use tower_layer::Layer;

use crate::{Breaker, Guarded, Standard};

/// Leaves a failing backend alone. See the [crate docs](crate) for an example.
#[derive(Clone, Debug)]
pub struct BreakerLayer<C = Standard> {
    breaker: Breaker,
    classify: C,
}

impl BreakerLayer {
    /// Guards the backend of `breaker`, by what [`Standard`] takes for a failure.
    #[must_use]
    pub fn new(breaker: Breaker) -> Self {
        Self { breaker, classify: Standard }
    }
}

impl<C> BreakerLayer<C> {
    /// Has something else tell what a failure is.
    #[must_use]
    pub fn classify<D>(self, classify: D) -> BreakerLayer<D> {
        BreakerLayer { breaker: self.breaker, classify }
    }
}

impl<S, C: Clone> Layer<S> for BreakerLayer<C> {
    type Service = Guarded<S, C>;

    fn layer(&self, inner: S) -> Guarded<S, C> {
        Guarded::new(inner, self.breaker.clone(), self.classify.clone())
    }
}
