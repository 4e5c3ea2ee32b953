//! One question about one token.

use std::fmt;
use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use form_urlencoded::byte_serialize;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use http::{Request, StatusCode, Uri};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Map;
use vmcp_core::{Body, BodyError, Claims, Clock, HttpClient};
use vmcp_jwt::{Rules, TokenFault};

use crate::{EndpointError, IntrospectionError, Outage};

/// The largest answer that is read, in bytes.
const MAX_ANSWER: usize = 64 * 1024;

/// How long an answer may take.
const DEADLINE: Duration = Duration::from_secs(5);

/// Finds out what tokens are worth by asking their issuer (RFC 7662), about each one anew.
///
/// A token counts if the answer's `active` is `true` and its claims keep the [`Rules`]: `aud` must
/// name this server, `sub` be there, `exp` may be missing, and a missing `iss` is the configured one.
/// All other members become claims.
pub struct Introspection {
    client: HttpClient,
    endpoint: Uri,
    credentials: Option<HeaderValue>,
    rules: Rules,
    clock: Clock,
}

/// What an active token says.
#[derive(Clone, Debug)]
pub struct Introspected {
    /// All members of the answer but `active`; `iss` is always there.
    pub claims: Claims,
    /// When it is accepted no longer: the claim `exp`, which may be missing, and the leeway of the rules.
    pub expires_at: Option<SystemTime>,
}

impl Introspection {
    /// Asks `endpoint` through `client` about tokens that must keep `rules`.
    ///
    /// # Errors
    /// `endpoint` is no such URL.
    pub fn new(
        endpoint: &str,
        client: impl Into<HttpClient>,
        rules: Rules,
    ) -> Result<Self, EndpointError> {
        let uri: Uri = endpoint.parse().map_err(|_| EndpointError::Url)?;
        let absolute = matches!(uri.scheme_str(), Some("http" | "https"));
        let plain = uri.authority().is_some_and(|authority| !authority.as_str().contains('@'));
        if !absolute || !plain || endpoint.contains('#') {
            return Err(EndpointError::Url);
        }
        let (client, clock) = (client.into(), Clock::system());
        Ok(Self { client, endpoint: uri, credentials: None, rules, clock })
    }

    /// Authenticates at the endpoint with HTTP Basic, both parts form-encoded first (RFC 6749
    /// section 2.3.1).
    #[must_use]
    pub fn credentials(mut self, client_id: &str, client_secret: &SecretString) -> Self {
        let mut pair: String = byte_serialize(client_id.as_bytes()).collect();
        pair.push(':');
        pair.extend(byte_serialize(client_secret.expose_secret().as_bytes()));
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
        let mut form = String::from("token=");
        form.extend(byte_serialize(token.as_bytes()));
        form.push_str("&token_type_hint=access_token");
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

    fn read(&self, answer: &[u8]) -> Result<Introspected, IntrospectionError> {
        let answer = String::from_utf8(answer.to_vec()).map_err(|_| Outage::Malformed)?;
        let claims = Claims::read(answer).map_err(|_| Outage::Malformed)?;
        let active = claims.get("active").ok_or(Outage::Malformed)?;
        if active.json() != "true" {
            return Err(IntrospectionError::Inactive);
        }
        let mut claims = claims.without("active");
        check_type(&claims)?;
        if !claims.has("iss") {
            let mut object = Map::from(claims);
            object.insert("iss".to_owned(), self.rules.issuer().into());
            claims = object.into();
        }
        let expires_at = self.rules.check(&claims, self.clock.now())?;
        Ok(Introspected { claims, expires_at })
    }

    /// Asks what `token` is worth, once, within 5 s.
    ///
    /// # Errors
    /// It is worth nothing here, or nobody can tell.
    pub async fn introspect(&self, token: &str) -> Result<Introspected, IntrospectionError> {
        let asked = tokio::time::timeout(DEADLINE, ask(&self.client, self.request(token))).await;
        let answer = asked.unwrap_or(Err(Outage::TooSlow)).map_err(IntrospectionError::from);
        answer.and_then(|answer| self.read(&answer)).inspect_err(|error| {
            if let IntrospectionError::Outage(outage) = error {
                let error: &dyn std::error::Error = outage;
                tracing::warn!(
                    error,
                    host = self.endpoint.host(),
                    "a token cannot be introspected"
                );
            }
        })
    }
}

impl fmt::Debug for Introspection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Introspection")
            .field("host", &self.endpoint.host())
            .field("rules", &self.rules)
            .finish_non_exhaustive()
    }
}

/// Checks `token_type` (RFC 7662 section 2.2), where it is there. Some servers say by it that a token is a refresh
/// token; a token that is bound to a key has another type than `Bearer`. What else tells refresh tokens apart, the
/// [`Rules`] check.
fn check_type(claims: &Claims) -> Result<(), TokenFault> {
    let Some(claim) = claims.get("token_type") else { return Ok(()) };
    let is = |kind: &str, known: &[&str]| known.iter().any(|it| it.eq_ignore_ascii_case(kind));
    match claim.text().as_deref() {
        Some(kind) if is(kind, &["bearer", "access_token"]) => Ok(()),
        Some(kind) if is(kind, &["dpop", "pop", "mac"]) => Err(TokenFault::Bound),
        _ if claim.json() == "null" => Ok(()),
        _ => Err(TokenFault::Type),
    }
}

async fn ask(client: &HttpClient, request: Request<Body>) -> Result<Bytes, Outage> {
    let response = client.send(request).await.map_err(Outage::Unreachable)?;
    match response.status() {
        StatusCode::OK => {}
        StatusCode::UNAUTHORIZED => return Err(Outage::Unauthorized),
        other => return Err(Outage::Status(other)),
    }
    vmcp_core::read(response.into_body(), MAX_ANSWER).await.map_err(|error| match error {
        BodyError::TooLarge { .. } => Outage::TooLarge,
        BodyError::Broken(error) => Outage::Unreachable(error),
    })
}

#[cfg(test)]
mod tests;
