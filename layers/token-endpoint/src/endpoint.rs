//! Asks the endpoint and waits for the answer.

use std::fmt;
use std::sync::Arc;

use http::Request;
use tokio::time::timeout;
use vmcp_core::{Body, BodyError, Clock, HttpClient};

use crate::settings::{ClientSecret, OAuthClient};
use crate::{BearerToken, EndpointError, EndpointSettings, ExchangeError, Grant, form, response};

/// The largest answer that is read, in bytes.
const MAX_RESPONSE_SIZE: usize = 1024 * 1024;

/// An authorization server's token endpoint (RFC 6749 section 3.2), asked over any HTTP client. See the
/// [crate docs](crate) for an example.
///
/// Redirects are not followed, and must not be by the client: they would carry a secret elsewhere.
pub struct TokenEndpoint {
    client: HttpClient,
    settings: Arc<EndpointSettings>,
    clock: Clock,
}

impl TokenEndpoint {
    /// Asks over `client`.
    pub fn new(client: impl Into<HttpClient>, settings: EndpointSettings, clock: Clock) -> Self {
        Self { client: client.into(), settings: Arc::new(settings), clock }
    }

    /// Whether the client can authenticate, and so ask for a token of its own.
    #[must_use]
    pub fn has_secret(&self) -> bool {
        match self.settings.client {
            Some(OAuthClient {
                secret: ClientSecret::Basic(_) | ClientSecret::Post(_), ..
            }) => true,
            Some(OAuthClient { secret: ClientSecret::None, .. }) | None => false,
        }
    }

    /// Asks once, and waits no longer than the deadline of the settings.
    ///
    /// # Errors
    /// The answer is no, or none that can be used.
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
    let body = vmcp_core::read(body, MAX_RESPONSE_SIZE).await.map_err(|error| match error {
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
