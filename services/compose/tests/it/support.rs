//! Tools, users and stores of the tests.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use futures_util::future::BoxFuture;
use serde_json::{Map, Value, json};
use tower::Service;
use vmcp_compose::{
    Answer, AnswerError, CallError, CallErrorKind, Elicit, ElicitError, Elicitation, Jitter,
    MemoryWorkflowStore, Outcome, Question, ResumeRequest, RoundAnswers, RunContext, RunEvent,
    RunId, RunOwner, RunRequest, StoreLimits, ToolCall, ToolInfo, ToolOutcome, Workflow,
    WorkflowStore,
};
use vmcp_config::CompositeTool;
use vmcp_core::{Clock, ToolAnnotations};

/// Tools by name:
/// `w.echo` returns its arguments, `w.sleep` after `ms` milliseconds, `w.text` returns `text` as text; `w.fail` reports a
/// failure, `w.error` fails with the kind of error `kind`, `w.flaky` fails `failures` times, `w.busy`
/// asks to wait for 30 s; `w.never` does not return.
#[derive(Clone, Default)]
pub(crate) struct Tools(Arc<State>);

#[derive(Default)]
struct State {
    calls: Mutex<Vec<ToolCall>>,
    running: AtomicUsize,
    max_running: AtomicUsize,
    completed: AtomicUsize,
    failures: Mutex<HashMap<String, u64>>,
}

/// Counts a running call until it is dropped.
struct Running(Arc<State>);

/// Surroundings of the runs of a test.
#[derive(Clone)]
pub(crate) struct TestEnv {
    pub(crate) tools: Tools,
    pub(crate) lookup: BTreeMap<String, ToolInfo>,
    pub(crate) store: Arc<dyn WorkflowStore>,
    pub(crate) clock: Clock,
    pub(crate) elicitation: Elicitation,
    pub(crate) events: Arc<Mutex<Vec<String>>>,
    pub(crate) id: RunId,
}

/// User whose answers are scripted by step. Without an answer it never answers.
#[derive(Default)]
pub(crate) struct User {
    answers: Mutex<HashMap<String, Vec<Answer>>>,
    pub(crate) asked: Mutex<Vec<(String, Option<AnswerError>)>>,
}

pub(crate) fn owner() -> RunOwner {
    RunOwner::new("alice")
}

/// Compiles a definition of steps, with parameters that may be anything.
pub(crate) fn workflow(steps: Value) -> Workflow {
    compile(json!({"name": "t", "steps": steps}))
}

pub(crate) fn compile(definition: Value) -> Workflow {
    Workflow::compile(&definition_of(definition), "compositeTools[0]")
        .unwrap_or_else(|errors| panic!("{errors:#?}"))
}

pub(crate) fn definition_of(definition: Value) -> CompositeTool {
    serde_json::from_value(definition).unwrap_or_else(|error| panic!("{error}"))
}

/// Returns the mistakes of a definition, one line each.
pub(crate) fn mistakes(definition: Value) -> Vec<String> {
    match Workflow::compile(&definition_of(definition), "compositeTools[0]") {
        Ok(_) => Vec::new(),
        Err(errors) => errors.iter().map(ToString::to_string).collect(),
    }
}

pub(crate) fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        other => panic!("{other} is an object"),
    }
}

