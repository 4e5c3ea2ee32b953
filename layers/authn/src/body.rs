//! Streams end when the token that opened them does.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use tokio::time::Sleep;

/// What a timer can wait at most; longer streams are not cut.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

pin_project! {
    /// A response's body. An event stream ends, without an error, when the caller's token expires:
    /// the client opens it again with a new one. The answer to a `POST` has 10 minutes more.
    #[derive(Debug)]
    pub struct ResponseBody<R> {
        #[pin]
        inner: R,
        end: End,
    }
}

#[derive(Debug)]
enum End {
    /// With the body.
    Body,
    /// With the body, or at this time.
    At(Pin<Box<Sleep>>),
    /// It has ended.
    Over,
}

impl<R> ResponseBody<R> {
    /// Ends after `life`, if it is given.
    pub(crate) fn new(inner: R, life: Option<Duration>) -> Self {
        let end = match life {
            Some(life) if life <= LONGEST => End::At(Box::pin(tokio::time::sleep(life))),
            _ => End::Body,
        };
        Self { inner, end }
    }

    /// The body itself where nothing cuts it short, so that a stack with one body type wraps streams
    /// only.
    ///
    /// # Errors
    /// It is a stream that ends with its token: then it is given back as it is.
    pub fn try_into_inner(self) -> Result<R, Self> {
        match self.end {
            End::Body => Ok(self.inner),
            End::At(_) | End::Over => Err(self),
        }
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
        match this.end {
            End::Body => {}
            End::At(timer) => {
                if timer.as_mut().poll(cx).is_ready() {
                    *this.end = End::Over;
                    return Poll::Ready(None);
                }
            }
            End::Over => return Poll::Ready(None),
        }
        this.inner.poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.end, End::Over) || self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        match self.end {
            End::Body => self.inner.size_hint(),
            End::At(_) => SizeHint::default(),
            End::Over => SizeHint::with_exact(0),
        }
    }
}
