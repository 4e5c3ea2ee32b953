//! Unknown names, cursors and methods, and parameters of the wrong type. Both generations use the same codes except for
//! resources; a stateful client receives message errors with HTTP status 200.

use serde_json::{Value, json};
use vmcp_tests::backends::conforming_server;
use vmcp_tests::caller::{Caller, Line};

use super::{Case, Scene, asked};
use crate::common::both;

/// Checks the rejections in both generations.
async fn each_refuses(scene: Scene, cases: &[(&str, Value, &'static str)], code: [i64; 2]) {
    for (index, mut caller) in both(scene.url()).await.unwrap().into_iter().enumerate() {
        let status = if index == 0 {
            200
        } else if code[1] == -32601 {
            404
        } else {
            400
        };
        let mut line = Line::to(scene.url());
        for (method, params, tells) in cases {
            let case = asked(&mut caller, method, params.clone());
            case.gets(status, code[index], tells).check(&mut line).await;
        }
    }
    scene.finish().await;
}

fn long() -> String {
    "n".repeat(5000)
}

#[tokio::test(flavor = "multi_thread")]
async fn names_that_do_not_exist_are_echoed() {
    let cases = [
        ("tools/call", json!({ "name": "nobody" }), "unknown tool: nobody"),
        ("tools/call", json!({ "name": "echo" }), "unknown tool: echo"),
        ("tools/call", json!({ "name": "" }), "unknown tool: "),
        ("tools/call", json!({ "name": "a_ECHO" }), "unknown tool: a_ECHO"),
        ("tools/call", json!({ "name": long() }), "nnn…"),
        ("prompts/get", json!({ "name": "nobody" }), "unknown prompt: nobody"),
        (
            "completion/complete",
            json!({ "ref": { "type": "ref/prompt", "name": "nobody" },
                "argument": { "name": "a", "value": "" } }),
            "unknown prompt: nobody",
        ),
        (
            "completion/complete",
            json!({ "ref": { "type": "ref/resource", "uri": "x://{y}" },
                "argument": { "name": "a", "value": "" } }),
            "unknown resource: x://{y}",
        ),
    ];
    each_refuses(Scene::start().await, &cases, [-32602, -32602]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_resource_has_own_code_in_sessions() {
    let template = r#"{"uriTemplate":"file:///{path}","name":"files"}"#.to_owned();
    let good = conforming_server("a").items("resourceTemplates", [template]).start();
    let scene = Scene::before(good).await;
    let mut line = Line::to(scene.url());
    for (index, mut caller) in both(scene.url()).await.unwrap().into_iter().enumerate() {
        for uri in ["x://nobody", "file:/", "", "http://file/x"] {
            let case = asked(&mut caller, "resources/read", json!({ "uri": uri }));
            let (status, code) = if index == 0 { (200, -32002) } else { (400, -32602) };
            let case = case.gets(status, code, "unknown resource: ");
            let message = case.check(&mut line).await.message().unwrap();
            assert_eq!(message["error"]["data"]["uri"], uri);
        }
        let read = caller.result("resources/read", json!({ "uri": "file:///x" })).await.unwrap();
        assert_eq!(read["contents"][0]["text"], "a");
    }
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn parameters_of_the_wrong_kind_are_named() {
    let cases = [
        ("tools/call", json!({}), "needs params.name, a string"),
        ("tools/call", json!({ "name": 7 }), "needs params.name, a string"),
        ("tools/call", json!({ "name": null }), "needs params.name, a string"),
        ("tools/call", json!({ "name": "a_echo", "arguments": [] }), "arguments must be an object"),
        (
            "tools/call",
            json!({ "name": "a_echo", "arguments": "x" }),
            "arguments must be an object",
        ),
        ("prompts/get", json!({}), "needs params.name, a string"),
        ("resources/read", json!({}), "needs params.uri, a string"),
        ("resources/read", json!({ "uri": {} }), "needs params.uri, a string"),
        ("completion/complete", json!({}), "needs params.ref"),
        ("completion/complete", json!({ "ref": {} }), "ref/prompt or ref/resource"),
        ("completion/complete", json!({ "ref": 7 }), "ref/prompt or ref/resource"),
        ("tools/list", json!({ "cursor": 7 }), "params.cursor must be a string"),
        ("tools/list", json!({ "cursor": "nonsense" }), "start without one"),
        ("tools/list", json!({ "cursor": "" }), "start without one"),
        ("tools/list", json!({ "cursor": long() }), "start without one"),
        // A cursor for prompts, in the gateway's format.
        ("tools/list", json!({ "cursor": "cHJvbXB0cwphX3g" }), "start without one"),
        ("prompts/list", json!({ "cursor": "x" }), "start without one"),
        ("resources/list", json!({ "cursor": "x" }), "start without one"),
        ("resources/templates/list", json!({ "cursor": "x" }), "start without one"),
    ];
    each_refuses(Scene::start().await, &cases, [-32602, -32602]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn methods_that_do_not_exist_are_not_found() {
    let cases = [
        ("nobody", json!({}), "method not found: nobody"),
        ("tools/Call", json!({}), "method not found: tools/Call"),
        ("sampling/createMessage", json!({}), "method not found: sampling/createMessage"),
        ("notifications/initialized", json!({}), "method not found: notifications/initialized"),
    ];
    each_refuses(Scene::start().await, &cases, [-32601, -32601]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn methods_of_the_other_generation_are_not_found() {
    let scene = Scene::start().await;
    let mut line = Line::to(scene.url());
    let [mut session, mut stateless] = both(scene.url()).await.unwrap();
    for method in
        ["ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe", "initialize"]
    {
        let case = asked(&mut stateless, method, json!({ "level": "info", "uri": "x://y" }));
        case.gets(404, -32601, "method not found").check(&mut line).await;
    }
    for method in ["server/discover", "subscriptions/listen"] {
        let case = asked(&mut session, method, json!({ "notifications": {} }));
        case.gets(200, -32601, "method not found").check(&mut line).await;
    }
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rejects_incomplete_parameters() {
    let scene = Scene::start().await;
    let mut session = Caller::stateful(scene.url()).await.unwrap();
    let mut line = Line::to(scene.url());
    for (method, params, tells) in [
        ("logging/setLevel", json!({}), "one of debug, info"),
        ("logging/setLevel", json!({ "level": "loud" }), "one of debug, info"),
        ("logging/setLevel", json!({ "level": 7 }), "one of debug, info"),
        ("resources/subscribe", json!({}), "needs params.uri, a string"),
        ("resources/unsubscribe", json!({ "uri": 7 }), "needs params.uri, a string"),
        ("initialize", json!({}), "needs params.protocolVersion"),
        ("initialize", json!({ "protocolVersion": 7 }), "needs params.protocolVersion"),
        (
            "initialize",
            json!({ "protocolVersion": "2025-11-25", "capabilities": [] }),
            "params.capabilities must be an object",
        ),
        (
            "initialize",
            json!({ "protocolVersion": "2025-11-25", "clientInfo": "me" }),
            "params.clientInfo must be an object",
        ),
        (
            "initialize",
            json!({ "protocolVersion": "2025-11-25", "clientInfo": { "name": "n".repeat(20_000) } }),
            "too long",
        ),
    ] {
        asked(&mut session, method, params).gets(200, -32602, tells).check(&mut line).await;
    }
    let mut stateless = Caller::stateless(scene.url());
    for (params, tells) in [
        (json!({}), "needs params.notifications, an object"),
        (json!({ "notifications": true }), "needs params.notifications, an object"),
        (
            json!({ "notifications": { "resourceSubscriptions":
                (0..2000).map(|n| format!("x://{n}")).collect::<Vec<_>>() } }),
            "at most 1024 resources",
        ),
    ] {
        let case = asked(&mut stateless, "subscriptions/listen", params);
        case.gets(400, -32602, tells).check(&mut line).await;
    }
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ignores_unknown_notifications() {
    let scene = Scene::start().await;
    let session = Caller::stateful(scene.url()).await.unwrap();
    let stateless = Caller::stateless(scene.url());
    let mut line = Line::to(scene.url());
    for caller in [&session, &stateless] {
        for method in ["notifications/nobody", "tools/call", "notifications/cancelled"] {
            let message = json!({ "jsonrpc": "2.0", "method": method,
                "params": { "requestId": 99, "name": "a_echo" } });
            let headers = caller.headers(&message);
            let reply =
                Case::post(message.to_string()).headers(headers).passes(202).check(&mut line).await;
            assert!(reply.body.is_empty(), "{method}: {reply:?}");
        }
    }
    scene.finish().await;
}
