//! Connection state of one backend: supported generations, offers, and requests to it.

pub(crate) mod cancellation;
pub(crate) mod collect;
pub(crate) mod context;
pub(crate) mod error;
pub(crate) mod event_reader;
pub(crate) mod fetch;
pub(crate) mod handshake;
pub(crate) mod health;
pub(crate) mod observe;
pub(crate) mod pending_close;
pub(crate) mod per_caller;
pub(crate) mod request;
pub(crate) mod rpc;
pub(crate) mod sse_transport;
pub(crate) mod tasks;

use std::fmt;
use std::hash::{BuildHasher, RandomState};
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
use vmcp_core::{
    Backend, Body, BoxError, BudgetAccount, ByteBudget, Caller, Generation, cause_ref,
};

use self::error::BackendError;
use self::handshake::BackendSession;
use self::health::state::HealthState;
use self::observe::signal::ObserverSignal;
use self::per_caller::PerCallerCatalogs;
use crate::catalog::Offers;
use crate::settings::{
    BackendFuture, BackendService, BackendSettings, CredentialAdvice, Sharing, Transport,
};

/// Identity of a backend handle, unique within the process. Two handles of one name have different identities.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct BackendId(u64);

impl BackendId {
    fn next() -> Self {
        // Relaxed: only the uniqueness of the numbers counts.
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// Handle of one backend with its cached state. It survives configuration reloads that leave the backend unchanged.
pub(crate) struct BackendHandle {
    pub(crate) id: BackendId,
    /// Name of the backend, attached to each request.
    pub(crate) tag: Backend,
    pub(crate) uri: Uri,
    pub(crate) transport: Transport,
    pub(crate) fingerprint: u64,
    /// Connector; a reload may replace it.
    reach: ArcSwap<Connector>,
    /// Advice for operators; a reload may replace it.
    advice: ArcSwap<CredentialAdvice>,
    /// Bit set of the generations that the backend is known to support; 0 before the first probe. Release and Acquire: a task that
    /// sees the generations also sees what the probe stored before.
    modes: AtomicU8,
    /// Last successfully fetched offers, if all callers share them.
    pub(crate) offers: ArcSwap<Offers>,
    /// Offers by caller, if they depend on the caller's credentials.
    pub(crate) per_caller: Option<PerCallerCatalogs>,
    /// Result of the gateway's last probe: 0 for none, 1 if the backend responded, 2 if it requires a caller's credentials.
    reachability: AtomicU8,
    status: watch::Sender<FetchStatus>,
    /// Number of sessions that are being closed.
    closing: watch::Sender<usize>,
    /// `true` once no configuration contains the backend any more; never reset.
    retired: watch::Sender<bool>,
    /// Signals that wake the observers of the stateful and the stateless generation.
    signals: [ObserverSignal; 2],
    /// Notified when the observer has to reconnect because its streams may be stale.
    pub(crate) reconnect: Notify,
    /// Lock that serializes fetching across generations: bridges to stdio servers cannot use both at once and return empty
    /// lists.
    pub(crate) fetching: tokio::sync::Mutex<()>,
    /// Session of the observer, while there is one.
    pub(crate) standing: ArcSwapOption<BackendSession>,
    pub(crate) health: HealthState,
    /// Byte budget of the process, if one is configured.
    budget: Option<ByteBudget>,
    /// Counter for the ids of the gateway's own requests. Relaxed: only the uniqueness of the numbers counts.
    serial: AtomicU64,
    /// Random part of those ids, because replicas may share a session.
    id_prefix: u64,
}

/// Services and generations used to reach a backend.
struct Connector {
    service: BackendService,
    /// The service without the HTTP+SSE adapter.
    bare: BackendService,
    breaker: Option<CircuitHandle>,
    service_revision: u64,
}

/// Generations that a backend supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SupportedModes {
    Stateful,
    Stateless,
    Both,
}

/// Progress of fetching a backend's offer.
#[derive(Clone, Debug)]
pub(crate) enum FetchStatus {
    /// The first attempt has not ended yet.
    Fetching {
        since: Instant,
    },
    Ready,
    /// The last attempt failed; an older offer may still be available.
    Failed {
        /// Reason without confidential details.
        reason: String,
        /// Reason including addresses, for operators.
        detail: Option<String>,
        /// Suggested configuration change, if known.
        remedy: Option<String>,
        /// `true` if the backend rejected the gateway's credentials.
        is_unauthorized: bool,
    },
}

impl SupportedModes {
    /// Returns the generation in which to call the backend: the client's own if the backend supports it.
    pub(crate) fn with(self, client: Generation) -> Generation {
        match self {
            Self::Stateful => Generation::Stateful,
            Self::Stateless => Generation::Stateless,
            Self::Both => client,
        }
    }
}

/// Returns `true` if the backend rejected a request for missing or wrong credentials.
pub(crate) fn is_unauthorized(error: &BoxError) -> bool {
    matches!(
        cause_ref::<BackendError>(error.as_ref()),
        Some(BackendError::Status(code)) if matches!(code.as_u16(), 401 | 403 | 407)
    )
}

/// Builds a service that is called as Streamable HTTP, whatever the backend's transport.
fn adapted(settings: &BackendSettings) -> BackendService {
    let service = settings.service.clone();
    settings.wrapper.wrap(match settings.transport {
        Transport::Sse => {
            sse_transport::adapt(service, settings.message_timeout, settings.breaker.clone())
        }
        Transport::StreamableHttp => service,
    })
}

impl BackendHandle {
    pub(crate) fn new(settings: BackendSettings, budget: Option<ByteBudget>) -> Arc<Self> {
        let adapted = adapted(&settings);
        let BackendSettings {
            backend,
            uri,
            transport,
            catalog,
            service: bare,
            wrapper: _,
            breaker,
            credential_advice,
            message_timeout: _,
            fingerprint,
            service_revision,
        } = settings;
        let modes = u8::from(transport == Transport::Sse);
        Arc::new(Self {
            id: BackendId::next(),
            tag: backend,
            uri,
            transport,
            fingerprint,
            reach: ArcSwap::from_pointee(Connector {
                service: adapted,
                bare,
                breaker,
                service_revision,
            }),
            advice: ArcSwap::from_pointee(credential_advice),
            modes: AtomicU8::new(modes),
            offers: ArcSwap::default(),
            per_caller: (catalog == Sharing::PerCaller).then(PerCallerCatalogs::new),
            reachability: AtomicU8::new(0),
            status: watch::Sender::new(FetchStatus::Fetching { since: Instant::now() }),
            closing: watch::Sender::new(0),
            signals: Default::default(),
            retired: watch::Sender::new(false),
            reconnect: Notify::new(),
            fetching: tokio::sync::Mutex::default(),
            standing: ArcSwapOption::empty(),
            health: HealthState::new(),
            budget,
            serial: AtomicU64::new(1),
            id_prefix: RandomState::new().hash_one(0),
        })
    }

