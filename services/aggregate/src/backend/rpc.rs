//! Requests of the gateway itself: one message and one response, both fully buffered.

mod cancel_on_drop;

use bytes::Bytes;
use http::{Extensions, HeaderMap, Request, Response, StatusCode};
use http_body_util::Full;
use vmcp_core::{Body, BoxError, Caller, MediaType, Reservation};
use vmcp_wire::{Envelope, Outcome, ScanError, find, parse_json_string, scan};

use self::cancel_on_drop::CancelOnDrop;
use super::BackendHandle;
use super::collect::{collect, drain_body};
use super::error::BackendError;
use super::event_reader::EventReader;

/// Maximum size of a response to the gateway itself, in bytes.
pub(crate) const MAX_RESPONSE_BYTES: usize = 16 << 20;

/// Code of an error without a valid one, which JSON-RPC does not use.
const NO_CODE: i64 = 0;

/// Response to a request of the gateway.
#[derive(Debug)]
pub(crate) struct RpcResponse {
    pub(crate) headers: HeaderMap,
    /// Extensions that the layers have added to the response.
    pub(crate) extensions: Extensions,
    /// Value of `result`.
    pub(crate) result: Bytes,
    /// Bytes of `result` in the budget of the process, until this response is dropped.
    _reservation: Option<Reservation>,
}

/// Sends `request` with the id `id` and waits for its result.
pub(crate) async fn send_request(
    backend: &BackendHandle,
    request: Request<Full<Bytes>>,
    id: &str,
) -> Result<RpcResponse, BoxError> {
    let scan = |message: &Bytes| scan(message).map(|envelope| (envelope, ()));
    Ok(send_request_parsed(backend, request, id, scan).await?.0)
}

/// Sends `request` like [`send_request`] and also returns the value that `read` extracts from the message.
pub(crate) async fn send_request_parsed<T>(
    backend: &BackendHandle,
    request: Request<Full<Bytes>>,
    id: &str,
    read: impl Fn(&Bytes) -> Result<(Envelope, T), ScanError>,
) -> Result<(RpcResponse, T), BoxError> {
    let mut cancel_on_drop = CancelOnDrop::new(backend, &request, id);
    let answered = answer(backend, request, id, read).await;
    cancel_on_drop.record_outcome(&answered);
    answered
}

async fn answer<T>(
    backend: &BackendHandle,
    request: Request<Full<Bytes>>,
    id: &str,
    read: impl Fn(&Bytes) -> Result<(Envelope, T), ScanError>,
) -> Result<(RpcResponse, T), BoxError> {
    let response = backend.send(request).await?;
    let (parts, body) = response.into_parts();
    let mut reservation = None;
    let (message, found) = match MediaType::of(&parts.headers) {
        MediaType::EventStream => streamed(backend, body, id, &read).await?,
        MediaType::Json => {
            let account = backend.account(&Caller::Gateway, None);
            let collected =
                collect(Bytes::new(), body, MAX_RESPONSE_BYTES, account.as_ref(), |_| true);
            let (message, reserved) = collected.await?;
            reservation = reserved;
            let found = read(&message).ok();
            (message, found)
        }
        MediaType::Other if parts.status.is_success() => {
            return Err(BackendError::ContentType.into());
        }
        MediaType::Other => return Err(status(parts.status).into()),
    };
    match outcome(&message, found, id) {
        Ok((result, found)) => {
            let http::response::Parts { headers, extensions, .. } = parts;
            Ok((RpcResponse { headers, extensions, result, _reservation: reservation }, found))
        }
        // The body is JSON but not a JSON-RPC response, such as a proxy's error document.
        Err(BackendError::Malformed(_)) if !parts.status.is_success() => {
            Err(status(parts.status).into())
        }
        // A server that requires credentials may send a JSON-RPC error as well.
        Err(_) if matches!(parts.status.as_u16(), 401 | 403 | 407) => {
            Err(status(parts.status).into())
        }
        Err(_) if parts.status == StatusCode::NOT_FOUND && sessionless(&message) => {
            Err(BackendError::SessionGone.into())
        }
        Err(failure) => Err(failure.into()),
    }
}

/// Sends a notification or a response; neither has a response.
pub(crate) async fn notify(
    backend: &BackendHandle,
    request: Request<Full<Bytes>>,
) -> Result<(), BoxError> {
    let response: Response<Body> = backend.send(request).await?;
    let code = response.status();
    drain_body(response).await;
    if code.is_success() { Ok(()) } else { Err(status(code).into()) }
}

