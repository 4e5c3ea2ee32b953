//! The client of a token endpoint.

use std::fmt;
use std::sync::Arc;

use http::Request;
use tokio::time::timeout;
use vmcp_core::{Body, BodyError, Clock, HttpClient};

use crate::token_endpoint::settings::{ClientSecret, OAuthClient};
use crate::token_endpoint::{
    BearerToken, EndpointError, EndpointSettings, ExchangeError, Grant, form, response,
};

/// Maximum size of a response in bytes.
const MAX_RESPONSE_SIZE: usize = 1024 * 1024;

/// Client of a token endpoint (RFC 6749 section 3.2). See the [crate docs](crate) for an example.
///
/// It does not follow redirects, and neither must the HTTP client: a redirect would disclose the secret.
pub struct TokenEndpoint {
    client: HttpClient,
    settings: Arc<EndpointSettings>,
    clock: Clock,
}

impl TokenEndpoint {
    /// Creates a client that sends requests through `client`.
    pub fn new(client: impl Into<HttpClient>, settings: EndpointSettings, clock: Clock) -> Self {
        Self { client: client.into(), settings: Arc::new(settings), clock }
    }

    /// Returns `true` if the client has a secret, which the client credentials grant requires.
    #[must_use]
    pub fn has_secret(&self) -> bool {
        match self.settings.client {
            Some(OAuthClient {
                secret: ClientSecret::Basic(_) | ClientSecret::Post(_), ..
            }) => true,
            Some(OAuthClient { secret: ClientSecret::None, .. }) | None => false,
        }
    }

    /// Requests a token once, within the configured timeout.
    ///
    /// # Errors
    /// The endpoint rejected the request, or returned no usable response.
    pub fn request_token(
        &self,
        grant: &Grant<'_>,
    ) -> impl Future<Output = Result<BearerToken, ExchangeError>> + Send + use<> {
        let client = self.client.clone();
        let request = form::request(&self.settings, grant);
        let (limit, clock) = (self.settings.timeout, self.clock.clone());
        async move {
            match timeout(limit, send(client, request, clock)).await {
                Ok(outcome) => outcome,
                Err(_) => Err(EndpointError::TimedOut.into()),
            }
        }
    }
}

async fn send(
    client: HttpClient,
    request: Request<Body>,
    clock: Clock,
) -> Result<BearerToken, ExchangeError> {
    let requested_at = clock.now();
    let response = client.send(request).await;
    let response = response.map_err(|error| EndpointError::Unreachable(Arc::from(error)))?;
    let (parts, body) = response.into_parts();
    let body =
        vmcp_core::collect_limited(body, MAX_RESPONSE_SIZE).await.map_err(|error| match error {
            BodyError::TooLarge { .. } => EndpointError::TooLarge,
            BodyError::Broken(_) => EndpointError::Truncated,
        })?;
    response::parse_response(parts.status, &parts.headers, &body, requested_at)
}

impl fmt::Debug for TokenEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenEndpoint").field("settings", &self.settings).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
