//! How the layer wraps a service.

use tower_layer::Layer;

use crate::{CircuitBreaker, CircuitHandle, DefaultClassifier};

/// Leaves a failing backend alone. See the [crate docs](crate) for an example.
#[derive(Clone, Debug)]
pub struct CircuitBreakerLayer<C = DefaultClassifier> {
    breaker: CircuitHandle,
    classify: C,
}

impl CircuitBreakerLayer {
    /// Guards the backend of `breaker`, by what [`DefaultClassifier`] takes for a failure.
    #[must_use]
    pub fn new(breaker: CircuitHandle) -> Self {
        Self { breaker, classify: DefaultClassifier }
    }
}

impl<C> CircuitBreakerLayer<C> {
    /// Has something else tell what a failure is.
    #[must_use]
    pub fn classify<D>(self, classify: D) -> CircuitBreakerLayer<D> {
        CircuitBreakerLayer { breaker: self.breaker, classify }
    }
}

impl<S, C: Clone> Layer<S> for CircuitBreakerLayer<C> {
    type Service = CircuitBreaker<S, C>;

    fn layer(&self, inner: S) -> CircuitBreaker<S, C> {
        CircuitBreaker::new(inner, self.breaker.clone(), self.classify.clone())
    }
}
