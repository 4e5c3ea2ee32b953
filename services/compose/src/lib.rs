#![doc = include_str!("../README.md")]

mod call;
mod change;
mod coerce;
mod condition;
mod elicit;
mod error;
mod id;
pub mod limits;
mod observe;
mod plan;
mod record;
mod run;
mod schema;
#[macro_use]
pub mod store;
mod tools;
mod workflow;

pub use self::{
    call::{CallError, CallErrorKind, StepIdentity, ToolCall, ToolOutcome},
    change::Change,
    elicit::{Answer, AnswerAction, AnswerError, Elicit, ElicitError, Elicitation, Question},
    error::{RunError, RunErrorKind},
    id::{DefinitionHash, RunId, RunOwner},
    observe::{RunEvent, RunObserver},
    record::{
        IterationRecord, IterationResult, KeptAnswer, RecordedQuestion, RoundRecord, RunRecord,
        RunResult, RunStatus, RunSummary, StepRecord, StepResult, StepStatus, Timestamp,
        WriteEffect,
    },
    run::{
        InputRequired, Jitter, Outcome, ResumeRequest, RoundAnswers, RunContext, RunOutput,
        RunRequest, end_unanswered, keep_answers, resume, run,
    },
    schema::JsonSchema,
    store::{
        Lease, MemoryWorkflowStore, ReachedLimit, StoreCounts, StoreError, StoreFuture,
        StoreLimits, WorkflowStore,
    },
    tools::{ToolInfo, ToolLookup},
    workflow::{Finding, Severity, StepSummary, Workflow},
};
