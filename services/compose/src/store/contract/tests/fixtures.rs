//! Runs and changes of the tests.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::{
    Answer, Change, DefinitionHash, KeptAnswer, RecordedQuestion, RunId, RunOwner, RunRecord,
    RunResult, RunStatus, StepResult, StepStatus, Timestamp, WorkflowStore,
};

pub(super) fn alice() -> RunOwner {
    RunOwner::new("alice")
}

pub(super) fn id(name: &str) -> RunId {
    RunId::new(name)
}

/// Run of Alice whose result is kept.
pub(super) fn kept(name: &str) -> RunRecord {
    of(alice(), name).keeping_result()
}

pub(super) fn of(owner: RunOwner, name: &str) -> RunRecord {
    let arguments = json!({"city": "Oslo"}).as_object().cloned().unwrap_or_default();
    let definition = DefinitionHash::new([7; 32]);
    RunRecord::new(id(name), owner, "workflow".into(), definition, arguments, Timestamp(5))
}

pub(super) fn started(step: usize) -> Change {
    Change::StepStarted { step, at: Timestamp(6), question: None }
}

pub(super) fn finished(step: usize, output: Value) -> Change {
    let result = StepResult {
        status: StepStatus::Completed,
        output: Arc::new(output),
        content: Arc::new(Value::Null),
        error: None,
    };
    Change::StepFinished { step, at: Timestamp(7), result }
}

pub(super) fn round_opened(step: usize) -> Change {
    let (message, expires_at) = ("Sure?".into(), Timestamp(9));
    let question = RecordedQuestion { step, message, expires_at, answered_by: None };
    Change::RoundOpened { questions: vec![question] }
}

pub(super) fn answers_kept(round: usize, step: usize) -> Change {
    let answer = Answer::Accept(json!({"sure": true}));
    Change::AnswersKept { round, answers: vec![KeptAnswer { step, answer, digest: [2; 32] }] }
}

pub(super) fn round_consumed(round: usize) -> Change {
    Change::RoundConsumed { round, digest: [1; 32] }
}

pub(super) fn completed() -> Change {
    let result = RunResult::Completed(Arc::new(json!({"done": true})));
    Change::RunFinished { status: RunStatus::Completed, at: Timestamp(8), result }
}

/// Waits until a store has taken back the lease of a run of Alice, which it does in the background.
pub(super) async fn until_released(store: &dyn WorkflowStore, name: &str) {
    let released = async {
        loop {
            let record = store.read(&alice(), &id(name)).await.unwrap();
            if record.status != RunStatus::Running {
                return;
            }
            store.wait(&alice(), &id(name), record.version).await.unwrap();
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(30), released).await.unwrap();
}
