//! Layer and settings for request signing.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tower_layer::Layer;
use vmcp_core::{Cache, Clock};

use crate::service::SigningPlan;
use crate::{AwsSts, Region, RoleMappings, ServiceName, SessionDuration, Subject};

/// Default of [`AwsStsLayer::timeout`].
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(15);
/// Capacity of the cache of signing plans, one per token.
const MAX_PLANS: usize = 4096;

/// Layer that signs requests with the credentials of the AWS role that is mapped to the caller's claims. The
/// [crate docs](crate) contain an example.
pub struct AwsStsLayer<A> {
    pub(crate) settings: Arc<AwsStsSettings<A>>,
}

pub(crate) struct AwsStsSettings<A> {
    pub(crate) region: Region,
    pub(crate) service: ServiceName,
    pub(crate) roles: Arc<RoleMappings>,
    pub(crate) subject: Subject,
    pub(crate) session_name_claim: Box<str>,
    pub(crate) duration: SessionDuration,
    pub(crate) timeout: Duration,
    pub(crate) assume: Arc<A>,
    pub(crate) clock: Clock,
    pub(crate) plans: Arc<Cache<[u8; 32], SigningPlan>>,
}

// === impl AwsStsLayer ===

impl<A> AwsStsLayer<A> {
    /// Creates a layer that signs for the service `aws-mcp` in `region`. `roles` selects the role, and `assume` provides
    /// its credentials; usually it is a [`CredentialCache`](crate::CredentialCache) over [`Sts`](crate::Sts).
    #[must_use]
    pub fn new(region: Region, roles: RoleMappings, assume: A) -> Self {
        let settings = AwsStsSettings {
            region,
            service: ServiceName::default(),
            roles: Arc::new(roles),
            subject: Subject::default(),
            session_name_claim: "sub".into(),
            duration: SessionDuration::default(),
            timeout: DEFAULT_TIMEOUT,
            assume: Arc::new(assume),
            clock: Clock::system(),
            plans: Arc::new(Cache::new(MAX_PLANS)),
        };
        Self { settings: Arc::new(settings) }
    }

    /// Sets the service name in the credential scope. The default is `aws-mcp`.
    #[must_use]
    pub fn service(self, service: ServiceName) -> Self {
        self.with(|settings| settings.service = service)
    }

    /// Sets the token that is presented to STS. The default is the caller's own token.
    #[must_use]
    pub fn subject(self, subject: Subject) -> Self {
        self.with(|settings| settings.subject = subject)
    }

    /// Sets the claim that contains the session name. The default is `sub`.
    #[must_use]
    pub fn session_name_claim(self, claim: &str) -> Self {
        self.with(|settings| settings.session_name_claim = claim.into())
    }

    /// Sets the requested lifetime of credentials. The default is 3,600 seconds.
    #[must_use]
    pub fn session_duration(self, duration: SessionDuration) -> Self {
        self.with(|settings| settings.duration = duration)
    }

    /// Sets the timeout for obtaining credentials, including the upstream provider's token. The default is 15 seconds.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        self.with(|settings| settings.timeout = timeout)
    }

    /// Sets the clock for signature dates and expiry checks.
    #[must_use]
    pub fn clock(self, clock: Clock) -> Self {
        self.with(|settings| settings.clock = clock)
    }

    /// Returns a gauge of the cached signing plans for metrics. It holds a weak reference and returns `None` once the
    /// cache has been dropped. Call it after all setters, since each of them replaces the cache.
    pub fn gauge(&self) -> impl Fn() -> Option<usize> + Send + Sync + use<A> {
        let plans = Arc::downgrade(&self.settings.plans);
        move || plans.upgrade().map(|plans| plans.len())
    }

    fn with(self, change: impl FnOnce(&mut AwsStsSettings<A>)) -> Self {
        let mut settings = AwsStsSettings::clone(&self.settings);
        change(&mut settings);
        // Cached plans depend on the settings.
        settings.plans = Arc::new(Cache::new(MAX_PLANS));
        Self { settings: Arc::new(settings) }
    }
}

impl<A> Clone for AwsStsLayer<A> {
    fn clone(&self) -> Self {
        Self { settings: Arc::clone(&self.settings) }
    }
}

impl<S, A> Layer<S> for AwsStsLayer<A> {
    type Service = AwsSts<S, A>;

    fn layer(&self, inner: S) -> AwsSts<S, A> {
        AwsSts::new(inner, self.clone())
    }
}

impl<A> fmt::Debug for AwsStsLayer<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let AwsStsSettings {
            region,
            service,
            roles,
            subject,
            session_name_claim,
            duration,
            timeout,
            assume: _,
            clock: _,
            plans: _,
        } = &*self.settings;
        f.debug_struct("AwsStsLayer")
            .field("region", region)
            .field("service", service)
            .field("roles", roles)
            .field("subject", subject)
            .field("session_name_claim", session_name_claim)
            .field("duration", duration)
            .field("deadline", timeout)
            .finish_non_exhaustive()
    }
}

// === impl AwsStsSettings ===

impl<A> Clone for AwsStsSettings<A> {
    fn clone(&self) -> Self {
        Self {
            region: self.region.clone(),
            service: self.service.clone(),
            roles: Arc::clone(&self.roles),
            subject: self.subject.clone(),
            session_name_claim: self.session_name_claim.clone(),
            duration: self.duration,
            timeout: self.timeout,
            assume: Arc::clone(&self.assume),
            clock: self.clock.clone(),
            plans: Arc::clone(&self.plans),
        }
    }
}
