//! Runs whose client is away.

use http_body_util::BodyExt;

use super::*;

const MEGABYTE: usize = 1 << 20;

/// Begins the run, sends progress of its step, and disconnects the client. Returns the step, and the last event id.
async fn away(scene: &mut Scene) -> (PendingCall, String) {
    let (client, params) = (scene.client.clone(), json!({"name": "one", "arguments": {}}));
    let run = tokio::spawn(async move { client.request(&json!(1), "tools/call", params).await });
    let mut step = scene.received().await.pop().unwrap();
    step.say(&log());
    let mut body = run.await.unwrap().into_body();
    let mut said = String::new();
    while !said.contains("notifications/message") {
        let frame = body.frame().await.unwrap().unwrap().into_data().unwrap();
        said += &String::from_utf8_lossy(&frame);
    }
    let last = said.lines().filter_map(|line| line.strip_prefix("id: ")).next_back();
    (step, last.unwrap().to_owned())
}

fn log() -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info",
        "data": "working"}})
}

/// Resumes the stream, and returns its last message.
async fn resumed(scene: &Scene, last: &str) -> Value {
    let said = text(scene.client.stand(Some(last)).await.into_body()).await;
    messages(&said).pop().unwrap()
}

fn one_step() -> Value {
    json!([{"name": "one", "timeout": "2h", "steps": [
        {"id": "s", "tool": "be.t", "timeout": "2h"},
    ]}])
}

#[tokio::test(start_paused = true)]
async fn oversized_detached_result_becomes_error() {
    for wire in [Wire::Stateful, Wire::Stateless] {
        let limits = Limits { detached_bytes: MEGABYTE / 2, ..Limits::default() };
        let mut scene = scene_with(Generation::Stateful, wire, &one_step(), limits).await;
        let (step, last) = away(&mut scene).await;
        let content = json!([{"type": "text", "text": "r".repeat(MEGABYTE / 2)}]);
        assert!(step.answer(&json!({"content": content, "resultType": "complete"})));
        tokio::time::sleep(Duration::from_secs(1)).await;
        let answer = resumed(&scene, &last).await;
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.starts_with("returned more than the buffer"), "{message}");
    }
}

#[tokio::test(start_paused = true)]
async fn abandoned_run_becomes_error() {
    for wire in [Wire::Stateful, Wire::Stateless] {
        let mut scene = scene(Generation::Stateful, wire, &one_step()).await;
        let (mut step, last) = away(&mut scene).await;
        for _ in 0..31 {
            step.say(&log());
            tokio::time::sleep(Duration::from_secs(20)).await;
        }
        assert_eq!(scene.gateway.counts().detached_calls_ended, 1);
        let answer = resumed(&scene, &last).await;
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.contains("disconnected for too long"), "{message}");
        if wire == Wire::Stateful {
            assert_eq!(scene.backend.cancellations().len(), 1);
        } else {
            assert!(step.is_gone());
        }
    }
}
