//! Per-caller offers of a backend whose credentials are those of the caller, not of the gateway. They are fetched during a
//! request of the caller and never shown to another caller.

mod caller_table;
mod fetch;
mod interned_offers;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, timeout, timeout_at};
use tracing::Instrument;
use vmcp_core::{
    BoxError, Caller, CredentialError, CredentialErrorKind, Fingerprint, Identity, Rejection,
    RequestContext, cause_ref,
};

use self::caller_table::CallerTable;
use self::fetch::fetch;
pub(crate) use self::interned_offers::InternedOffers;
use self::interned_offers::OfferInterner;
use super::BackendHandle;
use super::error::{BackendError, rejection};
use crate::backend::context::BackendContext;
use crate::catalog::Offers;
use crate::expiry;
use vmcp_core::lock;

/// Time for which an offer is fresh. The next request after that refreshes it in the background.
const FRESHNESS_LIFETIME: Duration = Duration::from_mins(1);

/// Time after which an unused offer is evicted.
const IDLE_TIMEOUT: Duration = Duration::from_mins(10);

/// Time before a failed fetch is retried.
const RETRY_DELAY: Duration = Duration::from_secs(5);

/// Timeout for a fetch.
const FETCH_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum number of times one request waits again because the fetched offer is already stale.
const MAX_WAIT_ROUNDS: usize = 3;

/// Maximum number of concurrent fetches from one backend.
const MAX_CONCURRENT_FETCHES: usize = 32;

/// Per-caller offers of one backend.
#[derive(Debug)]
pub(crate) struct PerCallerCatalogs {
    callers: Mutex<CallerTable>,
    contents: Mutex<OfferInterner>,
    fetch_permits: Semaphore,
}

/// Cache entry of one caller.
#[derive(Debug)]
struct CallerCatalog(watch::Sender<State>);

#[derive(Debug)]
struct State {
    /// Last successfully fetched offer.
    offer: Option<Arc<InternedOffers>>,
    fetched: Instant,
    used: Instant,
    /// Expiry of the token used for the last request.
    expires_at: Option<Instant>,
    /// Start of the fetch in flight.
    fetching: Option<Instant>,
    failed: Option<(Instant, Rejection)>,
    /// `true` if the backend has reported a change since the last fetch.
    stale: bool,
    /// Key of the caller's linked accounts, if known.
    links: Option<Fingerprint>,
}

/// Error for an offer that is only available after waiting.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NotFetched;

/// Next step for a request that needs an offer.
enum NextStep {
    Use(Arc<InternedOffers>),
    UseAndRefresh(Arc<InternedOffers>),
    /// No offer is available, and none is fetched before the retry time.
    Unavailable(Rejection),
    Fetch,
    /// A fetch has been in flight since this instant.
    Wait(Instant),
}

/// Guard of a fetch in flight. Dropping it ends the fetch.
struct FetchGuard {
    entry: Arc<CallerCatalog>,
    /// Key of the linked accounts when the fetch began.
    links: Option<Fingerprint>,
}

impl PerCallerCatalogs {
    pub(crate) fn new() -> Self {
        Self {
            callers: Mutex::default(),
            contents: Mutex::default(),
            fetch_permits: Semaphore::new(MAX_CONCURRENT_FETCHES),
        }
    }

    /// Returns the caller's entry and marks it as used.
    fn of(&self, caller: &Identity) -> Arc<CallerCatalog> {
        let entry = lock(&self.callers).entry(caller);
        entry.touch(caller);
        entry
    }

    /// Records that the backend notified one of the caller's sessions of a changed offer.
    pub(crate) fn changed(&self, caller: &Identity) {
        for (_, entry) in lock(&self.callers).of(caller) {
            entry.0.send_if_modified(|state| {
                state.stale = true;
                false
            });
        }
    }

    /// Removes all entries. Returns `true` if there were any.
    pub(crate) fn clear(&self) -> bool {
        std::mem::take(&mut *lock(&self.callers)).len() > 0
    }

    /// Evicts unused and expired entries.
    pub(crate) fn sweep(&self) {
        let now = Instant::now();
        lock(&self.callers).retain(|entry| {
            let state = entry.0.borrow();
            let over = state.used + IDLE_TIMEOUT <= now
                || state.expires_at.is_some_and(|expires_at| expires_at <= now);
            !over || state.fetching.is_some()
        });
        lock(&self.contents).prune();
    }

