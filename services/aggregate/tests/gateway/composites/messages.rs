//! Messages of backends before the result of a step.

use super::*;

fn one_step() -> Value {
    json!([{"name": "one", "steps": [{"id": "s", "tool": "be.t"}]}])
}

#[tokio::test(start_paused = true)]
async fn many_notifications_do_not_fail_step() {
    for client in [Generation::Stateful, Generation::Stateless] {
        for wire in [Wire::Stateful, Wire::Stateless, Wire::Sse] {
            for method in ["notifications/resources/updated", "notifications/x"] {
                let mut scene = scene(client, wire, &one_step()).await;
                let run = scene.begin(1, "one");
                let mut step = scene.received().await.pop().unwrap();
                for number in 0..1000 {
                    let params = json!({"uri": format!("x://{number}")});
                    step.say(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
                }
                assert!(step.answer(&done()));
                let outcome = run.await.unwrap().pop().unwrap();
                let case = format!("{client:?} {wire:?} {method}: {outcome}");
                assert_eq!(outcome["result"]["structuredContent"]["text"], "done", "{case}");
            }
        }
    }
}
