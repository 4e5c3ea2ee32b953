//! Which credential, in which header.

use std::sync::Arc;

use tower_layer::Layer;

use crate::{CredentialHeader, Credentials, HeaderInjection};

/// Puts a credential into a header. See the [crate docs](crate) for an example.
#[derive(Debug)]
pub struct HeaderInjectionLayer<C> {
    pub(crate) credentials: Arc<C>,
    pub(crate) header: CredentialHeader,
}

impl<C: Credentials> HeaderInjectionLayer<C> {
    /// The credential, in `Authorization`.
    pub fn new(credentials: C) -> Self {
        Self { credentials: Arc::new(credentials), header: CredentialHeader::default() }
    }

    /// Another header for it.
    #[must_use]
    pub fn header(mut self, header: CredentialHeader) -> Self {
        self.header = header;
        self
    }
}

impl<C> Clone for HeaderInjectionLayer<C> {
    fn clone(&self) -> Self {
        Self { credentials: Arc::clone(&self.credentials), header: self.header.clone() }
    }
}

impl<S, C> Layer<S> for HeaderInjectionLayer<C> {
    type Service = HeaderInjection<S, C>;

    fn layer(&self, inner: S) -> HeaderInjection<S, C> {
        HeaderInjection::new(inner, self.clone())
    }
}
