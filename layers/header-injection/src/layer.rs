//! The layer and its settings.

use std::sync::Arc;

use tower_layer::Layer;
use vmcp_core::{NoRetry, RetryOnUnauthorized};

use crate::{CredentialHeader, CredentialProvider, HeaderInjection};

/// Applies [`HeaderInjection`] to requests for a backend. See the [crate docs](crate) for an example.
#[derive(Debug)]
pub struct HeaderInjectionLayer<C, A = NoRetry> {
    pub(crate) credentials: Arc<C>,
    pub(crate) header: CredentialHeader,
    pub(crate) retry: A,
}

impl<C: CredentialProvider> HeaderInjectionLayer<C> {
    /// Creates a layer that sends the credential in `Authorization` and each request once.
    pub fn new(credentials: C) -> Self {
        let credentials = Arc::new(credentials);
        Self { credentials, header: CredentialHeader::default(), retry: NoRetry }
    }

    /// Retries a request once with a fresh token if a backend rejects an upstream token with 401 and the provider has
    /// another one. The request body must be `Clone`.
    #[must_use]
    pub fn retry_on_unauthorized(self) -> HeaderInjectionLayer<C, RetryOnUnauthorized> {
        let Self { credentials, header, retry: NoRetry } = self;
        HeaderInjectionLayer { credentials, header, retry: RetryOnUnauthorized }
    }
}

impl<C, A> HeaderInjectionLayer<C, A> {
    /// Sets the name of the header.
    #[must_use]
    pub fn header(mut self, header: CredentialHeader) -> Self {
        self.header = header;
        self
    }
}

impl<C, A: Clone> Clone for HeaderInjectionLayer<C, A> {
    fn clone(&self) -> Self {
        Self {
            credentials: Arc::clone(&self.credentials),
            header: self.header.clone(),
            retry: self.retry.clone(),
        }
    }
}

impl<S, C, A: Clone> Layer<S> for HeaderInjectionLayer<C, A> {
    type Service = HeaderInjection<S, C, A>;

    fn layer(&self, inner: S) -> HeaderInjection<S, C, A> {
        HeaderInjection::new(inner, self.clone())
    }
}
