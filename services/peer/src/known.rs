//! Replicas that this process has met.

use std::sync::Mutex;

use vmcp_core::lock;

use crate::error::ForwardError;
use crate::handle::ReplicaHandle;

/// Maximum number of replicas that are remembered.
const MAX_KNOWN: usize = 64;

/// Number of failed connections in a row after which a replica is forgotten. The addresses of deleted pods often do not respond.
const MAX_FAILURES: u8 = 3;

/// Replicas that this process has met, the most recent one last.
#[derive(Debug, Default)]
pub(crate) struct KnownReplicas(Mutex<Vec<KnownReplica>>);

#[derive(Debug)]
struct KnownReplica {
    handle: ReplicaHandle,
    /// Failed connections since the last one.
    failures: u8,
}

impl KnownReplicas {
    pub(crate) fn len(&self) -> usize {
        lock(&self.0).len()
    }

    /// Returns the replicas, the most recent one first.
    pub(crate) fn handles(&self) -> Vec<ReplicaHandle> {
        lock(&self.0).iter().rev().map(|known| known.handle.clone()).collect()
    }

    pub(crate) fn add(&self, handle: &ReplicaHandle) {
        let mut known = lock(&self.0);
        // An address has one process.
        let earlier = known.iter().position(|it| it.handle.address == handle.address);
        let earlier = earlier.map(|index| known.remove(index)).filter(|it| it.handle == *handle);
        if known.len() >= MAX_KNOWN {
            known.remove(0);
        }
        let failures = earlier.map_or(0, |it| it.failures);
        known.push(KnownReplica { handle: handle.clone(), failures });
    }

    /// Records the outcome of a request.
    pub(crate) fn record(&self, handle: &ReplicaHandle, error: Option<&ForwardError>) {
        let mut known = lock(&self.0);
        let Some(index) = known.iter().position(|it| it.handle == *handle) else { return };
        match error {
            Some(error) if error.is_gone() => _ = known.remove(index),
            Some(ForwardError::Unreachable { .. }) => {
                known[index].failures += 1;
                if known[index].failures >= MAX_FAILURES {
                    known.remove(index);
                }
            }
            _ => known[index].failures = 0,
        }
    }
}
