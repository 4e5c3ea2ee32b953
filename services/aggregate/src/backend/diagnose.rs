//! Diagnosis of a backend that the gateway failed to observe: suggests another transport, another path, or credentials. Runs
//! once for each new failure reason, never as part of a client's request.

use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::Full;
use tokio::time::timeout;
use vmcp_core::{Body, BoxError, MediaType, cause_ref};
use vmcp_timeout::Elapsed;
use vmcp_wire::{Envelope, scan};

use super::ask::small;
use super::events::Events;
use super::failure::Failure;
use super::request::{SESSION, delete, listen};
use super::{Link, handshake};
use crate::hub::Hub;
use crate::settings::Transport;

/// Timeout for the whole diagnosis. Requests that wait for the first attempt wait for this too, at most 5 s in all.
const LIMIT: Duration = Duration::from_secs(3);

/// Timeout for the first events of a stream, which may be silent for good reason.
const FIRST_EVENTS: Duration = Duration::from_secs(1);

/// Maximum number of events read from a stream.
const MAX_EVENTS: usize = 16;

/// Maximum size of an event, in bytes.
const MAX_EVENT: usize = 64 << 10;

/// Kind of failure that can be diagnosed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Suspect {
    Credentials,
    Endpoint,
}

/// Response of the backend to one diagnostic request.
struct Probe {
    status: StatusCode,
    headers: HeaderMap,
    found: Found,
}

/// Content of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    /// A JSON-RPC response.
    Mcp,
    /// The first event of an HTTP+SSE stream.
    Endpoint,
    Html,
    Other,
}

/// Returns the suggested configuration change after `error`, if the backend's behavior indicates one.
pub(super) async fn remedy(hub: &Hub, link: &Link, error: &BoxError) -> Option<String> {
    let suspect = suspect(link.transport, error)?;
    let finding = async {
        match suspect {
            Suspect::Credentials => {
                let probe = own(hub, link).await?;
                link.advice().of(probe.headers).await
            }
            Suspect::Endpoint => endpoint(hub, link).await,
        }
    };
    timeout(LIMIT, finding).await.ok().flatten()
}

