//! Arguments of the two tools that do not fit their schemas.

use http::{HeaderValue, Method};
use serde_json::{Value, json};
use vmcp_tests::caller::Caller;

use super::{TOOLS, backend, callers, find, names, start};

/// Sends a call of `tool` whose arguments are these bytes, and returns the error, if it is one.
async fn error_of(caller: &mut Caller, tool: &str, arguments: &str) -> Value {
    let marker = json!({"name": tool, "arguments": "ARGUMENTS"});
    let message = caller.request("tools/call", marker);
    let mut headers = caller.headers(&message);
    headers.insert("content-type", HeaderValue::from_static("application/json"));
    headers.insert("accept", HeaderValue::from_static("application/json, text/event-stream"));
    let body = message.to_string().replace("\"ARGUMENTS\"", arguments);
    let reply = caller.line().send(Method::POST, "/mcp", &headers, body).await.unwrap();
    reply.message().unwrap()["error"].take()
}

#[tokio::test(flavor = "multi_thread")]
async fn rejects_arguments_that_do_not_fit() {
    let a = backend("a", &TOOLS).start();
    let gateway = start(&[&a], json!({})).await;
    for caller in &mut callers(&gateway).await {
        for (arguments, part) in [
            ("{}", "tool_description is required"),
            ("[]", "JSON object"),
            (r#"{"tool_description":""}"#, "tool_description is required"),
            (r#"{"tool_description":"  "}"#, "tool_description is required"),
            (r#"{"tool_description":1}"#, "must be a string"),
            (r#"{"Tool_Description":"x"}"#, "write tool_description"),
            (r#"{"tool_description":"x","tool_description":"y"}"#, "occurs twice"),
            (r#"{"tool_description":"x","tool_keywords":"y"}"#, "array of strings"),
            (r#"{"tool_description":"x","limit":3}"#, "unknown argument"),
        ] {
            let error = error_of(caller, "find_tool", arguments).await;
            assert_eq!(error["code"], -32602, "{arguments}: {error}");
            assert!(error["message"].as_str().unwrap().contains(part), "{arguments}: {error}");
        }
        for (arguments, part) in [
            ("{}", "tool_name is required"),
            (r#"{"tool_name":"a_send_mail"}"#, "parameters is required"),
            (r#"{"tool_name":"a_send_mail","parameters":[]}"#, "parameters must be an object"),
            (r#"{"tool_name":"","parameters":{}}"#, "tool_name is required"),
            (r#"{"parameters":{"tool_name":"a_send_mail"}}"#, "beside parameters"),
            (r#"{"tool_name":"a_x","tool_name":"a_send_mail","parameters":{}}"#, "twice"),
            (r#"{"tool_name":"a_send_mail","TOOL_NAME":"x","parameters":{}}"#, "write tool_name"),
            (r#"{"tool_name":"a_send_mail","parameters":{},"arguments":{}}"#, "unknown argument"),
        ] {
            let error = error_of(caller, "call_tool", arguments).await;
            assert_eq!(error["code"], -32602, "{arguments}: {error}");
            assert!(error["message"].as_str().unwrap().contains(part), "{arguments}: {error}");
        }
    }
    assert_eq!(a.count("tools/call"), 0, "nothing was called");
}

#[tokio::test(flavor = "multi_thread")]
async fn searches_texts_of_any_length_and_script() {
    let a = backend("a", &[("wetter", "天気予報を調べる"), ("other", "Прогноз погоды")]).start();
    let gateway = start(&[&a], json!({})).await;
    for caller in &mut callers(&gateway).await {
        assert_eq!(names(&find(caller, "天気").await), ["a_wetter"]);
        assert_eq!(names(&find(caller, "погоды").await), ["a_other"]);
        let long = "погоды ".repeat(1 << 17);
        assert_eq!(names(&find(caller, &long).await), ["a_other"]);
        for text in ["🌧", "\u{0}", "\u{202e}x", "the", "!!"] {
            let content = find(caller, text).await;
            assert_eq!(content["tools"], json!([]), "{text:?}");
            assert_eq!(content["token_metrics"]["savings_percent"], 100.0, "{content}");
        }
        let error = error_of(caller, "find_tool", r#"{"tool_description":"\ud800"}"#).await;
        assert!(error.is_object(), "a lone surrogate is not text");
    }
}
