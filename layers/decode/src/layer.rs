//! Layer and its settings.

use std::time::Duration;

use bytes::Bytes;
use http::request;
use tower_layer::Layer;
use vmcp_core::{BoxError, ByteBudget, Rejection};

use crate::{Decode, body};

/// Layer that decodes MCP messages. See the [crate docs](crate) for an example.
///
/// # Defaults
/// Messages up to 8 MiB, each within 30 seconds, without a budget for all together.
#[derive(Clone, Debug)]
pub struct DecodeLayer {
    pub(crate) max_body_size: usize,
    pub(crate) body_timeout: Duration,
    pub(crate) budget: Option<ByteBudget>,
}

impl DecodeLayer {
    /// Creates a layer with the default limits.
    #[must_use]
    pub fn new() -> Self {
        Self { max_body_size: 8 << 20, body_timeout: Duration::from_secs(30), budget: None }
    }

    /// Sets the maximum size of a message in bytes; a larger one is rejected with 413.
    #[must_use]
    pub fn max_body_size(mut self, bytes: usize) -> Self {
        self.max_body_size = bytes;
        self
    }

    /// Sets the time for the whole body; a slower one is rejected with 408.
    #[must_use]
    pub fn body_timeout(mut self, time: Duration) -> Self {
        self.body_timeout = time;
        self
    }

    /// Sets the budget for the bytes of all messages. Bytes beyond the first 4 KiB of each message count from their arrival
    /// until the message is dropped. A message that exceeds the budget waits for at most two seconds and is then rejected
    /// with 503.
    #[must_use]
    pub fn budget(mut self, budget: ByteBudget) -> Self {
        self.budget = Some(budget);
        self
    }

    /// Removes the budget, for messages that are counted already.
    #[must_use]
    pub fn without_budget(mut self) -> Self {
        self.budget = None;
        self
    }

    /// Returns the budget for the bytes of all messages.
    #[must_use]
    pub fn byte_budget(&self) -> Option<&ByteBudget> {
        self.budget.as_ref()
    }

    /// Reads the body of a request by the rules of this layer.
    ///
    /// # Errors
    /// The body is too large or too slow, breaks off, or the budget is used up.
    pub async fn read_body<B>(&self, parts: &request::Parts, body: B) -> Result<Bytes, Rejection>
    where
        B: http_body::Body,
        B::Error: Into<BoxError>,
    {
        body::read(body, parts, self).await
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
