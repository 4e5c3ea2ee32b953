//! Opaque tokens: the identity provider is asked about each.

use std::fmt;
use std::future::poll_fn;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use http::{Request, Response, StatusCode, Uri};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use tower_service::Service;
use vmcp_core::{Body, BodyError, BoxError, Clock, Identity};
use vmcp_jwt::{Rules, TokenFault, parse_claims};

use crate::{AuthenticateFuture, Inspect, Refusal};

/// The largest answer that is read, in bytes.
const MAX_ANSWER: usize = 64 * 1024;

/// How long an answer may take.
const DEADLINE: Duration = Duration::from_secs(5);

/// Inspects tokens by asking their issuer (RFC 7662). Put [`Cached`](crate::Cached) around it.
///
/// A token counts if the answer's `active` is `true` and its claims keep the [`Rules`]: `aud` must
/// name this server, `sub` be there, `exp` may be missing, and a missing `iss` is the configured one.
/// All other members become claims.
pub struct Introspection<C> {
    client: Mutex<C>,
    endpoint: Uri,
    credentials: Option<HeaderValue>,
    rules: Rules,
    clock: Clock,
}

/// Why an endpoint cannot be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IntrospectionError {
    /// It is no absolute `http` or `https` URL without user info and fragment.
    #[error(
        "the introspection URL must be an absolute http or https URL without user info and fragment"
    )]
    Endpoint,
}

/// Why there is no usable answer. For the log: the client is told that nobody can tell.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("it cannot be reached")]
    Unreachable(#[source] BoxError),
    #[error("it does not answer in time")]
    TooSlow,
    #[error("it refuses the gateway's own credentials")]
    Unauthorized,
    #[error("it answers with status {0}")]
    Status(StatusCode),
    #[error("its answer is larger than {MAX_ANSWER} bytes")]
    TooLarge,
    #[error("its answer is no introspection response")]
    Malformed,
}

impl<C> Introspection<C> {
    /// Asks `endpoint` through `client` about tokens that must keep `rules`.
    ///
    /// # Errors
    /// `endpoint` is no such URL.
    pub fn new(endpoint: &str, client: C, rules: Rules) -> Result<Self, IntrospectionError> {
        let uri: Uri = endpoint.parse().map_err(|_| IntrospectionError::Endpoint)?;
        let absolute = matches!(uri.scheme_str(), Some("http" | "https"));
        let plain = uri.authority().is_some_and(|authority| !authority.as_str().contains('@'));
        if !absolute || !plain || endpoint.contains('#') {
            return Err(IntrospectionError::Endpoint);
        }
        let (client, clock) = (Mutex::new(client), Clock::system());
        Ok(Self { client, endpoint: uri, credentials: None, rules, clock })
    }

    /// Authenticates at the endpoint with HTTP Basic, both parts form-encoded first (RFC 6749
    /// section 2.3.1).
    #[must_use]
    pub fn credentials(mut self, client_id: &str, client_secret: &SecretString) -> Self {
        let mut pair = form_encoded(client_id);
        pair.push(':');
        pair.push_str(&form_encoded(client_secret.expose_secret()));
        // Base64 is always a legal header value.
        self.credentials = HeaderValue::try_from(format!("Basic {}", STANDARD.encode(pair))).ok();
        if let Some(value) = &mut self.credentials {
            value.set_sensitive(true);
        }
        self
    }

