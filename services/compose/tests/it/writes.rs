//! Writes of a run to its store.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt as _;
use serde_json::json;
use tokio::time::sleep;
use vmcp_compose::{
    Answer, Change, Lease, MemoryWorkflowStore, ReachedLimit, RunErrorKind, RunEvent, RunId,
    RunOwner, RunRecord, RunStatus, RunSummary, StoreCounts, StoreError, StoreFuture, StoreLimits,
    ToolInfo, WorkflowStore,
};

use crate::support::{TestEnv, error, output, workflow};

/// Store that notes each write and how many calls had been made before it.
#[derive(Debug)]
struct RecordingStore {
    store: MemoryWorkflowStore,
    writes: Arc<Mutex<Vec<String>>>,
    /// Number of the write that fails, and its error.
    fails: Option<(usize, StoreError)>,
    /// Time that a commit takes.
    delay: Duration,
}

fn describe(change: &Change) -> String {
    match change {
        Change::StepStarted { step, .. } => format!("start {step}"),
        Change::AttemptFailed { step, .. } => format!("attempt of {step} failed"),
        Change::IterationStarted { step, iteration } => format!("start {step}.{iteration}"),
        Change::IterationFinished { step, iteration, .. } => format!("end {step}.{iteration}"),
        Change::StepFinished { step, .. } => format!("end {step}"),
        Change::OutputDropped { step } => format!("drop {step}"),
        Change::RemainingSkipped => "skip".to_owned(),
        Change::RoundOpened { .. } => "ask".to_owned(),
        Change::AnswersKept { round, .. } => format!("keep {round}"),
        Change::RoundConsumed { round, .. } => format!("answer {round}"),
        Change::RunFinished { status, .. } => format!("{status:?}"),
    }
}

impl WorkflowStore for RecordingStore {
    fn create(&self, run: RunRecord, changes: Vec<Change>) -> StoreFuture<'_, Lease> {
        self.store.create(run, changes)
    }

    fn acquire<'a>(
        &'a self,
        owner: &'a RunOwner,
        run: &'a RunId,
    ) -> StoreFuture<'a, (Lease, RunRecord)> {
        self.store.acquire(owner, run)
    }

    fn renew<'a>(&'a self, lease: &'a Lease) -> StoreFuture<'a, ()> {
        self.writes.lock().unwrap().push("renew".to_owned());
        self.store.renew(lease)
    }

    fn commit<'a>(&'a self, lease: &'a Lease, changes: Vec<Change>) -> StoreFuture<'a, ()> {
        let list: Vec<_> = changes.iter().map(describe).collect();
        let mut writes = self.writes.lock().unwrap();
        let number = writes.len();
        writes.push(list.join(", "));
        match self.fails {
            Some((failing, error)) if failing == number => async move { Err(error) }.boxed(),
            _ => async move {
                sleep(self.delay).await;
                self.store.commit(lease, changes).await
            }
            .boxed(),
        }
    }

    fn release(&self, lease: &Lease) {
        self.writes.lock().unwrap().push("release".to_owned());
        self.store.release(lease);
    }

    fn cancel<'a>(&'a self, owner: &'a RunOwner, run: &'a RunId) -> StoreFuture<'a, RunStatus> {
        self.store.cancel(owner, run)
    }

    fn read<'a>(&'a self, owner: &'a RunOwner, run: &'a RunId) -> StoreFuture<'a, RunRecord> {
        self.store.read(owner, run)
    }

    fn list<'a>(&'a self, owner: &'a RunOwner, limit: usize) -> StoreFuture<'a, Vec<RunSummary>> {
        self.store.list(owner, limit)
    }

    fn wait<'a>(
        &'a self,
        owner: &'a RunOwner,
        run: &'a RunId,
        version: u64,
    ) -> StoreFuture<'a, ()> {
        self.store.wait(owner, run, version)
    }

    fn lifetime(&self) -> Duration {
        self.store.lifetime()
    }

    fn lease_duration(&self) -> Duration {
        self.store.lease_duration()
    }

    fn counts(&self) -> StoreFuture<'_, StoreCounts> {
        self.store.counts()
    }
}

fn recording(
    world: TestEnv,
    fails: Option<(usize, StoreError)>,
) -> (TestEnv, Arc<Mutex<Vec<String>>>) {
    let writes = Arc::<Mutex<Vec<String>>>::default();
    let store = MemoryWorkflowStore::new(StoreLimits::default(), world.clock.clone());
    let delay = Duration::ZERO;
    let store = Arc::new(RecordingStore { store, writes: writes.clone(), fails, delay });
    (TestEnv { store, ..world }, writes)
}

#[tokio::test(start_paused = true)]
async fn result_and_next_starts_are_one_write() {
    let (world, writes) = recording(TestEnv::new(), None);
    let workflow = workflow(json!([
        {"id": "a", "tool": "w.echo"},
        {"id": "b", "tool": "w.echo", "dependsOn": ["a"]},
        {"id": "c", "tool": "w.echo", "dependsOn": ["a"]},
        {"id": "skipped", "tool": "w.echo", "dependsOn": ["a"], "condition": "false"},
    ]));
    output(world.run(&workflow, json!({})).await);
    let expected = ["start 0", "end 0, start 1, start 2, end 3", "end 1, drop 0, end 2, Completed"];
    assert_eq!(*writes.lock().unwrap(), expected);
}

