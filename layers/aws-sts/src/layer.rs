//! What requests are signed as, and with whose credentials.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tower_layer::Layer;
use vmcp_core::{Cache, Clock};

use crate::service::SigningPlan;
use crate::{AwsSts, Region, RoleMappings, ServiceName, SessionDuration, Subject};

/// How long credentials may take, unless [`AwsStsLayer::timeout`] says otherwise.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(15);
/// For how many tokens it is remembered which role they lead to.
const MAX_PLANS: usize = 4096;

/// Signs requests with the credentials of the role that the caller's claims lead to. See the
/// [crate docs](crate) for an example.
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
    /// Signs for the service `aws-mcp` in `region`, in the role that `roles` finds, with credentials
    /// that `assume` gets, usually a [`CredentialCache`](crate::Cached) [`Sts`](crate::Sts).
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

    /// The service that requests are signed for.
    #[must_use]
    pub fn service(self, service: ServiceName) -> Self {
        self.with(|settings| settings.service = service)
    }

    /// Whose token the role is assumed with: the caller's own one otherwise.
    #[must_use]
    pub fn subject(self, subject: Subject) -> Self {
        self.with(|settings| settings.subject = subject)
    }

    /// The claim that names the session: `sub` otherwise.
    #[must_use]
    pub fn session_name_claim(self, claim: &str) -> Self {
        self.with(|settings| settings.session_name_claim = claim.into())
    }

    /// How long credentials are asked for.
    #[must_use]
    pub fn session_duration(self, duration: SessionDuration) -> Self {
        self.with(|settings| settings.duration = duration)
    }

    /// How long it may take to get credentials, the upstream provider's token included: 15 seconds
    /// otherwise.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        self.with(|settings| settings.timeout = timeout)
    }

    /// The clock that signatures are dated by.
    #[must_use]
    pub fn clock(self, clock: Clock) -> Self {
        self.with(|settings| settings.clock = clock)
    }

    /// A gauge for others to keep: for how many tokens the role is remembered, for as long as this is there. To be
    /// called when all is set.
    pub fn gauge(&self) -> impl Fn() -> Option<usize> + Send + Sync + use<A> {
        let plans = Arc::downgrade(&self.settings.plans);
        move || plans.upgrade().map(|plans| plans.len())
    }

    fn with(self, change: impl FnOnce(&mut AwsStsSettings<A>)) -> Self {
        let mut settings = AwsStsSettings::clone(&self.settings);
        change(&mut settings);
        // Other settings lead to other roles and sessions.
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

// === impl Settings ===

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