    /// Stores an offer; equal offers share one copy.
    fn keep(&self, offers: Offers) -> Arc<InternedOffers> {
        let content = lock(&self.contents).intern(offers);
        while lock(&self.contents).too_much() {
            if !lock(&self.callers).remove_oldest() {
                break;
            }
        }
        content
    }

    /// Returns the number of callers and the number of distinct offers.
    pub(crate) fn count(&self) -> (usize, usize) {
        let mut contents = lock(&self.contents);
        contents.prune();
        (lock(&self.callers).len(), contents.len())
    }
}

impl CallerCatalog {
    fn new() -> Self {
        let now = Instant::now();
        Self(watch::Sender::new(State {
            offer: None,
            fetched: now,
            used: now,
            expires_at: None,
            fetching: None,
            failed: None,
            stale: false,
            links: None,
        }))
    }

    fn used(&self) -> Instant {
        self.0.borrow().used
    }

    /// Records the key of the caller's linked accounts. If it has changed, discards the stored offer and ignores a fetch in
    /// flight.
    fn record_links(&self, links: Option<Fingerprint>) {
        let Some(links) = links else { return };
        self.0.send_if_modified(|state| {
            if state.links != Some(links) {
                (state.offer, state.failed, state.stale) = (None, None, true);
                state.links = Some(links);
            }
            false
        });
    }

    fn touch(&self, caller: &Identity) {
        let now = Instant::now();
        // An expiry that overflows `Instant` counts as never.
        let expires_at = expiry::time_to_expiry(caller).and_then(|left| now.checked_add(left));
        self.0.send_if_modified(|state| {
            (state.used, state.expires_at) = (now, expires_at);
            false
        });
    }

    /// Returns the next step. Unless `looks` is set, the caller of this function must carry out a fetch; a refresh must always
    /// be carried out, because the entry is marked as in flight.
    fn step(&self, looks: bool) -> NextStep {
        let now = Instant::now();
        let mut step = NextStep::Wait(now);
        self.0.send_if_modified(|state| {
            step = state.step(now);
            if matches!(step, NextStep::UseAndRefresh(_))
                || matches!(step, NextStep::Fetch) && !looks
            {
                (state.fetching, state.stale) = (Some(now), false);
            }
            false
        });
        step
    }

    fn last_good(&self) -> Option<Arc<InternedOffers>> {
        self.0.borrow().offer.clone()
    }
}

impl State {
    fn step(&self, now: Instant) -> NextStep {
        let failed = self.failed.as_ref().filter(|(at, _)| *at + RETRY_DELAY > now);
        match (self.offer.clone(), self.fetching, failed) {
            (Some(offer), None, None)
                if !self.stale && self.fetched + FRESHNESS_LIFETIME <= now =>
            {
                NextStep::UseAndRefresh(offer)
            }
            (Some(offer), ..) if !self.stale => NextStep::Use(offer),
            (_, Some(since), _) => NextStep::Wait(since),
            (Some(offer), None, Some(_)) => NextStep::Use(offer),
            (None, None, Some((_, rejection))) => NextStep::Unavailable(rejection.clone()),
            (_, None, None) => NextStep::Fetch,
        }
    }
}

impl BackendHandle {
    /// Returns the offer of a caller if it is known without waiting; `None` if the caller has none.
    pub(crate) fn cached_offer(
        self: &Arc<Self>,
        context: &BackendContext,
        caller: &Caller,
        cause: Option<&RequestContext>,
    ) -> Result<Option<Arc<InternedOffers>>, NotFetched> {
        let catalogs = self.per_caller.as_ref().ok_or(NotFetched)?;
        if caller.identity().is_anonymous() {
            return Ok(None);
        }
        let entry = catalogs.of(caller.identity());
        match entry.step(true) {
            NextStep::Use(offer) => Ok(Some(offer)),
            NextStep::UseAndRefresh(offer) => {
                self.spawn_fetch(context, entry, caller, cause);
                Ok(Some(offer))
            }
            NextStep::Unavailable(_) => Ok(None),
            NextStep::Fetch | NextStep::Wait(_) => Err(NotFetched),
        }
    }

