//! Events of runs that ask, stop and continue.

use std::time::Duration;

use serde_json::{Value, json};
use vmcp_compose::{Answer, Workflow};

use crate::support::{TestEnv, User, error, output, workflow};

fn approval() -> Workflow {
    workflow(json!([
        {"id": "ask", "type": "elicitation", "message": "Sure?", "schema": {"type": "object"}},
        {"id": "act", "tool": "w.echo", "dependsOn": ["ask"]},
    ]))
}

fn two_questions() -> Workflow {
    let question = |id: &str| json!({"id": id, "type": "elicitation", "message": "m", "schema": {"type": "object"}});
    workflow(json!([question("a"), question("b")]))
}

fn accept() -> Answer {
    Answer::Accept(json!({}))
}

async fn suspend(world: &TestEnv, workflow: &Workflow) {
    world.run(workflow, Value::Object(serde_json::Map::new())).await;
}

#[tokio::test(start_paused = true)]
async fn resumption_is_not_a_start() {
    let (world, workflow) = (TestEnv::suspending(), approval());
    suspend(&world, &workflow).await;
    output(world.answer(&workflow, 0, &[("ask", accept())]).await);
    let expected = [
        "run of 2 started",
        "ask started",
        "run suspended by 1",
        "run resumed with 0 done",
        "ask completed by accept 1/2",
        "act started",
        "act completed 2/2",
        "run finished: true",
    ];
    assert_eq!(world.events(), expected);
}

#[tokio::test(start_paused = true)]
async fn declined_question_ends_its_step() {
    let ends = ["ask failed by decline 1/2", "run finished: false"];
    let (world, workflow) = (TestEnv::suspending(), approval());
    suspend(&world, &workflow).await;
    error(world.answer(&workflow, 0, &[("ask", Answer::Decline)]).await);
    assert_eq!(world.events()[4..], ends);

    let world = TestEnv::with_user(&User::new([("ask", Answer::Decline)]));
    error(world.run(&workflow, json!({})).await);
    assert_eq!(world.events()[3..], ends, "{:?}", world.events());
}

#[tokio::test(start_paused = true)]
async fn open_question_starts_once() {
    let (world, workflow) = (TestEnv::suspending(), two_questions());
    suspend(&world, &workflow).await;
    world.answer(&workflow, 0, &[("a", accept())]).await;
    output(world.answer(&workflow, 1, &[("b", accept())]).await);
    let events = world.events();
    for step in ["a", "b"] {
        let count = |event: &str| events.iter().filter(|it| it.starts_with(event)).count();
        assert_eq!(count(&format!("{step} started")), 1, "{events:?}");
        assert_eq!(count(&format!("{step} completed by accept")), 1, "{events:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn failed_run_cancels_open_questions() {
    let (world, workflow) = (TestEnv::suspending(), two_questions());
    suspend(&world, &workflow).await;
    error(world.answer(&workflow, 0, &[("b", Answer::Cancel)]).await);
    let expected = ["b failed by cancel 1/2", "a cancelled 1/2", "run finished: false"];
    assert_eq!(world.events()[5..], expected, "{:?}", world.events());
}

#[tokio::test(start_paused = true)]
async fn late_answer_is_reported_as_timeout() {
    let (world, workflow) = (TestEnv::suspending(), approval());
    suspend(&world, &workflow).await;
    world.clock.advance(Duration::from_mins(5));
    error(world.answer(&workflow, 0, &[("ask", accept())]).await);
    assert_eq!(world.events()[4..], ["ask failed by timeout 1/2", "run finished: false"]);
}