impl TestEnv {
    pub(crate) fn new() -> Self {
        let clock = Clock::manual(SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000));
        let store = MemoryWorkflowStore::new(StoreLimits::default(), clock.clone());
        Self {
            tools: Tools::default(),
            lookup: BTreeMap::new(),
            store: Arc::new(store),
            clock,
            elicitation: Elicitation::Unsupported,
            events: Arc::default(),
            id: RunId::new("run-1"),
        }
    }

    pub(crate) fn with_user(user: &Arc<User>) -> Self {
        Self { elicitation: Elicitation::Wait(user.clone()), ..Self::new() }
    }

    pub(crate) fn suspending() -> Self {
        Self { elicitation: Elicitation::Suspend, ..Self::new() }
    }

    /// Adds facts about a tool.
    pub(crate) fn knows(mut self, tool: &str, info: ToolInfo) -> Self {
        self.lookup.insert(tool.to_owned(), info);
        self
    }

    pub(crate) fn context(&self) -> RunContext<Tools> {
        let events = self.events.clone();
        RunContext {
            calls: self.tools.clone(),
            tools: Arc::new(self.lookup.clone()),
            elicitation: self.elicitation.clone(),
            store: self.store.clone(),
            observer: Arc::new(move |event: &RunEvent<'_>| {
                events.lock().unwrap().push(describe(event));
            }),
            clock: self.clock.clone(),
            jitter: Jitter::new(|| 0.5),
        }
    }

    pub(crate) async fn run(&self, workflow: &Workflow, arguments: Value) -> Outcome {
        let request = RunRequest {
            id: self.id.clone(),
            owner: owner(),
            arguments: object(arguments),
            keeps_result: false,
        };
        vmcp_compose::run(workflow, request, &self.context()).await
    }

    pub(crate) async fn resume(&self, workflow: &Workflow) -> Outcome {
        let request = ResumeRequest { id: self.id.clone(), owner: owner(), answers: None };
        vmcp_compose::resume(workflow, request, &self.context()).await
    }

    pub(crate) async fn answer(
        &self,
        workflow: &Workflow,
        round: usize,
        answers: &[(&str, Answer)],
    ) -> Outcome {
        let answers = answers.iter().map(|(step, answer)| ((*step).into(), answer.clone()));
        let answers = Some(RoundAnswers { round, answers: answers.collect() });
        let request = ResumeRequest { id: self.id.clone(), owner: owner(), answers };
        vmcp_compose::resume(workflow, request, &self.context()).await
    }

    pub(crate) fn events(&self) -> Vec<String> {
        self.events.lock().unwrap().clone()
    }
}

fn describe(event: &RunEvent<'_>) -> String {
    match event {
        RunEvent::RunStarted { steps, .. } => format!("run of {steps} started"),
        RunEvent::RunResumed { done, .. } => format!("run resumed with {done} done"),
        RunEvent::StepStarted { step, .. } => format!("{step} started"),
        RunEvent::IterationFinished { step, iteration, succeeded, .. } => {
            format!("{step}[{iteration}] {succeeded}")
        }
        RunEvent::RetryScheduled { step, attempt, delay, .. } => {
            format!("{step} attempt {attempt} after {delay:?}")
        }
        RunEvent::StepFinished { step, status, answer, done, steps, .. } => {
            let answer = answer.map_or(String::new(), |it| format!(" by {}", it.as_str()));
            format!("{step} {}{answer} {done}/{steps}", status.as_str())
        }
        RunEvent::WaitingForInput { questions } => format!("waiting for {questions}"),
        RunEvent::RunSuspended { questions, .. } => format!("run suspended by {questions}"),
        RunEvent::RunInterrupted { .. } => "run interrupted".to_owned(),
        RunEvent::RunFinished { error, .. } => format!("run finished: {}", error.is_none()),
        other => format!("{other:?}"),
    }
}

/// Returns the output of a run that succeeded.
pub(crate) fn output(outcome: Outcome) -> Value {
    match outcome {
        Outcome::Completed(output) => output.value().clone(),
        other => panic!("completed, not {other:?}"),
    }
}

/// Returns the error of a run that failed.
pub(crate) fn error(outcome: Outcome) -> vmcp_compose::RunError {
    match outcome {
        Outcome::Failed(error) => error,
        other => panic!("failed, not {other:?}"),
    }
}

pub(crate) fn repeatable() -> ToolInfo {
    ToolInfo {
        annotations: ToolAnnotations { read_only: Some(true), ..ToolAnnotations::default() },
        ..ToolInfo::default()
    }
}

// === impl Tools ===

impl Tools {
    pub(crate) fn calls(&self) -> Vec<ToolCall> {
        self.0.calls.lock().unwrap().clone()
    }

    /// Returns the steps of the calls so far, in order.
    pub(crate) fn steps(&self) -> Vec<String> {
        self.calls().iter().map(|call| call.step.step.to_string()).collect()
    }

    /// Returns the arguments of the only call of `step`.
    pub(crate) fn arguments(&self, step: &str) -> Value {
        let calls = self.calls();
        let mut of_step = calls.iter().filter(|call| &*call.step.step == step);
        let call = of_step.next().unwrap_or_else(|| panic!("{step} was called"));
        assert!(of_step.next().is_none(), "{step} was called once");
        Value::Object(call.arguments.clone())
    }

