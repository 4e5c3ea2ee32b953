//! Sessions, streams, subscriptions, reloads, cancellations and backend faults in random order. At the end, no state is left
//! without an owner, and each request has exactly one response.
//!
//! A run is determined by its seed, which a failure prints. `VMCP_SOAK_SEED` runs one seed; `VMCP_SOAK_SECONDS` runs further
//! ones for this time.

mod actions;
mod behavior;

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};

use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::sleep;
use vmcp_aggregate::Gateway;
use vmcp_aggregate::settings::{BackendSettings, PartialFailure};
use vmcp_core::Generation;

use crate::fake::{settings, with};
use crate::script::{ScriptedBackend, ScriptedClient, Wire, messages, text};

/// Default number of seeds, and the number of actions in each.
const SEEDS: u64 = 24;
const STEPS: usize = 120;

/// Longer than the lifetime of any unused state: sessions, suspended calls, server requests.
const AFTERLIFE: Duration = Duration::from_hours(2);

/// Pseudorandom number generator (SplitMix64).
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `limit`.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit as u64).unwrap()
    }

    pub(crate) fn one_in(&mut self, chances: usize) -> bool {
        self.below(chances) == 0
    }

    /// Returns zero, a short time, or one that exceeds the timeout of backends.
    pub(crate) fn time(&mut self) -> Duration {
        Duration::from_millis(match self.below(8) {
            0 | 1 => 0,
            2..=4 => self.next() % 50,
            5 | 6 => self.next() % 3_000,
            _ => self.next() % 40_000,
        })
    }

    pub(crate) fn fork(&mut self) -> Self {
        Self(self.next())
    }
}

/// Outcomes of client requests.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// Requests by the number in their arguments: the number of responses, and `true` if the client cancelled it.
    requests: BTreeMap<u64, (usize, bool)>,
}

pub(crate) type SharedLedger = Arc<Mutex<Ledger>>;

pub(crate) struct Simulation {
    pub(crate) random: Random,
    pub(crate) gateway: Gateway,
    pub(crate) backends: Vec<Arc<ScriptedBackend>>,
    pub(crate) clients: Vec<ScriptedClient>,
    /// Open requests and streams of clients, with the numbers of the requests.
    pub(crate) open: Vec<(Option<u64>, JoinHandle<()>)>,
    pub(crate) ledger: SharedLedger,
    pub(crate) serial: u64,
    /// `true` to exclude faults and configuration changes.
    pub(crate) is_calm: bool,
    /// Performed actions, printed on failure.
    pub(crate) history: Vec<String>,
}

async fn simulation(seed: u64) -> Simulation {
    let mut random = Random(seed);
    let mut backends = Vec::new();
    for (name, wire) in [("a", Wire::Stateful), ("b", Wire::Stateless), ("c", Wire::Sse)] {
        let (backend, calls) = ScriptedBackend::new(name, wire);
        tokio::spawn(behavior::serve(Arc::clone(&backend), calls, random.fork()));
        backends.push(backend);
    }
    let all = backends.iter().map(|backend| backend.settings(None)).collect();
    let gateway = with(all, PartialFailure::BestEffort).await;
    Simulation {
        random,
        gateway,
        backends,
        clients: Vec::new(),
        open: Vec::new(),
        ledger: Arc::default(),
        serial: 0,
        is_calm: seed % 2 == 1,
        history: Vec::new(),
    }
}

impl Simulation {
    /// Reloads the configuration with these backends.
    pub(crate) async fn reload(&self, backends: Vec<BackendSettings>) {
        self.gateway.reload(settings(backends, PartialFailure::BestEffort, None)).await;
    }

    /// Ends pending actions of clients, repairs faults, and waits until the gateway is idle.
    async fn settle(&mut self) {
        for backend in &self.backends {
            backend.is_away.store(false, Ordering::Relaxed);
        }
        let all = self.backends.iter().map(|backend| backend.settings(None)).collect();
        self.reload(all).await;
        sleep(Duration::from_mins(2)).await;
        self.check_lists().await;
        // Streams are closed; requests have to end by themselves.
        for (number, task) in &self.open {
            if number.is_none() {
                task.abort();
            }
        }
        sleep(AFTERLIFE).await;
    }

    /// Checks that the gateway lists exactly the backends' current offers.
    async fn check_lists(&self) {
        let client = ScriptedClient::new(&self.gateway, Generation::Stateless, "late").await;
        let response = client.request(&json!(0), "tools/list", json!({})).await;
        let said = messages(&text(response.into_body()).await).remove(0);
        let tools = said["result"]["tools"].as_array().unwrap_or_else(|| panic!("{said}"));
        let names: Vec<_> = tools.iter().filter_map(|tool| tool["name"].as_str()).collect();
        for backend in &self.backends {
            let offer = backend.offer.lock().unwrap();
            for tool in offer["tools"].as_array().unwrap() {
                let name = format!("{}_{}", backend.name, tool["name"].as_str().unwrap());
                assert!(names.contains(&&*name), "{name} is not among {names:?}");
            }
        }
    }

