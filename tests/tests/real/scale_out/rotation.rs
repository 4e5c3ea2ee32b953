//! Rotation of the key ring: each replica gets a change at another time.

use std::time::{Duration, SystemTime};

use tokio::time::{Instant, sleep};
use vmcp_seal::SEAL_DELAY;
use vmcp_tests::caller::Caller;
use vmcp_tests::counterparts::Gateway;

use super::rig::Rig;
use super::secret_mount::Keys;

/// Time between the changes of two replicas.
const SKEW: Duration = Duration::from_secs(2);

/// Time from the change of a replica to the first use of the new key there. Its file is as old as the rest of [`SEAL_DELAY`].
const SEALS_AFTER: Duration = Duration::from_secs(15);

/// Timeout for a change at a replica.
const TIMEOUT: Duration = Duration::from_secs(40);

const OLD: (&str, &str) = Rig::KEY;
const NEW: (&str, &str) =
    ("2026-11", "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210");

/// Adds a key at each replica.
pub(crate) async fn add_key(rig: &Rig) {
    write(rig, &[OLD, NEW], 2).await;
}

/// Removes the old key at each replica.
pub(crate) async fn remove_key(rig: &Rig) {
    write(rig, &[NEW], 1).await;
}

async fn write(rig: &Rig, keys: &Keys<'_>, count: usize) {
    for (mount, replica) in rig.mounts.iter().zip(&rig.replicas) {
        mount.write(keys, SystemTime::now() - SEAL_DELAY + SEALS_AFTER);
        let line = format!("\"seal keys read\",\"keys\":{count}");
        until(async || replica.log().contains(&line)).await;
        sleep(SKEW).await;
    }
}

/// Waits until each replica seals new sessions with another key than that of a session.
pub(crate) async fn until_new_key_seals(rig: &Rig, session: &Caller) {
    for replica in &rig.replicas {
        until(async || key_of(&open(replica).await) != key_of(session)).await;
    }
}

/// Opens a session.
pub(crate) async fn open(replica: &Gateway) -> Caller {
    Caller::stateful(replica.url()).await.unwrap()
}

/// Returns the identifier of the key that sealed a session, which follows the random part of its id.
fn key_of(session: &Caller) -> &str {
    &session.session().unwrap()[32..37]
}

async fn until(condition: impl AsyncFn() -> bool) {
    let begun = Instant::now();
    while !condition().await {
        assert!(begun.elapsed() < TIMEOUT, "the change has no effect");
        sleep(Duration::from_millis(100)).await;
    }
}