    /// Applies the connection settings of a reload.
    pub(crate) fn reconfigure(&self, settings: &BackendSettings) {
        self.advice.store(Arc::new(settings.credential_advice.clone()));
        if self.reach.load().service_revision != settings.service_revision {
            let (breaker, service_revision) = (settings.breaker.clone(), settings.service_revision);
            let (service, bare) = (adapted(settings), settings.service.clone());
            self.reach.store(Arc::new(Connector { service, bare, breaker, service_revision }));
        }
    }

    /// Returns the circuit breaker of the backend, if it has one.
    pub(crate) fn breaker(&self) -> Option<CircuitHandle> {
        self.reach.load().breaker.clone()
    }

    pub(crate) fn name(&self) -> &str {
        self.tag.name()
    }

    /// Returns the budget account for bytes read on behalf of `caller`; `address` identifies anonymous callers. The gateway's
    /// own requests are charged to the backend.
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

    /// Returns the generations that the backend supports; `None` before the first probe.
    pub(crate) fn modes(&self) -> Option<SupportedModes> {
        match self.modes.load(Ordering::Acquire) {
            0 => None,
            1 => Some(SupportedModes::Stateful),
            2 => Some(SupportedModes::Stateless),
            _ => Some(SupportedModes::Both),
        }
    }

    pub(crate) fn set_modes(&self, modes: SupportedModes) {
        let bits = match modes {
            SupportedModes::Stateful => 1,
            SupportedModes::Stateless => 2,
            SupportedModes::Both => 3,
        };
        self.modes.store(bits, Ordering::Release);
    }

    /// Clears the supported generations, unless the transport determines them.
    pub(crate) fn clear_modes(&self) {
        if self.transport == Transport::StreamableHttp {
            self.modes.store(0, Ordering::Release);
        }
    }

    /// Returns `true` if all callers share the same offers.
    pub(crate) fn shared(&self) -> bool {
        self.per_caller.is_none()
    }

