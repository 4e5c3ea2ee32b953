//! Measures what a run costs beside its calls.
//!
//! ```text
//! cargo run --release -p vmcp-compose --example workflow_cost
//! ```
//!
//! A chain of 100 steps, each with the output of the one before as its argument, is compared with a plain loop that calls
//! the same service 100 times. The service parses the JSON of a result of 1 KB, as a client of a backend does, or returns a
//! constant, which shows the cost of the engine alone. Eight parallel steps of 5 ms are compared with one such step. The
//! ratios are measured in turns.

use std::fs;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::{Map, Value, json};
use tokio::time::{Instant, sleep};
use tower::{Service, ServiceExt as _};
use vmcp_compose::{
    CallError, Elicitation, Jitter, MemoryWorkflowStore, Outcome, RunContext, RunEvent, RunId,
    RunOwner, RunRequest, StepIdentity, ToolCall, ToolInfo, ToolOutcome, Workflow,
};
use vmcp_core::Clock;

const STEPS: u32 = 100;
const TURNS: usize = 5;
const RUNS: u32 = 400;

type Error = Box<dyn std::error::Error>;

/// Backend of one tool.
#[derive(Clone, Copy)]
enum Backend {
    /// Returns a constant at once.
    Constant,
    /// Parses its result.
    Parse,
    /// Returns after 5 ms.
    Wait,
}

impl Service<ToolCall> for Backend {
    type Response = ToolOutcome;
    type Error = CallError;
    type Future = BoxFuture<'static, Result<ToolOutcome, CallError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), CallError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, call: ToolCall) -> Self::Future {
        let backend = *self;
        Box::pin(async move {
            match backend {
                Self::Constant => return Ok(ToolOutcome::structured(json!({"next": "x"}))),
                Self::Parse => {}
                Self::Wait => sleep(Duration::from_millis(5)).await,
            }
            let text = serde_json::to_string(&call.arguments).unwrap_or_default();
            let text = RESULT.replace("TEXT", &text.len().to_string());
            let mut result: Value = serde_json::from_str(&text).unwrap_or_default();
            Ok(ToolOutcome::structured(result["structuredContent"].take()))
        })
    }
}

/// Result of a tool, 1 KB.
const RESULT: &str = r#"{"content":[{"type":"text","text":"[{\"id\":1,\"title\":\"First issue of the repository\",\"state\":\"open\",\"labels\":[\"bug\",\"help wanted\"],\"comments\":3},{\"id\":2,\"title\":\"Second issue of the repository\",\"state\":\"closed\",\"labels\":[\"feature\"],\"comments\":0}]"}],"structuredContent":{"next":"TEXT","issues":[{"id":1,"title":"First issue of the repository","state":"open","labels":["bug","help wanted"],"comments":3},{"id":2,"title":"Second issue of the repository","state":"closed","labels":["feature"],"comments":0}]},"isError":false}"#;

fn main() -> Result<(), Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    runtime.block_on(async {
        measure_chain("constant", Backend::Constant).await?;
        measure_chain("parsed", Backend::Parse).await?;
        measure_diamond().await
    })
}

async fn measure_chain(name: &str, backend: Backend) -> Result<(), Error> {
    let steps: Vec<_> = (0..STEPS)
        .map(|n| match n.checked_sub(1) {
            None => json!({"id": "s0", "tool": "w.t", "arguments": {"x": "{{.params.x}}"}}),
            Some(before) => json!({
                "id": format!("s{n}"), "tool": "w.t", "dependsOn": [format!("s{before}")],
                "arguments": {"x": format!("{{{{.steps.s{before}.output.next}}}}")},
            }),
        })
        .collect();
    let (workflow, context) = (compile(&steps.into())?, context(backend));
    println!("chain of {STEPS}, {name:<9}   loop µs/step   run µs/step   ratio");
    for _ in 0..TURNS {
        let start = processor_time()?;
        for _ in 0..RUNS {
            plain_loop(context.calls).await?;
        }
        let middle = processor_time()?;
        for _ in 0..RUNS {
            run(&workflow, &context).await?;
        }
        let end = processor_time()?;
        let per_step = |time: f64| time * 1e6 / f64::from(RUNS * STEPS);
        let (plain, whole) = (per_step(middle - start), per_step(end - middle));
        println!("{:>36.2} {whole:>12.2} {:>7.2}", plain, whole / plain);
    }
    Ok(())
}

