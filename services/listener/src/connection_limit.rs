//! Limit of connections, with eviction of idle connections.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use tokio::time::Instant;

use vmcp_core::lock;

use crate::event_loop::Activity;

/// Number of connections for probes, in addition to the limit of all others.
pub const RESERVED_CONNECTIONS: usize = 256;

/// Minimum idle time before a connection is evicted. The first request of a new connection may still be in transit.
const MIN_IDLE: Duration = Duration::from_millis(100);

/// Bounded set of connections. At the limit, a new connection gets the place of the connection that has been idle
/// longest.
#[derive(Debug)]
pub(crate) struct ConnectionSlots {
    limit: usize,
    min_idle: Duration,
    /// Connections with a place, by number: at most `limit`. The drop of a [`ConnectionSlot`] removes its entry, unless an
    /// eviction has removed it before.
    open: Mutex<HashMap<u64, Activity>>,
    /// Number of the next connection. Relaxed: each takes another number, in any order.
    next_id: AtomicU64,
    /// Number of evictions, for a gauge. Relaxed: it guards no other memory.
    evictions: AtomicU64,
}

/// Place of a connection, until the place is dropped or the connection is evicted.
#[derive(Debug)]
pub(crate) struct ConnectionSlot {
    slots: Arc<ConnectionSlots>,
    id: u64,
}

/// Places of a listener: those for requests, and the reserve, which serves only probes.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionLimit {
    requests: Arc<ConnectionSlots>,
    reserve: Arc<ConnectionSlots>,
    /// Notified of each closed connection.
    released: Arc<Notify>,
}

/// Permit of a connection. One in the reserve serves only probes, until a regular place is free.
#[derive(Clone, Debug)]
pub struct ConnectionPermit(Arc<PermitState>);

#[derive(Debug)]
struct PermitState {
    activity: Activity,
    requests: Arc<ConnectionSlots>,
    /// The regular place, otherwise the one in the reserve. Changes once, from the reserve to a regular place.
    slot: Mutex<Result<ConnectionSlot, ConnectionSlot>>,
    released: Arc<Notify>,
}

impl ConnectionSlots {
    fn new(limit: usize, min_idle: Duration) -> Arc<Self> {
        let (next_id, evictions) = (AtomicU64::new(0), AtomicU64::new(0));
        Arc::new(Self { limit, min_idle, open: Mutex::default(), next_id, evictions })
    }

    /// Assigns a place to a connection. Returns `None` if no other connection has been idle for `min_idle`.
    fn take(self: &Arc<Self>, activity: &Activity) -> Option<ConnectionSlot> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let mut open = self.lock();
        let oldest =
            if open.len() < self.limit { None } else { Some(self.take_oldest(&mut open)?) };
        open.insert(id, activity.clone());
        drop(open);
        self.evict(oldest);
        Some(ConnectionSlot { slots: Arc::clone(self), id })
    }

    /// Evicts an idle connection, if there is one.
    fn make_room(&self) -> bool {
        let oldest = self.take_oldest(&mut self.lock());
        self.evict(oldest)
    }

    /// Takes the place of the connection that has been idle longest, at least for the minimum time. The place is free
    /// immediately, although the socket of the evicted connection closes later.
    fn take_oldest(&self, open: &mut HashMap<u64, Activity>) -> Option<Activity> {
        let idle = open.iter().filter_map(|(id, activity)| Some((activity.idle_since()?, *id)));
        let (since, oldest) = idle.min()?;
        let now = Instant::now();
        let is_new =
            |it: &Activity| since > it.to_nanos(now.checked_sub(self.min_idle).unwrap_or(now));
        if open.get(&oldest).is_none_or(is_new) { None } else { open.remove(&oldest) }
    }

    fn evict(&self, connection: Option<Activity>) -> bool {
        let Some(connection) = connection else { return false };
        self.evictions.fetch_add(1, Ordering::Relaxed);
        connection.evict();
        true
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Activity>> {
        lock(&self.open)
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        // An evicted connection has no place any more.
        self.slots.lock().remove(&self.id);
    }
}

impl ConnectionLimit {
    pub(crate) fn new(connections: usize) -> Self {
        Self {
            requests: ConnectionSlots::new(connections, MIN_IDLE),
            reserve: ConnectionSlots::new(RESERVED_CONNECTIONS, Duration::ZERO),
            released: Arc::default(),
        }
    }

    /// Assigns a place to a connection, in the reserve if necessary. Returns `None` if the reserve is full of active
    /// connections.
    pub(crate) fn admit(&self, activity: &Activity) -> Option<ConnectionPermit> {
        let slot = match self.requests.take(activity) {
            Some(slot) => Ok(slot),
            None => Err(self.reserve.take(activity)?),
        };
        let (activity, requests) = (activity.clone(), Arc::clone(&self.requests));
        let (slot, released) = (Mutex::new(slot), Arc::clone(&self.released));
        Some(ConnectionPermit(Arc::new(PermitState { activity, requests, slot, released })))
    }

