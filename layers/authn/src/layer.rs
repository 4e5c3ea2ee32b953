//! What is asked of every caller.

use std::fmt;
use std::sync::Arc;

use tower_layer::Layer;
use vmcp_core::{Clock, Rate, RateLimiter};

use crate::challenge::ChallengeParams;
use crate::scopes::enforced_scopes;
use crate::{Authentication, Authenticator, ProtectedResource};

/// The rate of invalid tokens of one address, unless set.
const INVALID_TOKEN_RATE: Rate = Rate { burst: 100, per_second: 5 };

/// Lets in whom `A` knows. See the [crate docs](crate) for an example.
pub struct AuthenticationLayer<A> {
    authenticator: Arc<A>,
    challenges: ChallengeParams,
    serves_metadata: bool,
    invalid_token_limiter: Arc<RateLimiter>,
    clock: Clock,
}

impl<A: Authenticator> AuthenticationLayer<A> {
    /// Whoever is calling, `authenticate` says.
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

    /// How many tokens one address may present that are not known yet and turn out not to be valid: 100 at once and 5 a
    /// second unless set. Beyond, such tokens are refused without being inspected, which spares the introspection
    /// endpoint. The address is a `SocketAddr` in the request's extensions; without one, nothing is counted.
    #[must_use]
    pub fn invalid_token_rate(mut self, rate: Rate) -> Self {
        self.invalid_token_limiter = Arc::new(RateLimiter::new(rate));
        self
    }

    /// Challenges tell where `resource` is described and which scopes to ask for.
    #[must_use]
    pub fn resource(mut self, resource: ProtectedResource) -> Self {
        self.challenges.resource = Some(resource);
        self
    }

    /// Also answers requests for the RFC 9728 document of the [`resource`](Self::resource), to callers of any kind, at the
    /// well-known paths. For services without a router; a server that has one serves
    /// [`ProtectedResource::document`] itself.
    #[must_use]
    pub fn serve_metadata(mut self) -> Self {
        self.serves_metadata = true;
        self
    }

    /// Challenges name this realm.
    #[must_use]
    pub fn realm(mut self, realm: &str) -> Self {
        self.challenges.realm = Some(realm.into());
        self
    }

    /// Every token must have all of these scopes, in its claim `scope` or `scp`. `openid`, `profile`,
    /// `email` and `offline_access` are not asked for: they concern the login.
    #[must_use]
    pub fn require_scopes(mut self, scopes: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        self.challenges.required = enforced_scopes(scopes);
        self
    }

    /// What time it is; the system's unless set. Streams end by it.
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
        f.debug_struct("AuthenticateLayer")
            .field("challenges", &self.challenges)
            .finish_non_exhaustive()
    }
}

/// What the clones of a service share.
pub(crate) struct Inner<A> {
    pub(crate) authenticator: Arc<A>,
    pub(crate) challenges: ChallengeParams,
    pub(crate) serves_metadata: bool,
    /// Counts tokens that took an inspection and are not valid.
    pub(crate) invalid_token_limiter: Arc<RateLimiter>,
    pub(crate) clock: Clock,
}
