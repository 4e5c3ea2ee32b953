//! Conversion of Streamable HTTP responses into messages on one event stream.

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use http::header::HeaderValue;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use tokio::time::sleep;
use tower::ServiceExt;
use tower_service::Service;
use vmcp_core::{Body, BodyBuffer, BoxError, MediaType, Rejection, Reservation};
use vmcp_wire::sse::Reader;
use vmcp_wire::{Envelope, Span, Splice, scan};

use crate::client::{Client, StreamPermit, grow};

/// Maximum size of a forwarded message, in bytes.
const MAX_MESSAGE_SIZE: usize = 64 << 20;

/// Delay before a stream is reopened.
const RESUME_DELAY: Duration = Duration::from_millis(100);

/// Maximum number of resumptions of one response stream.
const MAX_RESUMPTIONS: usize = 100;

/// MCP endpoint (Streamable HTTP) whose request bodies are complete messages. Implemented for each such service.
pub trait MessageService:
    Service<
        Request<Full<Bytes>>,
        Response = Response<Body>,
        Error = Infallible,
        Future: Future<Output = Result<Response<Body>, Infallible>> + Send + 'static,
    > + Clone
    + Send
    + Sync
    + 'static
{
}

impl<S> MessageService for S where
    S: Service<
            Request<Full<Bytes>>,
            Response = Response<Body>,
            Error = Infallible,
            Future: Future<Output = Result<Response<Body>, Infallible>> + Send + 'static,
        > + Clone
        + Send
        + Sync
        + 'static
{
}

/// Read position of an event stream.
#[derive(Default)]
struct StreamPosition {
    is_complete: bool,
    /// Event identifier for a resumption.
    last_event_id: Option<HeaderValue>,
}

/// Returns `true` if the body is complete and holds a response with a request id.
pub(crate) fn is_response(response: &Response<Body>) -> bool {
    response
        .body()
        .bytes()
        .is_some_and(|bytes| matches!(scan(bytes), Ok(Envelope::Response { id: Some(_), .. })))
}

/// Sends the messages of the response to `request_message` to the client. A request always gets a response, at least an error,
/// because the client has no other sign of failure.
pub(crate) async fn forward_response<S: MessageService>(
    inner: &S,
    client: &Client,
    permit: &StreamPermit,
    request_message: &Bytes,
    response: Response<Body>,
) {
    let id = match scan(request_message) {
        Ok(Envelope::Request { id, .. }) => Some(id.slice(request_message)),
        Ok(Envelope::Notification { .. } | Envelope::Response { .. }) | Err(_) => None,
    };
    if MediaType::of(response.headers()) == MediaType::EventStream {
        let mut position = StreamPosition::default();
        forward_events(response.into_body(), client, permit, id.as_deref(), &mut position).await;
        for _ in 0..MAX_RESUMPTIONS {
            if position.is_complete || position.last_event_id.is_none() {
                break;
            }
            sleep(RESUME_DELAY).await;
            let last_event_id = position.last_event_id.take();
            let Some(request) = client.session_request(Method::GET, last_event_id) else { break };
            let Ok(response) = inner.clone().oneshot(request).await;
            if MediaType::of(response.headers()) != MediaType::EventStream {
                break;
            }
            forward_events(response.into_body(), client, permit, id.as_deref(), &mut position)
                .await;
        }
        if let Some(id) = id.filter(|_| !position.is_complete) {
            permit.send(Rejection::internal().to_json(Some(&id))).await;
        }
        return;
    }
    let Some(id) = id else { return };
    let message = match read_message(response, client).await {
        Some((message, Some(reservation))) => {
            Some(reservation.attach(with_request_id(message, &id)))
        }
        Some((message, None)) => client.charge(with_request_id(message, &id)).await,
        None => None,
    };
    permit.send(message.unwrap_or_else(|| Rejection::internal().to_json(Some(&id)))).await;
}

/// Forwards the notification stream of the session to the client, until one of them ends.
pub(crate) async fn forward_notifications<S: MessageService>(
    inner: &S,
    client: &Client,
    permit: &StreamPermit,
) {
    let mut position = StreamPosition::default();
    while !client.is_closed() {
        let Some(request) = client.session_request(Method::GET, position.last_event_id.clone())
        else {
            return;
        };
        let Ok(response) = inner.clone().oneshot(request).await;
        if matches!(response.status(), StatusCode::NOT_FOUND | StatusCode::BAD_REQUEST) {
            if position.last_event_id.take().is_some() {
                continue;
            }
            // The session is over. The client needs a new stream to initialize again, so this one ends.
            return client.close();
        }
        if MediaType::of(response.headers()) == MediaType::EventStream {
            forward_events(response.into_body(), client, permit, None, &mut position).await;
        }
        sleep(RESUME_DELAY).await;
    }
}

/// Reads the message of a response that is not an event stream, with what is reserved for it.
async fn read_message(
    response: Response<Body>,
    client: &Client,
) -> Option<(Bytes, Option<Reservation>)> {
    if MediaType::of(response.headers()) != MediaType::Json {
        return None;
    }
    let mut body = response.into_body();
    let mut buffer = BodyBuffer::new(MAX_MESSAGE_SIZE, 0);
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.ok()?.into_data() else { continue };
        buffer.push(data).ok()?;
        client.reserve(&mut buffer).await?;
    }
    Some(buffer.into_parts())
}

/// Sets the request id in a response without one, which an error before the id was parsed has.
fn with_request_id(message: Bytes, id: &[u8]) -> Bytes {
    match scan(&message) {
        Ok(Envelope::Response { id: None, .. }) => {
            let whole = Span::whole(&message);
            let mut splice = Splice::new(&message);
            splice.set_member(whole, "id", id);
            splice.finish()
        }
        Ok(_) => message,
        Err(_) => Rejection::internal().to_json(Some(id)),
    }
}

/// Forwards all events that carry data.
async fn forward_events(
    mut body: Body,
    client: &Client,
    permit: &StreamPermit,
    id: Option<&[u8]>,
    position: &mut StreamPosition,
) {
    let mut reader = Reader::new(MAX_MESSAGE_SIZE);
    let mut reservation = client.reservation();
    loop {
        for event in reader.by_ref() {
            let Ok(event) = event else { return };
            if event.data.is_empty() {
                continue;
            }
            position.is_complete |= id.is_some_and(|id| is_response_to(&event.data, id));
            let data = match &mut reservation {
                Some(held) => held.split(event.data.len()).attach(event.data),
                None => event.data,
            };
            if !permit.send(data).await {
                return;
            }
        }
        let last_event_id = reader.last_id().filter(|id| !id.is_empty());
        if let Some(last_event_id) = last_event_id.and_then(|id| HeaderValue::from_bytes(id).ok()) {
            position.last_event_id = Some(last_event_id);
        }
        let frame: Option<Result<_, BoxError>> = body.frame().await;
        match frame {
            Some(Ok(frame)) => {
                let Ok(data) = frame.into_data() else { continue };
                if let Some(held) = &mut reservation {
                    held.shrink(reader.held());
                    if !grow(held, reader.held() + data.len()).await {
                        // The client gets an error in the place of the response: it is not asked for again.
                        position.last_event_id = None;
                        return;
                    }
                }
                reader.push(data);
            }
            Some(Err(_)) | None => return,
        }
    }
}

fn is_response_to(message: &[u8], id: &[u8]) -> bool {
    matches!(
        scan(message),
        Ok(Envelope::Response { id: Some(span), .. }) if span.of(message) == id
    )
}
