//! Runs of a workflow over a store, and the backend that counts their calls.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::{Map, Value, json};
use tokio::time::sleep;
use tower::Service;
use vmcp_compose::{
    Answer, CallError, Elicitation, Jitter, Outcome, ResumeRequest, RoundAnswers, RunContext,
    RunEvent, RunId, RunOwner, RunRequest, ToolCall, ToolInfo, ToolOutcome, Workflow,
    WorkflowStore,
};
use vmcp_core::Clock;

/// Backend of a test's runs. It counts the calls of each step.
#[derive(Clone, Default)]
pub(crate) struct Backend {
    calls: Arc<Mutex<BTreeMap<String, usize>>>,
    /// Time until a call returns.
    delay: Duration,
    /// Step whose first call never returns.
    hangs: Option<&'static str>,
}

impl Backend {
    /// Creates a backend whose calls take some time.
    pub(crate) fn slow(delay: Duration) -> Self {
        Self { delay, ..Self::default() }
    }

    /// Creates a backend that never returns from the first call of a step.
    pub(crate) fn hanging(step: &'static str) -> Self {
        Self { hangs: Some(step), ..Self::default() }
    }

    /// Returns the number of calls by `RUN/STEP` or `RUN/STEP/ITERATION`.
    pub(crate) fn calls(&self) -> BTreeMap<String, usize> {
        self.calls.lock().unwrap().clone()
    }
}

impl Service<ToolCall> for Backend {
    type Response = ToolOutcome;
    type Error = CallError;
    type Future = BoxFuture<'static, Result<ToolOutcome, CallError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), CallError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, call: ToolCall) -> Self::Future {
        let key = call.step.idempotency_key();
        let mut calls = self.calls.lock().unwrap();
        let count = calls.entry(key).or_default();
        *count += 1;
        let (hangs, delay) = (self.hangs == Some(&*call.step.step) && *count == 1, self.delay);
        drop(calls);
        let outcome = ToolOutcome::structured(json!({"step": &*call.step.step}));
        async move {
            if hangs {
                std::future::pending::<()>().await;
            }
            sleep(delay).await;
            Ok(outcome)
        }
        .boxed()
    }
}

/// Returns a workflow: parallel steps, a question, parallel steps with a `forEach`, and two more.
pub(crate) fn workflow() -> Workflow {
    let tool = |id: &str, before: &[&str]| json!({"id": id, "tool": format!("w.{id}"), "dependsOn": before});
    compile(&json!([
        tool("quote", &[]),
        tool("reserve", &[]),
        {"id": "ask", "type": "elicitation", "message": "Transfer?", "dependsOn": ["quote", "reserve"],
         "schema": {"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]}},
        tool("left", &["ask"]),
        tool("right", &["ask"]),
        {"id": "each", "type": "forEach", "dependsOn": ["ask"], "collection": "[1,2,3,4]", "maxParallel": 2,
         "step": {"tool": "w.each"}},
        tool("charge", &["left", "right", "each"]),
        tool("end", &["charge"]),
    ]))
}

/// Number of steps and iterations that call a tool.
pub(crate) const CALLS: usize = 10;

/// Returns a workflow of steps, each of which depends on the one before.
pub(crate) fn chain(length: usize) -> Workflow {
    let step = |number: usize| {
        let before: Vec<_> = number.checked_sub(1).map(|it| format!("s{it}")).into_iter().collect();
        json!({"id": format!("s{number}"), "tool": "w.read", "dependsOn": before})
    };
    compile(&(0..length).map(step).collect())
}

fn compile(steps: &Value) -> Workflow {
    let definition = json!({"name": "t", "steps": steps});
    Workflow::compile(&serde_json::from_value(definition).unwrap(), "x").unwrap()
}

/// Runs over one store.
pub(crate) struct Runner {
    pub(crate) workflow: Workflow,
    pub(crate) store: Arc<dyn WorkflowStore>,
    pub(crate) backend: Backend,
    pub(crate) clock: Clock,
}

pub(crate) fn owner() -> RunOwner {
    RunOwner::new("alice")
}

impl Runner {
    /// Starts a run.
    pub(crate) async fn start(&self, id: &str) -> Outcome {
        let (id, owner, arguments) = (RunId::new(id), owner(), Map::new());
        let request = RunRequest { id, owner, arguments, keeps_result: true };
        vmcp_compose::run(&self.workflow, request, &self.context()).await
    }

    /// Answers the first round of a run.
    pub(crate) async fn answer(&self, id: &str) -> Outcome {
        let answers = vec![("ask".into(), Answer::Accept(json!({"sum": 7})))];
        let answers = Some(RoundAnswers { round: 0, answers });
        let request = ResumeRequest { id: RunId::new(id), owner: owner(), answers };
        vmcp_compose::resume(&self.workflow, request, &self.context()).await
    }

    fn context(&self) -> RunContext<Backend> {
        RunContext {
            calls: self.backend.clone(),
            tools: Arc::new(|tool: &str| {
                let mut info = ToolInfo::default();
                info.annotations.read_only =
                    Some(!["w.reserve", "w.left", "w.charge"].contains(&tool));
                Some(info)
            }),
            elicitation: Elicitation::Suspend,
            store: self.store.clone(),
            observer: Arc::new(|_: &RunEvent<'_>| {}),
            clock: self.clock.clone(),
            jitter: Jitter::new(|| 0.5),
        }
    }
}
