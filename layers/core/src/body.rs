//! Body type of the default stack.

use std::any::Any;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};

use crate::BoxError;

/// Response body: available bytes, or a stream of them.
///
/// Available bytes cost no allocation. Layers stay generic over bodies
/// (`ResBody: From<Bytes>`); this type appears where services meet.
#[derive(Default)]
pub struct Body(Kind);

#[derive(Default)]
enum Kind {
    #[default]
    Empty,
    Full(Bytes),
    // Boxed: only lists use it, and it would enlarge every response.
    Chain(Box<Chain>),
    Stream(Pin<Box<dyn http_body::Body<Data = Bytes, Error = BoxError> + Send>>),
}

/// Pieces that are sent one after the other, without a copy.
struct Chain {
    pieces: Vec<Bytes>,
    next: usize,
}

impl Body {
    /// Creates a body without bytes.
    #[must_use]
    pub fn empty() -> Self {
        Self(Kind::Empty)
    }

    /// Wraps a body, whose frames are passed on as they arrive. A body of this type is returned unchanged.
    #[must_use]
    pub fn wrap<B>(body: B) -> Self
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let mut body = Some(body);
        // Resolved at compile time.
        if let Some(same) = (&mut body as &mut dyn Any).downcast_mut::<Option<Self>>() {
            return same.take().unwrap_or_default();
        }
        body.map_or_else(Self::empty, |body| Self(Kind::Stream(Box::pin(MapErrBody { body }))))
    }

    /// Creates a body of several pieces that are sent one after the other without a copy, such as a large cached response
    /// between parts that differ between requests.
    #[must_use]
    pub fn chain(pieces: impl Into<Vec<Bytes>>) -> Self {
        Self(Kind::Chain(Box::new(Chain { pieces: pieces.into(), next: 0 })))
    }

    /// Replaces the longest piece of available bytes. A stream stays as it is.
    #[must_use]
    pub fn map_longest(mut self, replace: impl FnOnce(Bytes) -> Bytes) -> Self {
        let longest = match &mut self.0 {
            Kind::Full(bytes) => Some(bytes),
            Kind::Chain(chain) => chain.pieces.iter_mut().max_by_key(|piece| piece.len()),
            Kind::Empty | Kind::Stream(_) => None,
        };
        if let Some(longest) = longest {
            *longest = replace(std::mem::take(longest));
        }
        self
    }

    /// Returns the bytes, if all of them are available in one piece.
    #[must_use]
    pub fn bytes(&self) -> Option<&Bytes> {
        match &self.0 {
            Kind::Full(bytes) => Some(bytes),
            Kind::Empty | Kind::Chain(_) | Kind::Stream(_) => None,
        }
    }
}

impl Chain {
    fn take(&mut self) -> Option<Bytes> {
        while let Some(piece) = self.pieces.get_mut(self.next) {
            self.next += 1;
            if !piece.is_empty() {
                return Some(std::mem::take(piece));
            }
        }
        None
    }

    fn remaining(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.len() as u64).sum()
    }
}

impl From<&'static str> for Body {
    fn from(text: &'static str) -> Self {
        Self::from(Bytes::from_static(text.as_bytes()))
    }
}

