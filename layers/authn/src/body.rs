//! The response body, which ends a stream with its token or session.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use tokio::time::Sleep;
use vmcp_core::RevocationFuture;

/// Longest supported timer; longer streams have no deadline.
const LONGEST: Duration = Duration::from_hours(8760);

pin_project! {
    /// Response body of [`Authentication`](crate::Authentication). An event stream ends without an error when the
    /// caller's token expires, so that the client reopens it with a fresh token. The response to a `POST` may continue
    /// for 10 minutes. The end of the session ends both immediately.
    pub struct ResponseBody<R> {
        #[pin]
        inner: R,
        timer: Option<Pin<Box<Sleep>>>,
        session: Option<RevocationFuture>,
        over: bool,
    }
}

impl<R> ResponseBody<R> {
    /// Creates a body that ends after `life` and when `session` resolves, if given.
    pub(crate) fn new(inner: R, life: Option<Duration>, session: Option<RevocationFuture>) -> Self {
        let life = life.filter(|life| *life <= LONGEST);
        let timer = life.map(|life| Box::pin(tokio::time::sleep(life)));
        Self { inner, timer, session, over: false }
    }

    /// Returns `true` if the body has no deadline.
    fn is_whole(&self) -> bool {
        self.timer.is_none() && self.session.is_none()
    }

    /// Returns the inner body if it has no deadline, so that a stack with one body type wraps streams only.
    ///
    /// # Errors
    /// Returns `self` if the body is a stream with a deadline.
    pub fn try_into_inner(self) -> Result<R, Self> {
        if self.is_whole() { Ok(self.inner) } else { Err(self) }
    }
}

impl<R: Body> Body for ResponseBody<R> {
    type Data = R::Data;
    type Error = R::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<R::Data>, R::Error>>> {
        let this = self.project();
        if !*this.over {
            let expired = this.timer.as_mut().is_some_and(|it| it.as_mut().poll(cx).is_ready());
            let ended = this.session.as_mut().is_some_and(|it| it.as_mut().poll(cx).is_ready());
            *this.over = expired || ended;
        }
        if *this.over { Poll::Ready(None) } else { this.inner.poll_frame(cx) }
    }

    fn is_end_stream(&self) -> bool {
        self.over || self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        match (self.over, self.is_whole()) {
            (true, _) => SizeHint::with_exact(0),
            (false, true) => self.inner.size_hint(),
            (false, false) => SizeHint::default(),
        }
    }
}

impl<R: fmt::Debug> fmt::Debug for ResponseBody<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseBody").field("inner", &self.inner).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn body_with_deadline_cannot_be_unwrapped() {
        let body = || http_body_util::Full::new(bytes::Bytes::from_static(b"abc"));
        let whole = ResponseBody::new(body(), None, None);
        assert_eq!(whole.size_hint().exact(), Some(3));
        assert!(!whole.is_end_stream());
        assert!(whole.try_into_inner().is_ok());
        let limited = ResponseBody::new(body(), Some(Duration::from_secs(1)), None);
        assert_eq!(limited.size_hint().exact(), None);
        assert!(limited.try_into_inner().is_err());
    }
}
