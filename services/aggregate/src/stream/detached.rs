//! Calls that continue after their client has disconnected: limits on their duration and on buffered messages.
//!
//! A client with a session may return for the response to a call (MCP 2025-11-25, Streamable HTTP, Resumability and
//! Redelivery), a client without one for a suspended call. One budget covers the buffered messages of both.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::time::Instant;
use vmcp_core::{BudgetAccount, ByteBudget, Identity};

use vmcp_core::lock;

/// Bytes charged for a call's task, its connection to the backend and its tables.
const CALL_CHARGE: usize = 32 << 10;

/// Byte budget for messages to disconnected clients.
#[derive(Debug)]
pub(crate) struct DetachedBudget {
    bytes: ByteBudget,
    /// Number of detached calls. Relaxed, like `ended`: it is only reported and guards no other memory.
    calls: AtomicUsize,
    ended: AtomicU64,
}

/// Budgets for messages to clients.
#[derive(Clone, Debug)]
pub(crate) struct ClientBudgets {
    /// Budget for messages to disconnected clients.
    pub(crate) detached: Arc<DetachedBudget>,
    /// Budget of the process, if it has one.
    pub(crate) process: Option<ByteBudget>,
}

/// Budget accounts of one client: one while it is connected, one while it is not.
#[derive(Clone, Debug)]
pub(crate) struct ClientAccount {
    budget: Arc<DetachedBudget>,
    detached: BudgetAccount,
    /// `None` if the process has no budget.
    pub(crate) connected: Option<BudgetAccount>,
}

/// Bytes reserved from the budget. Dropping it releases them.
#[derive(Debug)]
pub(crate) struct Reservation {
    budget: Arc<DetachedBudget>,
    bytes: vmcp_core::Reservation,
    /// `true` if the reservation includes the charge for a detached call.
    is_call: bool,
}

/// Record of a session request whose client disconnected before the response.
#[derive(Debug)]
pub(crate) struct Disconnect {
    pub(crate) at: Instant,
    reservation: Mutex<Reservation>,
}

/// Counters of the budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DetachedCounts {
    pub(crate) calls: usize,
    pub(crate) bytes: usize,
    pub(crate) ended: u64,
}

impl DetachedBudget {
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        let (bytes, calls, ended) =
            (ByteBudget::new(limit), AtomicUsize::new(0), AtomicU64::new(0));
        Arc::new(Self { bytes, calls, ended })
    }

    /// Counts a call that was ended because its client was away for too long or its messages exceeded the budget.
    pub(crate) fn count_ended(&self) {
        self.ended.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn counts(&self) -> DetachedCounts {
        DetachedCounts {
            calls: self.calls.load(Ordering::Relaxed),
            bytes: self.bytes.counts().held,
            ended: self.ended.load(Ordering::Relaxed),
        }
    }
}

impl ClientBudgets {
    /// Returns the accounts for messages to a client, connected or not.
    pub(crate) fn account(&self, identity: &Identity, address: Option<IpAddr>) -> ClientAccount {
        ClientAccount::new(&self.detached, self.process.as_ref(), identity, address)
    }

    /// Returns the client's account in the budget of the process, if that has one.
    pub(crate) fn process_account(
        &self,
        identity: &Identity,
        address: Option<IpAddr>,
    ) -> Option<BudgetAccount> {
        let budget = self.process.as_ref()?;
        Some(budget.account(budget.caller(identity, address)))
    }
}

impl ClientAccount {
    /// Creates the accounts of `identity`, or of the network of `address` for anonymous callers. `process` is the budget for
    /// messages to connected clients.
    pub(crate) fn new(
        budget: &Arc<DetachedBudget>,
        process: Option<&ByteBudget>,
        identity: &Identity,
        address: Option<IpAddr>,
    ) -> Self {
        let of = |bytes: &ByteBudget| bytes.account(bytes.caller(identity, address));
        Self { budget: Arc::clone(budget), detached: of(&budget.bytes), connected: process.map(of) }
    }

    /// Creates an empty reservation.
    pub(crate) fn open(&self) -> Reservation {
        Reservation {
            budget: Arc::clone(&self.budget),
            bytes: self.detached.open(),
            is_call: false,
        }
    }

    /// Creates a reservation for a detached call; `None` if the owner has too many.
    pub(crate) fn open_call(&self) -> Option<Reservation> {
        let mut reservation = self.open();
        if !reservation.set(CALL_CHARGE) {
            return None;
        }
        reservation.is_call = true;
        self.budget.calls.fetch_add(1, Ordering::Relaxed);
        Some(reservation)
    }
}

