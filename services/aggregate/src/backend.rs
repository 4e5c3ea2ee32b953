//! One MCP server behind the gateway: what it speaks, what it offers, how it is asked.

pub(crate) mod ask;
pub(crate) mod channel;
pub(crate) mod check;
pub(crate) mod diagnose;
pub(crate) mod events;
pub(crate) mod failure;
pub(crate) mod fetch;
pub(crate) mod handshake;
pub(crate) mod observe;
pub(crate) mod own;
pub(crate) mod reach;
pub(crate) mod request;
pub(crate) mod signal;
pub(crate) mod vitals;

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use arc_swap::{ArcSwap, ArcSwapOption};
use bytes::Bytes;
use http::{Request, Response, Uri};
use http_body_util::Full;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use vmcp_breaker::CircuitHandle;
use vmcp_breaker::health::ProbeResult;
use vmcp_core::{Backend, Body, BoxError, BudgetAccount, ByteBudget, Caller, Generation, cause};

use self::failure::Failure;
use self::handshake::Live;
use self::own::Owns;
use self::signal::ObserverSignal;
use self::vitals::Vitals;
use crate::catalog::Offers;
use crate::settings::{Advice, BackendService, BackendSettings, Sending, Sharing, Transport};

/// A backend and everything that is remembered of it. It survives reloads that leave it as it is.
pub(crate) struct Link {
    pub(crate) backend: Backend,
    pub(crate) uri: Uri,
    pub(crate) transport: Transport,
    pub(crate) fingerprint: u64,
    /// A reload may bring another one.
    reach: ArcSwap<Reach>,
    /// A reload may bring another one, whatever else it changes.
    advice: ArcSwap<Advice>,
    /// One bit for each generation that it is known to speak.
    speaks: AtomicU8,
    /// The last good ones, if they are for all callers.
    pub(crate) offers: ArcSwap<Offers>,
    /// What single callers are offered, if that depends on who asks.
    pub(crate) own: Option<Owns>,
    /// What it said last when the gateway itself knocked.
    knocked: AtomicU8,
    status: watch::Sender<Status>,
    /// Whether no configuration has it any more, which is final.
    retired: watch::Sender<bool>,
    /// What wakes the observers of the stateful and the stateless generation.
    signals: [ObserverSignal; 2],
    /// Has the observer begin anew: somebody has reason to believe that what is open leads nowhere.
    pub(crate) renew: Notify,
    /// Held while one generation is fetched: bridges to a process cannot speak both to it at the same time, and answer
    /// with empty lists.
    pub(crate) fetching: tokio::sync::Mutex<()>,
    /// The observer's session, while there is one.
    pub(crate) standing: ArcSwapOption<Live>,
    pub(crate) vitals: Vitals,
    /// The budget of the process, if that has one.
    budget: Option<ByteBudget>,
    /// Numbers the gateway's own requests.
    serial: AtomicU64,
}

/// How a backend is reached.
struct Reach {
    service: BackendService,
    /// The same without the adapter of HTTP+SSE.
    bare: BackendService,
    breaker: Option<CircuitHandle>,
    tuning: u64,
}

/// The generations that a backend speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speaks {
    Stateful,
    Stateless,
    Both,
}

/// How the fetching of a backend's offer stands.
#[derive(Clone, Debug)]
pub(crate) enum Status {
    /// Nothing has come of the first attempt yet.
    Fetching {
        since: Instant,
    },
    Ready,
    /// The last attempt failed; an older offer may still be there.
    Failed {
        /// As far as anybody may know.
        reason: String,
        /// With addresses, for who runs the gateway.
        detail: Option<String>,
        /// What to change, where that was found out.
        remedy: Option<String>,
        /// Whether it refused the gateway's credentials.
        is_unauthorized: bool,
    },
}

impl Speaks {
    /// The generation to speak to it in: the client's own, if it can.
    pub(crate) fn with(self, client: Generation) -> Generation {
        match self {
            Self::Stateful => Generation::Stateful,
            Self::Stateless => Generation::Stateless,
            Self::Both => client,
        }
    }
}