    /// What time it is; the system's unless set.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    fn request(&self, token: &str) -> Request<Body> {
        let form = format!("token={}&token_type_hint=access_token", form_encoded(token));
        let mut request = Request::post(self.endpoint.clone())
            .body(Body::from(Bytes::from(form)))
            .unwrap_or_default();
        let headers = request.headers_mut();
        let form = HeaderValue::from_static("application/x-www-form-urlencoded");
        headers.insert(CONTENT_TYPE, form);
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        if let Some(credentials) = &self.credentials {
            headers.insert(AUTHORIZATION, credentials.clone());
        }
        request
    }

    fn read(&self, token: &str, answer: &[u8]) -> Result<Result<Identity, TokenFault>, Failure> {
        let mut claims = parse_claims(answer).map_err(|_| Failure::Malformed)?;
        let active = claims.remove("active").ok_or(Failure::Malformed)?;
        if active != Value::Bool(true) {
            return Ok(Err(TokenFault::Expired));
        }
        // A token that is bound to a key has another type than `Bearer`.
        let kind = claims.get("token_type").and_then(Value::as_str);
        if kind.is_some_and(|kind| !kind.eq_ignore_ascii_case("bearer")) {
            return Ok(Err(TokenFault::Bound));
        }
        claims.entry("iss").or_insert_with(|| self.rules.issuer().into());
        let expires_at = match self.rules.check(&claims, self.clock.now()) {
            Ok(expires_at) => expires_at,
            Err(fault) => return Ok(Err(fault)),
        };
        let identity = crate::jwt::identity(claims.into(), token);
        Ok(Ok(match expires_at {
            Some(at) => identity.expires_at(at).build(),
            None => identity.build(),
        }))
    }
}

impl<C, R> Inspect for Introspection<C>
where
    C: Service<Request<Body>, Response = Response<R>> + Clone + Send + 'static,
    C::Error: Into<BoxError>,
    C::Future: Send,
    R: http_body::Body<Data = Bytes> + Send,
    R::Error: Into<BoxError>,
{
    fn inspect<'a>(&'a self, token: &'a str) -> AuthenticateFuture<'a> {
        let client = self.client.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let request = self.request(token);
        Box::pin(async move {
            let answer = match tokio::time::timeout(DEADLINE, ask(client, request)).await {
                Ok(answer) => answer,
                Err(_) => Err(Failure::TooSlow),
            };
            match answer.and_then(|answer| self.read(token, &answer)) {
                Ok(Ok(identity)) => Ok(identity),
                // Whether it expired, was revoked or never was is not told apart.
                Ok(Err(TokenFault::Expired)) => {
                    Err(Refusal::InvalidToken("the token is not active".into()))
                }
                Ok(Err(fault)) => Err(fault.into()),
                Err(failure) => {
                    let error: &dyn std::error::Error = &failure;
                    tracing::warn!(
                        error,
                        host = self.endpoint.host(),
                        "a token cannot be introspected"
                    );
                    Err(Refusal::unavailable())
                }
            }
        })
    }
}

impl<C> fmt::Debug for Introspection<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Introspection")
            .field("host", &self.endpoint.host())
            .field("rules", &self.rules)
            .finish_non_exhaustive()
    }
}

async fn ask<C, R>(mut client: C, request: Request<Body>) -> Result<Bytes, Failure>
where
    C: Service<Request<Body>, Response = Response<R>>,
    C::Error: Into<BoxError>,
    R: http_body::Body<Data = Bytes>,
    R::Error: Into<BoxError>,
{
    let unreachable = |error: C::Error| Failure::Unreachable(error.into());
    poll_fn(|cx| client.poll_ready(cx)).await.map_err(unreachable)?;
    let response = client.call(request).await.map_err(unreachable)?;
    match response.status() {
        StatusCode::OK => {}
        StatusCode::UNAUTHORIZED => return Err(Failure::Unauthorized),
        other => return Err(Failure::Status(other)),
    }
    vmcp_core::read(response.into_body(), MAX_ANSWER).await.map_err(|error| match error {
        BodyError::TooLarge { .. } => Failure::TooLarge,
        BodyError::Broken(error) => Failure::Unreachable(error),
    })
}

/// `application/x-www-form-urlencoded` (URL Standard section 5.2).
fn form_encoded(text: &str) -> String {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    let mut out = String::with_capacity(text.len() + 16);
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'*' | b'-' | b'.' | b'_' => {
                out.push(byte.into());
            }
            b' ' => out.push('+'),
            _ => {
                out.push('%');
                out.push(HEX[usize::from(byte >> 4)].into());
                out.push(HEX[usize::from(byte & 15)].into());
            }
        }
    }
    out
}

#[cfg(test)]
mod tests;
