//! Calls of tools, with retries.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::time::{Instant, sleep, timeout_at};
use tower::{Service, ServiceExt as _};

use super::engine::Engine;
use super::failure::StepFailure;
use super::progress::Results;
use super::scope::LoopItem;
use super::{content, retry};
use crate::coerce;
use crate::limits::MAX_TEXT_BYTES;
use crate::plan::{Argument, PlannedCall};
use crate::{
    CallError, CallErrorKind, Change, RunError, RunErrorKind, RunEvent, StepIdentity, ToolCall,
    ToolOutcome,
};

/// Call of a step or iteration.
#[derive(Clone, Copy, Debug)]
pub(super) struct CallSite<'a> {
    pub(super) call: &'a PlannedCall,
    /// Number of the step.
    pub(super) step: usize,
    pub(super) iteration: Option<usize>,
    /// Attempts that a process made before.
    pub(super) attempts: u32,
    pub(super) deadline: Instant,
    pub(super) timeout: Duration,
}

/// Failed attempt.
struct AttemptFailure {
    kind: RunErrorKind,
    message: String,
    is_retryable: bool,
    error: Option<CallError>,
}

impl<C> Engine<'_, C>
where
    C: Service<ToolCall, Response = ToolOutcome, Error = CallError> + Clone + Send + Sync,
    C::Future: Send,
{
    /// Renders the arguments of a call, and converts them to the types of the tool.
    pub(super) fn render_arguments(
        &self,
        call: &PlannedCall,
        results: &Results,
        item: Option<LoopItem<'_>>,
    ) -> Result<Map<String, Value>, String> {
        let tool = if call.arguments.iter().any(|(_, value)| value.is_template()) {
            self.context.tools.tool(&call.tool)
        } else {
            None
        };
        let schema = tool.as_ref().and_then(|tool| tool.input_schema.as_deref());
        let properties = schema.and_then(|schema| schema.get("properties"));
        let scope = self.scope();
        let (mut arguments, mut bytes) = (Map::new(), 0_usize);
        for (name, argument) in &call.arguments {
            let value = match argument {
                Argument::Fixed(value) => value.clone(),
                Argument::Template(expression) => {
                    let text = scope.render(expression, results, item).map_err(|error| {
                        format!("failed to render argument \"{name}\": {error}")
                    })?;
                    bytes += text.len();
                    if bytes > MAX_TEXT_BYTES {
                        let limit = MAX_TEXT_BYTES / 1024 / 1024;
                        return Err(format!("the arguments are larger than {limit} MiB"));
                    }
                    coerce::argument(text, properties.and_then(|all| all.get(name)))
                }
            };
            arguments.insert(name.clone(), value);
        }
        Ok(arguments)
    }

    /// Calls a tool, again after failures that may pass, until the deadline. The start of the first attempt is stored already.
    pub(super) async fn call_tool(
        &self,
        site: CallSite<'_>,
        arguments: Map<String, Value>,
    ) -> Result<ToolOutcome, StepFailure> {
        let attempts = site.call.retry.map_or(1, |retry| retry.count.saturating_add(1));
        let (mut failures, mut arguments) = (0, arguments);
        let may_be_late = site.attempts > 0 || site.iteration.is_some();
        if may_be_late && Instant::now() >= site.deadline {
            // A step that is resumed too late sends nothing: a timeout polls its future first.
            return Err(self.fail(site, AttemptFailure::timeout(site.timeout)));
        }
        loop {
            let attempt = site.attempts + failures + 1;
            let (now, later) = if failures + 1 < attempts {
                (arguments.clone(), arguments)
            } else {
                (arguments, Map::new())
            };
            let failure = match self.attempt(site, attempt, now).await {
                Ok(outcome) => return Ok(outcome),
                Err(failure) => failure,
            };
            arguments = later;
            failures += 1;
            let retry_after = failure.error.as_ref().and_then(CallError::retry_after);
            let retry = site.call.retry.filter(|_| failure.is_retryable && failures < attempts);
            let delay =
                retry.map(|retry| retry::delay(retry, failures, &self.context.jitter, retry_after));
            match delay.filter(|delay| Instant::now() + *delay < site.deadline) {
                Some(delay) => self.wait_for_retry(site, attempt, delay, &failure).await?,
                None => return Err(self.fail(site, failure)),
            }
        }
    }

    async fn wait_for_retry(
        &self,
        site: CallSite<'_>,
        attempt: u32,
        delay: Duration,
        failure: &AttemptFailure,
    ) -> Result<(), StepFailure> {
        let CallSite { step, iteration, .. } = site;
        self.observe(&RunEvent::RetryScheduled {
            step: &self.plan.steps[step].id,
            iteration,
            attempt: attempt + 1,
            delay,
            error: &failure.message,
        });
        self.journal.commit(vec![Change::AttemptFailed { step, iteration }]).await?;
        sleep(delay).await;
        let start = match iteration {
            None => Change::StepStarted { step, at: self.now(), question: None },
            Some(iteration) => Change::IterationStarted { step, iteration },
        };
        self.journal.commit(vec![start]).await?;
        Ok(())
    }

    async fn attempt(
        &self,
        site: CallSite<'_>,
        attempt: u32,
        arguments: Map<String, Value>,
    ) -> Result<ToolOutcome, AttemptFailure> {
        let call = ToolCall {
            tool: site.call.tool.clone(),
            arguments,
            step: StepIdentity {
                run: self.run.clone(),
                workflow: self.plan.name.clone(),
                step: self.plan.steps[site.step].id.clone(),
                iteration: site.iteration,
                attempt,
            },
        };
        let calls = self.context.calls.clone();
        match timeout_at(site.deadline, calls.oneshot(call)).await {
            Ok(Ok(outcome)) if !outcome.is_error => Ok(outcome),
            Ok(Ok(outcome)) => Err(AttemptFailure {
                kind: RunErrorKind::StepFailed,
                message: content::error_text(&outcome),
                is_retryable: true,
                error: None,
            }),
            Ok(Err(error)) => Err(AttemptFailure {
                kind: match error.kind() {
                    CallErrorKind::Denied => RunErrorKind::Denied,
                    _ => RunErrorKind::StepFailed,
                },
                message: error.to_string(),
                is_retryable: error.kind().is_retryable(),
                error: Some(error),
            }),
            Err(_) => Err(AttemptFailure::timeout(site.timeout)),
        }
    }

    fn fail(&self, site: CallSite<'_>, failure: AttemptFailure) -> StepFailure {
        let AttemptFailure { kind, message, is_retryable: _, error } = failure;
        let step: &Arc<str> = &self.plan.steps[site.step].id;
        let verb = if kind == RunErrorKind::Denied { "was denied" } else { "failed" };
        let message = format!("step \"{step}\": tool {} {verb}: {message}", site.call.tool);
        let error = error.and_then(CallError::into_source);
        StepFailure::Step(RunError::new(kind, message).at_step(step).with_source(error))
    }
}

impl AttemptFailure {
    fn timeout(timeout: Duration) -> Self {
        Self {
            kind: RunErrorKind::StepFailed,
            message: format!("no result within the step's timeout of {timeout:?}"),
            is_retryable: false,
            error: None,
        }
    }
}
