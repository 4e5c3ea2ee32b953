//! Asks the endpoint and waits for the answer.

use std::fmt;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::{Request, Response};
use tokio::time::timeout;
use tower_service::Service;
use vmcp_core::{Body, BodyError, BoxError, Clock};

use crate::settings::{OAuthClient, Secret};
use crate::{Bearer, ExchangeFault, Grant, Outage, Settings, answer, form};

/// The largest answer that is read, in bytes.
const MAX_BODY: usize = 1024 * 1024;

/// An authorization server's token endpoint (RFC 6749 section 3.2), asked over any HTTP client. See the
/// [crate docs](crate) for an example.
///
/// Redirects are not followed, and must not be by the client: they would carry a secret elsewhere.
pub struct TokenEndpoint<C> {
    /// Clients need not be shareable; this is locked for as long as cloning takes.
    client: Mutex<C>,
    settings: Arc<Settings>,
    clock: Clock,
}

impl<C> TokenEndpoint<C> {
    /// Asks over `client`.
    pub fn new(client: C, settings: Settings, clock: Clock) -> Self {
        Self { client: Mutex::new(client), settings: Arc::new(settings), clock }
    }

    /// Whether the client can authenticate, and so ask for a token of its own.
    pub fn has_secret(&self) -> bool {
        match self.settings.client {
            Some(OAuthClient { secret: Secret::Basic(_) | Secret::Post(_), .. }) => true,
            Some(OAuthClient { secret: Secret::None, .. }) | None => false,
        }
    }
}

impl<C, R> TokenEndpoint<C>
where
    C: Service<Request<Body>, Response = Response<R>> + Clone + Send + 'static,
    C::Error: Into<BoxError>,
    C::Future: Send,
    R: http_body::Body<Data = Bytes> + Send + 'static,
    R::Error: Into<BoxError>,
{
    /// Asks once, and waits no longer than the deadline of the settings.
    ///
    /// # Errors
    /// The answer is no, or none that can be used.
    pub fn ask(
        &self,
        grant: &Grant<'_>,
    ) -> impl Future<Output = Result<Bearer, ExchangeFault>> + Send + use<C, R> {
        let client = self.client.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let request = form::request(&self.settings, grant);
        let (deadline, clock) = (self.settings.deadline, self.clock.clone());
        async move {
            match timeout(deadline, send(client, request, clock)).await {
                Ok(outcome) => outcome,
                Err(_) => Err(Outage::Slow.into()),
            }
        }
    }
}

async fn send<C, R>(
    mut client: C,
    request: Request<Body>,
    clock: Clock,
) -> Result<Bearer, ExchangeFault>
where
    C: Service<Request<Body>, Response = Response<R>>,
    C::Error: Into<BoxError>,
    R: http_body::Body<Data = Bytes>,
    R::Error: Into<BoxError>,
{
    let unreachable = |error: C::Error| Outage::Unreachable(Arc::from(error.into()));
    poll_fn(|cx| client.poll_ready(cx)).await.map_err(unreachable)?;
    let asked_at = clock.now();
    let response = client.call(request).await.map_err(unreachable)?;
    let (parts, body) = response.into_parts();
    let body = vmcp_core::read(body, MAX_BODY).await.map_err(|error| match error {
        BodyError::TooLarge { .. } => Outage::TooLarge,
        BodyError::Broken(_) => Outage::Broken,
    })?;
    answer::read(parts.status, &parts.headers, &body, asked_at)
}

impl<C> fmt::Debug for TokenEndpoint<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenEndpoint").field("settings", &self.settings).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
