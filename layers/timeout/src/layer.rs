//! Whose time is how long.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tower_layer::Layer;
use vmcp_core::Backend;

use crate::Timeout;
use crate::idle::Idle;

/// Bounds the wait for each frame. See the [crate docs](crate) for an example.
#[derive(Clone, Debug)]
pub struct TimeoutLayer {
    default: Duration,
    per_backend: Arc<HashMap<Backend, Duration>>,
    /// Shared by all services that this makes.
    pub(crate) idle: Arc<Idle>,
}

impl TimeoutLayer {
    /// `default` for every backend.
    #[must_use]
    pub fn new(default: Duration) -> Self {
        Self { default, per_backend: Arc::default(), idle: Arc::default() }
    }

    /// Another time for some backends, by the [`Backend`] in the request's extensions.
    #[must_use]
    pub fn per_backend(mut self, times: HashMap<Backend, Duration>) -> Self {
        self.per_backend = Arc::new(times);
        self
    }

    /// How long a backend may take for its next frame.
    #[must_use]
    pub fn limit(&self, backend: Option<&Backend>) -> Duration {
        backend.and_then(|backend| self.per_backend.get(backend)).copied().unwrap_or(self.default)
    }
}

impl<S> Layer<S> for TimeoutLayer {
    type Service = Timeout<S>;

    fn layer(&self, inner: S) -> Timeout<S> {
        Timeout::new(inner, self.clone())
    }
}