    /// Returns the offer of a caller. Waits for a first fetch, at most `patience` after it began; an older offer is used
    /// meanwhile.
    pub(crate) async fn offer_for(
        self: &Arc<Self>,
        context: &BackendContext,
        caller: &Caller,
        cause: Option<&RequestContext>,
        patience: Duration,
    ) -> Result<Arc<InternedOffers>, Rejection> {
        let catalogs = self.per_caller.as_ref().ok_or_else(Rejection::internal)?;
        if caller.identity().is_anonymous() {
            return Err(self.needs_caller());
        }
        let entry = catalogs.of(caller.identity());
        if let Some(tokens) = caller.identity().upstream() {
            entry.record_links(tokens.links().await);
        }
        // Requests do not wait for a backend that is known to be unavailable.
        let patience =
            if self.health.unavailable_reason().is_some() { Duration::ZERO } else { patience };
        let deadline = Instant::now() + patience;
        for _ in 0..MAX_WAIT_ROUNDS {
            let since = match entry.step(false) {
                NextStep::Use(offer) => return Ok(offer),
                NextStep::UseAndRefresh(offer) => {
                    self.spawn_fetch(context, entry, caller, cause);
                    return Ok(offer);
                }
                NextStep::Unavailable(rejection) => return Err(rejection),
                NextStep::Fetch => {
                    self.spawn_fetch(context, Arc::clone(&entry), caller, cause);
                    Instant::now()
                }
                NextStep::Wait(since) => since,
            };
            let mut watching = entry.0.subscribe();
            let over = watching.wait_for(|state| state.fetching.is_none());
            if timeout_at(deadline.min(since + patience), over).await.is_err() {
                break;
            }
        }
        let problem = "has not returned the caller's lists yet";
        entry.last_good().ok_or_else(|| Rejection::backend_unavailable(self.name(), problem))
    }

    /// Returns the rejection for requests without an authenticated caller.
    fn needs_caller(&self) -> Rejection {
        let (backend, kind) = (self.tag.clone(), CredentialErrorKind::NoCaller);
        let error = CredentialError { backend, kind, source: None };
        rejection(self.name(), &(Box::new(error) as BoxError))
    }

    /// Fetches an offer in a background task, because the fetch may outlast the request.
    fn spawn_fetch(
        self: &Arc<Self>,
        context: &BackendContext,
        entry: Arc<CallerCatalog>,
        caller: &Caller,
        cause: Option<&RequestContext>,
    ) {
        let (context, backend, caller) = (context.clone(), Arc::clone(self), caller.clone());
        let cause = cause.cloned();
        let fetching = async move {
            let before = entry.last_good();
            let links = entry.0.borrow().links;
            let fetching = FetchGuard { entry, links };
            let known = before.as_ref().map(|content| &content.offers);
            let fetched = fetch(&context, &backend, &caller, cause.as_ref(), known);
            let fetched = timeout(FETCH_TIMEOUT, fetched).await;
            let fetched = fetched.unwrap_or_else(|_| Err(BackendError::Ended.into()));
            fetching.end(&backend, fetched);
            let Some((before, now)) = before.zip(fetching.entry.last_good()) else { return };
            let changes = now.offers.changes(&before.offers);
            context.caller_catalog_changed(caller.identity().clone(), changes).await;
        };
        tokio::spawn(fetching.in_current_span());
    }
}

impl FetchGuard {
    fn end(&self, backend: &BackendHandle, fetched: Result<Offers, BoxError>) {
        let now = Instant::now();
        let kept = match fetched {
            Ok(offer) => Ok(backend.per_caller.as_ref().map(|catalogs| catalogs.keep(offer))),
            Err(error) => {
                tracing::debug!(backend = backend.name(), %error, "failed to fetch the lists of a caller");
                Err((rejection(backend.name(), &error), is_caller_rejected(&error)))
            }
        };
        self.entry.0.send_if_modified(|state| {
            if state.links != self.links {
                return false;
            }
            match kept {
                Ok(offer) => (state.offer, state.fetched, state.failed) = (offer, now, None),
                Err((rejection, is_caller_rejected)) => {
                    state.failed = Some((now, rejection));
                    if is_caller_rejected {
                        state.offer = None;
                    }
                }
            }
            false
        });
    }
}

impl Drop for FetchGuard {
    fn drop(&mut self) {
        self.entry.0.send_modify(|state| state.fetching = None);
    }
}

/// Returns `true` if the backend rejects the caller; the caller's previous offer must not be shown any more.
fn is_caller_rejected(error: &BoxError) -> bool {
    let refused = cause_ref::<CredentialError>(error.as_ref())
        .is_some_and(|error| matches!(error.kind, CredentialErrorKind::Rejected { .. }));
    refused || super::is_unauthorized(error)
}

#[cfg(test)]
mod tests;
