//! The one refusal type. Who is at fault and what to do stands in the message.
//!
//! | Refusal | HTTP | JSON-RPC |
//! |---|---|---|
//! | [`Rejection::malformed`] | 400 | -32700 or -32600 |
//! | [`Rejection::invalid_params`], [`Rejection::unknown_name`] | 400, 200 for stateful clients | -32602 |
//! | [`Rejection::unknown_method`] | 404, 200 for stateful clients | -32601 |
//! | [`Rejection::header_mismatch`] | 400 | -32020 |
//! | [`Rejection::missing_capability`] | 400 | -32021 |
//! | [`Rejection::unsupported_revision`] | 400 | -32022 |
//! | [`Rejection::no_session`] | 404 | -32001 |
//! | [`Rejection::foreign_host`] | 403 | -32600 |
//! | [`Rejection::not_acceptable`], [`Rejection::unsupported_media_type`] | 406, 415 | -32600 |
//! | [`Rejection::too_large`], [`Rejection::too_slow`] | 413, 408 | -32600 |
//! | [`Rejection::overloaded`] | 503 and `Retry-After` | -32603 |
//! | [`Rejection::backend_unavailable`], [`Rejection::backend_outcome_unknown`] | 200 | -32603 |
//! | [`Rejection::circuit_open`], [`Rejection::no_credentials`] | 200 | -32603 |
//! | [`Rejection::log_in_again`] | 401 | -32603 |
//! | [`Rejection::denied`], [`Rejection::needs_scopes`] | 403 | 403 |
//! | [`Rejection::internal`] | 500 | -32603 |
//!
//! A failure of a backend is a JSON-RPC error in a 200: common clients take a 4xx or 5xx as the end
//! of their connection or session.

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::{Response, StatusCode};
use vmcp_wire::quote;

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
    refused_by: &'static str,
    /// Boxed: few have one, and a refusal is moved through many results.
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
    /// A refusal that has no constructor of its own. Prefer the named ones.
    #[must_use]
    pub fn new(status: StatusCode, code: i32, message: impl Into<Cow<'static, str>>) -> Self {
        Self {
            status,
            code,
            message: message.into(),
            data: None,
            retry_after: None,
            refused_by: "aggregate",
            challenge: None,
        }
    }

    /// Names the layer that refuses, for the log: `aggregate` unless set. Clients do not see it.
    #[must_use]
    pub fn by(mut self, layer: &'static str) -> Self {
        self.refused_by = layer;
        self
    }

    /// The layer that refused.
    #[must_use]
    pub fn refused_by(&self) -> &'static str {
        self.refused_by
    }

    /// The body is not a JSON-RPC message. `code` is -32700 or -32600.
    #[must_use]
    pub fn malformed(code: i32, message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, message).by("decode")
    }

    /// The parameters do not fit the method.
    #[must_use]
    pub fn invalid_params(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code::INVALID_PARAMS, message)
    }

    /// A tool, prompt or resource that does not exist, or that this caller may not know of: the
    /// response is the same. It names the first 256 characters of a long name.
    #[must_use]
    pub fn unknown_name(kind: &str, name: &str) -> Self {
        Self::invalid_params(format!("unknown {kind}: {}", truncate_name(name)))
    }

    /// A method that this generation of the protocol does not have.
    #[must_use]
    pub fn unknown_method(method: &str) -> Self {
        let method: String = method.chars().take(64).collect();
        let message = format!("method not found: {method}");
        Self::new(StatusCode::NOT_FOUND, code::METHOD_NOT_FOUND, message)
    }

    /// A header that is missing or contradicts the body.
    #[must_use]
    pub fn header_mismatch(header: &str, problem: &str) -> Self {
        let message = format!("{header} {problem}");
        let mut data = b"{\"header\":".to_vec();
        quote(header, &mut data);
        data.push(b'}');
        Self::new(StatusCode::BAD_REQUEST, code::HEADER_MISMATCH, message)
            .with_data(data)
            .by("decode")
    }

    /// The client did not declare what answering it needs; `required` is the JSON object of
    /// capabilities.
    #[must_use]
    pub fn missing_capability(required: &str, message: impl Into<Cow<'static, str>>) -> Self {
        let data = format!("{{\"requiredCapabilities\":{required}}}");
        Self::new(StatusCode::BAD_REQUEST, code::MISSING_CAPABILITY, message)
            .with_data(data.into_bytes())
    }

    /// A revision that is not spoken here. The ones that are stand in the data.
    #[must_use]
    pub fn unsupported_revision(requested: &str) -> Self {
        let requested: String = requested.chars().take(64).collect();
        let mut data = format!("{{\"supported\":[\"{STATELESS}\"").into_bytes();
        for revision in crate::mcp::STATEFUL {
            data.push(b',');
            quote(revision, &mut data);
        }
        data.extend_from_slice(b"],\"requested\":");
        quote(&requested, &mut data);
        data.push(b'}');
        let message = format!("unsupported protocol version {requested}");
        Self::new(StatusCode::BAD_REQUEST, code::UNSUPPORTED_REVISION, message).with_data(data)
    }

    /// The session is unknown, has ended, or belongs to another caller: the response is the same.
    #[must_use]
    pub fn no_session() -> Self {
        let message = "session not found: initialize again";
        Self::new(StatusCode::NOT_FOUND, code::SESSION, message)
    }

    /// A Host or Origin that this server does not serve.
    #[must_use]
    pub fn foreign_host(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::FORBIDDEN, code::INVALID_REQUEST, message).by("hosts")
    }

    /// An `Accept` header that rules out every form the answer can have.
    #[must_use]
    pub fn not_acceptable(message: &'static str) -> Self {
        Self::new(StatusCode::NOT_ACCEPTABLE, code::INVALID_REQUEST, message).by("decode")
    }

    /// A body that is not `application/json`.
    #[must_use]
    pub fn unsupported_media_type() -> Self {
        let message = "send Content-Type: application/json";
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, code::INVALID_REQUEST, message).by("decode")
    }

    /// A body over the limit, which is in bytes.
    #[must_use]
    pub fn too_large(limit: usize) -> Self {
        let message = format!("the message is larger than {limit} bytes");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, code::INVALID_REQUEST, message).by("decode")
    }

    /// A body that did not arrive in time.
    #[must_use]
    pub fn too_slow() -> Self {
        let message = "the message did not arrive in time";
        Self::new(StatusCode::REQUEST_TIMEOUT, code::INVALID_REQUEST, message).by("decode")
    }

    /// A cap is reached. Retrying after `seconds` can help.
    #[must_use]
    pub fn overloaded(message: impl Into<Cow<'static, str>>, seconds: u32) -> Self {
        let refusal = Self::new(StatusCode::SERVICE_UNAVAILABLE, code::INTERNAL, message);
        let mut refusal = refusal.by("limits");
        refusal.retry_after = Some(seconds);
        refusal
    }

    /// A backend that could not be reached, broke off or did not answer in time. Retrying can help.
    #[must_use]
    pub fn backend_unavailable(backend: &str, problem: &str) -> Self {
        let message = format!("backend {backend} {problem}");
        Self::new(StatusCode::OK, code::INTERNAL, message)
            .with_data(about(backend, true))
            .by("backend")
    }

    /// A backend that did not answer a request that it may have acted on. Retrying may act twice.
    #[must_use]
    pub fn backend_outcome_unknown(backend: &str, problem: &str) -> Self {
        let message = format!(
            "backend {backend} {problem}: it may have acted on the request, check before trying again"
        );
        Self::new(StatusCode::OK, code::INTERNAL, message)
            .with_data(about(backend, false))
            .by("backend")
    }

    /// A backend that rejects the credentials. A retry does not help: the operator has to change them.
    #[must_use]
    pub fn backend_refuses(backend: &str, problem: &str) -> Self {
        let message = format!(
            "backend {backend} {problem}: it does not take the credentials that it is shown"
        );
        Self::new(StatusCode::OK, code::INTERNAL, message)
            .with_data(about(backend, false))
            .by("backend")
    }

    /// A backend that is left alone because it failed too often. Retrying helps after `wait`.
    #[must_use]
    pub fn circuit_open(backend: &str, wait: Duration) -> Self {
        let seconds = wait.as_secs_f64().ceil().max(1.0);
        let message = format!(
            "backend {backend} failed too often and is left alone: try again in {seconds} s"
        );
        let mut data = about(backend, true);
        data.pop();
        data.extend_from_slice(format!(",\"retryAfterSeconds\":{seconds}}}").as_bytes());
        Self::new(StatusCode::OK, code::INTERNAL, message).with_data(data).by("breaker")
    }

    /// A backend whose credentials could not be had. `problem` says who can help.
    #[must_use]
    pub fn no_credentials(backend: &str, problem: &str, retry: bool) -> Self {
        let message = format!("no credentials for backend {backend}: {problem}");
        Self::new(StatusCode::OK, code::INTERNAL, message)
            .with_data(about(backend, retry))
            .by("credentials")
    }

    /// A backend that needs a token which the caller gets by logging in again.
    #[must_use]
    pub fn log_in_again(backend: &str) -> Self {
        let problem = "the login that gave them has ended: log in again";
        let mut refusal = Self::no_credentials(backend, problem, false);
        refusal.status = StatusCode::UNAUTHORIZED;
        refusal.challenge = Some(Box::new(Challenge::InvalidToken));
        refusal
    }

    /// Something that the caller may know of, but not use so.
    #[must_use]
    pub fn denied() -> Self {
        Self::new(StatusCode::FORBIDDEN, code::DENIED, "denied by authorization policy")
            .by("authorization")
    }

    /// Something that needs a token with more scopes.
    #[must_use]
    pub fn needs_scopes(scopes: Vec<Box<str>>) -> Self {
        let message = format!("the token needs the scopes {}", scopes.join(" "));
        let refusal = Self::new(StatusCode::FORBIDDEN, code::DENIED, message);
        let mut refusal = refusal.by("authorization");
        refusal.challenge = Some(Box::new(Challenge::InsufficientScope(scopes)));
        refusal
    }

    /// A fault of the gateway. Details are in its log only.
    #[must_use]
    pub fn internal() -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, code::INTERNAL, "internal error")
    }

    /// Adds the `data` member of the JSON-RPC error, which must be JSON.
    #[must_use]
    pub fn with_data(mut self, data: Vec<u8>) -> Self {
        self.data = Some(data.into());
        self
    }

    /// The same refusal as a stateful client expects it: JSON-RPC errors about what the message
    /// asks for come with 200, since those clients take a 4xx as the end of the session.
    #[must_use]
    pub fn for_session(mut self) -> Self {
        let of_the_message = matches!(self.code, code::METHOD_NOT_FOUND | code::INVALID_PARAMS);
        if of_the_message {
            self.status = StatusCode::OK;
        }
        self
    }

    /// Returns the OAuth challenge.
    #[must_use]
    pub fn challenge(&self) -> Option<&Challenge> {
        self.challenge.as_deref()
    }

    /// The HTTP status.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// The JSON-RPC error code.
    #[must_use]
    pub fn code(&self) -> i32 {
        self.code
    }

    /// Returns the message for the client.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The JSON-RPC error response. Without an id the member is left out, never null.
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
        quote(&self.message, &mut out);
        if let Some(data) = &self.data {
            out.extend_from_slice(b",\"data\":");
            out.extend_from_slice(data);
        }
        out.extend_from_slice(b"}}");
        out.into()
    }

    /// The HTTP response: status, JSON-RPC error, and the rejection in the extensions.
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
fn about(backend: &str, retryable: bool) -> Vec<u8> {
    let mut data = b"{\"backend\":".to_vec();
    quote(backend, &mut data);
    data.extend_from_slice(format!(",\"retryable\":{retryable}}}").as_bytes());
    data
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_id_is_left_out_rather_than_null() {
        let body = Rejection::internal().to_json(None);
        assert_eq!(body, r#"{"jsonrpc":"2.0","error":{"code":-32603,"message":"internal error"}}"#);
    }

    #[test]
    fn what_the_client_sent_cannot_break_out_of_the_message() {
        let body = Rejection::unknown_name("tool", "a\"},\n").to_json(Some(b"\"x\""));
        assert_eq!(
            body,
            r#"{"jsonrpc":"2.0","id":"x","error":{"code":-32602,"message":"unknown tool: a\"},\n"}}"#
        );
    }

    #[test]
    fn a_stateful_client_gets_protocol_errors_with_200() {
        assert_eq!(Rejection::unknown_method("x").for_session().status(), 200);
        assert_eq!(Rejection::no_session().for_session().status(), 404);
    }

    #[test]
    fn an_open_circuit_says_when_to_come_back() {
        let body = Rejection::circuit_open("b", Duration::from_millis(1500)).to_json(None);
        let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(
            body["error"]["data"],
            serde_json::json!({"backend": "b", "retryable": true, "retryAfterSeconds": 2})
        );
    }

    #[test]
    fn the_rejection_stays_with_the_response() {
        let response = Rejection::overloaded("too many sessions", 5).into_response::<Bytes>(None);
        assert_eq!(response.headers()["retry-after"], "5");
        assert!(response.extensions().get::<Rejection>().is_some());
    }
}
