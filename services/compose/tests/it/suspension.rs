//! Runs that are suspended until the user answers.

use std::time::Duration;

use serde_json::{Value, json};
use vmcp_compose::{Answer, InputRequired, Outcome, RunErrorKind, RunStatus, Workflow};

use crate::support::{TestEnv, error, output, owner, workflow};

fn accept(content: Value) -> Answer {
    Answer::Accept(content)
}

/// Two questions and a call at once, then a question about all of them, then a call.
fn approvals() -> Workflow {
    let schema =
        json!({"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}});
    workflow(json!([
        {"id": "a", "type": "elicitation", "message": "A?", "schema": schema},
        {"id": "b", "type": "elicitation", "message": "B?", "schema": schema},
        {"id": "call", "tool": "w.sleep", "arguments": {"ms": 20}},
        {"id": "c", "type": "elicitation", "dependsOn": ["a", "b", "call"], "schema": schema,
         "message": "C after {{.steps.a.output.content.n}} and {{.steps.b.output.content.n}}?"},
        {"id": "end", "tool": "w.echo", "dependsOn": ["c"],
         "arguments": {"n": "{{.steps.c.output.content.n}}"}},
    ]))
}

fn questions(outcome: Outcome) -> InputRequired {
    match outcome {
        Outcome::InputRequired(required) => required,
        other => panic!("input required, not {other:?}"),
    }
}

fn messages(required: &InputRequired) -> Vec<&str> {
    required.questions.iter().map(|question| question.message.as_str()).collect()
}

#[tokio::test(start_paused = true)]
async fn suspends_once_all_steps_wait() {
    let (world, workflow) = (TestEnv::suspending(), approvals());
    let first = questions(world.run(&workflow, json!({})).await);
    assert_eq!((first.round, messages(&first)), (0, vec!["A?", "B?"]));
    assert_eq!(world.tools.completed(), 1);
    assert_eq!(world.store.list(&owner(), 100).await.unwrap()[0].status, RunStatus::InputRequired);
    let answers = [("a", accept(json!({"n": 1}))), ("b", accept(json!({"n": 2})))];
    let second = questions(world.answer(&workflow, 0, &answers).await);
    assert_eq!((second.round, messages(&second)), (1, vec!["C after 1 and 2?"]));
    let last = [("c", accept(json!({"n": 3})))];
    assert_eq!(output(world.answer(&workflow, 1, &last).await), json!({"n": "3"}));
    assert_eq!(world.tools.steps(), ["call", "end"], "nothing was called twice");
}

#[tokio::test(start_paused = true)]
async fn equal_answers_get_recorded_outcome() {
    let (world, workflow) = (TestEnv::suspending(), approvals());
    questions(world.run(&workflow, json!({})).await);
    let answers = [("a", accept(json!({"n": 1}))), ("b", accept(json!({"n": 2})))];
    questions(world.answer(&workflow, 0, &answers).await);
    let reversed = [answers[1].clone(), answers[0].clone()];
    let again = questions(world.answer(&workflow, 0, &reversed).await);
    assert_eq!((again.round, messages(&again)), (1, vec!["C after 1 and 2?"]));
    let last = [("c", accept(json!({"n": 3})))];
    for _ in 0..2 {
        assert_eq!(output(world.answer(&workflow, 1, &last).await), json!({"n": "3"}));
    }
    assert_eq!(world.tools.steps(), ["call", "end"]);
}

#[tokio::test(start_paused = true)]
async fn refuses_other_answers_to_consumed_round() {
    let (world, workflow) = (TestEnv::suspending(), approvals());
    questions(world.run(&workflow, json!({})).await);
    let answers = [("a", accept(json!({"n": 1}))), ("b", accept(json!({"n": 2})))];
    questions(world.answer(&workflow, 0, &answers).await);
    let other = [("a", accept(json!({"n": 9})))];
    let failed = error(world.answer(&workflow, 0, &other).await);
    assert_eq!(failed.kind(), RunErrorKind::RoundConflict);
    let failed = error(world.answer(&workflow, 7, &answers).await);
    assert_eq!(failed.kind(), RunErrorKind::UnknownRound);
}

#[tokio::test(start_paused = true)]
async fn concurrent_equal_answers_run_once() {
    let (world, workflow) = (TestEnv::suspending(), approvals());
    questions(world.run(&workflow, json!({})).await);
    let answers = [("a", accept(json!({"n": 1}))), ("b", accept(json!({"n": 2})))];
    questions(world.answer(&workflow, 0, &answers).await);
    let last = [("c", accept(json!({"n": 3})))];
    let (one, other) =
        tokio::join!(world.answer(&workflow, 1, &last), world.answer(&workflow, 1, &last),);
    assert_eq!((output(one), output(other)), (json!({"n": "3"}), json!({"n": "3"})));
    assert_eq!(world.tools.steps(), ["call", "end"]);
}

#[tokio::test(start_paused = true)]
async fn invalid_answer_leaves_questions_open() {
    let (world, workflow) = (TestEnv::suspending(), approvals());
    questions(world.run(&workflow, json!({})).await);
    let answers = [("a", accept(json!({"n": "one"}))), ("b", accept(json!({"n": 2})))];
    let failed = error(world.answer(&workflow, 0, &answers).await);
    assert_eq!((failed.kind(), failed.step()), (RunErrorKind::InvalidAnswer, Some("a")));
    assert_eq!(
        failed.to_string(),
        "answer to step \"a\" is invalid at content.n: the value is not of type \"integer\""
    );
    let failed = error(world.answer(&workflow, 0, &[("c", Answer::Decline)]).await);
    assert_eq!(failed.to_string(), "step \"c\" has no open question");
    let answers = [("a", accept(json!({"n": 1}))), ("b", accept(json!({"n": 2})))];
    questions(world.answer(&workflow, 0, &answers).await);
}

#[tokio::test(start_paused = true)]
async fn unanswered_question_is_asked_again() {
    let (world, workflow) = (TestEnv::suspending(), approvals());
    questions(world.run(&workflow, json!({})).await);
    let second = questions(world.answer(&workflow, 0, &[("b", accept(json!({"n": 2})))]).await);
    assert_eq!((second.round, messages(&second)), (1, vec!["A?"]));
    let third = questions(world.answer(&workflow, 1, &[("a", accept(json!({"n": 1})))]).await);
    assert_eq!(messages(&third), ["C after 1 and 2?"]);
}

#[tokio::test(start_paused = true)]
async fn round_without_answers_stays_open() {
    let (world, workflow) = (TestEnv::suspending(), approvals());
    questions(world.run(&workflow, json!({})).await);
    for _ in 0..3 {
        let same = questions(world.answer(&workflow, 0, &[]).await);
        assert_eq!((same.round, messages(&same)), (0, vec!["A?", "B?"]));
    }
    world.clock.advance(Duration::from_mins(6));
    let failed = error(world.answer(&workflow, 0, &[]).await);
    assert_eq!(failed.to_string(), "step \"a\": the user did not answer in time");
}

#[tokio::test(start_paused = true)]
async fn late_answer_is_a_timeout() {
    let (world, workflow) = (TestEnv::suspending(), approvals());
    let first = questions(world.run(&workflow, json!({})).await);
    let expiry = first.questions[0].expires_at.duration_since(world.clock.now()).unwrap();
    assert_eq!(expiry.as_secs(), 5 * 60);
    world.clock.advance(Duration::from_mins(6));
    let answers = [("a", accept(json!({"n": 1}))), ("b", accept(json!({"n": 2})))];
    let failed = error(world.answer(&workflow, 0, &answers).await);
    assert_eq!(failed.to_string(), "step \"a\": the user did not answer in time");
}

#[tokio::test(start_paused = true)]
async fn suspension_counts_for_workflow_timeout() {
    let world = TestEnv::suspending();
    let workflow = crate::support::compile(json!({
        "name": "t", "timeout": "3m",
        "steps": [
            {"id": "a", "type": "elicitation", "message": "A?", "schema": {"type": "object"},
             "onCancel": {"action": "continue"}},
            {"id": "b", "tool": "w.never", "dependsOn": ["a"], "timeout": "1h"},
        ],
    }));
    questions(world.run(&workflow, json!({})).await);
    world.clock.advance(Duration::from_mins(2));
    let started = tokio::time::Instant::now();
    let failed = error(world.answer(&workflow, 0, &[("a", accept(json!({})))]).await);
    assert_eq!((failed.kind(), started.elapsed().as_secs()), (RunErrorKind::TimedOut, 60));
}

#[tokio::test(start_paused = true)]
async fn declined_round_is_recorded_too() {
    let (world, workflow) = (TestEnv::suspending(), approvals());
    questions(world.run(&workflow, json!({})).await);
    let declined = [("a", Answer::Decline), ("b", Answer::Decline)];
    for _ in 0..2 {
        let failed = error(world.answer(&workflow, 0, &declined).await);
        assert_eq!(failed.kind(), RunErrorKind::Declined);
    }
    let failed = error(world.answer(&workflow, 0, &[("a", Answer::Cancel)]).await);
    assert_eq!(failed.kind(), RunErrorKind::RoundConflict);
}

#[tokio::test(start_paused = true)]
async fn changed_definition_ends_suspended_run() {
    let world = TestEnv::suspending();
    questions(world.run(&approvals(), json!({})).await);
    let mut other = json!([{"id": "a", "type": "elicitation", "message": "A?",
        "schema": {"type": "object"}}]);
    let failed = error(world.answer(&workflow(other.take()), 0, &[("a", accept(json!({})))]).await);
    assert_eq!(failed.kind(), RunErrorKind::DefinitionChanged);
    assert_eq!(world.store.list(&owner(), 100).await.unwrap()[0].status, RunStatus::Failed);
    let failed = error(world.answer(&approvals(), 0, &[("a", accept(json!({"n": 1})))]).await);
    assert_eq!(failed.kind(), RunErrorKind::DefinitionChanged, "the run stays ended");
}

#[tokio::test(start_paused = true)]
async fn run_of_other_owner_does_not_exist() {
    let (world, workflow) = (TestEnv::suspending(), approvals());
    questions(world.run(&workflow, json!({})).await);
    let request = vmcp_compose::ResumeRequest {
        id: world.id.clone(),
        owner: vmcp_compose::RunOwner::new("mallory"),
        answers: None,
    };
    let failed = error(vmcp_compose::resume(&workflow, request, &world.context()).await);
    assert_eq!(failed.kind(), RunErrorKind::UnknownRound);
    let expected = "no such run: it may have expired, ended with its process, or be in the memory of \
                    another replica: call the tool again without requestState";
    assert_eq!(failed.to_string(), expected);
}

#[tokio::test(start_paused = true)]
async fn resumed_run_without_answers_asks_again() {
    let (world, workflow) = (TestEnv::suspending(), approvals());
    questions(world.run(&workflow, json!({})).await);
    let same = questions(world.resume(&workflow).await);
    assert_eq!((same.round, messages(&same)), (0, vec!["A?", "B?"]));
}

#[tokio::test(start_paused = true)]
async fn time_of_question_starts_with_round() {
    let world = TestEnv::suspending();
    let workflow = crate::support::workflow(json!([
        {"id": "ask", "type": "elicitation", "message": "A?", "schema": {"type": "object"}},
        {"id": "slow", "tool": "w.sleep", "arguments": {"ms": 60_000}},
    ]));
    let six_minutes = async {
        tokio::time::sleep(Duration::from_secs(30)).await;
        world.clock.advance(Duration::from_mins(6));
    };
    let (outcome, ()) = tokio::join!(world.run(&workflow, json!({})), six_minutes);
    let required = questions(outcome);
    let left = required.questions[0].expires_at.duration_since(world.clock.now()).unwrap();
    assert_eq!(left, Duration::from_mins(5));
    let record = world.store.read(&owner(), &world.id).await.unwrap();
    assert_eq!(record.rounds[0].questions[0].expires_at, required.questions[0].expires_at.into());
    world.clock.advance(Duration::from_secs(299));
    output(world.answer(&workflow, 0, &[("ask", accept(json!({})))]).await);
}

#[tokio::test(start_paused = true)]
async fn unanswered_question_gets_whole_time_again() {
    let (world, workflow) = (TestEnv::suspending(), approvals());
    questions(world.run(&workflow, json!({})).await);
    world.clock.advance(Duration::from_mins(4));
    let second = questions(world.answer(&workflow, 0, &[("b", accept(json!({"n": 2})))]).await);
    let left = second.questions[0].expires_at.duration_since(world.clock.now()).unwrap();
    assert_eq!(left, Duration::from_mins(5));
    world.clock.advance(Duration::from_mins(4));
    questions(world.answer(&workflow, 1, &[("a", accept(json!({"n": 1})))]).await);
}

#[tokio::test(start_paused = true)]
async fn question_ends_with_its_run() {
    let (world, definition) = (
        TestEnv::suspending(),
        json!({"name": "t", "timeout": "7m", "steps": [
            {"id": "ask", "type": "elicitation", "message": "A?", "schema": {"type": "object"}},
            {"id": "slow", "tool": "w.sleep", "arguments": {"ms": 1000}},
        ]}),
    );
    let workflow = crate::support::compile(definition);
    let three_minutes = async { world.clock.advance(Duration::from_mins(3)) };
    let (outcome, ()) = tokio::join!(world.run(&workflow, json!({})), three_minutes);
    let required = questions(outcome);
    let left = required.questions[0].expires_at.duration_since(world.clock.now()).unwrap();
    assert_eq!(left, Duration::from_mins(4));
}