/// Whether a backend wants to see credentials, or others.
pub(crate) fn asks_for_credentials(error: &BoxError) -> bool {
    matches!(
        cause::<Failure>(error.as_ref()),
        Some(Failure::Status(code)) if matches!(code.as_u16(), 401 | 403 | 407)
    )
}

/// The service as streamable HTTP, whatever the backend's transport is.
fn adapted(settings: &BackendSettings) -> BackendService {
    let service = settings.service.clone();
    settings.around.wrap(match settings.transport {
        Transport::Sse => channel::adapt(service, settings.answer_within, settings.breaker.clone()),
        Transport::StreamableHttp => service,
    })
}

impl Link {
    pub(crate) fn new(settings: BackendSettings, budget: Option<ByteBudget>) -> Arc<Self> {
        let adapted = adapted(&settings);
        let BackendSettings {
            backend,
            uri,
            transport,
            catalog,
            service: bare,
            around: _,
            breaker,
            advice,
            answer_within: _,
            fingerprint,
            tuning,
        } = settings;
        let speaks = u8::from(transport == Transport::Sse);
        Arc::new(Self {
            backend,
            uri,
            transport,
            fingerprint,
            reach: ArcSwap::from_pointee(Reach { service: adapted, bare, breaker, tuning }),
            advice: ArcSwap::from_pointee(advice),
            speaks: AtomicU8::new(speaks),
            offers: ArcSwap::default(),
            own: (catalog == Sharing::PerCaller).then(Owns::new),
            knocked: AtomicU8::new(0),
            status: watch::Sender::new(Status::Fetching { since: Instant::now() }),
            signals: Default::default(),
            retired: watch::Sender::new(false),
            renew: Notify::new(),
            fetching: tokio::sync::Mutex::default(),
            standing: ArcSwapOption::empty(),
            vitals: Vitals::new(),
            budget,
            serial: AtomicU64::new(1),
        })
    }

    /// Takes over what a reload says of how it is reached.
    pub(crate) fn retune(&self, settings: &BackendSettings) {
        self.advice.store(Arc::new(settings.advice.clone()));
        if self.reach.load().tuning != settings.tuning {
            let (breaker, tuning) = (settings.breaker.clone(), settings.tuning);
            let (service, bare) = (adapted(settings), settings.service.clone());
            self.reach.store(Arc::new(Reach { service, bare, breaker, tuning }));
        }
    }

    /// The breaker in front of it, if it has one.
    pub(crate) fn breaker(&self) -> Option<CircuitHandle> {
        self.reach.load().breaker.clone()
    }

    pub(crate) fn name(&self) -> &str {
        self.backend.name()
    }

    /// The account of what is read of the backend for `caller`, whose address counts where it is anonymous. What the gateway
    /// asks by itself counts for the backend.
    pub(crate) fn account(
        &self,
        caller: &Caller,
        address: Option<IpAddr>,
    ) -> Option<BudgetAccount> {
        let budget = self.budget.as_ref()?;
        Some(budget.account(match caller {
            Caller::Gateway => budget.backend(self.name()),
            Caller::User(identity) => budget.caller(identity, address),
        }))
    }

    /// What the backend speaks; `None` while nobody has asked it.
    pub(crate) fn speaks(&self) -> Option<Speaks> {
        match self.speaks.load(Ordering::Acquire) {
            0 => None,
            1 => Some(Speaks::Stateful),
            2 => Some(Speaks::Stateless),
            _ => Some(Speaks::Both),
        }
    }

    pub(crate) fn learn(&self, speaks: Speaks) {
        let bits = match speaks {
            Speaks::Stateful => 1,
            Speaks::Stateless => 2,
            Speaks::Both => 3,
        };
        self.speaks.store(bits, Ordering::Release);
    }

    /// Forgets what it speaks, unless its transport says that.
    pub(crate) fn unlearn(&self) {
        if self.transport == Transport::StreamableHttp {
            self.speaks.store(0, Ordering::Release);
        }
    }

