//! Retry of requests whose token the backend rejected.

use http::Request;

/// Policy that clones a request before it is sent, for a retry after a 401. A 401 says that the backend did not act on the
/// request, so a retry with another token is safe.
pub trait RetryPolicy<B>: Clone + Send + Sync + 'static {
    /// Clones the request; `None` for no retry.
    fn clone_request(&self, request: &Request<B>) -> Option<Request<B>>;
}

/// Policy that sends each request once, with any body.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoRetry;

/// Policy that retries a request once with a fresh token. The body must be `Clone`.
#[derive(Clone, Copy, Debug, Default)]
pub struct RetryOnUnauthorized;

impl<B> RetryPolicy<B> for NoRetry {
    fn clone_request(&self, _: &Request<B>) -> Option<Request<B>> {
        None
    }
}

impl<B: Clone> RetryPolicy<B> for RetryOnUnauthorized {
    fn clone_request(&self, request: &Request<B>) -> Option<Request<B>> {
        Some(request.clone())
    }
}
