//! Audit events of tasks that their owner cancels.

use std::sync::Mutex;

use vmcp_audit::{AuditSettings, Auditor, Event};

use super::*;

/// Call, question, call.
fn tools() -> Value {
    json!([{"name": "asks", "steps": [
        {"id": "look", "tool": "be.look"},
        {"id": "ask", "type": "elicitation", "message": "Sure?", "dependsOn": ["look"],
            "schema": {"type": "object", "properties": {}}},
        {"id": "act", "tool": "be.t", "dependsOn": ["ask"]},
    ]}])
}

#[derive(Clone, Default)]
struct Events(Arc<Mutex<Vec<String>>>);

impl Events {
    /// Returns a client whose requests are recorded.
    fn record(&self, client: Client) -> Client {
        let events = Arc::clone(&self.0);
        let record = move |event: Event| {
            let ids = event.target.more.into_iter();
            let step =
                ids.filter(|(name, _)| *name == "step_id").map(|(_, id)| format!(" {}", &*id));
            let text = format!("{:?} {:?}{}", event.kind, event.outcome, step.collect::<String>());
            events.lock().unwrap().push(text);
        };
        client.audited(Auditor::new(AuditSettings::default(), record))
    }

    /// Returns the events since the last call.
    async fn take(&self) -> Vec<String> {
        tokio::time::sleep(Duration::from_millis(1)).await;
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

#[tokio::test(start_paused = true)]
async fn cancelled_step_ends_as_cancelled_run() {
    let mut scene = task_scene(&tools()).await;
    let events = Events::default();
    let client = events.record(scene.client.clone());
    let id = begin(&client, "asks").await;
    let step = scene.step().await;
    events.take().await;
    assert_eq!(about(&client, "tasks/cancel", &id).await.status, 200);
    let expected = ["WorkflowStepFailed Failure look", "WorkflowFailed Failure"];
    assert_eq!(events.take().await, expected);
    assert!(step.is_gone());
    let counts = scene.gateway.workflow_counts();
    assert_eq!((counts.running, counts.failed, counts.steps_failed), (0, 1, 1));
}

#[tokio::test(start_paused = true)]
async fn cancelled_question_ends_as_cancelled_run() {
    let mut scene = task_scene(&tools()).await;
    let events = Events::default();
    let client = events.record(scene.client.clone());
    let id = begin(&client, "asks").await;
    scene.step().await.answer(&done());
    assert_eq!(status(&client, &id).await, "input_required");
    events.take().await;
    for expected in [&["WorkflowStepFailed Failure ask", "WorkflowFailed Failure"][..], &[]] {
        assert_eq!(about(&client, "tasks/cancel", &id).await.status, 200);
        assert_eq!(events.take().await, expected);
    }
    let counts = scene.gateway.workflow_counts();
    assert_eq!((counts.running, counts.failed, counts.steps_failed), (0, 1, 1));
}