    /// Whether all callers are offered the same.
    pub(crate) fn shared(&self) -> bool {
        self.own.is_none()
    }

    /// It has answered the gateway itself, if only to ask for a caller's credentials.
    pub(crate) fn knocked(&self, refused: bool) {
        self.knocked.store(if refused { 2 } else { 1 }, Ordering::Release);
        self.set_status(Status::Ready);
        self.revive(if refused {
            ProbeResult::RequiresUserCredentials
        } else {
            ProbeResult::Healthy
        });
    }

    /// Forgets what it has offered. Whether there was anything.
    pub(crate) fn forget(&self) -> bool {
        let own = self.own.as_ref().is_some_and(Owns::clear);
        self.offers.swap(Arc::default()).is_known() || own
    }

    /// Why nothing is to be expected of it now.
    pub(crate) fn down(&self) -> Option<String> {
        match self.status() {
            Status::Failed { reason, .. } => Some(reason),
            Status::Fetching { .. } | Status::Ready => self.vitals.down(),
        }
    }

    /// Whether it has ever said what it offers, or answered at all if that depends on who asks.
    pub(crate) fn has_answered(&self) -> bool {
        self.offers.load().is_known() || self.knocked.load(Ordering::Acquire) > 0
    }

    /// Whether it has not said yet what it offers to clients of this generation, if that is the same for all callers.
    pub(crate) fn is_silent(&self, generation: Generation) -> bool {
        self.shared() && self.offers.load().of(generation).is_none()
    }

    /// Whether it asks the gateway itself for a caller's credentials.
    pub(crate) fn asks_for_caller(&self) -> bool {
        self.knocked.load(Ordering::Acquire) == 2
    }

    /// Sends a request through the backend's outgoing stack.
    pub(crate) async fn send(
        &self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Body>, BoxError> {
        self.begin(request).await
    }

    /// Begins to send a request, as a future that is good by itself.
    pub(crate) fn begin(&self, mut request: Request<Full<Bytes>>) -> Sending {
        request.extensions_mut().insert(self.backend.clone());
        self.reach.load().service.send(request)
    }

    /// Begins to send a request as it is, whatever the transport.
    pub(crate) fn begin_bare(&self, mut request: Request<Full<Bytes>>) -> Sending {
        request.extensions_mut().insert(self.backend.clone());
        self.reach.load().bare.send(request)
    }

    /// What to tell the operator when it refuses the gateway's credentials.
    pub(crate) fn advice(&self) -> Arc<Advice> {
        self.advice.load_full()
    }

    /// An id for a request of the gateway itself.
    pub(crate) fn serial(&self) -> u64 {
        self.serial.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn status(&self) -> Status {
        self.status.borrow().clone()
    }

    pub(crate) fn set_status(&self, status: Status) {
        self.status.send_replace(status);
    }

    /// Ends all that waits for it or listens to it, also what begins later: no configuration has it any more.
    pub(crate) fn retire(&self) {
        self.retired.send_replace(true);
        let reason = format!("backend {} is no longer configured", self.name());
        let (detail, remedy) = (None, None);
        self.set_status(Status::Failed { reason, detail, remedy, is_unauthorized: false });
    }

    pub(crate) fn is_retired(&self) -> bool {
        *self.retired.borrow()
    }

    /// Waits until no configuration has it any more.
    pub(crate) async fn retired(&self) {
        // The sender is in `self`: it cannot be gone.
        _ = self.retired.subscribe().wait_for(|retired| *retired).await;
    }

    /// Waits until the first attempt to fetch the offer has ended, but not past `patience` after it
    /// began.
    pub(crate) async fn settled(&self, patience: std::time::Duration) {
        let Status::Fetching { since } = self.status() else { return };
        let mut watching = self.status.subscribe();
        let settled = watching.wait_for(|status| !matches!(status, Status::Fetching { .. }));
        _ = tokio::time::timeout_at(since + patience, settled).await;
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("backend", &self.backend).finish_non_exhaustive()
    }
}
