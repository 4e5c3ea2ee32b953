//! Suspended calls of stateless clients. When a stateful backend sends a server request during a call, the client receives it
//! as a result and responds with a new request. Until then the call is suspended here: it is found by its handle and resumed at
//! most once, by its own caller only.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Mutex;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use vmcp_core::{BoxError, Caller, Identity, Rejection, RequestContext, Reservation, network};

use vmcp_core::lock;

/// Table of suspended calls.
#[derive(Debug)]
pub(crate) struct SuspendedCalls {
    /// An entry exists as long as its [`SuspendedCall`], or until the call is taken.
    table: Mutex<HashMap<Handle, TableEntry>>,
    most: usize,
    most_per_caller: usize,
}

/// Handle of a suspended call: 128 random bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Handle(u128);

#[derive(Debug)]
struct TableEntry {
    caller: Identity,
    /// Network of an anonymous caller.
    network: Option<IpAddr>,
    resume: oneshot::Sender<Resumption>,
}

/// Request that resumes a suspended call.
#[derive(Debug)]
pub(crate) struct Resumption {
    /// Value of `inputResponses`.
    pub(crate) responses: Bytes,
    /// Channel to the new response.
    pub(crate) outlet: CallEventSender,
    /// The caller who began the call, with a token that may be newer.
    pub(crate) caller: Caller,
    /// Record of the resuming request, if a layer observes it.
    pub(crate) cause: Option<RequestContext>,
}

/// Sender of a call's events.
pub(crate) type CallEventSender = mpsc::Sender<CallEvent>;

/// Event of a call.
#[derive(Debug)]
pub(crate) enum CallEvent {
    /// Notification for the client, its share of the limit on queued bytes, and its reservation.
    Message(Bytes, OwnedSemaphorePermit, Option<Reservation>),
    /// The call is suspended. Each server request has a key.
    Questions(Handle, Vec<(String, Bytes)>),
    /// The backend's response, unmodified, and its reservation.
    Answer(Bytes, Option<Reservation>),
    /// The call has failed.
    Failed(BoxError),
    /// The call cannot continue with this client.
    Refused(Rejection),
}

/// Slot in the table. Dropping it frees the slot.
#[derive(Debug)]
pub(crate) struct SuspendedCall<'a> {
    table: &'a SuspendedCalls,
    pub(crate) handle: Handle,
    pub(crate) resumed: oneshot::Receiver<Resumption>,
}

impl SuspendedCalls {
    pub(crate) fn new(most: usize, most_per_caller: usize) -> Self {
        Self { table: Mutex::default(), most, most_per_caller }
    }

    /// Reserves a slot for a call; `None` if the table or the caller's share of it is full. Anonymous callers share a limit per
    /// network of `address`.
    pub(crate) fn suspend(
        &self,
        caller: &Identity,
        address: Option<IpAddr>,
    ) -> Option<SuspendedCall<'_>> {
        let mut random = [0; 16];
        getrandom::fill(&mut random).ok()?;
        let handle = Handle(u128::from_be_bytes(random));
        let network = address.filter(|_| caller.is_anonymous()).map(network);
        let mut table = lock(&self.table);
        let is_own = |it: &&TableEntry| it.caller == *caller && it.network == network;
        let own = table.values().filter(is_own).count();
        if table.len() >= self.most || own >= self.most_per_caller {
            return None;
        }
        let (resume, resumed) = oneshot::channel();
        table.insert(handle, TableEntry { caller: caller.clone(), network, resume });
        Some(SuspendedCall { table: self, handle, resumed })
    }

    /// Removes a call of `caller` in order to resume it. An anonymous caller is identified by the handle alone, because it may
    /// have moved to another network.
    pub(crate) fn take(
        &self,
        handle: Handle,
        caller: &Identity,
    ) -> Option<oneshot::Sender<Resumption>> {
        let mut table = lock(&self.table);
        table.get(&handle).filter(|waiting| waiting.caller == *caller)?;
        table.remove(&handle).map(|waiting| waiting.resume)
    }

    /// Returns the number of suspended calls.
    pub(crate) fn len(&self) -> usize {
        lock(&self.table).len()
    }
}

impl Drop for SuspendedCall<'_> {
    fn drop(&mut self) {
        lock(&self.table.table).remove(&self.handle);
    }
}

impl Handle {
    /// Encodes the handle and that of this replica as text, to be sealed.
    pub(crate) fn to_text(self, replica: Option<&str>) -> String {
        let replica = replica.unwrap_or_default();
        format!("{:032x}{replica}", self.0)
    }

    /// Parses a handle and that of its replica.
    pub(crate) fn parse(text: &str) -> Option<(Self, Option<&str>)> {
        let (handle, replica) = text.split_at_checked(32)?;
        let handle = u128::from_str_radix(handle, 16).ok().map(Self)?;
        Some((handle, (!replica.is_empty()).then_some(replica)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_own_caller_takes_call_once() {
        let calls = SuspendedCalls::new(10, 10);
        let (alice, mallory) = (Identity::new("i", "alice"), Identity::new("i", "mallory"));
        let place = calls.suspend(&alice, None).unwrap();
        let text = place.handle.to_text(Some("replica"));
        assert_eq!(Handle::parse(&text), Some((place.handle, Some("replica"))));
        let text = place.handle.to_text(None);
        let (handle, replica) = Handle::parse(&text).unwrap();
        assert_eq!(replica, None);
        assert!(calls.take(handle, &mallory).is_none());
        assert!(calls.take(handle, &alice).is_some());
        assert!(calls.take(handle, &alice).is_none());
    }

    #[tokio::test]
    async fn limits_suspended_calls_per_caller() {
        let calls = SuspendedCalls::new(3, 2);
        let (alice, bob) = (Identity::new("i", "alice"), Identity::new("i", "bob"));
        let first = calls.suspend(&alice, None).unwrap();
        let _second = calls.suspend(&alice, None).unwrap();
        assert!(calls.suspend(&alice, None).is_none());
        let _third = calls.suspend(&bob, None).unwrap();
        assert!(calls.suspend(&bob, None).is_none(), "all are taken");
        drop(first);
        assert!(calls.suspend(&alice, None).is_some());
        assert_eq!(calls.len(), 2);
    }
}
