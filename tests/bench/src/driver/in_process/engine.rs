//! Runs of workflows in this process, over a service that stands for the backends.

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

use super::super::Effort;
use super::super::rows::StepService;
use super::super::table::Comparison;
use super::{Samples, cpu_time};
use crate::BoxError;
use crate::summary::median;

/// Steps of the chain.
const STEPS: u32 = 100;

/// Runs of the chain a repetition.
const RUNS: u64 = 200;

/// Parallel steps of the diamond.
const PARALLEL: u32 = 8;

/// Runs of the diamond a repetition.
const DIAMONDS: u64 = 40;

/// Result of [`StepService::Parsed`], 1 KB.
const RESULT: &str = r#"{"content":[{"type":"text","text":"[{\"id\":1,\"title\":\"First issue of the repository\",\"state\":\"open\",\"labels\":[\"bug\",\"help wanted\"],\"comments\":3},{\"id\":2,\"title\":\"Second issue of the repository\",\"state\":\"closed\",\"labels\":[\"feature\"],\"comments\":0}]"}],"structuredContent":{"next":"TEXT","issues":[{"id":1,"title":"First issue of the repository","state":"open","labels":["bug","help wanted"],"comments":3},{"id":2,"title":"Second issue of the repository","state":"closed","labels":["feature"],"comments":0}]},"isError":false}"#;

impl Service<ToolCall> for StepService {
    type Response = ToolOutcome;
    type Error = CallError;
    type Future = BoxFuture<'static, Result<ToolOutcome, CallError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), CallError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, call: ToolCall) -> Self::Future {
        let service = *self;
        Box::pin(async move {
            match service {
                Self::Parsed => return Ok(parsed(&call)),
                Self::Slow => sleep(Duration::from_millis(5)).await,
                Self::Constant => {}
            }
            Ok(ToolOutcome::structured(json!({"next": "x"})))
        })
    }
}

fn parsed(call: &ToolCall) -> ToolOutcome {
    let arguments = serde_json::to_string(&call.arguments).unwrap_or_default();
    let text = RESULT.replace("TEXT", &arguments.len().to_string());
    let mut result: Value = serde_json::from_str(&text).unwrap_or_default();
    ToolOutcome::structured(result["structuredContent"].take())
}

/// Measures a step of a chain, and of a plain loop over the same service, in microseconds of CPU time.
pub(super) async fn chain(service: StepService, effort: Effort) -> Result<Comparison, BoxError> {
    let steps: Vec<_> = (0..STEPS)
        .map(|n| match n.checked_sub(1) {
            None => json!({"id": "s0", "tool": "w.t", "arguments": {"x": "{{.params.x}}"}}),
            Some(before) => json!({
                "id": format!("s{n}"), "tool": "w.t", "dependsOn": [format!("s{before}")],
                "arguments": {"x": format!("{{{{.steps.s{before}.output.next}}}}")},
            }),
        })
        .collect();
    let (workflow, context) = (compile(&steps.into())?, context(service));
    let runs = u32::try_from(effort.scaled(RUNS))?;
    let mut samples = Samples::default();
    for _ in 0..effort.repetitions {
        let start = cpu_time()?;
        for _ in 0..runs {
            run(&workflow, &context).await?;
        }
        let middle = cpu_time()?;
        for _ in 0..runs {
            plain_loop(service).await?;
        }
        let per_step = |time: f64| time / f64::from(runs * STEPS);
        samples.push(per_step(middle - start), per_step(cpu_time()? - middle));
    }
    Ok(samples.comparison())
}

/// Measures parallel steps, and one of them, in milliseconds at the median.
pub(super) async fn diamond(effort: Effort) -> Result<Comparison, BoxError> {
    let step = |n: u32| json!({"id": format!("s{n}"), "tool": "w.t"});
    let (one, all) = (compile(&json!([step(0)]))?, compile(&(0..PARALLEL).map(step).collect())?);
    let context = context(StepService::Slow);
    let mut samples = Samples::default();
    for _ in 0..effort.repetitions {
        let all = median_ms(&all, &context, effort.scaled(DIAMONDS)).await?;
        samples.push(all, median_ms(&one, &context, effort.scaled(DIAMONDS)).await?);
    }
    Ok(samples.comparison())
}

async fn median_ms(
    workflow: &Workflow,
    context: &RunContext<StepService>,
    runs: u64,
) -> Result<f64, BoxError> {
    let mut times = Vec::new();
    for _ in 0..runs {
        let start = Instant::now();
        run(workflow, context).await?;
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    Ok(median(times))
}

/// Calls the service with the output of the call before.
async fn plain_loop(service: StepService) -> Result<(), BoxError> {
    let (mut text, tool) = ("x".to_owned(), Arc::<str>::from("w.t"));
    let run = RunId::random();
    for _ in 0..STEPS {
        let mut arguments = Map::new();
        arguments.insert("x".to_owned(), text.as_str().into());
        let (workflow, step) = (tool.clone(), tool.clone());
        let step = StepIdentity { run: run.clone(), workflow, step, iteration: None, attempt: 1 };
        let call = ToolCall { tool: tool.clone(), arguments, step };
        let outcome = service.oneshot(call).await?;
        let content = outcome.structured_content.ok_or("a result")?;
        content["next"].as_str().unwrap_or_default().clone_into(&mut text);
    }
    Ok(())
}

async fn run(workflow: &Workflow, context: &RunContext<StepService>) -> Result<(), BoxError> {
    let arguments = json!({"x": "x"}).as_object().cloned().unwrap_or_default();
    let owner = RunOwner::new("owner");
    let request = RunRequest { id: RunId::random(), owner, arguments, keeps_result: false };
    match vmcp_compose::run(workflow, request, context).await {
        Outcome::Completed(_) => Ok(()),
        other => Err(format!("{other:?}").into()),
    }
}

fn compile(steps: &Value) -> Result<Workflow, BoxError> {
    let tool = serde_json::from_value(json!({"name": "t", "steps": steps}))?;
    Workflow::compile(&tool, "compositeTools[0]").map_err(|errors| format!("{errors:?}").into())
}

fn context(service: StepService) -> RunContext<StepService> {
    let schema = Arc::new(json!({"properties": {"x": {"type": "string"}}}));
    let info = ToolInfo { input_schema: Some(schema), ..ToolInfo::default() };
    RunContext {
        calls: service,
        tools: Arc::new(move |_: &str| Some(info.clone())),
        elicitation: Elicitation::Unsupported,
        store: Arc::new(MemoryWorkflowStore::default()),
        observer: Arc::new(|_: &RunEvent<'_>| {}),
        clock: Clock::system(),
        jitter: Jitter::system(),
    }
}