    /// Records that the backend responded to a probe. `refused` means that it requires a caller's credentials.
    pub(crate) fn mark_reachable(&self, refused: bool) {
        self.reachability.store(if refused { 2 } else { 1 }, Ordering::Release);
        self.set_status(FetchStatus::Ready);
        self.mark_healthy(if refused {
            ProbeResult::RequiresUserCredentials
        } else {
            ProbeResult::Healthy
        });
    }

    /// Clears all offers. Returns `true` if there were any.
    pub(crate) fn clear_offers(&self) -> bool {
        let own = self.per_caller.as_ref().is_some_and(PerCallerCatalogs::clear);
        self.offers.swap(Arc::default()).is_known() || own
    }

    /// Returns the reason for which the backend is unavailable, if it is.
    pub(crate) fn unavailable_reason(&self) -> Option<String> {
        match self.status() {
            FetchStatus::Failed { reason, .. } => Some(reason),
            FetchStatus::Fetching { .. } | FetchStatus::Ready => self.health.unavailable_reason(),
        }
    }

    /// Returns `true` if offers have been fetched, or, with per-caller offers, if the backend has responded at all.
    pub(crate) fn has_responded(&self) -> bool {
        self.offers.load().is_known() || self.reachability.load(Ordering::Acquire) > 0
    }

    /// Returns `true` if the shared offer for clients of this generation has not been fetched yet.
    pub(crate) fn is_silent(&self, generation: Generation) -> bool {
        self.shared() && self.offers.load().of(generation).is_none()
    }

    /// Returns `true` if the backend requires a caller's credentials for the gateway's own requests.
    pub(crate) fn requires_caller_credentials(&self) -> bool {
        self.reachability.load(Ordering::Acquire) == 2
    }

    /// Sends a request through the backend's outgoing stack.
    pub(crate) async fn send(
        &self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Body>, BoxError> {
        self.begin(request).await
    }

    /// Starts a request and returns a future that does not borrow from `self`.
    pub(crate) fn begin(&self, mut request: Request<Full<Bytes>>) -> BackendFuture {
        request.extensions_mut().insert(self.tag.clone());
        self.reach.load().service.send(request)
    }

    /// Starts a request without the transport adapter.
    pub(crate) fn begin_bare(&self, mut request: Request<Full<Bytes>>) -> BackendFuture {
        request.extensions_mut().insert(self.tag.clone());
        self.reach.load().bare.send(request)
    }

    /// Returns the advice for operators when the backend rejects the gateway's credentials.
    pub(crate) fn advice(&self) -> Arc<CredentialAdvice> {
        self.advice.load_full()
    }

    /// Returns the id of a request of the gateway itself, as JSON. No request of another replica has it.
    pub(crate) fn request_id(&self) -> String {
        format!("\"vmcp:{:016x}:{}\"", self.id_prefix, self.serial())
    }

    /// Returns the number of a request in a session that no other replica uses.
    pub(crate) fn serial(&self) -> u64 {
        self.serial.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn status(&self) -> FetchStatus {
        self.status.borrow().clone()
    }

    pub(crate) fn set_status(&self, status: FetchStatus) {
        self.status.send_replace(status);
    }

    /// Marks the backend as removed from the configuration. Ends all current and later waits and streams.
    pub(crate) fn retire(&self) {
        self.retired.send_replace(true);
        let reason = format!("backend {} is no longer configured", self.name());
        let (detail, remedy) = (None, None);
        self.set_status(FetchStatus::Failed { reason, detail, remedy, is_unauthorized: false });
    }

    pub(crate) fn is_retired(&self) -> bool {
        *self.retired.borrow()
    }

    /// Waits until the backend is removed from the configuration.
    pub(crate) async fn retired(&self) {
        let retired = self.retired.subscribe().wait_for(|retired| *retired).await.map(drop);
        retired.expect("the sender is owned by `self`");
    }

    /// Waits until the first attempt to fetch the offer has ended, at most `patience` after it began.
    pub(crate) async fn wait_ready(&self, patience: std::time::Duration) {
        let FetchStatus::Fetching { since } = self.status() else { return };
        let mut watching = self.status.subscribe();
        let settled = watching.wait_for(|status| !matches!(status, FetchStatus::Fetching { .. }));
        // After that time, the caller continues with what is known.
        _ = tokio::time::timeout_at(since + patience, settled).await;
    }
}

impl fmt::Debug for BackendHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("backend", &self.tag).finish_non_exhaustive()
    }
}
