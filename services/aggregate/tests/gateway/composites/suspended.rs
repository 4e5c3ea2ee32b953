//! Runs of stateless clients that do not return to answer.

use std::sync::Mutex;
use std::time::SystemTime;

use vmcp_audit::{AuditSettings, Auditor, Event};
use vmcp_compose::RunStatus;
use vmcp_core::{Clock, Identity};

use super::*;
use crate::fake::Client;

/// Question with a timeout of 2 s; without an answer another step would follow.
fn asks() -> Value {
    json!([{"name": "asks", "steps": [
        {"id": "ask", "type": "elicitation", "message": "Sure?", "timeout": "2s",
            "schema": {"type": "object", "properties": {}}, "onCancel": {"action": "continue"}},
        {"id": "call", "tool": "be.t", "dependsOn": ["ask"]},
    ]}])
}

/// Gateway whose run waits for the answer of an audited client.
struct SuspendedScene {
    scene: Scene,
    client: Client,
    clock: Clock,
    events: Arc<Mutex<Vec<Event>>>,
    params: Value,
}

impl SuspendedScene {
    async fn start() -> Self {
        let clock = Clock::manual(SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000));
        let limits = Limits { clock: clock.clone(), ..Limits::default() };
        let scene = scene_with(Generation::Stateless, Wire::Stateless, &asks(), limits).await;
        let events = Arc::new(Mutex::new(Vec::new()));
        let recorded = Arc::clone(&events);
        let auditor = Auditor::new(AuditSettings::default(), move |event| {
            recorded.lock().unwrap().push(event);
        });
        let client = Client::new(&scene.gateway, Generation::Stateless, "alice").await;
        let client = client.audited(auditor);
        let params = json!({"name": "asks", "arguments": {}});
        let mut asked = client.ask("tools/call", params.clone()).await.json()["result"].take();
        assert_eq!(asked["resultType"], "input_required", "{asked}");
        let mut params = params;
        params["requestState"] = asked["requestState"].take();
        Self { scene, client, clock, events, params }
    }

    /// Lets time pass on both clocks.
    async fn pass(&self, seconds: u64) {
        let time = Duration::from_secs(seconds);
        self.clock.advance(time);
        tokio::time::sleep(time).await;
    }

    async fn status(&self) -> RunStatus {
        let alice = Identity::new("https://idp.test", "alice");
        self.scene.gateway.workflow_runs(&alice, 10).await.unwrap()[0].status
    }

    /// Returns the types, outcomes and answers of the audit events since the last call.
    fn events(&self) -> Vec<String> {
        let describe = |event: Event| format!("{:?} {:?}", event.kind, event.outcome);
        self.events.lock().unwrap().drain(..).map(describe).collect()
    }

    async fn answer(&self) -> Value {
        let mut params = self.params.clone();
        params["inputResponses"] = json!({"ask": {"action": "accept", "content": {}}});
        self.client.ask("tools/call", params).await.json()
    }
}

#[tokio::test(start_paused = true)]
async fn unanswered_run_ends_after_grace_period() {
    let mut scene = SuspendedScene::start().await;
    scene.pass(55).await;
    assert_eq!(scene.status().await, RunStatus::InputRequired);
    let begun = ["WorkflowStarted Success", "WorkflowStepStarted Success"];
    assert_eq!(scene.events(), begun);
    scene.pass(25).await;
    assert_eq!(scene.status().await, RunStatus::TimedOut);
    let over = ["WorkflowStepFailed ApplicationError", "WorkflowTimedOut ApplicationError"];
    assert_eq!(scene.events(), over);
    let counts = scene.scene.gateway.workflow_counts();
    assert_eq!((counts.running, counts.failed, counts.steps_failed), (0, 1, 1));
    let late = scene.answer().await;
    assert_eq!(late["result"]["isError"], true, "{late}");
    assert!(late["result"]["content"][0]["text"].to_string().contains("in time"), "{late}");
    assert!(scene.scene.received().await.is_empty());
    assert!(scene.events().is_empty());
}

#[tokio::test(start_paused = true)]
async fn answered_run_is_not_ended() {
    let mut scene = SuspendedScene::start().await;
    scene.pass(1).await;
    let client = scene.client.clone();
    let mut params = scene.params.clone();
    params["inputResponses"] = json!({"ask": {"action": "accept", "content": {}}});
    let answered =
        tokio::spawn(async move { client.ask("tools/call", params).await.json()["result"].take() });
    let call = scene.scene.received().await.pop().unwrap();
    // The step takes longer than the question and its grace period.
    scene.clock.advance(Duration::from_secs(90));
    tokio::time::sleep(Duration::from_secs(20)).await;
    call.answer(&done());
    let answered = answered.await.unwrap();
    assert_eq!(answered["structuredContent"]["text"], "done", "{answered}");
    scene.pass(90).await;
    assert_eq!(scene.status().await, RunStatus::Completed);
}
