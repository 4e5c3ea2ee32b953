//! Forwarding of a backend's response: the head is buffered to identify the response, the rest is streamed.

mod buffer;
mod error_code;
mod http_status;
mod prefixed_body;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use http_body::Body as _;
use http_body_util::BodyExt;
use vmcp_core::{Body, BoxError, Generation, RequestContext, cause_ref, code};
use vmcp_wire::{
    Envelope, MessagePrefix, Outcome, PrefixOutcome, Span, Splice, find, scan, scan_prefix,
};

pub(crate) use self::buffer::{ReservationHolder, ResponseBuffer};
pub(crate) use self::error_code::{error_code, record_error};
use self::http_status::outgoing;
pub(crate) use self::http_status::status_of;
use self::prefixed_body::{BufferedPrefix, PrefixedBody};
use crate::backend::error::BackendError;

/// Number of bytes buffered to identify a response.
const PREFIX_BYTES: usize = 16 << 10;

/// Expected response and the client it is for.
#[derive(Clone, Debug)]
pub(crate) struct ExpectedResponse {
    /// Request id sent to the backend, as JSON.
    pub(crate) id: Bytes,
    /// Request id sent by the client, as JSON.
    pub(crate) client_id: Bytes,
    pub(crate) client: Generation,
    pub(crate) backend: Generation,
    /// `true` for lists and resources, whose results declare a freshness lifetime.
    pub(crate) cacheable: bool,
    pub(crate) buffered_results: BufferedResults,
    /// Maximum number of buffered bytes.
    pub(crate) most: usize,
    /// Record of the request, which receives the error code.
    pub(crate) request_context: Option<RequestContext>,
}

/// Results that are returned as a whole message instead of being streamed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BufferedResults {
    None,
    Continuations,
    All,
}

/// Result after which the request continues (2026-07-28).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Continuation {
    /// The backend needs input.
    InputRequired,
    /// The backend continues as a task.
    Task,
}

/// Outcome of adapting a response.
#[derive(Debug)]
pub(crate) enum AdaptedResponse {
    /// Response that is ready for the client.
    Ready(Response<Body>),
    /// The backend needs input (2026-07-28): the whole message.
    InputRequired(Bytes),
    /// The backend has created a task for the call (`io.modelcontextprotocol/tasks`): the whole message.
    Task(Bytes),
    /// Another result, with [`BufferedResults::All`]: the whole message.
    Whole(Bytes),
}

impl ExpectedResponse {
    fn record_error(&self, found: &MessagePrefix) {
        if let (Some(request_context), Some(code)) = (&self.request_context, error_code(found)) {
            request_context.record_error(code);
        }
    }

    /// Returns `true` if the response can be forwarded unchanged.
    fn untouched(&self) -> bool {
        // Additional members of a stateless server's result do not affect a stateful client.
        let enough = self.client == self.backend || self.client == Generation::Stateful;
        enough && self.id == self.client_id
    }
}

/// Adapts a JSON response.
pub(crate) async fn json(
    status: StatusCode,
    body: Body,
    expected: &ExpectedResponse,
    room: ResponseBuffer<'_>,
) -> Result<AdaptedResponse, BoxError> {
    json_within(status, body, expected, room, |_| true).await
}

/// Adapts a JSON response like [`json`], with a limit on buffered bytes given by `may_buffer`.
pub(crate) async fn json_within(
    status: StatusCode,
    body: Body,
    expected: &ExpectedResponse,
    room: ResponseBuffer<'_>,
    may_buffer: impl Fn(usize) -> bool,
) -> Result<AdaptedResponse, BoxError> {
    or_status(status, read(status, body, expected, room, may_buffer).await)
}

/// Adapts a complete response.
pub(crate) fn whole(
    status: StatusCode,
    message: Bytes,
    expected: &ExpectedResponse,
) -> Result<AdaptedResponse, BoxError> {
    or_status(status, shaped(status, message, expected))
}

/// Adapts a response that arrived as an event: its HTTP status follows from its error.
pub(crate) fn event(
    message: Bytes,
    expected: &ExpectedResponse,
) -> Result<AdaptedResponse, BoxError> {
    let code = scan_prefix(&message).ok().as_ref().and_then(error_code);
    let mut shaped = whole(StatusCode::OK, message, expected)?;
    if let (AdaptedResponse::Ready(response), Some(code)) = (&mut shaped, code) {
        *response.status_mut() = i32::try_from(code).map_or(StatusCode::OK, status_of);
    }
    Ok(shaped)
}

