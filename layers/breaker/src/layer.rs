//! The layer and its settings.

use tower_layer::Layer;

use crate::{CircuitBreaker, CircuitHandle, DefaultClassifier};

/// Applies [`CircuitBreaker`] to requests for one backend. See the [crate docs](crate) for an example.
#[derive(Clone, Debug)]
pub struct CircuitBreakerLayer<C = DefaultClassifier> {
    breaker: CircuitHandle,
    classify: C,
}

impl CircuitBreakerLayer {
    /// Creates a layer for the circuit `breaker`, with [`DefaultClassifier`].
    #[must_use]
    pub fn new(breaker: CircuitHandle) -> Self {
        Self { breaker, classify: DefaultClassifier }
    }
}

impl<C> CircuitBreakerLayer<C> {
    /// Replaces the classifier.
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