    pub(crate) fn max_running(&self) -> usize {
        self.0.max_running.load(Ordering::SeqCst)
    }

    pub(crate) fn running(&self) -> usize {
        self.0.running.load(Ordering::SeqCst)
    }

    pub(crate) fn completed(&self) -> usize {
        self.0.completed.load(Ordering::SeqCst)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Service<ToolCall> for Tools {
    type Response = ToolOutcome;
    type Error = CallError;
    type Future = BoxFuture<'static, Result<ToolOutcome, CallError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), CallError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, call: ToolCall) -> Self::Future {
        let state = self.0.clone();
        state.calls.lock().unwrap().push(call.clone());
        let running = state.running.fetch_add(1, Ordering::SeqCst) + 1;
        state.max_running.fetch_max(running, Ordering::SeqCst);
        let guard = Running(state.clone());
        Box::pin(async move {
            let _guard = guard;
            let result = respond(&call, &state).await;
            state.completed.fetch_add(1, Ordering::SeqCst);
            result
        })
    }
}

async fn respond(call: &ToolCall, state: &State) -> Result<ToolOutcome, CallError> {
    let arguments = &call.arguments;
    let text = |name: &str| arguments.get(name).and_then(Value::as_str).unwrap_or_default();
    let number = |name: &str| arguments.get(name).and_then(Value::as_u64).unwrap_or_default();
    match &*call.tool {
        "w.sleep" => tokio::time::sleep(Duration::from_millis(number("ms"))).await,
        "w.text" => return Ok(ToolOutcome::text(text("text"))),
        "w.fail" => return Ok(ToolOutcome::failure("broken")),
        "w.error" => return Err(CallError::new(kind(text("kind")), "no result")),
        "w.busy" => {
            let error = CallError::new(CallErrorKind::TooManyRequests, "429");
            return Err(error.with_retry_after(Duration::from_secs(30)));
        }
        "w.flaky" => {
            let key = format!("{:?}", (&call.step.step, call.step.iteration));
            let mut failures = state.failures.lock().unwrap();
            let failed = failures.entry(key).or_default();
            if *failed < number("failures") {
                *failed += 1;
                return Err(CallError::new(CallErrorKind::ServerError, "503"));
            }
        }
        "w.never" => std::future::pending().await,
        _ => {}
    }
    Ok(ToolOutcome::structured(Value::Object(arguments.clone())))
}

fn kind(name: &str) -> CallErrorKind {
    match name {
        "transport" => CallErrorKind::Transport,
        "timeout" => CallErrorKind::Timeout,
        "429" => CallErrorKind::TooManyRequests,
        "5xx" => CallErrorKind::ServerError,
        "circuit" => CallErrorKind::CircuitOpen,
        "denied" => CallErrorKind::Denied,
        "unknown" => CallErrorKind::UnknownTool,
        "invalid" => CallErrorKind::InvalidArguments,
        "cancelled" => CallErrorKind::Cancelled,
        other => panic!("{other} is a kind of error"),
    }
}

// === impl User ===

impl User {
    pub(crate) fn new<const N: usize>(answers: [(&str, Answer); N]) -> Arc<Self> {
        let user = Self::default();
        for (step, answer) in answers {
            user.answer(step, answer);
        }
        Arc::new(user)
    }

    pub(crate) fn answer(&self, step: &str, answer: Answer) {
        self.answers.lock().unwrap().entry(step.to_owned()).or_default().push(answer);
    }

    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().iter().map(|(message, _)| message.clone()).collect()
    }
}

impl Elicit for User {
    fn elicit<'a>(
        &'a self,
        question: &'a Question,
        rejected: Option<&'a AnswerError>,
    ) -> BoxFuture<'a, Result<Answer, ElicitError>> {
        self.asked.lock().unwrap().push((question.message.clone(), rejected.cloned()));
        let mut answers = self.answers.lock().unwrap();
        let list = answers.get_mut(&*question.step);
        let next = list.filter(|list| !list.is_empty()).map(|list| list.remove(0));
        Box::pin(async move {
            match next {
                Some(answer) => Ok(answer),
                None => std::future::pending().await,
            }
        })
    }
}
