//! The layer and its settings.

use std::sync::Arc;

use http::header::{AUTHORIZATION, HeaderName};
use tower_layer::Layer;
use vmcp_core::UpstreamKind;

use crate::{Exchange, NoRetry, RetryOnUnauthorized, TokenExchange};

/// Applies [`TokenExchange`] to requests for a backend. See the [crate docs](crate) for an example.
#[derive(Debug)]
pub struct TokenExchangeLayer<X, A = NoRetry> {
    pub(crate) exchange: Arc<X>,
    pub(crate) header: HeaderName,
    pub(crate) upstream: Option<(Arc<str>, UpstreamKind)>,
    pub(crate) retry: A,
}

impl<X: Exchange> TokenExchangeLayer<X> {
    /// Creates a layer that exchanges the caller's own token, sends the new one in `Authorization`, and sends each
    /// request once.
    pub fn new(exchange: X) -> Self {
        Self { exchange: Arc::new(exchange), header: AUTHORIZATION, upstream: None, retry: NoRetry }
    }

    /// Retries a request once with a fresh token if the backend responds with 401 and the exchange can provide one. The
    /// request body must be `Clone`.
    #[must_use]
    pub fn retry_on_unauthorized(self) -> TokenExchangeLayer<X, RetryOnUnauthorized> {
        let Self { exchange, header, upstream, retry: NoRetry } = self;
        TokenExchangeLayer { exchange, header, upstream, retry: RetryOnUnauthorized }
    }
}

impl<X, A> TokenExchangeLayer<X, A> {
    /// Sets the header of the new token. The operator must ensure that the backend treats this header as a secret.
    #[must_use]
    pub fn header(mut self, header: HeaderName) -> Self {
        self.header = header;
        self
    }

    /// Exchanges the caller's token of an upstream provider instead of the caller's own.
    #[must_use]
    pub fn upstream(mut self, provider: &str, kind: UpstreamKind) -> Self {
        self.upstream = Some((provider.into(), kind));
        self
    }
}

impl<X, A: Clone> Clone for TokenExchangeLayer<X, A> {
    fn clone(&self) -> Self {
        Self {
            exchange: Arc::clone(&self.exchange),
            header: self.header.clone(),
            upstream: self.upstream.clone(),
            retry: self.retry.clone(),
        }
    }
}

impl<S, X, A: Clone> Layer<S> for TokenExchangeLayer<X, A> {
    type Service = TokenExchange<S, X, A>;

    fn layer(&self, inner: S) -> TokenExchange<S, X, A> {
        TokenExchange::new(inner, self.clone())
    }
}
