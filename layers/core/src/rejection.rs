//! Rejection of a message. The text names the party at fault and what to change.
//!
//! | Rejection | HTTP | JSON-RPC |
//! |---|---|---|
//! | [`Rejection::malformed`] | 400 | -32700 or -32600 |
//! | [`Rejection::invalid_params`], [`Rejection::not_found`] | 400, 200 for stateful clients | -32602 |
//! | [`Rejection::method_not_found`] | 404, 200 for stateful clients | -32601 |
//! | [`Rejection::header_mismatch`] | 400 | -32020 |
//! | [`Rejection::missing_capability`] | 400 | -32021 |
//! | [`Rejection::unsupported_revision`] | 400 | -32022 |
//! | [`Rejection::session_not_found`] | 404 | -32001 |
//! | [`Rejection::host_not_allowed`] | 403 | -32600 |
//! | [`Rejection::not_acceptable`], [`Rejection::unsupported_media_type`] | 406, 415 | -32600 |
//! | [`Rejection::too_large`], [`Rejection::request_timeout`] | 413, 408 | -32600 |
//! | [`Rejection::overloaded`] | 503 and `Retry-After` | -32603 |
//! | [`Rejection::backend_unavailable`], [`Rejection::backend_outcome_unknown`] | 200 | -32603 |
//! | [`Rejection::circuit_open`], [`Rejection::credentials_unavailable`] | 200 | -32603 |
//! | [`Rejection::reauthentication_required`] | 401 | -32603 |
//! | [`Rejection::token_required`], [`Rejection::token_expired`] | 401 | -32600 |
//! | [`Rejection::forbidden`], [`Rejection::insufficient_scope`] | 403 | 403 |
//! | [`Rejection::internal`] | 500 | -32603 |
//!
//! A failure of a backend is a JSON-RPC error in a 200: common clients take a 4xx or 5xx as the end
//! of their connection or session.

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::{Response, StatusCode};
use vmcp_wire::write_json_string;

use crate::caller_permissions::truncate_name;
use crate::mcp::{STATELESS, code};

/// Rejection of a message.
///
/// It is rendered as a JSON-RPC error response, and stays in the response's extensions for audit and telemetry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    status: StatusCode,
    code: i32,
    message: Cow<'static, str>,
    data: Option<Bytes>,
    retry_after: Option<u32>,
    layer: &'static str,
    /// Boxed: few rejections have one, and rejections are moved through many results.
    challenge: Option<Box<Challenge>>,
}

/// OAuth challenge to the client (RFC 6750 section 3). The rejecting layer names it; the authentication layer, which knows
/// the resource's metadata, writes the `WWW-Authenticate` header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Challenge {
    /// `invalid_token`: get another one, by logging in again.
    InvalidToken,
    /// `insufficient_scope`: get one with all of these scopes.
    InsufficientScope(Vec<Box<str>>),
}

impl Rejection {
    /// Creates a rejection that has no constructor of its own. Prefer the named ones.
    #[must_use]
    pub fn new(status: StatusCode, code: i32, message: impl Into<Cow<'static, str>>) -> Self {
        Self {
            status,
            code,
            message: message.into(),
            data: None,
            retry_after: None,
            layer: "aggregate",
            challenge: None,
        }
    }

    /// Sets the layer that rejects, for the log: `aggregate` unless set. Clients do not see it.
    #[must_use]
    pub fn with_layer(mut self, layer: &'static str) -> Self {
        self.layer = layer;
        self
    }