impl Reservation {
    /// Resizes the reservation to this many bytes, plus the charge for the call. Returns `false` and leaves it unchanged if the
    /// budget is insufficient.
    pub(crate) fn resize(&mut self, bytes: usize) -> bool {
        self.set(bytes + self.charge())
    }

    /// Returns the maximum that [`Self::resize`] can reserve now.
    pub(crate) fn most(&self) -> usize {
        self.bytes.bytes() - self.charge() + self.bytes.room()
    }

    /// Releases the charge for a call that has ended.
    pub(crate) fn end_call(&mut self) {
        let charge = self.charge();
        if std::mem::take(&mut self.is_call) {
            self.budget.calls.fetch_sub(1, Ordering::Relaxed);
            self.set(self.bytes.bytes() - charge);
        }
    }

    fn charge(&self) -> usize {
        if self.is_call { CALL_CHARGE } else { 0 }
    }

    fn set(&mut self, bytes: usize) -> bool {
        self.bytes.shrink(bytes);
        self.bytes.try_grow(bytes - self.bytes.bytes()).is_ok()
    }
}

impl Disconnect {
    /// Records the departure of the client; `None` if its owner has too many detached calls.
    pub(crate) fn new(account: &ClientAccount) -> Option<Self> {
        let reservation = Mutex::new(account.open_call()?);
        Some(Self { at: Instant::now(), reservation })
    }

    /// Reserves bytes that are buffered for the request. Returns `false` if the budget is insufficient.
    pub(crate) fn may_buffer(&self, bytes: usize) -> bool {
        lock(&self.reservation).resize(bytes)
    }

    /// Releases the reservation because the request has its response, or a stream that reserves by itself.
    pub(crate) fn release(&self) {
        let mut reservation = lock(&self.reservation);
        reservation.end_call();
        reservation.resize(0);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.end_call();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn account(budget: &Arc<DetachedBudget>, subject: &str) -> ClientAccount {
        ClientAccount::new(budget, None, &Identity::new("i", subject), None)
    }

    #[test]
    fn limits_bytes_per_owner() {
        let budget = DetachedBudget::new(1 << 20);
        let (mut mine, mut other) = (account(&budget, "a").open(), account(&budget, "b").open());
        assert!(!mine.resize((1 << 19) + 1));
        assert!(mine.resize(1 << 19));
        assert_eq!(other.most(), 1 << 18);
        assert!(!other.resize((1 << 18) + 1));
        assert!(other.resize(1 << 18));
        assert!(!mine.resize((1 << 19) + 1), "it has more than is left");
        drop(mine);
        drop(other);
        assert_eq!(budget.counts(), DetachedCounts { calls: 0, bytes: 0, ended: 0 });
    }

    #[test]
    fn calls_are_counted_until_they_end() {
        let budget = DetachedBudget::new(4 * CALL_CHARGE);
        let account = account(&budget, "a");
        let mut calls: Vec<_> = std::iter::from_fn(|| account.open_call()).collect();
        assert_eq!((calls.len(), budget.counts().calls), (2, 2));
        let first = calls.first_mut().unwrap();
        first.end_call();
        assert!(first.resize(100));
        assert_eq!(
            budget.counts(),
            DetachedCounts { calls: 1, bytes: CALL_CHARGE + 100, ended: 0 }
        );
        calls.clear();
        assert_eq!(budget.counts(), DetachedCounts { calls: 0, bytes: 0, ended: 0 });
    }

    proptest! {
        #[test]
        fn never_exceeds_the_budget(steps in prop::collection::vec((0..4usize, 0..1500usize), 1..200)) {
            let budget = DetachedBudget::new(1000);
            let mut open: Vec<_> =
                (0..4).map(|n| account(&budget, if n < 2 { "a" } else { "b" }).open()).collect();
            for (index, bytes) in steps {
                let (before, most) = (open[index].bytes.bytes(), open[index].most());
                let taken = open[index].resize(bytes);
                prop_assert_eq!(taken, bytes <= most || bytes <= before);
                let sum: usize = open.iter().map(|it| it.bytes.bytes()).sum();
                prop_assert_eq!(budget.counts().bytes, sum);
                prop_assert!(sum <= 1000);
                prop_assert!(open[0].bytes.bytes() + open[1].bytes.bytes() <= 500);
            }
            drop(open);
            prop_assert_eq!(budget.counts().bytes, 0);
        }
    }
}
