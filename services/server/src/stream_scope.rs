//! Lifetime of event streams, which ends with the authentication settings that they were opened under.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http_body::{Frame, SizeHint};
use tokio::sync::watch;
use vmcp_core::{Body, BoxError, MediaType, NotificationStream, RevocationFuture};

/// Time that a response stream may continue after its scope ended. Cutting it off would lose the result of a call that
/// the backend has executed.
const RESPONSE_GRACE_PERIOD: Duration = Duration::from_mins(10);

/// Event streams that were opened under one configuration. A clone is the same scope.
#[derive(Clone, Debug, Default)]
pub(crate) struct StreamScope(watch::Sender<bool>);

/// Body of an event stream that ends with its scope, without an error, so that the client reconnects.
struct ScopedBody {
    inner: Body,
    ended: RevocationFuture,
    is_over: bool,
}

impl StreamScope {
    /// Ends the streams.
    pub(crate) fn end(&self) {
        self.0.send_replace(true);
    }

    /// Binds the event stream of a response to the scope. Other responses are unchanged.
    pub(crate) fn bind(&self, response: Response<Body>, is_get: bool) -> Response<Body> {
        if MediaType::of(response.headers()) != MediaType::EventStream {
            return response;
        }
        let is_notification_stream =
            is_get || response.extensions().get::<NotificationStream>().is_some();
        let grace_period =
            if is_notification_stream { Duration::ZERO } else { RESPONSE_GRACE_PERIOD };
        let mut scope = self.0.subscribe();
        response.map(|inner| {
            let ended = async move {
                if scope.wait_for(|is_over| *is_over).await.is_err() {
                    // A configuration that is dropped without `end` was replaced by one that keeps the streams and
                    // shares the scope. A closed channel therefore means that the process ends.
                    std::future::pending::<()>().await;
                }
                tokio::time::sleep(grace_period).await;
            };
            Body::wrap(ScopedBody { inner, ended: Box::pin(ended), is_over: false })
        })
    }
}

impl http_body::Body for ScopedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if !self.is_over && self.ended.as_mut().poll(cx).is_ready() {
            self.is_over = true;
            // Drops the inner body now instead of with the connection.
            self.inner = Body::empty();
        }
        if self.is_over { Poll::Ready(None) } else { Pin::new(&mut self.inner).poll_frame(cx) }
    }

    fn is_end_stream(&self) -> bool {
        self.is_over || self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        if self.is_over { SizeHint::with_exact(0) } else { SizeHint::default() }
    }
}

#[cfg(test)]
mod tests {
    use http::header::CONTENT_TYPE;
    use http_body_util::BodyExt;
    use http_body_util::channel::Channel;

    use super::*;

    fn stream(media: &str) -> (http_body_util::channel::Sender<Bytes, BoxError>, Response<Body>) {
        let (sender, body) = Channel::<Bytes, BoxError>::new(1);
        let response = Response::builder().header(CONTENT_TYPE, media);
        (sender, response.body(Body::wrap(body)).unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn ends_streams_with_their_scope() {
        let scope = StreamScope::default();
        let (_sender, response) = stream("text/event-stream");
        let mut get = scope.bind(response, true).into_body();
        let (_sender, mut response) = stream("text/event-stream");
        response.extensions_mut().insert(NotificationStream);
        let mut listen = scope.bind(response, false).into_body();
        let (mut sender, response) = stream("text/event-stream");
        let mut answer = scope.bind(response, false).into_body();
        let began = tokio::time::Instant::now();
        let still = tokio::time::timeout(Duration::from_hours(1), get.frame()).await;
        assert!(still.is_err());
        scope.end();
        assert!(get.frame().await.is_none() && listen.frame().await.is_none());
        sender.send_data(Bytes::from_static(b"data: 1\n\n")).await.unwrap();
        assert!(answer.frame().await.unwrap().is_ok(), "an answer goes on for a while");
        assert!(answer.frame().await.is_none());
        assert_eq!(began.elapsed(), Duration::from_hours(1) + RESPONSE_GRACE_PERIOD);
        // Begun before and answered after the end of the scope.
        let (_sender, response) = stream("text/event-stream");
        assert!(scope.bind(response, true).into_body().frame().await.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn does_not_bind_other_responses() {
        let scope = StreamScope::default();
        scope.end();
        let (mut sender, response) = stream("application/json");
        let mut body = scope.bind(response, true).into_body();
        sender.send_data(Bytes::from_static(b"{}")).await.unwrap();
        assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "{}");
    }
}
