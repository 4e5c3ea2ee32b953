//! Runs without backends.

use std::sync::{Arc, Mutex};

use serde_json::{Map, Value, json};
use tower::service_fn;
use vmcp_compose::{
    Answer, AnswerError, CallError, Elicit, ElicitError, Elicitation, Jitter, MemoryWorkflowStore,
    Outcome, Question, RunContext, RunEvent, RunId, RunOwner, RunRequest, StepStatus, ToolCall,
    ToolInfo, ToolOutcome, Workflow,
};
use vmcp_core::{Clock, lock};

use super::answers::Answers;
use crate::output::{Failure, OutputFormat, eprint_line, print, print_json};
use crate::table::plain;

/// Run whose calls return given results.
pub(super) struct DryRun {
    pub(super) workflow: Workflow,
    pub(super) arguments: Value,
    pub(super) answers: Answers,
    pub(super) results: Value,
}

/// Answers questions from the command line or the terminal.
struct Terminal(Mutex<Answers>);

impl DryRun {
    pub(super) async fn run(self, format: OutputFormat) -> Result<(), Failure> {
        let Self { workflow, arguments, answers, results } = self;
        let Value::Object(arguments) = arguments else {
            return Err(Failure::Usage("--arguments must be a JSON object".to_owned()));
        };
        check_names(&workflow, "--results", results.as_object().into_iter().flat_map(Map::keys))?;
        let calls = Arc::new(Mutex::new(Vec::new()));
        let (recorded, results) = (Arc::clone(&calls), Arc::new(results));
        let service = service_fn(move |call: ToolCall| {
            let outcome = respond(&call, &results);
            lock(&recorded).push(describe(&call));
            std::future::ready(Ok::<_, CallError>(outcome))
        });
        let clock = Clock::system();
        let context = RunContext {
            calls: service,
            tools: Arc::new(|_: &str| None::<ToolInfo>),
            elicitation: Elicitation::Wait(Arc::new(Terminal(Mutex::new(answers)))),
            store: Arc::new(MemoryWorkflowStore::default()),
            observer: Arc::new(observe),
            clock,
            jitter: Jitter::system(),
        };
        let (id, owner) = (RunId::random(), RunOwner::new("dry run"));
        let request = RunRequest { id, owner, arguments, keeps_result: false };
        let outcome = vmcp_compose::run(&workflow, request, &context).await;
        let calls = Value::Array(std::mem::take(&mut *lock(&calls)));
        let (output, error) = match outcome {
            Outcome::Completed(output) => (output.value().clone(), None),
            Outcome::Failed(error) => (Value::Null, Some(error.to_string())),
            // The run waits for answers in place.
            Outcome::InputRequired(_) => (Value::Null, Some("a question is open".to_owned())),
        };
        match (format, error) {
            (OutputFormat::Json, error) => {
                print_json(&json!({"calls": calls, "output": output, "error": error}));
                if error.is_some() { Err(Failure::AlreadyReported) } else { Ok(()) }
            }
            (OutputFormat::Text, None) => {
                print(&format!("{output:#}\n"));
                Ok(())
            }
            (OutputFormat::Text, Some(error)) => Err(Failure::Error(plain(&error))),
        }
    }
}

/// Rejects an option about steps that the tool does not have.
pub(super) fn check_names<'a>(
    workflow: &Workflow,
    option: &str,
    mut given: impl Iterator<Item = &'a String>,
) -> Result<(), Failure> {
    let names: Vec<_> = workflow.steps().map(|step| step.id).collect();
    match given.find(|name| !names.contains(&name.as_str())) {
        Some(name) => Err(Failure::Usage(format!(
            "{option} names the step \"{name}\"; the steps of {} are {}",
            workflow.name(),
            names.join(", ")
        ))),
        None => Ok(()),
    }
}

/// Rejects answers to steps that ask nothing.
pub(super) fn check_questions<'a>(
    workflow: &Workflow,
    mut given: impl Iterator<Item = &'a String>,
) -> Result<(), Failure> {
    let steps = workflow.steps().filter(|step| step.kind == "elicitation");
    let asking: Vec<_> = steps.map(|step| step.id).collect();
    let Some(name) = given.find(|name| !asking.contains(&name.as_str())) else { return Ok(()) };
    let asking = if asking.is_empty() { "none".to_owned() } else { asking.join(", ") };
    Err(Failure::Usage(format!(
        "--answers names the step \"{name}\", which asks nothing; the steps of {} that ask are: {asking}",
        workflow.name()
    )))
}

/// Returns the result that was given for the step.
fn respond(call: &ToolCall, results: &Value) -> ToolOutcome {
    let arguments = Value::Object(call.arguments.clone());
    eprint_line(&plain(&format!("step {}: calls {} with {arguments}", call.step.step, call.tool)));
    let given = results.get(&*call.step.step).cloned();
    ToolOutcome::structured(given.unwrap_or_else(|| json!({})))
}

fn describe(call: &ToolCall) -> Value {
    json!({
        "step": &*call.step.step,
        "iteration": call.step.iteration,
        "tool": &*call.tool,
        "arguments": call.arguments,
    })
}

fn observe(event: &RunEvent<'_>) {
    if let RunEvent::StepFinished { step, status, done, steps, .. } = event
        && *status != StepStatus::Completed
    {
        eprint_line(&plain(&format!("[{done}/{steps}] step {step}: {}", status.as_str())));
    }
}

impl Elicit for Terminal {
    fn elicit<'a>(
        &'a self,
        question: &'a Question,
        rejected: Option<&'a AnswerError>,
    ) -> futures_util::future::BoxFuture<'a, Result<Answer, ElicitError>> {
        Box::pin(async move {
            if let Some(error) = rejected {
                eprint_line(&plain(&error.to_string()));
            }
            let params = json!({
                "message": question.message,
                "requestedSchema": question.schema.as_value(),
            });
            // Steps that wait for the terminal hold back the others: a dry run has nothing else to do.
            let answered = lock(&self.0).answer(&question.step, &params);
            let mut answer = answered.map_err(|failure| match failure {
                Failure::Error(message) | Failure::Usage(message) => ElicitError::Failed(message),
                Failure::AlreadyReported => ElicitError::Unsupported,
            })?;
            Ok(match answer["action"].as_str() {
                Some("decline") => Answer::Decline,
                Some("cancel") => Answer::Cancel,
                _ => Answer::Accept(answer["content"].take()),
            })
        })
    }
}