    /// Returns the layer that rejected the message.
    #[must_use]
    pub fn layer(&self) -> &'static str {
        self.layer
    }

    /// Rejects a body that is not a JSON-RPC message. `code` is -32700 or -32600.
    #[must_use]
    pub fn malformed(code: i32, message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, message).with_layer("decode")
    }

    /// Rejects parameters that do not fit the method.
    #[must_use]
    pub fn invalid_params(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code::INVALID_PARAMS, message)
    }

    /// Rejects the name of a tool, prompt or resource that does not exist or is hidden from the caller: the response is the
    /// same. It contains the first 256 characters of the name.
    #[must_use]
    pub fn not_found(kind: &str, name: &str) -> Self {
        Self::invalid_params(format!("unknown {kind}: {}", truncate_name(name)))
    }

    /// Rejects a method that this generation of the protocol does not have.
    #[must_use]
    pub fn method_not_found(method: &str) -> Self {
        let method: String = method.chars().take(64).collect();
        let message = format!("method not found: {method}");
        Self::new(StatusCode::NOT_FOUND, code::METHOD_NOT_FOUND, message)
    }

    /// Rejects a header that is missing or contradicts the body.
    #[must_use]
    pub fn header_mismatch(header: &str, problem: &str) -> Self {
        let message = format!("{header} {problem}");
        let mut data = b"{\"header\":".to_vec();
        write_json_string(header, &mut data);
        data.push(b'}');
        Self::new(StatusCode::BAD_REQUEST, code::HEADER_MISMATCH, message)
            .with_data(data)
            .with_layer("decode")
    }

    /// Rejects a request that needs capabilities which the client did not declare; `required` is their JSON object.
    #[must_use]
    pub fn missing_capability(required: &str, message: impl Into<Cow<'static, str>>) -> Self {
        let data = format!("{{\"requiredCapabilities\":{required}}}");
        Self::new(StatusCode::BAD_REQUEST, code::MISSING_CAPABILITY, message)
            .with_data(data.into_bytes())
    }

    /// Rejects an unsupported protocol revision. The data lists the supported ones.
    #[must_use]
    pub fn unsupported_revision(requested: &str) -> Self {
        let requested: String = requested.chars().take(64).collect();
        let mut data = format!("{{\"supported\":[\"{STATELESS}\"").into_bytes();
        for revision in crate::mcp::STATEFUL {
            data.push(b',');
            write_json_string(revision, &mut data);
        }
        data.extend_from_slice(b"],\"requested\":");
        write_json_string(&requested, &mut data);
        data.push(b'}');
        let message = format!("unsupported protocol version {requested}");
        Self::new(StatusCode::BAD_REQUEST, code::UNSUPPORTED_REVISION, message).with_data(data)
    }

    /// Rejects a session that is unknown, has ended, or belongs to another caller: the response is the same.
    #[must_use]
    pub fn session_not_found() -> Self {
        let message = "session not found: initialize again";
        Self::new(StatusCode::NOT_FOUND, code::SESSION, message)
    }

    /// Rejects a Host or Origin that this server does not serve.
    #[must_use]
    pub fn host_not_allowed(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::FORBIDDEN, code::INVALID_REQUEST, message).with_layer("hosts")
    }

    /// Rejects an `Accept` header that excludes every form of the response.
    #[must_use]
    pub fn not_acceptable(message: &'static str) -> Self {
        Self::new(StatusCode::NOT_ACCEPTABLE, code::INVALID_REQUEST, message).with_layer("decode")
    }

    /// Rejects a body that is not `application/json`.
    #[must_use]
    pub fn unsupported_media_type() -> Self {
        let message = "send Content-Type: application/json";
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, code::INVALID_REQUEST, message)
            .with_layer("decode")
    }

    /// Rejects a body over the limit, which is in bytes.
    #[must_use]
    pub fn too_large(limit: usize) -> Self {
        let message = format!("the message is larger than {limit} bytes");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, code::INVALID_REQUEST, message)
            .with_layer("decode")
    }

    /// Rejects a body that did not arrive in time.
    #[must_use]
    pub fn request_timeout() -> Self {
        let message = "the message did not arrive in time";
        Self::new(StatusCode::REQUEST_TIMEOUT, code::INVALID_REQUEST, message).with_layer("decode")
    }

    /// Rejects a request over a limit of the server. A retry after `seconds` may succeed.
    #[must_use]
    pub fn overloaded(message: impl Into<Cow<'static, str>>, seconds: u32) -> Self {
        let rejection = Self::new(StatusCode::SERVICE_UNAVAILABLE, code::INTERNAL, message);
        let mut rejection = rejection.with_layer("limits");
        rejection.retry_after = Some(seconds);
        rejection
    }

    /// Reports a backend that could not be reached, closed the connection or did not respond in time. A retry may succeed.
    #[must_use]
    pub fn backend_unavailable(backend: &str, problem: &str) -> Self {
        let message = format!("backend {backend} {problem}");
        Self::new(StatusCode::OK, code::INTERNAL, message)
            .with_data(backend_error_data(backend, true))
            .with_layer("backend")
    }

    /// Reports a backend that did not respond to a request that it may have acted on. A retry may act twice.
    #[must_use]
    pub fn backend_outcome_unknown(backend: &str, problem: &str) -> Self {
        let message = format!(
            "backend {backend} {problem}: it may have acted on the request, check before trying again"
        );
        Self::new(StatusCode::OK, code::INTERNAL, message)
            .with_data(backend_error_data(backend, false))
            .with_layer("backend")
    }

    /// Reports a backend that rejects the gateway's credentials. A retry does not help: the operator has to change them.
    #[must_use]
    pub fn backend_unauthorized(backend: &str, problem: &str) -> Self {
        let message =
            format!("backend {backend} {problem}: it rejected the credentials of the request");
        Self::new(StatusCode::OK, code::INTERNAL, message)
            .with_data(backend_error_data(backend, false))
            .with_layer("backend")
    }

    /// Reports a backend whose circuit is open. A retry after `wait` may succeed.
    #[must_use]
    pub fn circuit_open(backend: &str, wait: Duration) -> Self {
        let seconds = wait.as_secs_f64().ceil().max(1.0);
        let message =
            format!("backend {backend} is unavailable: circuit open, retry in {seconds} s");
        let mut data = backend_error_data(backend, true);
        data.pop();
        data.extend_from_slice(format!(",\"retryAfterSeconds\":{seconds}}}").as_bytes());
        Self::new(StatusCode::OK, code::INTERNAL, message).with_data(data).with_layer("breaker")
    }

    /// Reports a backend whose credentials are unavailable. `problem` names the party that can change that.
    #[must_use]
    pub fn credentials_unavailable(backend: &str, problem: &str, retry: bool) -> Self {
        let message = format!("no credentials for backend {backend}: {problem}");
        Self::new(StatusCode::OK, code::INTERNAL, message)
            .with_data(backend_error_data(backend, retry))
            .with_layer("credentials")
    }

    /// Reports a backend that needs a token which the caller gets by logging in again.
    #[must_use]
    pub fn reauthentication_required(backend: &str) -> Self {
        let problem = "the login that gave them has ended: log in again";
        let mut rejection = Self::credentials_unavailable(backend, problem, false);
        rejection.status = StatusCode::UNAUTHORIZED;
        rejection.challenge = Some(Box::new(Challenge::InvalidToken));
        rejection
    }

    /// Rejects a caller without a token (RFC 6750 section 3).
    #[must_use]
    pub fn token_required() -> Self {
        Self::unauthenticated("a token is required: log in")
    }

    /// Rejects a caller whose token expired or was revoked during the request (RFC 6750 section 3.1, `invalid_token`).
    #[must_use]
    pub fn token_expired() -> Self {
        Self::unauthenticated("the token expired or was revoked during the request: use a new one")
    }

    fn unauthenticated(message: &'static str) -> Self {
        let rejection = Self::new(StatusCode::UNAUTHORIZED, code::INVALID_REQUEST, message);
        let challenge = Some(Box::new(Challenge::InvalidToken));
        Self { layer: "authentication", challenge, ..rejection }
    }

    /// Rejects the use of an item that the caller may know of.
    #[must_use]
    pub fn forbidden() -> Self {
        Self::new(StatusCode::FORBIDDEN, code::FORBIDDEN, "denied by authorization policy")
            .with_layer("authorization")
    }

    /// Rejects a token that lacks scopes.
    #[must_use]
    pub fn insufficient_scope(scopes: Vec<Box<str>>) -> Self {
        let message = format!("the token needs the scopes {}", scopes.join(" "));
        let rejection = Self::new(StatusCode::FORBIDDEN, code::FORBIDDEN, message);
        let mut rejection = rejection.with_layer("authorization");
        rejection.challenge = Some(Box::new(Challenge::InsufficientScope(scopes)));
        rejection
    }

    /// Reports an error of the gateway. Details are in its log only.
    #[must_use]
    pub fn internal() -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, code::INTERNAL, "internal error")
    }

    /// Appends a detail to the message for the client.
    #[must_use]
    pub fn with_detail(mut self, detail: &str) -> Self {
        self.message = format!("{}: {detail}", self.message).into();
        self
    }

    /// Adds the `data` member of the JSON-RPC error, which must be JSON.
    #[must_use]
    pub fn with_data(mut self, data: Vec<u8>) -> Self {
        self.data = Some(data.into());
        self
    }

    /// Changes the status to 200 for JSON-RPC errors about the content of the message, as stateful clients take a 4xx as the
    /// end of the session.
    #[must_use]
    pub fn for_stateful_client(mut self) -> Self {
        let is_about_content = matches!(self.code, code::METHOD_NOT_FOUND | code::INVALID_PARAMS);
        if is_about_content {
            self.status = StatusCode::OK;
        }
        self
    }

    /// Returns the OAuth challenge.
    #[must_use]
    pub fn challenge(&self) -> Option<&Challenge> {
        self.challenge.as_deref()
    }

    /// Returns the HTTP status.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// Returns the JSON-RPC error code.
    #[must_use]
    pub fn code(&self) -> i32 {
        self.code
    }

    /// Returns the message for the client.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns the JSON-RPC error response. Without an id the member is left out, never null.
    #[must_use]
    pub fn to_json(&self, id: Option<&[u8]>) -> Bytes {
        let mut out = Vec::with_capacity(128);
        out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",");
        if let Some(id) = id {
            out.extend_from_slice(b"\"id\":");
            out.extend_from_slice(id);
            out.push(b',');
        }
        out.extend_from_slice(b"\"error\":{\"code\":");
        out.extend_from_slice(self.code.to_string().as_bytes());
        out.extend_from_slice(b",\"message\":");
        write_json_string(&self.message, &mut out);
        if let Some(data) = &self.data {
            out.extend_from_slice(b",\"data\":");
            out.extend_from_slice(data);
        }
        out.extend_from_slice(b"}}");
        out.into()
    }

    /// Returns the HTTP response: status, JSON-RPC error, and the rejection in the extensions.
    #[must_use]
    pub fn into_response<B: From<Bytes>>(self, id: Option<&[u8]>) -> Response<B> {
        let mut response = Response::new(B::from(self.to_json(id)));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(seconds) = self.retry_after {
            headers.insert(RETRY_AFTER, seconds.into());
        }
        response.extensions_mut().insert(self);
        response
    }
}

