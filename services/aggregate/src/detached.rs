//! Calls whose client is not connected: how long they go on, and how much may wait for their clients.
//!
//! A client with a session may come back for the answer to a call (MCP 2025-11-25, Streamable HTTP, Resumability and
//! Redelivery), and a client without one for a suspended call. What waits for both comes out of one budget.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::time::Instant;
use vmcp_core::{BudgetAccount, ByteBudget, Identity};

use crate::session::lock;

/// Bytes charged for a call's task, its connection to the backend and its tables.
const CALL: usize = 32 << 10;

/// Byte budget of what waits for clients that are not connected.
#[derive(Debug)]
pub(crate) struct DetachedBudget {
    bytes: ByteBudget,
    /// Calls that go on without their clients. Relaxed, as `ended`: a number for people.
    calls: AtomicUsize,
    ended: AtomicU64,
}

/// Accounts of one client: for what waits for it while it is connected, and while it is not.
#[derive(Clone, Debug)]
pub(crate) struct Account {
    budget: Arc<DetachedBudget>,
    detached: BudgetAccount,
    /// `None` where the process has no budget.
    pub(crate) connected: Option<BudgetAccount>,
}

/// Bytes of the budget, given back when dropped.
#[derive(Debug)]
pub(crate) struct Reservation {
    budget: Arc<DetachedBudget>,
    account: BudgetAccount,
    bytes: vmcp_core::Reservation,
    /// Whether a call that goes on is charged and counted.
    is_call: bool,
}

/// Request of a session whose client left before it was answered.
#[derive(Debug)]
pub(crate) struct Departure {
    pub(crate) at: Instant,
    reservation: Mutex<Reservation>,
}

/// Numbers of the budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counts {
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

    /// Counts a call that was ended because its client was away for too long, or too much waited for it.
    pub(crate) fn note_ended(&self) {
        self.ended.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn counts(&self) -> Counts {
        Counts {
            calls: self.calls.load(Ordering::Relaxed),
            bytes: self.bytes.counts().held,
            ended: self.ended.load(Ordering::Relaxed),
        }
    }
}

impl Account {
    /// The accounts of `identity`, or of the network of `address` if it is anonymous. `process` is the budget of what waits
    /// for connected clients.
    pub(crate) fn new(
        budget: &Arc<DetachedBudget>,
        process: Option<&ByteBudget>,
        identity: &Identity,
        address: Option<IpAddr>,
    ) -> Self {
        let of = |bytes: &ByteBudget| bytes.account(bytes.caller(identity, address));
        Self { budget: Arc::clone(budget), detached: of(&budget.bytes), connected: process.map(of) }
    }

    /// An empty reservation.
    pub(crate) fn open(&self) -> Reservation {
        Reservation {
            budget: Arc::clone(&self.budget),
            account: self.detached.clone(),
            bytes: self.detached.open(),
            is_call: false,
        }
    }

    /// A reservation for a call that goes on; `None` where the owner has too many.
    pub(crate) fn open_call(&self) -> Option<Reservation> {
        let mut reservation = self.open();
        if !reservation.set(CALL) {
            return None;
        }
        reservation.is_call = true;
        self.budget.calls.fetch_add(1, Ordering::Relaxed);
        Some(reservation)
    }
}

impl Reservation {
    /// Reserves this many bytes instead of what is reserved, the charge for the call aside. `false`, and nothing
    /// changes, where that is more than there is room for.
    pub(crate) fn resize(&mut self, bytes: usize) -> bool {
        self.set(bytes + self.charge())
    }

    /// The most bytes that [`Self::resize`] would reserve now.
    pub(crate) fn most(&self) -> usize {
        self.bytes.bytes() - self.charge() + self.account.room()
    }

    /// Ends the charge for the call, which is over.
    pub(crate) fn end_call(&mut self) {
        let charge = self.charge();
        if std::mem::take(&mut self.is_call) {
            self.budget.calls.fetch_sub(1, Ordering::Relaxed);
            self.set(self.bytes.bytes() - charge);
        }
    }

    fn charge(&self) -> usize {
        if self.is_call { CALL } else { 0 }
    }

    fn set(&mut self, bytes: usize) -> bool {
        self.bytes.shrink(bytes);
        self.bytes.try_grow(bytes - self.bytes.bytes()).is_ok()
    }
}

impl Departure {
    /// Notes that the client left now; `None` where its owner has too many calls that go on.
    pub(crate) fn new(account: &Account) -> Option<Self> {
        let reservation = Mutex::new(account.open_call()?);
        Some(Self { at: Instant::now(), reservation })
    }

    /// Reserves bytes that are held for the request.
    pub(crate) fn may_hold(&self, bytes: usize) -> bool {
        lock(&self.reservation).resize(bytes)
    }

    /// Gives back what is reserved: the request is answered, or its answer has a stream.
    pub(crate) fn settle(&self) {
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

    fn account(budget: &Arc<DetachedBudget>, subject: &str) -> Account {
        Account::new(budget, None, &Identity::new("i", subject), None)
    }

    #[test]
    fn one_owner_leaves_room_for_others() {
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
        assert_eq!(budget.counts(), Counts { calls: 0, bytes: 0, ended: 0 });
    }

    #[test]
    fn calls_are_counted_until_they_end() {
        let budget = DetachedBudget::new(4 * CALL);
        let account = account(&budget, "a");
        let mut calls: Vec<_> = std::iter::from_fn(|| account.open_call()).collect();
        assert_eq!((calls.len(), budget.counts().calls), (2, 2));
        let first = calls.first_mut().unwrap();
        first.end_call();
        assert!(first.resize(100));
        assert_eq!(budget.counts(), Counts { calls: 1, bytes: CALL + 100, ended: 0 });
        calls.clear();
        assert_eq!(budget.counts(), Counts { calls: 0, bytes: 0, ended: 0 });
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