    fn check_answers(&self) {
        let ledger = self.ledger.lock().unwrap();
        for (number, (answers, given_up)) in &ledger.requests {
            let right = *answers == 1 || *given_up && *answers == 0;
            assert!(right, "request {number} has {answers} answers, given up: {given_up}");
        }
        for (number, task) in &self.open {
            assert!(task.is_finished(), "{number:?} still waits");
        }
    }

    fn check_owners(&self) {
        let (report, kept) = (self.gateway.report(), self.gateway.cache_sizes());
        assert_eq!(report.parked_calls, 0, "suspended calls");
        assert_eq!(report.sessions, 0, "sessions");
        assert_eq!(kept.listeners, 0, "listeners");
        assert_eq!(report.detached_calls, 0, "calls without clients");
        assert_eq!(kept.detached_bytes, 0, "bytes for clients that are away");
        assert_eq!(kept.stateless_sessions, 0, "sessions of stateless clients");
        for backend in &self.backends {
            // The observer's session and its stream.
            let observed = usize::from(backend.wire != Wire::Stateless);
            let said = backend.said_in_open_sessions();
            assert_eq!(backend.open_sessions(), observed, "sessions at {}:\n{said}", backend.name);
            assert_eq!(backend.in_flight(), observed, "requests at {}", backend.name);
            for (call, cancels, answered) in backend.outcomes() {
                let what = format!("call {call} at {}: {cancels:?}, {answered:?}", backend.name);
                assert!(cancels.len() <= 1, "cancelled twice: {what}");
                let late = cancels.iter().any(|at| answered.is_some_and(|answered| *at > answered));
                assert!(!late, "cancelled after its answer: {what}");
                let ended = answered.is_some() || !cancels.is_empty();
                let certain = self.is_calm && backend.wire != Wire::Stateless;
                assert!(ended || !certain, "neither answered nor cancelled: {what}");
            }
        }
    }
}

fn tasks() -> usize {
    tokio::runtime::Handle::current().metrics().num_alive_tasks()
}

async fn run(seed: u64, history: Arc<Mutex<Vec<String>>>) {
    let mut simulation = simulation(seed).await;
    sleep(Duration::from_mins(1)).await;
    let idle = tasks();
    for _ in 0..STEPS {
        simulation.step().await;
        history.lock().unwrap().clone_from(&simulation.history);
    }
    simulation.settle().await;
    simulation.check_answers();
    simulation.check_owners();
    simulation.open.clear();
    assert_eq!(tasks(), idle, "tasks of the gateway");
    simulation.gateway.close().await;
    let Simulation { gateway, backends, .. } = simulation;
    drop(gateway);
    sleep(Duration::from_mins(1)).await;
    for backend in &backends {
        assert_eq!((backend.open_sessions(), backend.in_flight()), (0, 0), "at {}", backend.name);
    }
}

/// Runs one seed in its own runtime. Returns `false` on failure.
fn holds(seed: u64) -> bool {
    let history = Arc::new(Mutex::new(Vec::new()));
    let shared = Arc::clone(&history);
    let outcome = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(run(seed, shared));
    })
    .join();
    if outcome.is_err() {
        let history = history.lock().unwrap();
        println!("seed {seed} failed after:\n{}", history.join("\n"));
    }
    outcome.is_ok()
}

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn random_operations_leak_no_resources() {
    if let Some(seed) = variable("VMCP_SOAK_SEED") {
        assert!(holds(seed), "seed {seed}");
        return;
    }
    let Some(seconds) = variable("VMCP_SOAK_SECONDS") else {
        let failed: Vec<_> = (0..SEEDS).filter(|seed| !holds(*seed)).collect();
        assert!(failed.is_empty(), "seeds {failed:?}");
        return;
    };
    // Wall-clock time: each seed pauses its own clock.
    let now = || UNIX_EPOCH.elapsed().unwrap();
    let began = now();
    let first = u64::try_from(began.as_millis()).unwrap();
    let (mut seed, mut failed) = (first, Vec::new());
    while now() < began + Duration::from_secs(seconds) {
        if !holds(seed) {
            failed.push(seed);
        }
        seed += 1;
    }
    println!("{} seeds from {first} on in {seconds} s, failed: {failed:?}", seed - first);
    assert!(failed.is_empty(), "seeds {failed:?}");
}

/// Counts a response to a request.
pub(crate) fn note_answer(ledger: &SharedLedger, number: u64) {
    ledger.lock().unwrap().requests.entry(number).or_default().0 += 1;
}

/// Records that a client cancelled a request.
pub(crate) fn give_up(ledger: &SharedLedger, number: u64) {
    ledger.lock().unwrap().requests.entry(number).or_default().1 = true;
}

/// Returns `true` if a message is the response to the request with this id.
pub(crate) fn answers(message: &Value, id: &Value) -> bool {
    message["method"].is_null() && message["id"] == *id
}