/// Returns the error data of a failed backend.
fn backend_error_data(backend: &str, retryable: bool) -> Vec<u8> {
    let mut data = b"{\"backend\":".to_vec();
    write_json_string(backend, &mut data);
    data.extend_from_slice(format!(",\"retryable\":{retryable}}}").as_bytes());
    data
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn omits_unknown_id() {
        let body = Rejection::internal().to_json(None);
        assert_eq!(body, r#"{"jsonrpc":"2.0","error":{"code":-32603,"message":"internal error"}}"#);
    }

    #[test]
    fn escapes_client_text_in_the_message() {
        let body = Rejection::not_found("tool", "a\"},\n").to_json(Some(b"\"x\""));
        assert_eq!(
            body,
            r#"{"jsonrpc":"2.0","id":"x","error":{"code":-32602,"message":"unknown tool: a\"},\n"}}"#
        );
    }

    #[test]
    fn stateful_client_gets_protocol_errors_with_200() {
        assert_eq!(Rejection::method_not_found("x").for_stateful_client().status(), 200);
        assert_eq!(Rejection::session_not_found().for_stateful_client().status(), 404);
    }

    #[test]
    fn open_circuit_has_retry_time() {
        let body = Rejection::circuit_open("b", Duration::from_millis(1500)).to_json(None);
        let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(
            body["error"]["data"],
            serde_json::json!({"backend": "b", "retryable": true, "retryAfterSeconds": 2})
        );
    }

    #[test]
    fn response_extensions_contain_the_rejection() {
        let response = Rejection::overloaded("too many sessions", 5).into_response::<Bytes>(None);
        assert_eq!(response.headers()["retry-after"], "5");
        assert!(response.extensions().get::<Rejection>().is_some());
    }
}
