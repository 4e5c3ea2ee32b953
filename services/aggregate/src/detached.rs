//! Calls whose client is not connected: how long they go on, and how much may wait for their clients.
//!
//! A client with a session may come back for the answer to a call (MCP 2025-11-25, Streamable HTTP, Resumability and
//! Redelivery), and a client without one for a suspended call. What waits for both comes out of one budget.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use tokio::time::Instant;
use vmcp_core::{Identity, network};

use crate::session::lock;

/// What a call is charged for its task, its connection to the backend and its tables, in bytes.
const CALL: usize = 32 << 10;

/// Byte budget of what waits for clients that are not connected.
///
/// One owner gets at most as much as would be left for others: half of the budget if it is the only one.
#[derive(Debug)]
pub(crate) struct DetachedBudget {
    limit: usize,
    used: Mutex<Used>,
}

#[derive(Debug, Default)]
struct Used {
    bytes: usize,
    calls: usize,
    by_owner: HashMap<Owner, usize>,
    ended: u64,
}

/// Owner of what waits: an identity, or the network of anonymous callers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Owner {
    identity: Identity,
    network: Option<IpAddr>,
}

/// Share of one owner in the budget.
#[derive(Clone, Debug)]
pub(crate) struct Account {
    budget: Arc<DetachedBudget>,
    owner: Owner,
}

/// Bytes of the budget, given back when dropped.
#[derive(Debug)]
pub(crate) struct Reservation {
    account: Account,
    bytes: usize,
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
        Arc::new(Self { limit, used: Mutex::default() })
    }

    /// Counts a call that was ended because its client was away for too long, or too much waited for it.
    pub(crate) fn note_ended(&self) {
        lock(&self.used).ended += 1;
    }

    pub(crate) fn counts(&self) -> Counts {
        let used = lock(&self.used);
        Counts { calls: used.calls, bytes: used.bytes, ended: used.ended }
    }
}

impl Used {
    /// The most bytes that an owner with `own` may have more.
    fn room(&self, limit: usize, own: usize) -> usize {
        limit.saturating_sub(self.bytes + own) / 2
    }
}

impl Owner {
    /// `address` is that of an anonymous caller, if it is known.
    pub(crate) fn new(identity: Identity, address: Option<IpAddr>) -> Self {
        let network = address.filter(|_| identity.is_anonymous()).map(network);
        Self { identity, network }
    }
}

impl Account {
    pub(crate) fn new(budget: &Arc<DetachedBudget>, owner: Owner) -> Self {
        Self { budget: Arc::clone(budget), owner }
    }

    /// An empty reservation.
    pub(crate) fn open(&self) -> Reservation {
        Reservation { account: self.clone(), bytes: 0, is_call: false }
    }

    /// A reservation for a call that goes on; `None` where the owner has too many.
    pub(crate) fn open_call(&self) -> Option<Reservation> {
        let mut reservation = self.open();
        if !reservation.set(CALL) {
            return None;
        }
        reservation.is_call = true;
        lock(&self.budget.used).calls += 1;
        Some(reservation)
    }
}

impl Reservation {
    /// Reserves this many bytes instead of what is reserved, the charge for the call aside. `false`, and nothing
    /// changes, where that is more than there is room for.
    pub(crate) fn resize(&mut self, bytes: usize) -> bool {
        let charge = if self.is_call { CALL } else { 0 };
        self.set(bytes + charge)
    }

    /// The most bytes that [`Self::resize`] would reserve now.
    pub(crate) fn most(&self) -> usize {
        let Account { budget, owner } = &self.account;
        let used = lock(&budget.used);
        let own = used.by_owner.get(owner).copied().unwrap_or_default();
        let charge = if self.is_call { CALL } else { 0 };
        self.bytes - charge + used.room(budget.limit, own)
    }

    /// Ends the charge for the call, which is over.
    pub(crate) fn end_call(&mut self) {
        if std::mem::take(&mut self.is_call) {
            lock(&self.account.budget.used).calls -= 1;
            self.set(self.bytes - CALL);
        }
    }

    fn set(&mut self, bytes: usize) -> bool {
        let Account { budget, owner } = &self.account;
        let mut used = lock(&budget.used);
        let own = used.by_owner.get(owner).copied().unwrap_or_default();
        if bytes > self.bytes && bytes - self.bytes > used.room(budget.limit, own) {
            return false;
        }
        used.bytes = used.bytes - self.bytes + bytes;
        match own - self.bytes + bytes {
            0 => _ = used.by_owner.remove(owner),
            own => _ = used.by_owner.insert(owner.clone(), own),
        }
        drop(used);
        self.bytes = bytes;
        true
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
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn account(budget: &Arc<DetachedBudget>, subject: &str) -> Account {
        Account::new(budget, Owner::new(Identity::new("i", subject), None))
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
        assert!(lock(&budget.used).by_owner.is_empty());
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

    #[test]
    fn anonymous_callers_share_by_network() {
        let owner = |address: &str| Owner::new(Identity::anonymous(), address.parse().ok());
        assert_eq!(owner("2001:db8::1"), owner("2001:db8::2:3"));
        assert_ne!(owner("10.0.0.1"), owner("10.0.0.2"));
        let named = |address: &str| Owner::new(Identity::new("i", "s"), address.parse().ok());
        assert_eq!(named("10.0.0.1"), named("10.0.0.2"));
    }

    proptest! {
        #[test]
        fn never_exceeds_the_budget(steps in prop::collection::vec((0..4usize, 0..1500usize), 1..200)) {
            let budget = DetachedBudget::new(1000);
            let mut open: Vec<_> =
                (0..4).map(|n| account(&budget, if n < 2 { "a" } else { "b" }).open()).collect();
            for (index, bytes) in steps {
                let (before, most) = (open[index].bytes, open[index].most());
                let taken = open[index].resize(bytes);
                prop_assert_eq!(taken, bytes <= most || bytes <= before);
                let sum: usize = open.iter().map(|it| it.bytes).sum();
                prop_assert_eq!(budget.counts().bytes, sum);
                prop_assert!(sum <= 1000);
                prop_assert!(open[0].bytes + open[1].bytes <= 500);
            }
            drop(open);
            prop_assert_eq!(budget.counts().bytes, 0);
        }
    }
}