/// Sends a message like [`notify`]. A failure is logged as `event`, because no caller waits for the outcome.
pub(crate) async fn notify_or_log(
    backend: &BackendHandle,
    request: Request<Full<Bytes>>,
    event: &'static str,
) {
    if let Err(error) = notify(backend, request).await {
        tracing::debug!(backend = backend.name(), %error, "{event}");
    }
}

pub(crate) fn status(code: StatusCode) -> BackendError {
    if code == StatusCode::NOT_FOUND {
        BackendError::SessionGone
    } else {
        BackendError::Status(code)
    }
}

/// Returns the event that contains the response to `id`, with its parsed value. Earlier events are skipped.
async fn streamed<T>(
    backend: &BackendHandle,
    body: Body,
    id: &str,
    read: &impl Fn(&Bytes) -> Result<(Envelope, T), ScanError>,
) -> Result<(Bytes, Option<(Envelope, T)>), BoxError> {
    let account = backend.account(&Caller::Gateway, None);
    let mut events = EventReader::new(body, MAX_RESPONSE_BYTES).charged(account.as_ref());
    while let Some(event) = events.next().await {
        let event = event?;
        let found = read(&event.data).ok();
        let answers = found.as_ref().is_some_and(|(envelope, _)| {
            matches!(envelope, Envelope::Response { id: Some(span), .. } if span.of(&event.data) == id.as_bytes())
        });
        if answers {
            return Ok((event.data, found));
        }
    }
    Err(BackendError::Ended.into())
}

/// Returns the result of `message`, which must be the response to `id`.
fn outcome<T>(
    message: &Bytes,
    found: Option<(Envelope, T)>,
    id: &str,
) -> Result<(Bytes, T), BackendError> {
    let Some((Envelope::Response { id: span, outcome }, found)) = found else {
        return Err(BackendError::Malformed("a body that is not a JSON-RPC response"));
    };
    match outcome {
        Outcome::Error(error) => Err(rpc(error.of(message))),
        Outcome::Result(_) if span.map(|span| span.of(message)) != Some(id.as_bytes()) => {
            Err(BackendError::Malformed("the response to another request"))
        }
        Outcome::Result(result) => Ok((result.slice(message), found)),
    }
}

/// Converts a JSON-RPC error object.
pub(crate) fn rpc(error: &[u8]) -> BackendError {
    let code = find(error, "code").and_then(|code| std::str::from_utf8(code).ok()?.parse().ok());
    let message = find(error, "message").and_then(parse_json_string);
    let message = message.map_or_else(String::new, |text| text.chars().take(200).collect());
    BackendError::Rpc { code: code.unwrap_or(NO_CODE), message }
}

/// Returns `true` if the body of a 404 reports another error than a missing session. Unknown methods may yield 404 too.
fn sessionless(message: &[u8]) -> bool {
    find(message, "error").and_then(|error| find(error, "code")) != Some(b"-32601")
}

/// Returns `true` if an error response means that the session is unknown. Revision 2025-11-25 requires 404, to which servers add
/// errors of their own, also under the request's id; some respond with 400 and an error without a request id.
pub(crate) fn is_session_unknown_error(code: StatusCode, body: &[u8]) -> bool {
    let (id, error) = match scan(body) {
        Ok(Envelope::Response { id, outcome: Outcome::Error(error) }) => (id, error.of(body)),
        Ok(_) => return false,
        Err(_) => return code == StatusCode::NOT_FOUND,
    };
    let number = find(error, "code");
    // Errors of the request itself, which some servers send with 404 too: unknown method, invalid parameters, unknown resource.
    let is_of_request = id.is_some() && matches!(number, Some(b"-32601" | b"-32602" | b"-32002"));
    match code {
        StatusCode::NOT_FOUND => !is_of_request,
        _ => id.is_none() && number == Some(b"-32000"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_session_has_404_and_any_error() {
        let error = |id: &str, code: i32| {
            format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":"m"}}}}"#)
        };
        let is_unknown = |code, body: &str| is_session_unknown_error(code, body.as_bytes());
        let (missing, bad) = (StatusCode::NOT_FOUND, StatusCode::BAD_REQUEST);
        for body in [
            String::new(),
            "not found".to_owned(),
            error("null", -32601),
            error("7", -32001),
            error("\"server-error\"", -32600),
        ] {
            assert!(is_unknown(missing, &body), "{body}");
        }
        for code in [-32601, -32602, -32002] {
            assert!(!is_unknown(missing, &error("7", code)), "{code}");
        }
        assert!(!is_unknown(missing, r#"{"jsonrpc":"2.0","id":7,"result":{}}"#));
        assert!(is_unknown(bad, &error("null", -32000)));
        assert!(!is_unknown(bad, &error("7", -32000)));
        assert!(!is_unknown(bad, ""));
    }
}
