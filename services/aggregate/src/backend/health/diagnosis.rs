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

use crate::backend::collect::read_error_body;
use crate::backend::context::BackendContext;
use crate::backend::error::BackendError;
use crate::backend::event_reader::EventReader;
use crate::backend::request::{SESSION, delete, listen};
use crate::backend::{BackendHandle, handshake};
use crate::settings::Transport;

/// Timeout for the whole diagnosis. Requests that wait for the first attempt wait for this too, at most 5 s in all.
const DIAGNOSIS_TIMEOUT: Duration = Duration::from_secs(3);

/// Timeout for the first events of a stream, which may be silent for good reason.
const FIRST_EVENT_TIMEOUT: Duration = Duration::from_secs(1);

/// Maximum number of events read from a stream.
const MAX_EVENTS: usize = 16;

/// Maximum size of an event, in bytes.
const MAX_EVENT_BYTES: usize = 64 << 10;

/// Kind of failure that can be diagnosed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SuspectedCause {
    Credentials,
    Endpoint,
}

/// Response of the backend to one diagnostic request.
struct ProbeResponse {
    status: StatusCode,
    headers: HeaderMap,
    found: ResponseKind,
}

/// Content of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ResponseKind {
    /// A JSON-RPC response.
    Mcp,
    /// The first event of an HTTP+SSE stream.
    Endpoint,
    Html,
    Other,
}

/// Returns the suggested configuration change after `error`, if the backend's behavior indicates one.
pub(crate) async fn remedy(
    context: &BackendContext,
    backend: &BackendHandle,
    error: &BoxError,
) -> Option<String> {
    let suspect = suspect(backend.transport, error)?;
    let finding = async {
        match suspect {
            SuspectedCause::Credentials => {
                let probe = own(context, backend).await?;
                backend.advice().of(probe.headers).await
            }
            SuspectedCause::Endpoint => endpoint(context, backend).await,
        }
    };
    timeout(DIAGNOSIS_TIMEOUT, finding).await.ok().flatten()
}