/// Replaces an error in the body by the HTTP status. A server that requires credentials need not respond with JSON-RPC: an
/// OAuth error or an empty body is permitted too (RFC 6750 section 3). A proxy may have its own error document.
fn or_status(
    status: StatusCode,
    shaped: Result<AdaptedResponse, BoxError>,
) -> Result<AdaptedResponse, BoxError> {
    match shaped {
        Err(_) if matches!(status.as_u16(), 401 | 403 | 407) => {
            Err(BackendError::Status(status).into())
        }
        Err(error)
            if status.is_server_error()
                && matches!(
                    cause_ref(error.as_ref()),
                    Some(BackendError::Malformed(_) | BackendError::Ended)
                ) =>
        {
            Err(BackendError::Status(status).into())
        }
        shaped => shaped,
    }
}

async fn read(
    status: StatusCode,
    mut body: Body,
    expected: &ExpectedResponse,
    room: ResponseBuffer<'_>,
    may_buffer: impl Fn(usize) -> bool,
) -> Result<AdaptedResponse, BoxError> {
    let mut prefix = BufferedPrefix::default();
    loop {
        let ended = match body.frame().await {
            Some(frame) => {
                if let Ok(data) = frame?.into_data() {
                    prefix.push(data);
                }
                body.is_end_stream()
            }
            None => true,
        };
        if ended {
            return shaped(status, prefix.take(), expected);
        }
        // Shorter responses are fully buffered, so a truncated one becomes an error; longer ones have to be buffered anyway.
        if expected.untouched() && (PREFIX_BYTES..=4 * PREFIX_BYTES).contains(&prefix.bytes().len())
        {
            let found = scan_prefix(prefix.bytes()).map_err(BackendError::unreadable)?;
            if passes(&found, prefix.bytes(), expected) {
                check(&found, prefix.bytes(), expected)?;
                let status = outgoing(status, &found, expected);
                let body = Body::wrap(PrefixedBody::new(prefix.take(), body));
                return Ok(AdaptedResponse::Ready(response(status, body)));
            }
        }
        if !may_buffer(prefix.bytes().len()) {
            return Err(BackendError::RESPONSE_OVER_BUFFER.into());
        }
        if prefix.bytes().len() > expected.most.min(4 * PREFIX_BYTES) {
            // Boxed: few responses are this large.
            let rest = Box::pin(room.collect(prefix.take(), body, expected.most, may_buffer));
            return shaped(status, rest.await?, expected);
        }
    }
}

fn shaped(
    status: StatusCode,
    message: Bytes,
    expected: &ExpectedResponse,
) -> Result<AdaptedResponse, BoxError> {
    let found = scan_prefix(&message).map_err(BackendError::unreadable)?;
    if !found.complete {
        return Err(BackendError::Ended.into());
    }
    let anonymous = found.id.is_none_or(|id| id.of(&message) == b"null");
    if expected.backend == Generation::Stateless && anonymous && status.is_client_error() {
        // An error without a request id: the server requires a session.
        return Err(BackendError::Generation.into());
    }
    check(&found, &message, expected)?;
    match continuation(&found, &message, expected) {
        _ if expected.buffered_results == BufferedResults::All && is_result(&found) => {
            return Ok(AdaptedResponse::Whole(message));
        }
        Some(Continuation::InputRequired) => return Ok(AdaptedResponse::InputRequired(message)),
        Some(Continuation::Task) => return Ok(AdaptedResponse::Task(message)),
        None => {}
    }
    let status = outgoing(status, &found, expected);
    Ok(AdaptedResponse::Ready(response(status, translated_body(message, &found, expected)?)))
}

/// Returns the continuation if the backend has not completed the request and the result is not to be forwarded.
pub(crate) fn continuation(
    found: &MessagePrefix,
    message: &[u8],
    expected: &ExpectedResponse,
) -> Option<Continuation> {
    if expected.buffered_results == BufferedResults::None
        || expected.backend != Generation::Stateless
    {
        return None;
    }
    let kind = found.result_type?;
    if kind.is(message, "input_required") {
        return Some(Continuation::InputRequired);
    }
    kind.is(message, "task").then_some(Continuation::Task)
}

fn is_result(found: &MessagePrefix) -> bool {
    matches!(found.outcome, Some(PrefixOutcome::Result { .. }))
}

/// Translates the message to the client's generation and request id.
pub(crate) fn translate(
    message: Bytes,
    found: &MessagePrefix,
    expected: &ExpectedResponse,
) -> Result<Bytes, BoxError> {
    let edited = edit(&message, found, expected)?;
    Ok(edited.map(Splice::finish).unwrap_or(message))
}

