//! Conversion of Streamable HTTP responses into messages on one event stream.

use std::time::Duration;

use bytes::Bytes;
use http::header::HeaderValue;
use http::{Method, Response, StatusCode};
use http_body_util::BodyExt;
use tokio::time::sleep;
use tower::ServiceExt;
use vmcp_core::{Body, BodyBuffer, BoxError, MediaType, Rejection, Reservation};
use vmcp_wire::sse::Reader;
use vmcp_wire::{Envelope, Span, Splice, scan};

use super::Inner;
use super::client::{Client, Seat, grow};

/// Maximum size of a forwarded message, in bytes.
const LARGEST: usize = 64 << 20;

/// Delay before a stream is reopened.
const PAUSE: Duration = Duration::from_millis(100);

/// Maximum number of resumptions of one response stream.
const MOST_RESUMPTIONS: usize = 100;

/// Read position of an event stream.
#[derive(Default)]
struct Read {
    answered: bool,
    /// Event identifier for a resumption.
    last: Option<HeaderValue>,
}

/// Returns `true` if the body is complete and holds a response with a request id.
pub(super) fn is_answer(response: &Response<Body>) -> bool {
    response
        .body()
        .bytes()
        .is_some_and(|bytes| matches!(scan(bytes), Ok(Envelope::Response { id: Some(_), .. })))
}

/// Sends the messages of the response to `asked` to the client. A request always gets a response, at least an error,
/// because the client has no other sign of failure.
pub(super) async fn answer<S: Inner>(
    inner: &S,
    client: &Client,
    seat: &Seat,
    asked: &Bytes,
    response: Response<Body>,
) {
    let id = match scan(asked) {
        Ok(Envelope::Request { id, .. }) => Some(id.slice(asked)),
        Ok(Envelope::Notification { .. } | Envelope::Response { .. }) | Err(_) => None,
    };
    if MediaType::of(response.headers()) == MediaType::EventStream {
        let mut read = Read::default();
        drain(response.into_body(), client, seat, id.as_deref(), &mut read).await;
        for _ in 0..MOST_RESUMPTIONS {
            if read.answered || read.last.is_none() {
                break;
            }
            sleep(PAUSE).await;
            let last = read.last.take();
            let Some(request) = client.own(Method::GET, last) else { break };
            let Ok(response) = inner.clone().oneshot(request).await;
            if MediaType::of(response.headers()) != MediaType::EventStream {
                break;
            }
            drain(response.into_body(), client, seat, id.as_deref(), &mut read).await;
        }
        if let Some(id) = id.filter(|_| !read.answered) {
            seat.send(Rejection::internal().to_json(Some(&id))).await;
        }
        return;
    }
    let Some(id) = id else { return };
    let message = match whole(response, client).await {
        Some((message, Some(reservation))) => Some(reservation.attach(named(message, &id))),
        Some((message, None)) => client.hold(named(message, &id)).await,
        None => None,
    };
    seat.send(message.unwrap_or_else(|| Rejection::internal().to_json(Some(&id)))).await;
}

/// Forwards the notification stream of the session to the client, until one of them ends.
pub(super) async fn standing<S: Inner>(inner: &S, client: &Client, seat: &Seat) {
    let mut read = Read::default();
    while !client.is_closed() {
        let Some(request) = client.own(Method::GET, read.last.clone()) else { return };
        let Ok(response) = inner.clone().oneshot(request).await;
        if matches!(response.status(), StatusCode::NOT_FOUND | StatusCode::BAD_REQUEST) {
            if read.last.take().is_some() {
                continue;
            }
            // The session is over. The client needs a new stream to initialize again, so this one ends.
            return client.close();
        }
        if MediaType::of(response.headers()) == MediaType::EventStream {
            drain(response.into_body(), client, seat, None, &mut read).await;
        }
        sleep(PAUSE).await;
    }
}

/// Reads the message of a response that is not an event stream, with what is reserved for it.
async fn whole(response: Response<Body>, client: &Client) -> Option<(Bytes, Option<Reservation>)> {
    if MediaType::of(response.headers()) != MediaType::Json {
        return None;
    }
    let mut body = response.into_body();
    let mut buffer = BodyBuffer::new(LARGEST, 0);
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.ok()?.into_data() else { continue };
        buffer.push(data).ok()?;
        client.reserve(&mut buffer).await?;
    }
    Some(buffer.into_parts())
}

/// Sets the request id in a response without one, which an error before the id was parsed has.
fn named(message: Bytes, id: &[u8]) -> Bytes {
    match scan(&message) {
        Ok(Envelope::Response { id: None, .. }) => {
            let whole = Span { start: 0, end: u32::try_from(message.len()).unwrap_or(u32::MAX) };
            let mut splice = Splice::new(&message);
            splice.set_member(whole, "id", id);
            splice.finish()
        }
        Ok(_) => message,
        Err(_) => Rejection::internal().to_json(Some(id)),
    }
}

/// Forwards all events that carry data.
async fn drain(mut body: Body, client: &Client, seat: &Seat, id: Option<&[u8]>, read: &mut Read) {
    let mut reader = Reader::new(LARGEST);
    let mut reservation = client.reservation();
    loop {
        for event in reader.by_ref() {
            let Ok(event) = event else { return };
            if event.data.is_empty() {
                continue;
            }
            read.answered |= id.is_some_and(|id| answers(&event.data, id));
            let data = match &mut reservation {
                Some(held) => held.split(event.data.len()).attach(event.data),
                None => event.data,
            };
            if !seat.send(data).await {
                return;
            }
        }
        let last = reader.last_id().filter(|id| !id.is_empty());
        if let Some(last) = last.and_then(|id| HeaderValue::from_bytes(id).ok()) {
            read.last = Some(last);
        }
        let frame: Option<Result<_, BoxError>> = body.frame().await;
        match frame {
            Some(Ok(frame)) => {
                let Ok(data) = frame.into_data() else { continue };
                if let Some(held) = &mut reservation {
                    held.shrink(reader.held());
                    if !grow(held, reader.held() + data.len()).await {
                        // The client gets an error in the place of the response: it is not asked for again.
                        read.last = None;
                        return;
                    }
                }
                reader.push(data);
            }
            Some(Err(_)) | None => return,
        }
    }
}

fn answers(message: &[u8], id: &[u8]) -> bool {
    matches!(
        scan(message),
        Ok(Envelope::Response { id: Some(span), .. }) if span.of(message) == id
    )
}