fn suspect(transport: Transport, error: &BoxError) -> Option<SuspectedCause> {
    let error: &(dyn std::error::Error + 'static) = error.as_ref();
    match cause_ref::<BackendError>(error) {
        // The stream does not name an endpoint.
        None if transport == Transport::Sse && cause_ref::<Elapsed>(error).is_some() => {
            Some(SuspectedCause::Endpoint)
        }
        Some(BackendError::Status(status)) => match status.as_u16() {
            401 | 403 | 407 => Some(SuspectedCause::Credentials),
            408 | 429 => None,
            400..=499 => Some(SuspectedCause::Endpoint),
            _ => None,
        },
        Some(
            BackendError::SessionGone
            | BackendError::ContentType
            | BackendError::Malformed(_)
            | BackendError::Ended
            | BackendError::Handshake { .. }
            | BackendError::Generation,
        ) => Some(SuspectedCause::Endpoint),
        None
        | Some(
            BackendError::Rpc { .. }
            | BackendError::TooLarge { .. }
            | BackendError::StepOutput
            | BackendError::NoRoom
            | BackendError::Offer(_)
            | BackendError::Revision
            | BackendError::Busy
            | BackendError::Cancelled
            | BackendError::ServerRequest(_)
            | BackendError::Detached { .. }
            | BackendError::Capability(_)
            | BackendError::Task(_),
        ) => None,
    }
}

async fn endpoint(context: &BackendContext, backend: &BackendHandle) -> Option<String> {
    let own = own(context, backend).await?;
    let (modes, other) = match backend.transport {
        Transport::StreamableHttp => (ResponseKind::Mcp, ResponseKind::Endpoint),
        Transport::Sse => (ResponseKind::Endpoint, ResponseKind::Mcp),
    };
    if own.found == modes || own.status.is_server_error() {
        // Transport and path are correct.
        return None;
    }
    // A server without GET support may reject it with a JSON-RPC error, which shows that the path is correct.
    let turned = match backend.transport {
        Transport::StreamableHttp => get(context, backend).await,
        Transport::Sse => post(context, backend).await,
    };
    if turned.is_some_and(|turned| turned.found == other) {
        let remedy = match backend.transport {
            Transport::StreamableHttp => "the server uses HTTP+SSE: set transport: sse",
            Transport::Sse => "the server uses streamable HTTP: set transport: streamable-http",
        };
        return Some(remedy.to_owned());
    }
    Some(format!("{}; {}", answers(&own), path(backend)))
}

/// Describes the server's response for the operator.
fn answers(probe: &ProbeResponse) -> String {
    let ProbeResponse { status, headers: _, found } = probe;
    match found {
        ResponseKind::Html => "the server returns an HTML page".to_owned(),
        _ if status.is_success() => "the server returns no MCP messages".to_owned(),
        _ => format!("the server returns HTTP {}", status.as_u16()),
    }
}

/// Describes the configured path for the operator.
fn path(backend: &BackendHandle) -> String {
    let usual = match backend.transport {
        Transport::StreamableHttp => "/mcp",
        Transport::Sse => "/sse",
    };
    if backend.uri.path().trim_end_matches('/').ends_with(usual) {
        "check host, port and path of the URL".to_owned()
    } else {
        format!("the MCP endpoint is probably {usual}: check the path of the URL")
    }
}

/// Sends a diagnostic request with the configured transport.
async fn own(context: &BackendContext, backend: &BackendHandle) -> Option<ProbeResponse> {
    match backend.transport {
        Transport::StreamableHttp => post(context, backend).await,
        Transport::Sse => get(context, backend).await,
    }
}

async fn post(context: &BackendContext, backend: &BackendHandle) -> Option<ProbeResponse> {
    let client_info = context.client_info();
    let discovered =
        probe(backend, handshake::request(backend, "server/discover", "", client_info.get()).0);
    let discovered = discovered.await?;
    if discovered.found == ResponseKind::Mcp {
        return Some(discovered);
    }
    // A server of an older revision may reject any request but a handshake, with a response that is not JSON-RPC.
    let opened = probe(backend, handshake::initialize(backend, client_info.get()).0).await;
    let Some(opened) = opened.filter(|opened| opened.found == ResponseKind::Mcp) else {
        return Some(discovered);
    };
    if let Some(session) = opened.headers.get(SESSION) {
        let mut request = delete(backend, client_info.get().caller);
        request.headers_mut().insert(SESSION, session.clone());
        if let Err(error) = backend.begin_bare(request).await {
            tracing::debug!(backend = backend.name(), %error, "failed to close a session at a backend");
        }
    }
    Some(opened)
}

async fn get(context: &BackendContext, backend: &BackendHandle) -> Option<ProbeResponse> {
    let client_info = context.client_info();
    probe(backend, listen(backend, client_info.get().caller, None)).await
}

async fn probe(
    backend: &BackendHandle,
    request: Request<Full<bytes::Bytes>>,
) -> Option<ProbeResponse> {
    let (parts, body) = backend.begin_bare(request).await.ok()?.into_parts();
    let http::response::Parts { status, headers, .. } = parts;
    let found = match MediaType::of(&headers) {
        MediaType::Json => match read_error_body(body).await {
            Ok(message) if is_answer(&message) => ResponseKind::Mcp,
            _ => ResponseKind::Other,
        },
        MediaType::EventStream => {
            let reading = timeout(FIRST_EVENT_TIMEOUT, first_event(body)).await;
            reading.ok().flatten().unwrap_or(ResponseKind::Other)
        }
        MediaType::Other if is_html(&headers) => ResponseKind::Html,
        MediaType::Other => ResponseKind::Other,
    };
    Some(ProbeResponse { status, headers, found })
}

/// Returns the content of the first event that identifies a transport.
async fn first_event(body: Body) -> Option<ResponseKind> {
    let mut events = EventReader::new(body, MAX_EVENT_BYTES);
    for _ in 0..MAX_EVENTS {
        let event = events.next().await?.ok()?;
        if event.event.as_deref() == Some(b"endpoint") {
            return Some(ResponseKind::Endpoint);
        }
        if is_answer(&event.data) {
            return Some(ResponseKind::Mcp);
        }
    }
    None
}

fn is_answer(message: &[u8]) -> bool {
    matches!(scan(message), Ok(Envelope::Response { .. }))
}

fn is_html(headers: &HeaderMap) -> bool {
    let media = headers.get(CONTENT_TYPE).map(http::HeaderValue::as_bytes);
    media
        .and_then(|media| media.get(..9))
        .is_some_and(|essence| essence.eq_ignore_ascii_case(b"text/html"))
}
