//! Whose time is how long.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tower_layer::Layer;
use vmcp_core::Backend;

use crate::Timeout;
use crate::timer_pool::TimerPool;

/// Bounds the wait for each frame. See the [crate docs](crate) for an example.
#[derive(Clone, Debug)]
pub struct TimeoutLayer {
    pub(crate) state: Arc<LayerState>,
}

/// What all services share that a layer makes.
#[derive(Debug, Default)]
pub(crate) struct LayerState {
    default: Duration,
    per_backend: HashMap<Backend, Duration>,
    pub(crate) timer_pool: TimerPool,
}

impl TimeoutLayer {
    /// `default` for every backend.
    #[must_use]
    pub fn new(default: Duration) -> Self {
        Self { state: Arc::new(LayerState { default, ..LayerState::default() }) }
    }

    /// Another time for some backends, by the [`Backend`] in the request's extensions.
    #[must_use]
    pub fn per_backend(self, per_backend: HashMap<Backend, Duration>) -> Self {
        let default = self.state.default;
        Self { state: Arc::new(LayerState { default, per_backend, ..LayerState::default() }) }
    }

    /// How long a backend may take for its next frame.
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