/// Translates the message into a body. A long message is not copied, so its reserved bytes stay the only copy.
fn translated_body(
    message: Bytes,
    found: &MessagePrefix,
    expected: &ExpectedResponse,
) -> Result<Body, BoxError> {
    if message.len() <= 4 * PREFIX_BYTES {
        return translate(message, found, expected).map(Body::from);
    }
    let edited = edit(&message, found, expected)?.map(|splice| splice.pieces(&message));
    Ok(edited.map_or_else(|| Body::from(message), Body::chain))
}

/// Returns the edits for the client's generation and request id; `None` if the message stays unchanged.
fn edit<'a>(
    message: &'a Bytes,
    found: &MessagePrefix,
    expected: &'a ExpectedResponse,
) -> Result<Option<Splice<'a>>, BoxError> {
    expected.record_error(found);
    let anonymous = found.id.is_none_or(|id| id.of(message) == b"null");
    if expected.untouched() && !anonymous {
        return Ok(None);
    }
    let Ok(Envelope::Response { outcome, .. }) = scan(message) else {
        return Err(BackendError::Malformed("a body that is not a JSON-RPC response").into());
    };
    let whole = Span::whole(message);
    let mut splice = Splice::new(message);
    match found.id {
        Some(id) => splice.replace(id, expected.client_id.to_vec()),
        None => splice.set_member(whole, "id", &expected.client_id),
    };
    if expected.client == Generation::Stateless && expected.backend == Generation::Stateful {
        match outcome {
            Outcome::Result(result) => {
                splice.set_member(result, "resultType", b"\"complete\"");
                if expected.cacheable {
                    splice.set_member(result, "ttlMs", b"0");
                    splice.set_member(result, "cacheScope", b"\"private\"");
                }
            }
            Outcome::Error(error) => {
                // This error has a different code in the other generation.
                if error_code(found) == Some(i64::from(code::RESOURCE_NOT_FOUND)) {
                    splice.set_member(error, "code", b"-32602");
                }
            }
        }
    }
    Ok(Some(splice))
}

/// Returns `true` if the rest can be streamed without being parsed.
fn passes(found: &MessagePrefix, message: &[u8], expected: &ExpectedResponse) -> bool {
    if expected.buffered_results == BufferedResults::All || !expected.untouched() {
        return false;
    }
    let known = is_result(found) && (found.id.is_some() || message.len() >= PREFIX_BYTES);
    if expected.buffered_results == BufferedResults::Continuations
        && expected.backend == Generation::Stateless
    {
        // Buffer a possible continuation until its result type is known, and an actual one completely, to seal it.
        let is_typed = found.result_type.is_some();
        return known && is_typed && continuation(found, message, expected).is_none();
    }
    known
}

/// Rejects messages that are not the response to the request.
fn check(
    found: &MessagePrefix,
    message: &[u8],
    expected: &ExpectedResponse,
) -> Result<(), BoxError> {
    if found.method.is_some() {
        return Err(BackendError::Malformed("a request instead of a response").into());
    }
    let right = found.id.is_none_or(|id| id.of(message) == expected.id);
    match found.outcome {
        Some(PrefixOutcome::Result { is_object: false, .. }) => {
            Err(BackendError::Malformed("a result that is not an object").into())
        }
        Some(PrefixOutcome::Error { start, code })
            if found.complete && !is_error(message, start, code) =>
        {
            Err(BackendError::Malformed("an error without a code and a message").into())
        }
        None => Err(BackendError::Malformed("a body that is not a JSON-RPC response").into()),
        Some(PrefixOutcome::Result { .. }) if found.id.is_some() && right => Ok(()),
        Some(PrefixOutcome::Result { .. }) if found.id.is_none() && !found.complete => Ok(()),
        // The error may precede the id.
        Some(PrefixOutcome::Error { .. })
            if right || found.id.is_some_and(|id| id.of(message) == b"null") =>
        {
            Ok(())
        }
        Some(_) => Err(BackendError::Malformed("the response to another request").into()),
    }
}

/// Returns `true` if the error at `start` has the mandatory members (JSON-RPC 2.0, section 5.1). Clients ignore responses with
/// an incomplete error and keep waiting.
fn is_error(message: &[u8], start: u32, code: Option<i64>) -> bool {
    let error = &message[start as usize..];
    code.is_some() && find(error, "message").is_some_and(|text| text.starts_with(b"\""))
}

pub(crate) fn response(status: StatusCode, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// Builds a response of the gateway itself.
pub(crate) fn result(id: &[u8], result: &[u8]) -> Response<Body> {
    let message =
        [&b"{\"jsonrpc\":\"2.0\",\"id\":"[..], id, b",\"result\":", result, b"}"].concat();
    response(StatusCode::OK, Body::from(Bytes::from(message)))
}

#[cfg(test)]
mod tests;
