//! Catalogs as single callers see them, where some backends offer each caller something else: what is
//! everybody's and what is their own together, made once for all who are offered the same.

use std::sync::{Arc, Mutex};

use futures_util::future::join_all;
use tokio::task::spawn_blocking;
use vmcp_core::{Caller, Flights, Generation, Rejection, Trail};

use crate::backend::Link;
use crate::backend::own::Content;
use crate::catalog::SerialRef;
use crate::hub::{Combined, FEW, Hub, Snapshot};
use crate::kept::Kept;
use crate::session::lock;

/// The most such catalogs that are kept.
const MOST: usize = 1024;

/// The most bytes that they take.
const MOST_BYTES: usize = 128 << 20;

/// See the module.
#[derive(Debug)]
pub(crate) struct Mixed {
    kept: Mutex<Kept<Key, Key, Combined>>,
    flights: Flights<Key, Option<Arc<Combined>>>,
}

/// What everybody is offered, and the caller's own offers in the order of the backends.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    shared: SerialRef,
    own: Box<[Option<u64>]>,
}

/// The caller's own offers, in the order of the backends that have such.
type Offers = Vec<Option<Arc<Content>>>;

/// What a caller is offered, as far as it is known.
pub(crate) struct Seen {
    pub(crate) catalogs: Arc<Combined>,
    /// Whose own offers are missing, and why.
    pub(crate) missing: Vec<(Arc<Link>, Rejection)>,
}

impl Mixed {
    pub(crate) fn new() -> Self {
        Self { kept: Mutex::new(Kept::new(MOST, MOST_BYTES)), flights: Flights::new() }
    }

    /// Lets go of what was made of catalogs that are no longer there.
    pub(crate) fn sweep(&self) {
        lock(&self.kept).retain(|key| key.shared.is_alive());
    }

    fn known(&self, key: &Key) -> Option<Arc<Combined>> {
        lock(&self.kept).get(key)
    }

    pub(crate) fn len(&self) -> usize {
        lock(&self.kept).len()
    }
}

impl Key {
    fn new(shared: &Combined, offers: &Offers) -> Self {
        let serial = |offer: &Option<Arc<Content>>| offer.as_ref().map(|offer| offer.serial);
        let shared = shared.of(Generation::Stateful).serial.refer();
        Self { shared, own: offers.iter().map(serial).collect() }
    }

    /// Whether the caller is offered what everybody is.
    fn is_plain(&self) -> bool {
        self.own.iter().all(Option::is_none)
    }
}

impl Hub {
    /// What a caller is offered, if that needs no waiting.
    pub(crate) fn known_to(
        self: &Arc<Self>,
        snapshot: &Snapshot,
        caller: &Caller,
        cause: Option<&Trail>,
    ) -> Option<Arc<Combined>> {
        let own = snapshot.links.iter().filter(|link| !link.shared());
        let offers: Offers =
            own.map(|link| link.known_to(self, caller, cause)).collect::<Result<_, _>>().ok()?;
        let shared = snapshot.catalogs();
        let key = Key::new(&shared, &offers);
        if key.is_plain() { Some(shared) } else { self.mixed.known(&key) }
    }

    /// What a caller is offered, with what is still on its way, each for a while from when it was asked
    /// for first. `None` if that could not be brought together.
    pub(crate) async fn seen_by(
        self: &Arc<Self>,
        snapshot: &Arc<Snapshot>,
        caller: &Caller,
        cause: Option<&Trail>,
    ) -> Option<Seen> {
        let patience = snapshot.patience();
        let own: Vec<_> = snapshot.links.iter().filter(|link| !link.shared()).collect();
        let offers = own.iter().map(|link| link.offer_to(self, caller, cause, patience));
        let offers = join_all(offers).await;
        let missing = own.into_iter().zip(&offers).filter_map(|(link, offer)| {
            let refusal = offer.as_ref().err()?;
            Some((Arc::clone(link), refusal.clone()))
        });
        let missing = missing.collect();
        let offers: Offers = offers.into_iter().map(Result::ok).collect();
        let shared = snapshot.catalogs();
        let key = Key::new(&shared, &offers);
        let catalogs =
            if key.is_plain() { shared } else { self.mix(snapshot, key, offers).await? };
        Some(Seen { catalogs, missing })
    }

    async fn mix(
        self: &Arc<Self>,
        snapshot: &Arc<Snapshot>,
        key: Key,
        offers: Offers,
    ) -> Option<Arc<Combined>> {
        if let Some(known) = self.mixed.known(&key) {
            return Some(known);
        }
        let own = offers.iter().flatten().map(|content| content.offers.len()).sum::<usize>();
        let many = snapshot.items() + own > FEW;
        let making = {
            let (hub, snapshot, key) = (Arc::clone(self), Arc::clone(snapshot), key.clone());
            move || {
                let made = Arc::new(snapshot.combine(&offers));
                let bytes = made.size();
                lock(&hub.mixed.kept).insert(key.clone(), key, made, bytes)
            }
        };
        let make =
            || async move { if many { spawn_blocking(making).await.ok() } else { Some(making()) } };
        self.mixed.flights.join(key, make).await
    }
}
