//! Which credential, in which header.

use std::sync::Arc;

use tower_layer::Layer;
use vmcp_core::{Once, Twice};

use crate::{CredentialHeader, Credentials, HeaderInjection};

/// Puts a credential into a header. See the [crate docs](crate) for an example.
#[derive(Debug)]
pub struct HeaderInjectionLayer<C, A = Once> {
    pub(crate) credentials: Arc<C>,
    pub(crate) header: CredentialHeader,
    pub(crate) again: A,
}

impl<C: Credentials> HeaderInjectionLayer<C> {
    /// The credential, in `Authorization`. Each request is sent once.
    pub fn new(credentials: C) -> Self {
        let credentials = Arc::new(credentials);
        Self { credentials, header: CredentialHeader::default(), again: Once }
    }

    /// A request with an upstream provider's token that the backend answered with 401 is sent a second time,
    /// with another token, where one can be had. The body must be one that can be cloned.
    #[must_use]
    pub fn resending(self) -> HeaderInjectionLayer<C, Twice> {
        let Self { credentials, header, again: Once } = self;
        HeaderInjectionLayer { credentials, header, again: Twice }
    }
}

impl<C, A> HeaderInjectionLayer<C, A> {
    /// Another header for it.
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
            again: self.again.clone(),
        }
    }
}

impl<S, C, A: Clone> Layer<S> for HeaderInjectionLayer<C, A> {
    type Service = HeaderInjection<S, C, A>;

    fn layer(&self, inner: S) -> HeaderInjection<S, C, A> {
        HeaderInjection::new(inner, self.clone())
    }
}