impl From<String> for Body {
    fn from(text: String) -> Self {
        Self::from(Bytes::from(text))
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        if bytes.is_empty() { Self(Kind::Empty) } else { Self(Kind::Full(bytes)) }
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = self.get_mut();
        match &mut this.0 {
            Kind::Empty => Poll::Ready(None),
            Kind::Full(bytes) => {
                let bytes = std::mem::take(bytes);
                this.0 = Kind::Empty;
                Poll::Ready(Some(Ok(Frame::data(bytes))))
            }
            Kind::Chain(chain) => Poll::Ready(chain.take().map(|piece| Ok(Frame::data(piece)))),
            Kind::Stream(body) => body.as_mut().poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Kind::Empty => true,
            Kind::Full(_) => false,
            Kind::Chain(chain) => chain.remaining() == 0,
            Kind::Stream(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Empty => SizeHint::with_exact(0),
            Kind::Full(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Kind::Chain(chain) => SizeHint::with_exact(chain.remaining()),
            Kind::Stream(body) => body.size_hint(),
        }
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Empty => f.write_str("Body(empty)"),
            Kind::Full(bytes) => write!(f, "Body({} bytes)", bytes.len()),
            Kind::Chain(chain) => write!(f, "Body({} bytes)", chain.remaining()),
            Kind::Stream(_) => f.write_str("Body(stream)"),
        }
    }
}

/// Error of a body that cannot be read as a whole.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    /// The body is larger than the limit.
    #[error("the body is larger than {limit} bytes")]
    TooLarge {
        /// In bytes.
        limit: usize,
    },
    /// The body ended early.
    #[error("the body broke off")]
    Broken(#[source] BoxError),
}

/// Collects a body of at most `limit` bytes. The caller bounds the time.
///
/// # Errors
/// The body is larger, or ends early.
pub async fn collect_limited<B>(body: B, limit: usize) -> Result<Bytes, BodyError>
where
    B: http_body::Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    let mut body = std::pin::pin!(body);
    let mut first = Bytes::new();
    let mut rest = Vec::new();
    while let Some(frame) = poll_fn(|cx| body.as_mut().poll_frame(cx)).await {
        let frame = frame.map_err(|error| BodyError::Broken(error.into()))?;
        let Ok(data) = frame.into_data() else { continue };
        if first.len() + rest.len() + data.len() > limit {
            return Err(BodyError::TooLarge { limit });
        }
        // Most bodies are one frame, which is not copied.
        if rest.is_empty() && first.is_empty() {
            first = data;
            continue;
        }
        if rest.is_empty() {
            rest.extend_from_slice(&std::mem::take(&mut first));
        }
        rest.extend_from_slice(&data);
    }
    Ok(if rest.is_empty() { first } else { rest.into() })
}

pin_project_lite::pin_project! {
    /// Body whose error is a [`BoxError`].
    struct MapErrBody<B> {
        #[pin]
        body: B,
    }
}

impl<B> http_body::Body for MapErrBody<B>
where
    B: http_body::Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        self.project().body.poll_frame(cx).map_err(Into::into)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use http_body::Body as _;
    use http_body_util::{BodyExt, Full};

    use super::*;

    #[tokio::test]
    async fn returns_original_bytes() {
        let full = Body::from(Bytes::from_static(b"abc"));
        assert_eq!(full.size_hint().exact(), Some(3));
        assert_eq!(full.collect().await.unwrap().to_bytes(), "abc");
        let stream = Body::wrap(Full::new(Bytes::from_static(b"abc")));
        assert_eq!(stream.collect().await.unwrap().to_bytes(), "abc");
    }

    #[test]
    fn wraps_no_body_twice() {
        let bytes = Bytes::from_static(b"abc");
        assert_eq!(Body::wrap(Body::from(bytes.clone())).bytes(), Some(&bytes));
        assert!(Body::wrap(Body::empty()).is_end_stream());
    }

    #[tokio::test]
    async fn chain_has_order_and_length() {
        let chain = Body::chain(["a".into(), Bytes::new(), "bc".into()]);
        assert_eq!(chain.size_hint().exact(), Some(3));
        assert_eq!(chain.collect().await.unwrap().to_bytes(), "abc");
    }

    #[tokio::test]
    async fn collects_up_to_the_limit() {
        let chain = || Body::chain(["ab".into(), "c".into(), "de".into()]);
        assert_eq!(collect_limited(chain(), 5).await.unwrap(), "abcde");
        assert!(matches!(collect_limited(chain(), 4).await, Err(BodyError::TooLarge { limit: 4 })));
    }

    #[test]
    fn empty_body_is_at_its_end() {
        assert!(Body::empty().is_end_stream());
        assert!(Body::from(Bytes::new()).is_end_stream());
    }
}