    /// Evicts the connection that has been idle longest, even if places are free. Returns `false` if no connection
    /// has been idle for the minimum time.
    pub(crate) fn make_room(&self) -> bool {
        self.requests.make_room() || self.reserve.make_room()
    }

    /// Waits for the next closed connection, from the first poll or `enable` of the future.
    pub(crate) fn released(&self) -> Notified<'_> {
        self.released.notified()
    }

    /// Returns the number of evicted connections.
    pub(crate) fn evictions(&self) -> u64 {
        let both = [&self.requests, &self.reserve];
        both.iter().map(|slots| slots.evictions.load(Ordering::Relaxed)).sum()
    }
}

impl ConnectionPermit {
    /// Returns `true` if the connection has only a reserve place.
    pub(crate) fn is_reserve(&self) -> bool {
        self.0.lock().is_err()
    }

    /// Returns `true` if the connection may send requests: it has a regular place, or takes one now.
    #[must_use]
    pub fn admit(&self) -> bool {
        let mut slot = self.0.lock();
        if slot.is_ok() {
            return true;
        }
        let Some(regular) = self.0.requests.take(&self.0.activity) else { return false };
        *slot = Ok(regular);
        true
    }
}

impl Drop for PermitState {
    fn drop(&mut self) {
        // Tickets are dropped after the socket of their connection.
        self.released.notify_waiters();
    }
}

impl PermitState {
    fn lock(&self) -> MutexGuard<'_, Result<ConnectionSlot, ConnectionSlot>> {
        lock(&self.slot)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    /// Opens connections one after the other, and then lets time pass.
    async fn connections(count: u64) -> Vec<Activity> {
        let epoch = Instant::now();
        let at = |count| epoch + Duration::from_secs(count);
        advance(Duration::from_secs(count + 1)).await;
        (1..=count)
            .map(|count| {
                let activity = Activity::new(epoch);
                activity.set_idle_since(at(count));
                activity
            })
            .collect()
    }

    #[tokio::test(start_paused = true)]
    async fn evicts_oldest_idle_connection() {
        let limit = ConnectionLimit::new(3);
        let all = connections(6).await;
        let mut permits: Vec<_> =
            all[..3].iter().map(|activity| limit.admit(activity).unwrap()).collect();
        all[0].set_busy();
        permits.push(limit.admit(&all[3]).unwrap());
        let evicted =
            |all: &[Activity]| -> Vec<_> { all.iter().map(Activity::must_close).collect() };
        assert_eq!(evicted(&all[..4]), [false, true, false, false]);
        // Closing an evicted connection releases no place, since its successor has it.
        drop(permits.remove(1));
        assert_eq!((limit.requests.lock().len(), limit.evictions()), (3, 1));
        assert!(permits.iter().all(|permit| !permit.is_reserve()));
        permits.push(limit.admit(&all[4]).unwrap());
        assert_eq!(evicted(&all[2..5]), [true, false, false]);
        drop(permits);
        assert!(limit.requests.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn evicted_connection_finishes_request_first() {
        let limit = ConnectionLimit::new(1);
        let all = connections(2).await;
        let first = limit.admit(&all[0]).unwrap();
        let second = limit.admit(&all[1]).unwrap();
        // The connection's next request has already arrived.
        all[0].set_busy();
        assert!(!all[0].must_close());
        all[0].set_idle_since(Instant::now());
        assert!(all[0].must_close() && !all[1].must_close());
        drop(first);
        assert!(second.admit());
    }

    #[tokio::test(start_paused = true)]
    async fn reserve_accepts_connections_beyond_limit() {
        let limit = ConnectionLimit::new(2);
        let all = connections(3 + RESERVED_CONNECTIONS as u64).await;
        let mut permits: Vec<_> =
            all[..2].iter().map(|activity| limit.admit(activity).unwrap()).collect();
        all[..2].iter().for_each(Activity::set_busy);
        let probe = limit.admit(&all[2]).unwrap();
        assert!(probe.is_reserve() && !probe.admit());
        // The reserve is never full of idle connections.
        let more: Vec<_> = all[3..].iter().map(|activity| limit.admit(activity).unwrap()).collect();
        assert!(all[2].must_close() && more.iter().all(ConnectionPermit::is_reserve));
        assert_eq!(limit.reserve.lock().len(), RESERVED_CONNECTIONS);
        drop(permits.pop());
        all[3].set_busy();
        assert!(more[0].admit() && !more[0].is_reserve() && !more[1].admit());
        assert_eq!(
            (limit.requests.lock().len(), limit.reserve.lock().len()),
            (2, RESERVED_CONNECTIONS - 1)
        );
    }

    #[tokio::test(start_paused = true)]
    async fn new_connection_has_grace_period_for_request() {
        let limit = ConnectionLimit::new(1);
        let all = connections(3).await;
        all[0].set_idle_since(Instant::now());
        let _first = limit.admit(&all[0]).unwrap();
        assert!(limit.admit(&all[1]).unwrap().is_reserve());
        advance(MIN_IDLE).await;
        assert!(!limit.admit(&all[2]).unwrap().is_reserve() && all[0].must_close());
    }
}
