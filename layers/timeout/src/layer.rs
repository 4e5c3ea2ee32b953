//! The layer and its timeouts.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tower_layer::Layer;
use vmcp_core::Backend;

use crate::Timeout;
use crate::timer_pool::TimerPool;

/// Applies [`Timeout`] to requests. See the [crate docs](crate) for an example.
#[derive(Clone, Debug)]
pub struct TimeoutLayer {
    pub(crate) state: Arc<LayerState>,
}

/// State shared by the services of a layer.
#[derive(Debug, Default)]
pub(crate) struct LayerState {
    default: Duration,
    per_backend: HashMap<Backend, Duration>,
    pub(crate) timer_pool: TimerPool,
}

impl TimeoutLayer {
    /// Creates a layer with the timeout `default` for every backend.
    #[must_use]
    pub fn new(default: Duration) -> Self {
        Self { state: Arc::new(LayerState { default, ..LayerState::default() }) }
    }

    /// Sets other timeouts for some backends, selected by the [`Backend`] in the request extensions.
    #[must_use]
    pub fn per_backend(self, per_backend: HashMap<Backend, Duration>) -> Self {
        let default = self.state.default;
        Self { state: Arc::new(LayerState { default, per_backend, ..LayerState::default() }) }
    }

    /// Returns the timeout of a backend.
    #[must_use]
    pub fn limit(&self, backend: Option<&Backend>) -> Duration {
        let LayerState { default, per_backend, .. } = &*self.state;
        backend.and_then(|backend| per_backend.get(backend)).copied().unwrap_or(*default)
    }
}

impl<S> Layer<S> for TimeoutLayer {
    type Service = Timeout<S>;

    fn layer(&self, inner: S) -> Timeout<S> {
        Timeout::new(inner, self.clone())
    }
}
