//! Advice for operators on backends that reject the gateway's credentials.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use http::HeaderMap;

/// Text for operators about a backend that responds with 401 or 403: the required credentials, and the configuration that
/// provides them. Empty by default.
#[derive(Clone, Default)]
pub struct CredentialAdvice(Option<Arc<AdviceFn>>);

type AdviceFn = dyn Fn(HeaderMap) -> AdviceFuture + Send + Sync;
type AdviceFuture = Pin<Box<dyn Future<Output = Option<String>> + Send>>;

impl CredentialAdvice {
    /// Creates the advice from a closure over the headers of the backend's response.
    pub fn new<F>(advise: impl Fn(HeaderMap) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Option<String>> + Send + 'static,
    {
        Self(Some(Arc::new(move |headers| Box::pin(advise(headers)))))
    }

    /// Returns the advice for a response with these headers.
    pub(crate) async fn of(&self, headers: HeaderMap) -> Option<String> {
        let advise = self.0.as_ref()?;
        advise(headers).await
    }
}

impl fmt::Debug for CredentialAdvice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CredentialAdvice").field(&self.0.is_some()).finish()
    }
}
