//! What is configured, and how it wraps a service.

use std::time::Duration;

use tower_layer::Layer;

use crate::Decode;

/// Decodes MCP messages. See the [crate docs](crate) for an example.
///
/// # Defaults
/// Messages up to 8 MiB, each within 30 seconds.
#[derive(Clone, Copy, Debug)]
pub struct DecodeLayer {
    pub(crate) max_bytes: usize,
    pub(crate) read_within: Duration,
}

impl DecodeLayer {
    /// A layer with the default limits.
    #[must_use]
    pub fn new() -> Self {
        Self { max_bytes: 8 << 20, read_within: Duration::from_secs(30) }
    }

    /// The most bytes that a message may have; a larger one is answered 413.
    #[must_use]
    pub fn max_bytes(mut self, bytes: usize) -> Self {
        self.max_bytes = bytes;
        self
    }

    /// How long the whole body may take to arrive; a slower one is answered 408.
    #[must_use]
    pub fn read_within(mut self, time: Duration) -> Self {
        self.read_within = time;
        self
    }
}

impl Default for DecodeLayer {
    fn default() -> Self {
        Self::new()
    }
}

impl<S> Layer<S> for DecodeLayer {
    type Service = Decode<S>;

    fn layer(&self, inner: S) -> Decode<S> {
        Decode::new(inner, *self)
    }
}
