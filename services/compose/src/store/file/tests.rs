//! Contract of the store, and runs whose process was killed.

use std::path::PathBuf;
use std::sync::Mutex;
use std::time::SystemTime;

use futures_util::future::{BoxFuture, poll_immediate};
use serde_json::{Map, json};
use tower::service_fn;

use super::*;
use crate::store::contract::TestStore;
use crate::{
    CallError, Elicitation, Jitter, Outcome, ResumeRequest, RunContext, RunEvent, RunRequest,
    ToolCall, ToolInfo, ToolOutcome, Workflow, resume, run,
};

/// File that is removed at the end of the test.
struct TestFile(PathBuf);

impl TestFile {
    fn new() -> Self {
        let name = format!("vmcp-compose-{}.jsonl", RunId::random());
        Self(std::env::temp_dir().join(name))
    }

    fn open(&self, limits: StoreLimits, clock: &Clock) -> FileWorkflowStore {
        FileWorkflowStore::open(&self.0, limits, clock.clone()).unwrap()
    }
}

impl Drop for TestFile {
    fn drop(&mut self) {
        _ = std::fs::remove_file(&self.0);
    }
}

fn clock() -> Clock {
    Clock::manual(SystemTime::UNIX_EPOCH + Duration::from_secs(1_000))
}

async fn fresh(limits: StoreLimits) -> TestStore {
    let (file, clock) = (TestFile::new(), clock());
    let store = Arc::new(file.open(limits, &clock));
    TestStore { replica: store.clone(), store, clock }
}

contract!(fresh);

type Calls = Arc<Mutex<Vec<String>>>;

/// Steps `a` and `b` return at once; `c` returns if `returns`.
fn context(
    store: FileWorkflowStore,
    clock: &Clock,
    calls: &Calls,
    returns: bool,
) -> RunContext<
    impl tower::Service<
        ToolCall,
        Response = ToolOutcome,
        Error = CallError,
        Future = BoxFuture<'static, Result<ToolOutcome, CallError>>,
    > + Clone
    + Sync,
> {
    let calls = calls.clone();
    RunContext {
        calls: service_fn(move |call: ToolCall| {
            calls.lock().unwrap().push(call.step.idempotency_key());
            let waits = !returns && &*call.step.step == "c";
            let outcome = ToolOutcome::structured(json!({"step": &*call.step.step}));
            async move { if waits { std::future::pending().await } else { Ok(outcome) } }.boxed()
        }),
        tools: Arc::new(|tool: &str| {
            let mut info = ToolInfo::default();
            info.annotations.idempotent = Some(tool == "w.idempotent");
            Some(info)
        }),
        elicitation: Elicitation::Unsupported,
        store: Arc::new(store),
        observer: Arc::new(|_: &RunEvent<'_>| {}),
        clock: clock.clone(),
        jitter: Jitter::new(|| 0.5),
    }
}

fn workflow(last: &str) -> Workflow {
    let definition = json!({"name": "t", "steps": [
        {"id": "a", "tool": "w.t"},
        {"id": "b", "type": "forEach", "collection": "[1,2]", "dependsOn": ["a"], "maxParallel": 1,
         "step": {"tool": "w.t"}},
        {"id": "c", "tool": last, "dependsOn": ["b"],
         "arguments": {"a": "{{.steps.a.output.step}}", "n": "{{.steps.b.output.count}}"}},
    ]});
    Workflow::compile(&serde_json::from_value(definition).unwrap(), "x").unwrap()
}

/// Starts a run whose process is killed during step `c`, and continues it in the next process.
async fn kill_and_resume(last: &str) -> (Outcome, Vec<String>) {
    let (file, clock, workflow) = (TestFile::new(), clock(), workflow(last));
    let (id, owner) = (RunId::new("run"), RunOwner::new("alice"));
    let request = RunRequest {
        id: id.clone(),
        owner: owner.clone(),
        arguments: Map::new(),
        keeps_result: true,
    };
    let calls = Calls::default();
    let killed = context(file.open(StoreLimits::default(), &clock), &clock, &calls, false);
    let mut first = Box::pin(run(&workflow, request, &killed));
    assert!(poll_immediate(&mut first).await.is_none());
    // A killed process drops nothing: the lease stays.
    std::mem::forget(first);
    calls.lock().unwrap().push("killed".to_owned());
    clock.advance(StoreLimits::default().lease);
    let next = context(file.open(StoreLimits::default(), &clock), &clock, &calls, true);
    let request = ResumeRequest { id, owner, answers: None };
    let outcome = resume(&workflow, request, &next).await;
    let calls = calls.lock().unwrap().clone();
    (outcome, calls)
}

#[tokio::test(start_paused = true)]
async fn killed_run_continues_with_its_record() {
    let (outcome, calls) = kill_and_resume("w.idempotent").await;
    assert!(matches!(outcome, Outcome::Completed(_)), "{outcome:?}");
    assert_eq!(calls, ["run/a", "run/b/0", "run/b/1", "run/c", "killed", "run/c"]);
}

#[tokio::test(start_paused = true)]
async fn killed_call_has_unknown_outcome() {
    let (outcome, calls) = kill_and_resume("w.t").await;
    let Outcome::Failed(error) = outcome else { panic!("{outcome:?}") };
    assert_eq!(error.kind(), crate::RunErrorKind::OutcomeUnknown);
    assert_eq!(calls.last().unwrap(), "killed", "nothing is called again");
}

#[tokio::test]
async fn unreadable_file_is_an_error() {
    let file = TestFile::new();
    std::fs::write(&file.0, "not a step\n").unwrap();
    assert!(FileWorkflowStore::open(&file.0, StoreLimits::default(), clock()).is_err());
}
