//! Places of steps in the session of their client.

use super::*;

#[tokio::test(start_paused = true)]
async fn steps_wait_for_place_in_session() {
    for wire in [Wire::Stateful, Wire::Stateless] {
        let mut scene = scene(Generation::Stateful, wire, &for_each(60)).await;
        let runs: Vec<_> = (1..=6).map(|id| scene.begin(id, "each")).collect();
        let mut steps = scene.received().await;
        assert_eq!(steps.len(), 256, "{wire:?}");
        // The client has its own places: 256 requests, of which six are the runs.
        let direct: Vec<_> = (7..=256).map(|id| scene.begin(id, "be_t")).collect();
        let received = scene.received().await;
        assert_eq!(received.len(), 250, "{wire:?}");
        let refused = scene.begin(257, "be_t").await.unwrap();
        assert!(refused[0]["error"]["message"].to_string().contains("in flight"), "{refused:?}");
        for call in received {
            call.answer(&done());
        }
        for call in direct {
            assert_eq!(call.await.unwrap()[0]["result"]["content"][0]["text"], "done");
        }
        // A step that ends makes room for one that waits.
        steps.pop().unwrap().answer(&done());
        let next = scene.received().await;
        assert_eq!(next.len(), 1, "{wire:?}");
        steps.extend(next);
        for call in steps {
            call.answer(&done());
        }
        while runs.iter().any(|run| !run.is_finished()) {
            for call in scene.received().await {
                call.answer(&done());
            }
        }
        for run in runs {
            let outcome = run.await.unwrap().pop().unwrap();
            assert_eq!(outcome["result"]["structuredContent"]["completed"], 60, "{outcome}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn streaming_steps_take_no_streams_of_client() {
    for wire in [Wire::Stateful, Wire::Stateless] {
        let mut scene = scene(Generation::Stateful, wire, &for_each(50)).await;
        let runs: Vec<_> = (1..=3).map(|id| scene.begin(id, "each")).collect();
        let mut steps = scene.received().await;
        for step in &mut steps {
            step.say(&log("working"));
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        for step in steps {
            assert!(step.answer(&done()), "{wire:?}");
        }
        for run in runs {
            let messages = run.await.unwrap();
            let outcome = messages.last().unwrap();
            assert_eq!(outcome["result"]["structuredContent"]["completed"], 50, "{outcome}");
            let logs = messages.iter().filter(|it| it["method"] == "notifications/message");
            assert_eq!(logs.count(), 50, "{wire:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn timeout_ends_streaming_step_at_backend() {
    let definition = json!([{"name": "one", "steps": [
        {"id": "s", "tool": "be.t", "timeout": "5s"},
    ]}]);
    for wire in [Wire::Stateful, Wire::Stateless, Wire::Sse] {
        let mut scene = scene(Generation::Stateful, wire, &definition).await;
        let run = scene.begin(1, "one");
        let mut step = scene.received().await.pop().unwrap();
        step.say(&log("working"));
        let outcome = run.await.unwrap().pop().unwrap();
        assert_eq!(outcome["result"]["isError"], true, "{outcome}");
        tokio::time::sleep(Duration::from_secs(1)).await;
        if wire == Wire::Stateless {
            assert!(step.is_gone());
        } else {
            assert_eq!(scene.backend.cancellations().len(), 1, "{wire:?}");
        }
        assert_eq!(scene.gateway.counts().detached_calls, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn session_expires_despite_step_without_client() {
    let limits = Limits { session_ttl: Duration::from_mins(1), ..Limits::default() };
    let definition = json!([{"name": "one", "timeout": "1h", "steps": [
        {"id": "s", "tool": "be.t", "timeout": "1h"},
    ]}]);
    let mut scene = scene_with(Generation::Stateful, Wire::Stateful, &definition, limits).await;
    let run = scene.begin(1, "one");
    let mut step = scene.received().await.pop().unwrap();
    for seconds in (0..300).step_by(20) {
        if seconds == 180 {
            assert_eq!(scene.gateway.counts().sessions, 1);
            run.abort();
        }
        step.say(&log("working"));
        tokio::time::sleep(Duration::from_secs(20)).await;
    }
    assert_eq!(scene.gateway.counts().sessions, 0);
    assert_eq!(scene.backend.cancellations(), ["the client ended its session"]);
}

fn log(text: &str) -> Value {
    let params = json!({"level": "info", "data": text});
    json!({"jsonrpc": "2.0", "method": "notifications/message", "params": params})
}