/// Calls the service with the output of the call before.
async fn plain_loop(backend: Backend) -> Result<(), Error> {
    let (mut text, tool) = ("x".to_owned(), Arc::<str>::from("w.t"));
    let run = RunId::random();
    for _ in 0..STEPS {
        let mut arguments = Map::new();
        arguments.insert("x".to_owned(), text.as_str().into());
        let (workflow, step) = (tool.clone(), tool.clone());
        let step = StepIdentity { run: run.clone(), workflow, step, iteration: None, attempt: 1 };
        let call = ToolCall { tool: tool.clone(), arguments, step };
        let outcome = backend.oneshot(call).await?;
        let content = outcome.structured_content.ok_or("a result")?;
        content["next"].as_str().unwrap_or_default().clone_into(&mut text);
    }
    Ok(())
}

async fn measure_diamond() -> Result<(), Error> {
    let step = |n: u32| json!({"id": format!("s{n}"), "tool": "w.t"});
    let (one, eight) = (compile(&json!([step(0)]))?, compile(&(0..8).map(step).collect())?);
    let context = context(Backend::Wait);
    println!("8 steps of 5 ms          one ms, p50   eight ms, p50   ratio");
    for _ in 0..TURNS {
        let (one, eight) = (median(&one, &context).await?, median(&eight, &context).await?);
        println!("{:>36.2} {:>15.2} {:>7.2}", one * 1e3, eight * 1e3, eight / one);
    }
    Ok(())
}

async fn median(workflow: &Workflow, context: &RunContext<Backend>) -> Result<f64, Error> {
    let mut times = Vec::new();
    for _ in 0..50 {
        let started = Instant::now();
        run(workflow, context).await?;
        times.push(started.elapsed().as_secs_f64());
    }
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}

async fn run(workflow: &Workflow, context: &RunContext<Backend>) -> Result<(), Error> {
    let arguments = json!({"x": "x"}).as_object().cloned().unwrap_or_default();
    let owner = RunOwner::new("owner");
    let request = RunRequest { id: RunId::random(), owner, arguments, keeps_result: false };
    match vmcp_compose::run(workflow, request, context).await {
        Outcome::Completed(_) => Ok(()),
        other => Err(format!("{other:?}").into()),
    }
}

fn compile(steps: &Value) -> Result<Workflow, Error> {
    let tool = serde_json::from_value(json!({"name": "t", "steps": steps}))?;
    Workflow::compile(&tool, "compositeTools[0]").map_err(|errors| format!("{errors:?}").into())
}

fn context(backend: Backend) -> RunContext<Backend> {
    let schema = Arc::new(json!({"properties": {"x": {"type": "string"}}}));
    let info = ToolInfo { input_schema: Some(schema), ..ToolInfo::default() };
    RunContext {
        calls: backend,
        tools: Arc::new(move |_: &str| Some(info.clone())),
        elicitation: Elicitation::Unsupported,
        store: Arc::new(MemoryWorkflowStore::default()),
        observer: Arc::new(|_: &RunEvent<'_>| {}),
        clock: Clock::system(),
        jitter: Jitter::system(),
    }
}

/// Returns the processor time of this thread in seconds (Linux, `proc_pid_schedstat`).
fn processor_time() -> Result<f64, Error> {
    let text = fs::read_to_string("/proc/thread-self/schedstat")?;
    let nanos: f64 = text.split(' ').next().unwrap_or_default().parse()?;
    Ok(nanos / 1e9)
}
