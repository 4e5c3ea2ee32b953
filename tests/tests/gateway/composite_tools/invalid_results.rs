//! Backends that answer a step with garbage, with nothing, or with too much, and input that explodes.

use bytes::Bytes;
use http::StatusCode;
use serde_json::{Value, json};
use vmcp_test_support::mcp_backend::{
    McpBackendBuilder, PendingRequest, Protocol, broken_response, full_response,
};

use super::{PROTOCOLS, backend, callers, failure, output, start};
use crate::common::memory;

const JSON: &str = "application/json";

/// Size of a response that no step accepts.
const LARGE: usize = 100 << 20;

/// Faulty responses to a call: their name, and the words that the error of the step contains.
const FAULTS: [(&str, &str); 10] = [
    ("garbage", ""),
    ("nothing", ""),
    ("no_result", ""),
    ("array", ""),
    ("content", "content"),
    ("broken", ""),
    ("status", ""),
    ("deep", ""),
    ("large", ""),
    ("other_type", "surprise"),
];

fn faulty(protocol: Protocol) -> McpBackendBuilder {
    let names = FAULTS.map(|(name, _)| json!({"name": name, "inputSchema": {"type": "object"}}));
    let echo = json!({"name": "echo", "inputSchema": {"type": "object"}});
    let all = names.iter().chain([&echo]).map(Value::to_string);
    let mut builder = backend("a", protocol).items("tools", all);
    for (name, _) in FAULTS {
        builder = builder.on_tool(name, move |call| respond(name, call));
    }
    builder
}

fn respond(fault: &str, call: PendingRequest) {
    let id = call.message()["id"].clone();
    let text = |text: String| full_response(StatusCode::OK, JSON, text);
    let response = match fault {
        "garbage" => text("}{".to_owned()),
        "nothing" => text(String::new()),
        "no_result" => text(json!({"jsonrpc": "2.0", "id": id}).to_string()),
        "array" => text(json!({"jsonrpc": "2.0", "id": id, "result": [1]}).to_string()),
        "content" => {
            let result = json!({"content": "text", "resultType": "complete"});
            text(json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string())
        }
        "broken" => {
            broken_response(JSON, format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{"))
        }
        "status" => full_response(StatusCode::INTERNAL_SERVER_ERROR, "text/plain", "oh"),
        "deep" => {
            let nested = "[".repeat(50_000) + &"]".repeat(50_000);
            text(format!(
                "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"content\":[],\"structuredContent\":{{\"x\":{nested}}}}}}}"
            ))
        }
        "large" => {
            let mut body = format!(
                "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"content\":[{{\"type\":\"text\",\"text\":\""
            )
            .into_bytes();
            body.resize(LARGE, b'x');
            body.extend_from_slice(b"\"}]}}");
            full_response(StatusCode::OK, JSON, Bytes::from(body))
        }
        _ => {
            let result = json!({"resultType": "surprise", "content": []});
            text(json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string())
        }
    };
    call.respond(response);
}

#[tokio::test(flavor = "multi_thread")]
async fn faulty_results_fail_only_their_step() {
    let tool = |(name, _): (&str, &str)| {
        let tool = format!("a.{name}");
        json!({"name": format!("c_{name}"), "steps": [{"id": "bad", "tool": tool, "timeout": "5s"}]})
    };
    let survives = json!({"name": "survives", "steps": [
        {"id": "bad", "tool": "a.garbage", "onError": {"action": "continue"}},
        {"id": "good", "tool": "a.echo", "arguments": {"text": "fine"}},
    ]});
    let tools: Vec<_> = FAULTS.into_iter().map(tool).chain([survives]).collect();
    for protocol in PROTOCOLS {
        let a = faulty(protocol).start();
        let mut gateway = start(&[&a], json!(tools)).await;
        for caller in &mut callers(&gateway).await {
            for (name, words) in FAULTS {
                // The stateful generation has no types of results.
                if name == "other_type" && protocol == Protocol::Stateful {
                    continue;
                }
                let text = failure(caller, &format!("c_{name}"), json!({})).await;
                assert!(text.contains("step \"bad\"") && text.contains(words), "{name}: {text}");
                assert!(text.len() < 1000, "{name}: {text}");
            }
            assert_eq!(output(caller, "survives", json!({})).await, json!({"text": "fine"}));
        }
        assert!(memory(gateway.pid()) < 256 << 10, "{} KiB", memory(gateway.pid()));
        assert!(gateway.ended().unwrap().is_none() && !gateway.log().contains("panicked"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn exploding_templates_fail_within_limits() {
    let a = backend("a", Protocol::Stateless).start();
    let step = |text: &str| json!([{"id": "s", "tool": "a.echo", "arguments": {"text": text}}]);
    let nested = r#"{{define "x"}}{{template "x" .}}{{template "x" .}}{{end}}{{template "x" .}}"#;
    let doubling = "{{range .params.list}}{{range $.params.list}}{{range $.params.list}}{{range $.params.list}}\
                    {{range $.params.list}}x{{end}}{{end}}{{end}}{{end}}{{end}}";
    let each = json!([{"id": "s", "type": "forEach", "collection": "{{.params.text}}",
        "step": {"id": "i", "tool": "a.echo", "arguments": {"text": "{{.forEach.item}}"}}}]);
    let tools = json!([
        {"name": "recursive", "steps": step(nested)},
        {"name": "loops", "steps": step(doubling)},
        {"name": "each", "steps": each},
    ]);
    let mut gateway = start(&[&a], tools).await;
    let list = vec!["item"; 100];
    for caller in &mut callers(&gateway).await {
        for name in ["recursive", "loops"] {
            let text = failure(caller, name, json!({"list": list})).await;
            assert!(text.contains("step \"s\"") && text.len() < 1000, "{name}: {text}");
        }
        for collection in ["", "null", "{}", "[", "[1,", "<no value>", "\u{0}", "1e999"] {
            let text = failure(caller, "each", json!({"text": collection})).await;
            assert!(text.contains("not a JSON array"), "{collection}: {text}");
        }
        let many = json!(vec![0; 101]).to_string();
        let text = failure(caller, "each", json!({"text": many})).await;
        assert!(text.contains("maxIterations is 100"), "{text}");
    }
    assert!(memory(gateway.pid()) < 256 << 10, "{} KiB", memory(gateway.pid()));
    assert!(gateway.ended().unwrap().is_none() && !gateway.log().contains("panicked"));
}
