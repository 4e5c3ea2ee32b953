//! Opening and reading of channels.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use http::request::Parts;
use http::{Request, Uri};
use http_body_util::Full;
use tokio::task::JoinSet;
use tower::ServiceExt;
use url::Url;
use vmcp_core::{BoxError, BudgetAccount, MediaType};
use vmcp_timeout::TimeoutControl;
use vmcp_wire::sse::Event;

use super::demultiplexer::Demultiplexer;
use super::message_poster::MessagePoster;
use super::{Channel, MAX_EVENT_BYTES};
use crate::backend::error::BackendError;
use crate::backend::event_reader::EventReader;
use crate::settings::BackendService;

/// Maximum number of events before the one that names the endpoint.
const MAX_EVENTS_BEFORE_ENDPOINT: usize = 16;

/// Maximum length of an endpoint, in bytes.
const MAX_ENDPOINT_LENGTH: usize = 8 << 10;

/// Maximum number of replies in flight that the gateway sends itself, mostly to pings.
const MAX_REPLIES_IN_FLIGHT: usize = 16;

/// Opens the stream for the caller of the request with these parts.
pub(super) async fn open(inner: &BackendService, parts: &Parts) -> Result<Channel, BoxError> {
    let mut request = Request::new(Full::default());
    *request.uri_mut() = parts.uri.clone();
    *request.headers_mut() = parts.headers.clone();
    let headers = request.headers_mut();
    headers.remove(CONTENT_TYPE);
    headers.remove(CONTENT_LENGTH);
    headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
    *request.extensions_mut() = parts.extensions.clone();
    let timeout_control = TimeoutControl::new();
    // The stream may stay silent indefinitely. The caller of this function bounds the wait for the first event.
    timeout_control.disable();
    request.extensions_mut().insert(timeout_control);
    let response = inner.clone().oneshot(request).await?;
    if !response.status().is_success() {
        return Err(BackendError::Status(response.status()).into());
    }
    if MediaType::of(response.headers()) != MediaType::EventStream {
        return Err(BackendError::ContentType.into());
    }
    let account = parts.extensions.get::<BudgetAccount>();
    let mut events =
        EventReader::new(response.into_body(), MAX_EVENT_BYTES).charged_while_open(account);
    let endpoint = first_endpoint(&mut events, &parts.uri).await?;
    let demultiplexer = Arc::<Demultiplexer>::default();
    let mut replying = parts.clone();
    replying.extensions.remove::<TimeoutControl>();
    let poster = MessagePoster::new(inner.clone(), endpoint.clone(), replying);
    let reader = tokio::spawn(read(events, CloseOnDrop(Arc::clone(&demultiplexer)), poster));
    Ok(Channel::new(endpoint, demultiplexer, reader.abort_handle()))
}

async fn first_endpoint(events: &mut EventReader, base: &Uri) -> Result<Uri, BoxError> {
    for _ in 0..MAX_EVENTS_BEFORE_ENDPOINT {
        let Some(event) = events.next().await else { return Err(BackendError::Ended.into()) };
        let Event { data, event, .. } = event?;
        if event.as_deref() == Some(b"endpoint") {
            return Ok(endpoint(base, &data)?);
        }
    }
    Err(BackendError::Malformed("an event stream that names no endpoint").into())
}

/// Resolves the endpoint that the backend names, relative or absolute. It must have the stream's origin; otherwise the backend
/// could redirect the gateway's requests to another server.
fn endpoint(base: &Uri, named: &[u8]) -> Result<Uri, BackendError> {
    const UNUSABLE: BackendError = BackendError::Malformed("an endpoint that is not a valid URL");
    if named.len() > MAX_ENDPOINT_LENGTH {
        return Err(UNUSABLE);
    }
    let named = std::str::from_utf8(named).map_err(|_| UNUSABLE)?;
    let base = Url::parse(&base.to_string()).map_err(|_| UNUSABLE)?;
    let mut url = base.join(named.trim()).map_err(|_| UNUSABLE)?;
    if url.origin() != base.origin() {
        return Err(BackendError::Malformed("an endpoint of another origin"));
    }
    if (url.username(), url.password()) != (base.username(), base.password())
        && (!url.username().is_empty() || url.password().is_some())
    {
        return Err(BackendError::Malformed("an endpoint with credentials"));
    }
    url.set_fragment(None);
    url.as_str().parse().map_err(|_| UNUSABLE)
}

/// Guard that closes the channel when its reader ends for any reason.
struct CloseOnDrop(Arc<Demultiplexer>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0.close();
    }
}

async fn read(mut events: EventReader, demultiplexer: CloseOnDrop, poster: MessagePoster) {
    let mut replies = JoinSet::new();
    loop {
        let event = tokio::select! {
            event = events.next() => event,
            Some(_) = replies.join_next(), if !replies.is_empty() => continue,
        };
        // An event above the size limit may contain the response to any request.
        let Some(Ok(Event { mut data, event, .. })) = event else { return };
        if let Some(count) = events.take_reservation() {
            // The bytes stay reserved while they wait in the request's queue.
            data = count.attach(data);
        }
        if event.is_some_and(|name| name != Bytes::from_static(b"message")) {
            continue;
        }
        if let Some(reply) = demultiplexer.0.dispatch(data)
            && replies.len() < MAX_REPLIES_IN_FLIGHT
        {
            let poster = poster.clone();
            replies.spawn(async move { poster.post(reply).await.map(drop) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(named: &str) -> Result<String, String> {
        let base = Uri::from_static("http://be.test:8080/a/sse?k=v");
        endpoint(&base, named.as_bytes())
            .map(|uri| uri.to_string())
            .map_err(|failure| failure.to_string())
    }

    #[test]
    fn accepts_relative_and_absolute_endpoints() {
        let expected = "http://be.test:8080/messages?sessionId=1";
        for named in [
            "/messages?sessionId=1",
            expected,
            "//be.test:8080/messages?sessionId=1",
            " /messages?sessionId=1#x",
        ] {
            assert_eq!(resolve(named).as_deref(), Ok(expected), "{named}");
        }
        assert_eq!(resolve("post?s=1").as_deref(), Ok("http://be.test:8080/a/post?s=1"));
        assert_eq!(resolve("?s=1").as_deref(), Ok("http://be.test:8080/a/sse?s=1"));
    }

    #[test]
    fn rejects_endpoint_of_other_origin() {
        for named in [
            "http://evil.test/messages",
            "https://be.test:8080/messages",
            "http://be.test:8081/messages",
            "http://be.test/messages",
            "//evil.test/messages",
            "\\\\evil.test/messages",
            "file:///etc/passwd",
            "data:text/plain,x",
        ] {
            let rejection = resolve(named).unwrap_err();
            assert_eq!(rejection, "returned an endpoint of another origin", "{named}");
        }
        assert!(resolve("http://me:secret@be.test:8080/").unwrap_err().contains("credentials"));
        assert!(resolve("http://[").unwrap_err().contains("not a valid URL"));
        assert!(
            resolve(&"x".repeat(MAX_ENDPOINT_LENGTH + 1)).unwrap_err().contains("not a valid URL")
        );
    }
}
