//! Layer and its settings.

use std::time::Duration;

use bytes::Bytes;
use http::request;
use tower_layer::Layer;
use vmcp_core::{BoxError, ByteBudget, Rejection};

use crate::{Decode, read};

/// Decodes MCP messages. See the [crate docs](crate) for an example.
///
/// # Defaults
/// Messages up to 8 MiB, each within 30 seconds, without a budget for all together.
#[derive(Clone, Debug)]
pub struct DecodeLayer {
    pub(crate) max_bytes: usize,
    pub(crate) read_within: Duration,
    pub(crate) budget: Option<ByteBudget>,
}

impl DecodeLayer {
    /// A layer with the default limits.
    #[must_use]
    pub fn new() -> Self {
        Self { max_bytes: 8 << 20, read_within: Duration::from_secs(30), budget: None }
    }

    /// The most bytes that a message may have; a larger one is answered 413.
    #[must_use]
    pub fn max_bytes(mut self, bytes: usize) -> Self {
        self.max_bytes = bytes;
        self
    }

    /// Sets the time for the whole body; a slower one is rejected with 408.
    #[must_use]
    pub fn read_within(mut self, time: Duration) -> Self {
        self.read_within = time;
        self
    }

    /// Budget for the bytes of all messages: those beyond the first 4 KiB of each count from when they arrive until the
    /// message is dropped. A message that finds no room waits for at most two seconds and is then answered 503.
    #[must_use]
    pub fn budget(mut self, budget: ByteBudget) -> Self {
        self.budget = Some(budget);
        self
    }

    /// The same bounds without the budget, for messages that are counted already.
    #[must_use]
    pub fn without_budget(mut self) -> Self {
        self.budget = None;
        self
    }

    /// The budget for the bytes of all messages.
    #[must_use]
    pub fn get_budget(&self) -> Option<&ByteBudget> {
        self.budget.as_ref()
    }

    /// Reads the body of a request by the rules of this layer.
    ///
    /// # Errors
    /// The body is too large or too slow, breaks off, or the budget is used up.
    pub async fn read<B>(&self, parts: &request::Parts, body: B) -> Result<Bytes, Rejection>
    where
        B: http_body::Body,
        B::Error: Into<BoxError>,
    {
        read::body(body, parts, self).await
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
        Decode::new(inner, self.clone())
    }
}
