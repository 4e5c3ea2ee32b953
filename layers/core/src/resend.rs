//! Retry of requests whose token the backend rejected.

use http::Request;

/// Makes a copy of a request before it is sent. A 401 says that the backend did not act on it, so that
/// sending it again with another token is safe.
pub trait Resend<B>: Clone + Send + Sync + 'static {
    /// The copy; `None` if there is to be no second try.
    fn copy(&self, request: &Request<B>) -> Option<Request<B>>;
}

/// Each request is sent once. Any body will do.
#[derive(Clone, Copy, Debug, Default)]
pub struct Once;

/// A request is sent a second time with a fresh token. For bodies that can be cloned.
#[derive(Clone, Copy, Debug, Default)]
pub struct Twice;

impl<B> Resend<B> for Once {
    fn copy(&self, _: &Request<B>) -> Option<Request<B>> {
        None
    }
}

impl<B: Clone> Resend<B> for Twice {
    fn copy(&self, request: &Request<B>) -> Option<Request<B>> {
        Some(request.clone())
    }
}
