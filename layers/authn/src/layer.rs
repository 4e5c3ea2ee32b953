//! What is asked of every caller.

use std::fmt;
use std::sync::Arc;

use tower_layer::Layer;
use vmcp_core::{Clock, Rate, RateLimiter};

use crate::challenge::Challenges;
use crate::scopes::enforced;
use crate::{Authenticate, Authenticated, ProtectedResource};

/// The rate of invalid tokens of one address, unless set.
const ATTEMPTS: Rate = Rate { burst: 100, per_second: 5 };

/// Lets in whom `A` knows. See the [crate docs](crate) for an example.
pub struct AuthenticateLayer<A> {
    authenticate: Arc<A>,
    challenges: Challenges,
    serves_metadata: bool,
    attempts: Arc<RateLimiter>,
    clock: Clock,
}

impl<A: Authenticate> AuthenticateLayer<A> {
    /// Whoever is calling, `authenticate` says.
    #[must_use]
    pub fn new(authenticate: A) -> Self {
        Self {
            authenticate: Arc::new(authenticate),
            challenges: Challenges::default(),
            serves_metadata: false,
            attempts: Arc::new(RateLimiter::new(ATTEMPTS)),
            clock: Clock::system(),
        }
    }

    /// How many tokens one address may present that are not known yet and turn out not to be valid: 100 at once and 5 a
    /// second unless set. Beyond, such tokens are refused without being inspected, which spares the introspection
    /// endpoint. The address is a `SocketAddr` in the request's extensions; without one, nothing is counted.
    #[must_use]
    pub fn invalid_token_rate(mut self, rate: Rate) -> Self {
        self.attempts = Arc::new(RateLimiter::new(rate));
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
        self.challenges.required = enforced(scopes);
        self
    }

    /// What time it is; the system's unless set. Streams end by it.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }
}

impl<S, A> Layer<S> for AuthenticateLayer<A> {
    type Service = Authenticated<S, A>;

    fn layer(&self, inner: S) -> Authenticated<S, A> {
        let Self { authenticate, challenges, serves_metadata, attempts, clock } = self.clone();
        let door = Door { authenticate, challenges, serves_metadata, attempts, clock };
        Authenticated::new(inner, door)
    }
}

impl<A> Clone for AuthenticateLayer<A> {
    fn clone(&self) -> Self {
        Self {
            authenticate: Arc::clone(&self.authenticate),
            challenges: self.challenges.clone(),
            serves_metadata: self.serves_metadata,
            attempts: Arc::clone(&self.attempts),
            clock: self.clock.clone(),
        }
    }
}

impl<A> fmt::Debug for AuthenticateLayer<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthenticateLayer")
            .field("challenges", &self.challenges)
            .finish_non_exhaustive()
    }
}

/// What the clones of a service share.
pub(crate) struct Door<A> {
    pub(crate) authenticate: Arc<A>,
    pub(crate) challenges: Challenges,
    pub(crate) serves_metadata: bool,
    /// Counts tokens that took an inspection and are not valid.
    pub(crate) attempts: Arc<RateLimiter>,
    pub(crate) clock: Clock,
}
