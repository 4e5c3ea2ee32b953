//! The layer and its settings.

use std::fmt;
use std::sync::Arc;

use tower_layer::Layer;
use vmcp_core::{Clock, Rate, RateLimiter};

use crate::challenge::ChallengeParams;
use crate::scopes::enforced_scopes;
use crate::{Authentication, Authenticator, ProtectedResource};

/// Default rate of invalid tokens of one address.
const INVALID_TOKEN_RATE: Rate = Rate { burst: 100, per_second: 5 };

/// Applies [`Authentication`] to requests. See the [crate docs](crate) for an example.
pub struct AuthenticationLayer<A> {
    authenticator: Arc<A>,
    challenges: ChallengeParams,
    serves_metadata: bool,
    invalid_token_limiter: Arc<RateLimiter>,
    clock: Clock,
}

impl<A: Authenticator> AuthenticationLayer<A> {
    /// Creates a layer that authenticates requests with `authenticator`.
    #[must_use]
    pub fn new(authenticator: A) -> Self {
        Self {
            authenticator: Arc::new(authenticator),
            challenges: ChallengeParams::default(),
            serves_metadata: false,
            invalid_token_limiter: Arc::new(RateLimiter::new(INVALID_TOKEN_RATE)),
            clock: Clock::system(),
        }
    }

    /// Sets how many invalid tokens that are not cached one address may present: 100 at once and 5 a second by default.
    /// Further ones are rejected without verification, which protects the introspection endpoint. The address is a
    /// `SocketAddr` in the request extensions; without one, no limit applies.
    #[must_use]
    pub fn invalid_token_rate(mut self, rate: Rate) -> Self {
        self.invalid_token_limiter = Arc::new(RateLimiter::new(rate));
        self
    }

    /// Advertises the metadata and the scopes of `resource` in challenges.
    #[must_use]
    pub fn resource(mut self, resource: ProtectedResource) -> Self {
        self.challenges.resource = Some(resource);
        self
    }

    /// Serves the metadata document (RFC 9728) of the [`resource`](Self::resource) at the well-known paths without
    /// authentication, for services without a router. A server with a router serves [`ProtectedResource::document`]
    /// itself.
    #[must_use]
    pub fn serve_metadata(mut self) -> Self {
        self.serves_metadata = true;
        self
    }

    /// Sets the realm of challenges.
    #[must_use]
    pub fn realm(mut self, realm: &str) -> Self {
        self.challenges.realm = Some(realm.into());
        self
    }

    /// Requires all of these scopes in the claim `scope` or `scp` of every token. `openid`, `profile`, `email` and
    /// `offline_access` are not required: they concern the login only.
    #[must_use]
    pub fn require_scopes(mut self, scopes: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        self.challenges.required = enforced_scopes(scopes);
        self
    }

    /// Sets the clock that ends streams.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }
}

impl<S, A> Layer<S> for AuthenticationLayer<A> {
    type Service = Authentication<S, A>;

    fn layer(&self, inner: S) -> Authentication<S, A> {
        let Self { authenticator, challenges, serves_metadata, invalid_token_limiter, clock } =
            self.clone();
        let state =
            Inner { authenticator, challenges, serves_metadata, invalid_token_limiter, clock };
        Authentication::new(inner, state)
    }
}

impl<A> Clone for AuthenticationLayer<A> {
    fn clone(&self) -> Self {
        Self {
            authenticator: Arc::clone(&self.authenticator),
            challenges: self.challenges.clone(),
            serves_metadata: self.serves_metadata,
            invalid_token_limiter: Arc::clone(&self.invalid_token_limiter),
            clock: self.clock.clone(),
        }
    }
}

impl<A> fmt::Debug for AuthenticationLayer<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthenticationLayer")
            .field("challenges", &self.challenges)
            .finish_non_exhaustive()
    }
}

/// State shared by the clones of a service.
pub(crate) struct Inner<A> {
    pub(crate) authenticator: Arc<A>,
    pub(crate) challenges: ChallengeParams,
    pub(crate) serves_metadata: bool,
    /// Counts uncached tokens that turned out invalid.
    pub(crate) invalid_token_limiter: Arc<RateLimiter>,
    pub(crate) clock: Clock,
}
