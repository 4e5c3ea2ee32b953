//! Headers that are the same for all callers.

use std::sync::Arc;
use std::task::{Context, Poll};

use http::{HeaderMap, HeaderValue, Request};
use secrecy::{ExposeSecret, SecretString};
use tower_layer::Layer;
use tower_service::Service;

use crate::credential::{check_header_value, sensitive};
use crate::{CredentialHeader, SecretError};

/// Sets several headers of each request, the same for all callers. A header that the request already has is replaced.
///
/// Values are marked sensitive: HPACK does not index them and `Debug` does not show them. For the credential of one
/// caller, use [`HeaderInjectionLayer`](crate::HeaderInjectionLayer).
#[derive(Clone, Debug, Default)]
pub struct StaticHeadersLayer {
    headers: Arc<HeaderMap>,
}

/// Middleware that sets headers of each request. See [`StaticHeadersLayer`].
#[derive(Clone, Debug)]
pub struct StaticHeaders<S> {
    inner: S,
    headers: Arc<HeaderMap>,
}

impl StaticHeadersLayer {
    /// Creates a layer without headers.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a header, or replaces the value of one that was added before.
    ///
    /// # Errors
    /// The value is not a valid header value.
    pub fn header(
        mut self,
        name: &CredentialHeader,
        value: &SecretString,
    ) -> Result<Self, SecretError> {
        let value: HeaderValue = {
            check_header_value(value.expose_secret())?;
            sensitive(value.expose_secret())?
        };
        Arc::make_mut(&mut self.headers).insert(name.name().clone(), value);
        Ok(self)
    }
}

impl<S> Layer<S> for StaticHeadersLayer {
    type Service = StaticHeaders<S>;

    fn layer(&self, inner: S) -> StaticHeaders<S> {
        StaticHeaders { inner, headers: Arc::clone(&self.headers) }
    }
}

impl<S, B> Service<Request<B>> for StaticHeaders<S>
where
    S: Service<Request<B>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> S::Future {
        for (name, value) in &*self.headers {
            request.headers_mut().insert(name, value.clone());
        }
        self.inner.call(request)
    }
}

#[cfg(test)]
mod tests {
    use tower::ServiceExt;
    use tower::util::service_fn;

    use super::*;

    fn layer(headers: &[(&str, &str)]) -> Result<StaticHeadersLayer, SecretError> {
        headers.iter().try_fold(StaticHeadersLayer::new(), |layer, (name, value)| {
            layer.header(&name.parse().unwrap(), &SecretString::from(*value))
        })
    }

    #[tokio::test]
    async fn sets_and_replaces_headers() {
        let layer = layer(&[("X-Org", "acme"), ("Authorization", "Bearer a"), ("x-org", "b c")]);
        let echo = service_fn(|request: Request<()>| async move {
            Ok::<_, std::convert::Infallible>(request.headers().clone())
        });
        let request = Request::builder().header("x-org", "old").header("x-org", "older");
        let service = layer.unwrap().layer(echo);
        let headers = service.oneshot(request.body(()).unwrap()).await.unwrap();
        let values: Vec<_> = headers.get_all("x-org").iter().collect();
        assert_eq!(values, ["b c"]);
        assert_eq!(headers["authorization"], "Bearer a");
    }

    #[test]
    fn rejects_invalid_header_values() {
        for value in ["", "a\r\nb", " a", "\u{e9}"] {
            assert!(layer(&[("X-Key", value)]).is_err(), "{value:?}");
        }
    }

    #[test]
    fn hides_values_in_debug_output() {
        let layer = layer(&[("X-Key", "hunter2")]).unwrap();
        assert!(!format!("{layer:?}").contains("hunter2"));
    }
}