fn suspect(transport: Transport, error: &BoxError) -> Option<Suspect> {
    let error: &(dyn std::error::Error + 'static) = error.as_ref();
    match cause_ref::<Failure>(error) {
        // The stream does not name an endpoint.
        None if transport == Transport::Sse && cause_ref::<Elapsed>(error).is_some() => {
            Some(Suspect::Endpoint)
        }
        Some(Failure::Status(status)) => match status.as_u16() {
            401 | 403 | 407 => Some(Suspect::Credentials),
            408 | 429 => None,
            400..=499 => Some(Suspect::Endpoint),
            _ => None,
        },
        Some(
            Failure::SessionGone
            | Failure::ContentType
            | Failure::Malformed(_)
            | Failure::Ended
            | Failure::Handshake { .. }
            | Failure::Generation,
        ) => Some(Suspect::Endpoint),
        None
        | Some(
            Failure::Rpc { .. }
            | Failure::TooLarge { .. }
            | Failure::NoRoom
            | Failure::Offer(_)
            | Failure::Revision
            | Failure::Busy
            | Failure::Cancelled
            | Failure::Question(_)
            | Failure::Detached { .. }
            | Failure::Capability(_)
            | Failure::Task(_),
        ) => None,
    }
}

async fn endpoint(hub: &Hub, link: &Link) -> Option<String> {
    let own = own(hub, link).await?;
    let (speaks, other) = match link.transport {
        Transport::StreamableHttp => (Found::Mcp, Found::Endpoint),
        Transport::Sse => (Found::Endpoint, Found::Mcp),
    };
    if own.found == speaks || own.status.is_server_error() {
        // Transport and path are correct.
        return None;
    }
    // A server without GET support may reject it with a JSON-RPC error, which shows that the path is correct.
    let turned = match link.transport {
        Transport::StreamableHttp => get(hub, link).await,
        Transport::Sse => post(hub, link).await,
    };
    if turned.is_some_and(|turned| turned.found == other) {
        let remedy = match link.transport {
            Transport::StreamableHttp => "the server speaks HTTP+SSE: set transport: sse",
            Transport::Sse => "the server speaks streamable HTTP: set transport: streamable-http",
        };
        return Some(remedy.to_owned());
    }
    Some(format!("{}; {}", answers(&own), path(link)))
}

/// Describes the server's response for the operator.
fn answers(probe: &Probe) -> String {
    let Probe { status, headers: _, found } = probe;
    match found {
        Found::Html => "the server answers HTML, a page for people".to_owned(),
        _ if status.is_success() => "the server answers something else than MCP".to_owned(),
        _ => format!("the server answers HTTP {}", status.as_u16()),
    }
}

/// Describes the configured path for the operator.
fn path(link: &Link) -> String {
    let usual = match link.transport {
        Transport::StreamableHttp => "/mcp",
        Transport::Sse => "/sse",
    };
    if link.uri.path().trim_end_matches('/').ends_with(usual) {
        "check host, port and path of the URL".to_owned()
    } else {
        format!("the MCP endpoint is probably {usual}: check the path of the URL")
    }
}

/// Sends a diagnostic request with the configured transport.
async fn own(hub: &Hub, link: &Link) -> Option<Probe> {
    match link.transport {
        Transport::StreamableHttp => post(hub, link).await,
        Transport::Sse => get(hub, link).await,
    }
}

async fn post(hub: &Hub, link: &Link) -> Option<Probe> {
    let who = hub.introduction();
    let discovered = probe(link, handshake::request(link, "server/discover", "", who.get()).0);
    let discovered = discovered.await?;
    if discovered.found == Found::Mcp {
        return Some(discovered);
    }
    // A server of an older revision may reject any request but a handshake, with a response that is not JSON-RPC.
    let opened = probe(link, handshake::initialize(link, who.get()).0).await;
    let Some(opened) = opened.filter(|opened| opened.found == Found::Mcp) else {
        return Some(discovered);
    };
    if let Some(session) = opened.headers.get(SESSION) {
        let mut request = delete(link, who.get().caller);
        request.headers_mut().insert(SESSION, session.clone());
        _ = link.begin_bare(request).await;
    }
    Some(opened)
}

async fn get(hub: &Hub, link: &Link) -> Option<Probe> {
    let who = hub.introduction();
    probe(link, listen(link, who.get().caller, None)).await
}

async fn probe(link: &Link, request: Request<Full<bytes::Bytes>>) -> Option<Probe> {
    let (parts, body) = link.begin_bare(request).await.ok()?.into_parts();
    let http::response::Parts { status, headers, .. } = parts;
    let found = match MediaType::of(&headers) {
        MediaType::Json => match small(body).await {
            Ok(message) if is_answer(&message) => Found::Mcp,
            _ => Found::Other,
        },
        MediaType::EventStream => {
            let reading = timeout(FIRST_EVENTS, first_event(body)).await;
            reading.ok().flatten().unwrap_or(Found::Other)
        }
        MediaType::Other if is_html(&headers) => Found::Html,
        MediaType::Other => Found::Other,
    };
    Some(Probe { status, headers, found })
}

/// Returns the content of the first event that identifies a transport.
async fn first_event(body: Body) -> Option<Found> {
    let mut events = Events::new(body, MAX_EVENT);
    for _ in 0..MAX_EVENTS {
        let event = events.next().await?.ok()?;
        if event.event.as_deref() == Some(b"endpoint") {
            return Some(Found::Endpoint);
        }
        if is_answer(&event.data) {
            return Some(Found::Mcp);
        }
    }
    None
}

fn is_answer(message: &[u8]) -> bool {
    matches!(scan(message), Ok(Envelope::Response { .. }))
}

fn is_html(headers: &HeaderMap) -> bool {
    let media = headers.get(CONTENT_TYPE).map(http::HeaderValue::as_bytes).unwrap_or_default();
    media.get(..9).is_some_and(|essence| essence.eq_ignore_ascii_case(b"text/html"))
}
