//! Suspended runs whose questions get no answers.

use std::time::Duration;

use serde_json::{Value, json};
use vmcp_compose::{
    Answer, Outcome, RunErrorKind, RunRecord, RunStatus, StepStatus, StoreError, Workflow,
    end_unanswered,
};

use crate::support::{TestEnv, error, owner, workflow};

/// Question beside a question with a longer timeout, which a step follows in any case.
fn asks() -> Workflow {
    let schema = json!({"type": "object", "properties": {}});
    workflow(json!([
        {"id": "before", "tool": "w.echo"},
        {"id": "a", "type": "elicitation", "message": "A?", "schema": schema, "timeout": "10s",
         "dependsOn": ["before"], "onCancel": {"action": "continue"}},
        {"id": "b", "type": "elicitation", "message": "B?", "schema": schema, "timeout": "20s",
         "dependsOn": ["before"], "onError": {"action": "continue"}},
        {"id": "after", "tool": "w.echo", "dependsOn": ["a"]},
    ]))
}

async fn suspended(workflow: &Workflow) -> TestEnv {
    let world = TestEnv::suspending();
    let outcome = world.run(workflow, json!({})).await;
    assert!(matches!(outcome, Outcome::InputRequired(_)), "{outcome:?}");
    world
}

/// Ends the run if its questions expired a minute ago.
async fn end(world: &TestEnv, workflow: &Workflow) -> Result<(), StoreError> {
    let (owner, now) = (owner(), world.clock.now());
    let until = now - Duration::from_mins(1);
    let observer = world.context().observer;
    end_unanswered(workflow, (&owner, &world.id), until, &*world.store, &*observer, now).await
}

async fn record(world: &TestEnv) -> RunRecord {
    world.store.read(&owner(), &world.id).await.unwrap()
}

fn accept(content: Value) -> Answer {
    Answer::Accept(content)
}

#[tokio::test(start_paused = true)]
async fn unanswered_run_times_out() {
    let workflow = asks();
    let world = suspended(&workflow).await;
    let asked = world.events().len();
    for _ in 0..2 {
        world.clock.advance(Duration::from_secs(39));
        end(&world, &workflow).await.unwrap();
        assert_eq!(record(&world).await.status, RunStatus::InputRequired);
    }
    world.clock.advance(Duration::from_secs(2));
    end(&world, &workflow).await.unwrap();
    let ended = record(&world).await;
    assert_eq!(ended.status, RunStatus::TimedOut);
    assert_eq!(ended.ended_at, Some(world.clock.now().into()));
    let statuses: Vec<_> =
        ended.steps.values().map(|step| step.result.as_ref().unwrap().status).collect();
    assert_eq!(statuses, [StepStatus::Completed, StepStatus::Failed, StepStatus::Failed]);
    let expected = [
        "run resumed with 1 done",
        "a failed by timeout 2/4",
        "b failed by timeout 3/4",
        "run finished: false",
    ];
    assert_eq!(world.events()[asked..], expected);
    assert_eq!(world.tools.steps(), ["before"]);
    // Nothing ends twice.
    end(&world, &workflow).await.unwrap();
    assert_eq!(world.events().len(), asked + expected.len());
}

#[tokio::test(start_paused = true)]
async fn late_answers_get_timeout_as_outcome() {
    let workflow = asks();
    let world = suspended(&workflow).await;
    world.clock.advance(Duration::from_mins(2));
    end(&world, &workflow).await.unwrap();
    for answers in [&[][..], &[("a", accept(json!({}))), ("b", Answer::Decline)]] {
        let failed = error(world.answer(&workflow, 0, answers).await);
        let expected = "step \"a\": the user did not answer in time: call the tool again";
        assert_eq!((failed.kind(), &*failed.to_string()), (RunErrorKind::TimedOut, expected));
    }
    assert_eq!(world.tools.steps(), ["before"]);
}

#[tokio::test(start_paused = true)]
async fn leased_run_does_not_end() {
    let workflow = asks();
    let world = suspended(&workflow).await;
    world.clock.advance(Duration::from_mins(2));
    let (lease, _) = world.store.acquire(&owner(), &world.id).await.unwrap();
    assert_eq!(end(&world, &workflow).await, Err(StoreError::Leased));
    world.store.release(&lease);
    end(&world, &workflow).await.unwrap();
    assert_eq!(record(&world).await.status, RunStatus::TimedOut);
}

#[tokio::test(start_paused = true)]
async fn runs_that_went_on_do_not_end() {
    let workflow = asks();
    let world = suspended(&workflow).await;
    world.clock.advance(Duration::from_secs(5));
    let second = world.answer(&workflow, 0, &[("a", accept(json!({})))]).await;
    assert!(matches!(second, Outcome::InputRequired(_)), "{second:?}");
    // The round of both questions is over, the one of the second question alone is not.
    world.clock.advance(Duration::from_secs(76));
    end(&world, &workflow).await.unwrap();
    assert_eq!(record(&world).await.status, RunStatus::InputRequired);
    world.clock.advance(Duration::from_secs(5));
    end(&world, &workflow).await.unwrap();
    assert_eq!(record(&world).await.status, RunStatus::TimedOut);
}
