//! Requests of one session at several replicas in random order, with outages and ends.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;
use tokio::time::sleep;
use vmcp_aggregate::settings::Limits;
use vmcp_core::Body;

use super::{Replica, TTL, backend, call, delete, open, open_sessions, replicas_with, settle};
use crate::fake::{Behavior, Client, FakeBackend};

/// Random numbers from a seed (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % limit as u64).unwrap()
    }
}

#[tokio::test(start_paused = true)]
async fn random_requests_leave_no_backend_sessions() {
    for seed in 1..=40 {
        run(seed).await;
    }
}

/// Client of three replicas, the last of which has one place.
struct Scene {
    random: Random,
    backend: Arc<FakeBackend>,
    replicas: [Replica; 3],
    client: Client,
    streams: Vec<Body>,
}

async fn run(seed: u64) {
    let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let limits = |number| Limits {
        sessions: if number == 2 { 1 } else { 10 },
        session_ttl: TTL,
        ..Limits::default()
    };
    let backend = backend();
    let replicas: [Replica; 3] = replicas_with(&[backend.settings()], limits).await;
    let client = open(&replicas[random.below(2)], "ann").await;
    let mut scene = Scene { random, backend, replicas, client, streams: Vec::new() };
    let mut script = Vec::new();
    for _ in 0..40 {
        let (action, replica) = (scene.random.below(13), scene.random.below(3));
        script.push((action, replica));
        assert!(scene.act(action, replica).await, "{seed}: {script:?}");
    }
    connect(&scene.replicas);
    settle().await;
    assert!(scene.call_all().await, "{seed}: {script:?}");
    settle().await;
    let open = open_sessions(&scene.backend, "ann");
    assert_eq!(open.len(), 1, "{seed}: {open:?} {script:?}");
    scene.streams.clear();
    let ender = scene.random.below(3);
    assert_eq!(delete(&scene.replicas[ender].serve(&scene.client)).await, 204, "{seed}");
    settle().await;
    assert_eq!(open_sessions(&scene.backend, "ann"), [0; 0], "{seed}: {script:?}");
    for replica in &scene.replicas {
        assert_eq!(call(&replica.serve(&scene.client)).await.0, 404, "{seed}");
    }
}

impl Scene {
    /// Performs an action at a replica. Returns `true` if its outcome is possible.
    async fn act(&mut self, action: usize, replica: usize) -> bool {
        let replica = &self.replicas[replica];
        let at = replica.serve(&self.client);
        match action {
            0..=3 => return is_possible(call(&at).await.0),
            4 => {
                let delayed = Behavior::Delayed(Duration::from_millis(20));
                *self.backend.behavior.lock().unwrap() = delayed;
                let are_possible = self.call_all().await;
                *self.backend.behavior.lock().unwrap() = Behavior::Normal;
                return are_possible;
            }
            5 => self.backend.sessions.lock().unwrap().as_mut().unwrap().open.clear(),
            6 => replica.storage.set_reachable(self.random.below(2) == 0),
            7 => replica.storage.set_heard(self.random.below(2) == 0),
            8 => sleep(Duration::from_secs(self.random.below(10) as u64)).await,
            9 => drop(at.ask("logging/setLevel", json!({"level": "info"})).await),
            10 => {
                // Takes the only place of this replica, unless a stream keeps it.
                self.streams.clear();
                return open_other(&self.replicas[2]).await;
            }
            11 => {
                connect(&self.replicas);
                sleep(TTL + Duration::from_secs(30)).await;
            }
            _ => {
                connect(&self.replicas);
                self.streams.push(at.stand().await);
                if self.streams.len() > 2 {
                    self.streams.remove(0);
                }
            }
        }
        true
    }

    /// Calls the tool at all replicas at the same time.
    async fn call_all(&self) -> bool {
        let clients: Vec<_> = self.replicas.iter().map(|it| it.serve(&self.client)).collect();
        join_all(clients.iter().map(call)).await.iter().all(|(status, _)| is_possible(*status))
    }
}

/// Returns `true` for the status of a result, and of a step that the storage did not take.
fn is_possible(status: u16) -> bool {
    matches!(status, 200 | 503)
}

/// Ends all outages.
fn connect(replicas: &[Replica]) {
    for replica in replicas {
        replica.storage.set_reachable(true);
        replica.storage.set_heard(true);
    }
}

/// Opens another session for a moment. Returns `true` unless it failed without an outage.
async fn open_other(replica: &Replica) -> bool {
    connect(std::slice::from_ref(replica));
    let other = open(replica, "ann").await;
    call(&other).await.0 == 200 && delete(&other).await == 204
}
