//! A stateful client that disconnects has not cancelled its request (MCP 2025-11-25, Streamable HTTP,
//! Sending Messages to the Server): the request goes on without it.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A future that, dropped before its end, is finished in the background.
pub(crate) struct LiveOn<T: Send + 'static>(Option<Pin<Box<dyn Future<Output = T> + Send>>>);

impl<T: Send + 'static> LiveOn<T> {
    pub(crate) fn new(future: Pin<Box<dyn Future<Output = T> + Send>>) -> Self {
        Self(Some(future))
    }
}

impl<T: Send + 'static> Future for LiveOn<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let Some(future) = self.0.as_mut() else { return Poll::Pending };
        let polled = future.as_mut().poll(cx);
        if polled.is_ready() {
            self.0 = None;
        }
        polled
    }
}

impl<T: Send + 'static> Drop for LiveOn<T> {
    fn drop(&mut self) {
        if let (Some(future), Ok(runtime)) = (self.0.take(), tokio::runtime::Handle::try_current())
        {
            runtime.spawn(future);
        }
    }
}
