//! Results of backends beyond the limits of a step.

use super::*;

/// Runs a step whose backend returns this structured content, and returns the text of the composite tool's result.
async fn failed_step(client: Generation, wire: Wire, content: &Value, streamed: bool) -> String {
    let step = json!([{"name": "one", "steps": [{"id": "s", "tool": "be.t"}]}]);
    let mut scene = scene(client, wire, &step).await;
    let run = scene.begin(1, "one");
    let mut step = scene.received().await.pop().unwrap();
    if streamed {
        let message = json!({"jsonrpc": "2.0", "method": "notifications/x"});
        assert!(step.say(&message));
    }
    let result = json!({"content": [], "resultType": "complete", "structuredContent": content});
    assert!(step.answer(&result));
    let outcome = run.await.unwrap().pop().unwrap();
    assert_eq!(outcome["result"]["isError"], true, "{outcome}");
    outcome["result"]["content"][0]["text"].as_str().unwrap().to_owned()
}

#[tokio::test(start_paused = true)]
async fn large_result_names_limit_of_step() {
    // An event of more than 16 MiB on the shared stream of the older SSE transport ends that stream.
    for (wire, sizes) in [
        (Wire::Stateful, &[3 << 20, 17 << 20][..]),
        (Wire::Stateless, &[3 << 20, 17 << 20]),
        (Wire::Sse, &[3 << 20]),
    ] {
        for (&bytes, streamed) in sizes.iter().zip([false, true]) {
            let content = json!({"text": "x".repeat(bytes)});
            let text = failed_step(Generation::Stateful, wire, &content, streamed).await;
            let limit = "returned more than 1 MiB, the limit of a step's output";
            assert!(text.contains(limit), "{wire:?} {bytes} {streamed}: {text}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn deep_result_names_limit_of_nesting() {
    let deep = (0..200).fold(json!(1), |inner, _| json!([inner]));
    for wire in [Wire::Stateful, Wire::Stateless] {
        let text = failed_step(Generation::Stateless, wire, &json!({"d": deep}), false).await;
        assert!(text.contains("nested deeper than 128 levels"), "{wire:?}: {text}");
    }
}
