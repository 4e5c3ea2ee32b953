//! Whose token is exchanged, by what, and where the new one goes.

use std::sync::Arc;

use http::header::{AUTHORIZATION, HeaderName};
use tower_layer::Layer;
use vmcp_core::UpstreamKind;

use crate::{Exchange, Once, TokenExchange, Twice};

/// Exchanges the caller's token. See the [crate docs](crate) for an example.
#[derive(Debug)]
pub struct TokenExchangeLayer<X, A = Once> {
    pub(crate) exchange: Arc<X>,
    pub(crate) header: HeaderName,
    pub(crate) upstream: Option<(Arc<str>, UpstreamKind)>,
    pub(crate) retry: A,
}

impl<X: Exchange> TokenExchangeLayer<X> {
    /// The caller's own token is exchanged, the new one goes into `Authorization`, and each request
    /// is sent once.
    pub fn new(exchange: X) -> Self {
        Self { exchange: Arc::new(exchange), header: AUTHORIZATION, upstream: None, retry: Once }
    }

    /// A request that the backend answered with 401 is sent a second time, with a fresh token, where
    /// the exchange can bring one. The body must be one that can be cloned.
    #[must_use]
    pub fn retry_on_unauthorized(self) -> TokenExchangeLayer<X, Twice> {
        let Self { exchange, header, upstream, retry: Once } = self;
        TokenExchangeLayer { exchange, header, upstream, retry: Twice }
    }
}

impl<X, A> TokenExchangeLayer<X, A> {
    /// Another header for the new token. Whether the backend expects a secret there is for whoever
    /// configures it to know.
    #[must_use]
    pub fn header(mut self, header: HeaderName) -> Self {
        self.header = header;
        self
    }

    /// The caller's token of an upstream provider is exchanged instead of the caller's own.
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
