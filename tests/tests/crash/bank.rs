//! The backend: it counts the calls of each step, and kills or pauses the gateway at one of them.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use tokio::process::Child;
use tokio::sync::Notify;
use vmcp_test_support::McpBackend;
use vmcp_test_support::mcp_backend::{PendingRequest, Protocol};

/// Point of a run at which the gateway is killed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KillPoint {
    /// Number of the call, from 1.
    pub(crate) call: usize,
    /// Time after the response to this call; `None` if it has no response.
    pub(crate) after: Option<Duration>,
}

/// A running backend.
pub(crate) struct Bank {
    pub(crate) backend: McpBackend,
    state: Arc<Mutex<State>>,
    signaled: Arc<Notify>,
}

#[derive(Default)]
struct State {
    /// Number of calls of each step, by its key.
    calls: BTreeMap<String, usize>,
    /// Number of calls since the point was set.
    number: usize,
    point: Option<KillPoint>,
    victim: Option<Victim>,
}

/// Gateway that is signaled.
enum Victim {
    /// It is killed.
    Killed(Child),
    /// The process of this number is paused.
    Paused(u32),
}

impl Bank {
    /// Starts a backend with a tool that acts once a call, one that may be called again, and one that only reads.
    pub(crate) fn start() -> Self {
        let (state, signaled) = (Arc::<Mutex<State>>::default(), Arc::<Notify>::default());
        let tool = |name: &str, annotations| {
            json!({"name": name, "inputSchema": {"type": "object"}, "annotations": annotations})
                .to_string()
        };
        let mut backend = McpBackend::builder(Protocol::Stateless).name("bank").items(
            "tools",
            [
                tool("act", json!({})),
                tool("put", json!({"idempotentHint": true})),
                tool("read", json!({"readOnlyHint": true})),
            ],
        );
        for name in ["act", "put", "read"] {
            let (state, signaled) = (Arc::clone(&state), Arc::clone(&signaled));
            backend = backend.on_tool(name, move |call| perform(&state, &signaled, call));
        }
        Self { backend: backend.start(), state, signaled }
    }

    /// Kills this process at this point, counted from now.
    pub(crate) fn kills(&self, victim: Child, point: KillPoint) {
        self.signals(Victim::Killed(victim), point);
    }

    /// Pauses this process at this point, counted from now.
    pub(crate) fn pauses(&self, victim: u32, point: KillPoint) {
        self.signals(Victim::Paused(victim), point);
    }

    fn signals(&self, victim: Victim, point: KillPoint) {
        let mut state = self.state.lock().unwrap();
        state.number = 0;
        (state.victim, state.point) = (Some(victim), Some(point));
    }

    /// Waits until the process is killed and gone.
    pub(crate) async fn until_killed(&self) {
        self.until_signaled().await;
        let victim = self.state.lock().unwrap().victim.take();
        let Some(Victim::Killed(mut victim)) = victim else { panic!("it is paused") };
        assert!(!victim.wait().await.unwrap().success());
    }

    /// Waits until the process is killed or paused.
    pub(crate) async fn until_signaled(&self) {
        self.signaled.notified().await;
    }

    /// Returns the number of calls of each step of a run, by `STEP` or `STEP/ITERATION`.
    pub(crate) fn calls(&self, run: &str) -> BTreeMap<String, usize> {
        let state = self.state.lock().unwrap();
        let of_run = state.calls.iter().filter_map(|(key, count)| {
            let step = key.strip_prefix(run)?.strip_prefix('/')?;
            Some((step.to_owned(), *count))
        });
        of_run.collect()
    }
}

fn perform(state: &Arc<Mutex<State>>, signaled: &Arc<Notify>, call: PendingRequest) {
    let key = call.params()["_meta"]["vmcp.dev/stepKey"].as_str().unwrap().to_owned();
    let mut locked = state.lock().unwrap();
    *locked.calls.entry(key).or_default() += 1;
    locked.number += 1;
    let number = locked.number;
    let after = match locked.point {
        Some(KillPoint { call: kill_at, after }) if kill_at == number => after,
        _ => {
            drop(locked);
            call.succeed(&result(number));
            return;
        }
    };
    let Some(after) = after else {
        signal_victim(&mut locked, signaled);
        return;
    };
    drop(locked);
    call.succeed(&result(number));
    let (state, signaled) = (Arc::clone(state), Arc::clone(signaled));
    tokio::spawn(async move {
        tokio::time::sleep(after).await;
        signal_victim(&mut state.lock().unwrap(), &signaled);
    });
}

fn result(number: usize) -> serde_json::Value {
    json!({"content": [], "structuredContent": {"number": number}})
}

/// Sends SIGKILL or SIGSTOP.
fn signal_victim(state: &mut State, signaled: &Notify) {
    state.point = None;
    match state.victim.as_mut().unwrap() {
        Victim::Killed(child) => child.start_kill().unwrap(),
        Victim::Paused(process) => signal(*process, "STOP"),
    }
    signaled.notify_one();
}

/// Sends a signal.
pub(crate) fn signal(process: u32, name: &str) {
    let status = Command::new("kill").args(["-s", name, &process.to_string()]).status();
    assert!(status.unwrap().success());
}
