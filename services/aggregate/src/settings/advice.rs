//! Advice on a backend that refuses the gateway's credentials.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use http::HeaderMap;

/// Text for the operator about a backend that answers 401 or 403: which credentials it wants, and where the configuration
/// provides them. The default is none.
#[derive(Clone, Default)]
pub struct Advice(Option<Arc<Advise>>);

type Advise = dyn Fn(HeaderMap) -> Advising + Send + Sync;
type Advising = Pin<Box<dyn Future<Output = Option<String>> + Send>>;

impl Advice {
    /// Asks `advise` with the headers of the backend's response.
    pub fn new<F>(advise: impl Fn(HeaderMap) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Option<String>> + Send + 'static,
    {
        Self(Some(Arc::new(move |headers| Box::pin(advise(headers)))))
    }

    /// Returns what there is to say about a response with these headers.
    pub(crate) async fn of(&self, headers: HeaderMap) -> Option<String> {
        let advise = self.0.as_ref()?;
        advise(headers).await
    }
}

impl fmt::Debug for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Advice").field(&self.0.is_some()).finish()
    }
}
