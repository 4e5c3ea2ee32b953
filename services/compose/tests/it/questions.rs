//! Questions that a run waits for.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tokio::time::Instant;
use vmcp_compose::{
    Answer, AnswerError, Elicit, ElicitError, Elicitation, Question, RunErrorKind, Workflow,
};

use crate::support::{TestEnv, User, error, output, workflow};

/// A question between two calls, with these settings.
fn asking(more: Value) -> Workflow {
    let mut question = json!({
        "id": "ask", "type": "elicitation", "message": "Deploy {{.params.what}}?",
        "dependsOn": ["before"],
        "schema": {"type": "object", "required": ["sure"], "properties": {
            "sure": {"type": "boolean"},
        }},
    });
    for (name, value) in crate::support::object(more) {
        question[name] = value;
    }
    workflow(json!([
        {"id": "before", "tool": "w.echo", "arguments": {"before": true}},
        question,
        {"id": "after", "tool": "w.echo", "dependsOn": ["ask"], "arguments": {
            "action": "{{.steps.ask.output.action}}", "sure": "{{.steps.ask.output.content.sure}}",
        }},
    ]))
}

#[tokio::test(start_paused = true)]
async fn accepted_content_is_the_output() {
    let user = User::new([("ask", Answer::Accept(json!({"sure": true})))]);
    let world = TestEnv::with_user(&user);
    let out = output(world.run(&asking(json!({})), json!({"what": "v2"})).await);
    assert_eq!(out, json!({"action": "accept", "sure": "true"}));
    assert_eq!(user.asked(), ["Deploy v2?"]);
    assert!(world.events().contains(&"waiting for 1".to_owned()), "{:?}", world.events());
}

#[tokio::test(start_paused = true)]
async fn declined_or_cancelled_question_aborts() {
    for (answer, expected) in [
        (Answer::Decline, "step \"ask\": the user declined the question"),
        (Answer::Cancel, "step \"ask\": the user cancelled the question"),
        (Answer::TimedOut, "step \"ask\": the user did not answer in time"),
    ] {
        let user = User::new([("ask", answer)]);
        let world = TestEnv::with_user(&user);
        let failed = error(world.run(&asking(json!({})), json!({})).await);
        assert_eq!((failed.kind(), failed.step()), (RunErrorKind::Declined, Some("ask")));
        assert_eq!(failed.to_string(), expected);
        assert_eq!(world.tools.steps(), ["before"]);
    }
}

#[tokio::test(start_paused = true)]
async fn run_continues_after_declined_question() {
    let handler = json!({"action": "continue"});
    for (answer, setting, action) in [
        (Answer::Decline, "onDecline", "decline"),
        (Answer::Cancel, "onCancel", "cancel"),
        (Answer::TimedOut, "onCancel", "timeout"),
    ] {
        let user = User::new([("ask", answer)]);
        let defaults = json!({"action": "none", "content": {"sure": false}, "more": 1});
        let workflow = asking(json!({ (setting): handler, "defaultResults": defaults }));
        let out = output(TestEnv::with_user(&user).run(&workflow, json!({})).await);
        assert_eq!(out, json!({"action": action, "sure": "false"}));
    }
}

#[tokio::test(start_paused = true)]
async fn declined_question_without_defaults_has_action() {
    let user = User::new([("ask", Answer::Decline)]);
    let workflow = workflow(json!([{"id": "ask", "type": "elicitation", "message": "m",
        "schema": {"type": "object"}, "onDecline": {"action": "continue"}}]));
    let out = output(TestEnv::with_user(&user).run(&workflow, json!({})).await);
    assert_eq!(out, json!({"action": "decline"}));
}

#[tokio::test(start_paused = true)]
async fn skip_remaining_skips_steps() {
    let handler = json!({"action": "skip_remaining"});
    for (answer, setting, action) in [
        (Answer::Decline, "onDecline", "decline"),
        (Answer::Cancel, "onCancel", "cancel"),
        (Answer::TimedOut, "onCancel", "timeout"),
    ] {
        let user = User::new([("ask", answer)]);
        let world = TestEnv::with_user(&user);
        let out = output(world.run(&asking(json!({ (setting): handler })), json!({})).await);
        assert_eq!(out, json!({"action": action, "skipped": true}));
        assert_eq!(world.tools.steps(), ["before"]);
        assert!(world.events().contains(&"after skipped 3/3".to_owned()), "{:?}", world.events());
    }
}

#[tokio::test(start_paused = true)]
async fn skip_remaining_lets_running_steps_finish() {
    let user = User::new([("ask", Answer::Decline)]);
    let world = TestEnv::with_user(&user);
    let workflow = workflow(json!([
        {"id": "ask", "type": "elicitation", "message": "m", "schema": {"type": "object"},
         "onDecline": {"action": "skip_remaining"}},
        {"id": "slow", "tool": "w.sleep", "arguments": {"ms": 100}},
        {"id": "after", "tool": "w.echo", "dependsOn": ["slow"]},
    ]));
    output(world.run(&workflow, json!({})).await);
    assert_eq!((world.tools.steps(), world.tools.completed()), (vec!["slow".to_owned()], 1));
    let events = world.events();
    let position = |event: &str| events.iter().position(|it| it.starts_with(event));
    assert!(position("after skipped") < position("slow completed"), "{events:?}");
}