#[tokio::test(start_paused = true)]
async fn answers_and_next_starts_are_one_write() {
    let (world, writes) = recording(TestEnv::suspending(), None);
    let workflow = workflow(json!([
        {"id": "a", "type": "elicitation", "message": "m", "schema": {"type": "object"}},
        {"id": "b", "tool": "w.echo", "dependsOn": ["a"]},
    ]));
    world.run(&workflow, json!({})).await;
    output(world.answer(&workflow, 0, &[("a", Answer::Accept(json!({})))]).await);
    let expected = ["start 0", "ask", "answer 0, end 0, start 1", "end 1, Completed"];
    assert_eq!(*writes.lock().unwrap(), expected);
}

#[tokio::test(start_paused = true)]
async fn iterations_and_retries_are_written() {
    let (world, writes) = recording(TestEnv::new(), None);
    let workflow = workflow(json!([{"id": "a", "type": "forEach", "collection": "[1,2]",
        "maxParallel": 1, "step": {"tool": "w.flaky", "arguments": {"failures": 1},
        "onError": {"action": "retry", "retryCount": 1}}}]));
    output(world.run(&workflow, json!({})).await);
    let attempt = ["attempt of 0 failed", "start 0.0"];
    let expected = [
        "start 0",
        "start 0.0",
        attempt[0],
        attempt[1],
        "end 0.0, start 0.1",
        "attempt of 0 failed",
        "start 0.1",
        "end 0, Completed",
    ];
    assert_eq!(*writes.lock().unwrap(), expected);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_called_unless_start_is_stored() {
    let (world, writes) = recording(TestEnv::new(), Some((1, StoreError::Unavailable)));
    let workflow = workflow(json!([
        {"id": "a", "tool": "w.echo"},
        {"id": "b", "tool": "w.echo", "dependsOn": ["a"]},
    ]));
    let failed = error(world.run(&workflow, json!({})).await);
    assert_eq!(failed.kind(), RunErrorKind::Store);
    assert_eq!(failed.to_string(), "the workflow store is unavailable: retry later");
    assert_eq!(world.tools.steps(), ["a"]);
    assert_eq!(*writes.lock().unwrap(), ["start 0", "end 0, start 1", "release"]);
}

#[tokio::test(start_paused = true)]
async fn full_store_fails_run() {
    let full = StoreError::Full { limit: ReachedLimit::Bytes };
    let (world, writes) = recording(TestEnv::new(), Some((0, full)));
    let workflow = workflow(json!([{"id": "a", "tool": "w.echo"}]));
    let failed = error(world.run(&workflow, json!({})).await);
    assert_eq!(failed.kind(), RunErrorKind::StoreFull);
    let expected = "the workflow store is full (memory of all callers): retry later";
    assert_eq!(failed.to_string(), expected);
    assert_eq!(*writes.lock().unwrap(), ["start 0", "Failed"]);
}

#[tokio::test(start_paused = true)]
async fn result_counts_more_than_its_record() {
    let (world, _) = recording(TestEnv::new(), Some((1, StoreError::Unavailable)));
    let workflow = workflow(json!([{"id": "a", "tool": "w.echo", "arguments": {"x": 1}}]));
    assert_eq!(output(world.run(&workflow, json!({})).await), json!({"x": 1}));
}

#[tokio::test(start_paused = true)]
async fn lease_is_renewed_during_long_calls() {
    let (world, writes) = recording(TestEnv::new(), None);
    let workflow = workflow(json!([{"id": "a", "tool": "w.sleep", "arguments": {"ms": 16_000}}]));
    output(world.run(&workflow, json!({})).await);
    let expected = ["start 0", "renew", "renew", "renew", "end 0, Completed"];
    assert_eq!(*writes.lock().unwrap(), expected);
}

#[tokio::test(start_paused = true)]
async fn iterations_go_on_during_writes() {
    let schema = json!({"properties": {"ms": {"type": "integer"}}});
    let info = ToolInfo { input_schema: Some(Arc::new(schema)), ..ToolInfo::default() };
    let mut world = TestEnv::new().knows("w.sleep", info);
    let store = MemoryWorkflowStore::new(StoreLimits::default(), world.clock.clone());
    let (writes, delay) = (Arc::default(), Duration::from_millis(100));
    world.store = Arc::new(RecordingStore { store, writes, fails: None, delay });
    let durations = Arc::<Mutex<Vec<_>>>::default();
    let mut context = world.context();
    context.observer = Arc::new({
        let durations = Arc::clone(&durations);
        move |event: &RunEvent<'_>| {
            if let RunEvent::IterationFinished { duration, .. } = event {
                durations.lock().unwrap().push(duration.as_millis());
            }
        }
    });
    let workflow = workflow(json!([{"id": "a", "type": "forEach", "collection": "[50, 120, 50]",
        "maxParallel": 2, "step": {"tool": "w.sleep", "arguments": {"ms": "{{.forEach.item}}"}}}]));
    let request = vmcp_compose::RunRequest {
        id: world.id.clone(),
        owner: RunOwner::new("alice"),
        arguments: serde_json::Map::new(),
        keeps_result: false,
    };
    output(vmcp_compose::run(&workflow, request, &context).await);
    // The second one ends while the end of the first one is written.
    assert_eq!(*durations.lock().unwrap(), [50, 120, 50]);
}
