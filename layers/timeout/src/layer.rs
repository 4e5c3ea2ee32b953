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
    pub(crate) shared: Arc<Shared>,
}

/// What all services share that a layer makes.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    default: Duration,
    per_backend: HashMap<Backend, Duration>,
    pub(crate) idle: Idle,
}

impl TimeoutLayer {
    /// `default` for every backend.
    #[must_use]
    pub fn new(default: Duration) -> Self {
        Self { shared: Arc::new(Shared { default, ..Shared::default() }) }
    }

    /// Another time for some backends, by the [`Backend`] in the request's extensions.
    #[must_use]
    pub fn per_backend(self, per_backend: HashMap<Backend, Duration>) -> Self {
        let default = self.shared.default;
        Self { shared: Arc::new(Shared { default, per_backend, ..Shared::default() }) }
    }

    /// How long a backend may take for its next frame.
    #[must_use]
    pub fn limit(&self, backend: Option<&Backend>) -> Duration {
        let Shared { default, per_backend, .. } = &*self.shared;
        backend.and_then(|backend| per_backend.get(backend)).copied().unwrap_or(*default)
    }
}

impl<S> Layer<S> for TimeoutLayer {
    type Service = Timeout<S>;

    fn layer(&self, inner: S) -> Timeout<S> {
        Timeout::new(inner, self.clone())
    }
}
