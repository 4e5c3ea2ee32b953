//! The client of an introspection endpoint.

use std::fmt;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use form_urlencoded::byte_serialize;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use http::{Request, StatusCode, Uri};
use secrecy::SecretString;
use serde_json::Map;
use vmcp_core::{Body, BodyError, Claims, Clock, HttpClient};
use vmcp_jwt::{TokenError, ValidationOptions};

use crate::basic_credentials;
use crate::introspection::{EndpointError, EndpointUrlError, IntrospectionError};

/// Maximum size of a response in bytes.
const MAX_RESPONSE_SIZE: usize = 64 * 1024;

/// Timeout of a request, including the response.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// Client of a token introspection endpoint (RFC 7662). It does not cache.
///
/// A token is accepted if the response's `active` is `true` and its claims are valid by [`ValidationOptions`]: `aud`
/// must name this server, `sub` is required, `exp` is optional, and a missing `iss` is the configured issuer. All other
/// members become claims.
pub struct IntrospectionClient {
    client: HttpClient,
    endpoint: Uri,
    credentials: Option<HeaderValue>,
    options: ValidationOptions,
    clock: Clock,
}

/// Claims of an active token.
#[derive(Clone, Debug)]
pub struct IntrospectedToken {
    /// All members of the response but `active`; always contains `iss`.
    pub claims: Claims,
    /// End of the token's validity: the claim `exp`, if present, plus the configured leeway.
    pub expires_at: Option<SystemTime>,
}

impl IntrospectionClient {
    /// Creates a client that sends requests to `endpoint` and validates claims with `options`.
    ///
    /// # Errors
    /// `endpoint` is not a valid URL.
    pub fn new(
        endpoint: &str,
        client: impl Into<HttpClient>,
        options: ValidationOptions,
    ) -> Result<Self, EndpointUrlError> {
        let uri: Uri = endpoint.parse().map_err(|_| EndpointUrlError::Url)?;
        let is_http = matches!(uri.scheme_str(), Some("http" | "https"));
        let has_no_user_info =
            uri.authority().is_some_and(|authority| !authority.as_str().contains('@'));
        if !is_http || !has_no_user_info || endpoint.contains('#') {
            return Err(EndpointUrlError::Url);
        }
        let (client, clock) = (client.into(), Clock::system());
        Ok(Self { client, endpoint: uri, credentials: None, options, clock })
    }

    /// Authenticates at the endpoint with HTTP Basic, with form-encoded client id and secret (RFC 6749 section 2.3.1).
    #[must_use]
    pub fn credentials(mut self, client_id: &str, client_secret: &SecretString) -> Self {
        self.credentials = Some(basic_credentials(client_id, client_secret));
        self
    }

    /// Sets the clock.
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
            .expect("a parsed URI is valid in a request");
        let headers = request.headers_mut();
        let form = HeaderValue::from_static("application/x-www-form-urlencoded");
        headers.insert(CONTENT_TYPE, form);
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        if let Some(credentials) = &self.credentials {
            headers.insert(AUTHORIZATION, credentials.clone());
        }
        request
    }

    fn parse_response(&self, response: &[u8]) -> Result<IntrospectedToken, IntrospectionError> {
        let response =
            String::from_utf8(response.to_vec()).map_err(|_| EndpointError::Malformed)?;
        let claims = Claims::parse(response).map_err(|_| EndpointError::Malformed)?;
        let active = claims.get("active").ok_or(EndpointError::Malformed)?;
        if active.json() != "true" {
            return Err(IntrospectionError::Inactive);
        }
        let mut claims = claims.without("active");
        check_type(&claims)?;
        if !claims.has("iss") {
            let mut object = Map::from(claims);
            object.insert("iss".to_owned(), self.options.issuer().into());
            claims = object.into();
        }
        let expires_at = self.options.validate(&claims, self.clock.now())?;
        Ok(IntrospectedToken { claims, expires_at })
    }

    /// Introspects a token with one request, within 5 s.
    ///
    /// # Errors
    /// The token is not valid here, or the endpoint returned no usable response.
    pub async fn introspect(&self, token: &str) -> Result<IntrospectedToken, IntrospectionError> {
        let result =
            tokio::time::timeout(REQUEST_TIMEOUT, send_request(&self.client, self.request(token)))
                .await;
        let response =
            result.unwrap_or(Err(EndpointError::TooSlow)).map_err(IntrospectionError::from);
        response.and_then(|response| self.parse_response(&response)).inspect_err(|error| {
            if let IntrospectionError::Endpoint(error) = error {
                let error: &dyn std::error::Error = error;
                tracing::warn!(error, host = self.endpoint.host(), "introspection_failed");
            }
        })
    }
}

impl fmt::Debug for IntrospectionClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Introspection")
            .field("host", &self.endpoint.host())
            .field("rules", &self.options)
            .finish_non_exhaustive()
    }
}

/// Checks `token_type` (RFC 7662 section 2.2), if present. Some servers mark refresh tokens with it; a token that is
/// bound to a key has another type than `Bearer`. [`ValidationOptions`] checks the other marks of refresh tokens.
fn check_type(claims: &Claims) -> Result<(), TokenError> {
    let Some(claim) = claims.get("token_type") else { return Ok(()) };
    let is = |kind: &str, known: &[&str]| known.iter().any(|it| it.eq_ignore_ascii_case(kind));
    match claim.text().as_deref() {
        Some(kind) if is(kind, &["bearer", "access_token"]) => Ok(()),
        Some(kind) if is(kind, &["dpop", "pop", "mac"]) => Err(TokenError::Bound),
        _ if claim.json() == "null" => Ok(()),
        _ => Err(TokenError::Type),
    }
}

async fn send_request(client: &HttpClient, request: Request<Body>) -> Result<Bytes, EndpointError> {
    let response = client.send(request).await.map_err(EndpointError::Unreachable)?;
    match response.status() {
        StatusCode::OK => {}
        StatusCode::UNAUTHORIZED => return Err(EndpointError::Unauthorized),
        other => return Err(EndpointError::Status(other)),
    }
    vmcp_core::collect_limited(response.into_body(), MAX_RESPONSE_SIZE).await.map_err(|error| {
        match error {
            BodyError::TooLarge { .. } => EndpointError::TooLarge,
            BodyError::Broken(error) => EndpointError::Unreachable(error),
        }
    })
}

#[cfg(test)]
mod tests;