#[tokio::test(start_paused = true)]
async fn invalid_answer_is_asked_again() {
    let user = User::new([
        ("ask", Answer::Accept(json!({"sure": "maybe"}))),
        ("ask", Answer::Accept(json!({}))),
        ("ask", Answer::Accept(json!({"sure": false}))),
    ]);
    let out = output(TestEnv::with_user(&user).run(&asking(json!({})), json!({})).await);
    assert_eq!(out["sure"], "false");
    let asked = user.asked.lock().unwrap();
    let errors: Vec<_> = asked.iter().map(|(_, rejected)| rejected.clone()).collect();
    assert_eq!(errors[0], None);
    let rejected = errors[1].as_ref().unwrap();
    assert_eq!(rejected.field, "content.sure");
    assert_eq!(
        rejected.to_string(),
        "answer to step \"ask\" is invalid at content.sure: the value is not of type \"boolean\""
    );
    assert_eq!(errors[2].as_ref().unwrap().field, "content");
}

#[tokio::test(start_paused = true)]
async fn limits_size_and_depth_of_answers() {
    let deep = (0..10).fold(json!(true), |value, _| json!({ "sure": value }));
    let large = json!({"sure": true, "x": "x".repeat(1024 * 1024)});
    let user = User::new([
        ("ask", Answer::Accept(deep)),
        ("ask", Answer::Accept(large)),
        ("ask", Answer::Accept(json!({"sure": true}))),
    ]);
    output(TestEnv::with_user(&user).run(&asking(json!({})), json!({})).await);
    let asked = user.asked.lock().unwrap();
    let message = |n: usize| asked[n].1.as_ref().unwrap().message.clone();
    assert_eq!(message(1), "nested deeper than 10 levels");
    assert_eq!(message(2), "larger than 1 MiB");
}

#[tokio::test(start_paused = true)]
async fn question_fails_after_ten_invalid_answers() {
    let user = User::new([(); 10].map(|()| ("ask", Answer::Accept(json!({})))));
    let failed = error(TestEnv::with_user(&user).run(&asking(json!({})), json!({})).await);
    assert!(failed.to_string().contains("too many invalid answers"), "{failed}");
}

#[tokio::test(start_paused = true)]
async fn question_times_out() {
    for (more, seconds) in
        [(json!({}), 5 * 60), (json!({"timeout": "20s"}), 20), (json!({"timeout": "1h"}), 600)]
    {
        let started = Instant::now();
        let world = TestEnv::with_user(&User::new([]));
        let failed = error(world.run(&asking(more), json!({})).await);
        assert_eq!(failed.to_string(), "step \"ask\": the user did not answer in time");
        assert_eq!(started.elapsed().as_secs(), seconds);
    }
}

#[tokio::test(start_paused = true)]
async fn several_questions_are_open_at_once() {
    let schema = json!({"type": "object"});
    let user = User::new([("b", Answer::Accept(json!({})))]);
    let world = TestEnv::with_user(&user);
    let workflow = workflow(json!([
        {"id": "a", "type": "elicitation", "message": "A", "schema": schema, "timeout": "9s"},
        {"id": "b", "type": "elicitation", "message": "B", "schema": schema},
        {"id": "call", "tool": "w.sleep", "arguments": {"ms": 50}},
    ]));
    error(world.run(&workflow, json!({})).await);
    assert_eq!(user.asked(), ["A", "B"]);
    let waiting: Vec<_> =
        world.events().into_iter().filter(|event| event.starts_with("waiting")).collect();
    assert_eq!(waiting, ["waiting for 1"], "reported once the call is done");
}

#[tokio::test(start_paused = true)]
async fn client_without_elicitation_fails_step() {
    let failed = error(TestEnv::new().run(&asking(json!({})), json!({})).await);
    assert_eq!(
        failed.to_string(),
        "step \"ask\": the client does not support elicitation: use a client that declares it"
    );
}

/// Client that goes away.
struct DisconnectedClient;

impl Elicit for DisconnectedClient {
    fn elicit<'a>(
        &'a self,
        _: &'a Question,
        _: Option<&'a AnswerError>,
    ) -> BoxFuture<'a, Result<Answer, ElicitError>> {
        Box::pin(async { Err(ElicitError::Disconnected) })
    }
}

#[tokio::test(start_paused = true)]
async fn disconnected_client_fails_step() {
    let world =
        TestEnv { elicitation: Elicitation::Wait(Arc::new(DisconnectedClient)), ..TestEnv::new() };
    let failed = error(world.run(&asking(json!({})), json!({})).await);
    assert_eq!(failed.kind(), RunErrorKind::StepFailed);
    assert_eq!(failed.to_string(), "step \"ask\": the client disconnected before it answered");
}

#[tokio::test(start_paused = true)]
async fn limits_size_of_rendered_message() {
    let world = TestEnv::with_user(&User::new([]));
    let what = "x".repeat(100 * 1024);
    let failed = error(world.run(&asking(json!({})), json!({ "what": what })).await);
    assert!(failed.to_string().contains("message is larger than 102400 bytes"), "{failed}");
}
