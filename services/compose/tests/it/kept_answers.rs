//! Answers that are kept until each open question has one.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use vmcp_compose::{Answer, Outcome, RunError, RunErrorKind, RunStatus, Workflow, keep_answers};

use crate::support::{TestEnv, output, owner, workflow};

/// Two questions at once and a call that uses both answers.
fn approvals() -> Workflow {
    let schema =
        json!({"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}});
    workflow(json!([
        {"id": "a", "type": "elicitation", "message": "A?", "schema": schema},
        {"id": "b", "type": "elicitation", "message": "B?", "schema": schema, "timeout": "4m",
         "onCancel": {"action": "continue"}},
        {"id": "end", "tool": "w.echo", "dependsOn": ["a", "b"],
         "arguments": {"a": "{{.steps.a.output.content.n}}", "b": "{{.steps.b.output.action}}"}},
    ]))
}

async fn keep(
    world: &TestEnv,
    workflow: &Workflow,
    answers: &[(&str, Value)],
) -> Result<bool, RunError> {
    let accept = |(step, content): &(&str, Value)| {
        (Arc::from(*step), Answer::Accept(json!({ "n": content })))
    };
    let answers: Vec<_> = answers.iter().map(accept).collect();
    keep_answers(workflow, (&owner(), &world.id), &answers, &*world.store, &world.clock).await
}

async fn open(world: &TestEnv, workflow: &Workflow) -> Vec<String> {
    let record = world.store.read(&owner(), &world.id).await.unwrap();
    assert_eq!(record.status, RunStatus::InputRequired);
    let questions = workflow.open_questions(&record);
    questions.iter().map(|question| question.step.to_string()).collect()
}

#[tokio::test(start_paused = true)]
async fn partial_answers_are_kept() {
    let (world, workflow) = (TestEnv::suspending(), approvals());
    assert!(matches!(world.run(&workflow, json!({})).await, Outcome::InputRequired(_)));
    assert_eq!(open(&world, &workflow).await, ["a", "b"]);
    assert!(!keep(&world, &workflow, &[("a", json!(1)), ("x", json!(1))]).await.unwrap());
    assert_eq!(open(&world, &workflow).await, ["b"]);
    let Outcome::InputRequired(input) = world.resume(&workflow).await else { panic!("suspended") };
    assert_eq!(input.questions.len(), 1);
    assert!(keep(&world, &workflow, &[("b", json!(2))]).await.unwrap());
    assert_eq!(output(world.resume(&workflow).await), json!({"a": "1", "b": "accept"}));
}

#[tokio::test(start_paused = true)]
async fn other_answers_to_answered_question_conflict() {
    let (world, workflow) = (TestEnv::suspending(), approvals());
    world.run(&workflow, json!({})).await;
    for _ in 0..2 {
        assert!(!keep(&world, &workflow, &[("a", json!(1))]).await.unwrap());
    }
    let both = [("b", json!(2)), ("a", json!(3))];
    let conflict = keep(&world, &workflow, &both).await.unwrap_err();
    assert_eq!((conflict.kind(), conflict.step()), (RunErrorKind::RoundConflict, Some("a")));
    assert_eq!(open(&world, &workflow).await, ["b"], "all or none");
    assert!(keep(&world, &workflow, &[("a", json!(1)), ("b", json!(2))]).await.unwrap());
    world.resume(&workflow).await;
    assert!(!keep(&world, &workflow, &[("a", json!(1))]).await.unwrap(), "also after the end");
    let conflict = keep(&world, &workflow, &[("b", json!(3))]).await.unwrap_err();
    assert_eq!(conflict.kind(), RunErrorKind::RoundConflict);
}

#[tokio::test(start_paused = true)]
async fn wrong_answer_leaves_question_open() {
    let (world, workflow) = (TestEnv::suspending(), approvals());
    world.run(&workflow, json!({})).await;
    let wrong = keep(&world, &workflow, &[("a", json!("one"))]).await.unwrap_err();
    assert_eq!((wrong.kind(), wrong.step()), (RunErrorKind::InvalidAnswer, Some("a")));
    assert_eq!(open(&world, &workflow).await, ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn kept_answer_outlives_its_question() {
    let (world, workflow) = (TestEnv::suspending(), approvals());
    world.run(&workflow, json!({})).await;
    assert!(!keep(&world, &workflow, &[("a", json!(1))]).await.unwrap());
    world.clock.advance(Duration::from_mins(6));
    assert!(keep(&world, &workflow, &[("b", json!(2))]).await.unwrap(), "b expired");
    let expected = json!({"a": "1", "b": "timeout"});
    assert_eq!(output(world.resume(&workflow).await), expected);
}
