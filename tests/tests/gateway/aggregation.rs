//! Aggregated capabilities of several backends.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use vmcp_test_support::McpBackend;
use vmcp_tests::backends::{conforming_server, last_call};
use vmcp_tests::caller::Caller;
use vmcp_tests::fixture::Generation;

use crate::common::{both, gateway, gateway_with, status, until};

/// A tool with every possible field, in unusual but valid JSON.
const RICH: &str = concat!(
    r#"{"x-first":1.10,"name":"rich","title":"Rich \u0041","description":"a\/b","icons":[{"src":"data:,x","sizes":["any"]}],"#,
    r#""inputSchema":{"type":"object","properties":{"n":{"minimum":1e2,"maximum":12345678901234567890123}},"required":[]},"#,
    r#""outputSchema":{"type":"object","properties":{"z":{},"a":{}}},"annotations":{"title":"T","readOnlyHint":true,"x-y":null},"#,
    r#""_meta":{"vendor/x":{"deep":[1.0,{"k":"\ud83d\ude00"}]}},"execution":{"taskSupport":"optional"},"x-last":{}}"#,
);

fn tool(name: &str) -> String {
    json!({ "name": name, "inputSchema": { "type": "object" } }).to_string()
}

fn with_tools(name: &str, tools: &[&str]) -> McpBackend {
    conforming_server(name)
        .items("tools", tools.iter().map(|name| tool(name)))
        .page_size(100)
        .start()
}

fn names(all: &[&str]) -> BTreeSet<String> {
    all.iter().map(|name| (*name).to_owned()).collect()
}

/// Lists the tools in both generations and asserts that they are equal.
async fn seen(url: &str) -> BTreeSet<String> {
    let mut lists = Vec::new();
    for mut caller in both(url).await.unwrap() {
        lists.push(caller.tools().await.unwrap());
    }
    assert_eq!(lists[0], lists[1]);
    let seen: BTreeSet<String> = lists.remove(0).into_iter().collect();
    assert_eq!(seen.len(), lists[0].len(), "a name stands twice: {lists:?}");
    seen
}

async fn backend_of(url: &str, tool: &str) -> Value {
    let mut who = Vec::new();
    for mut caller in both(url).await.unwrap() {
        let mut result = caller.call(tool, json!({})).await.unwrap();
        who.push(json!([
            result["structuredContent"]["backend"].take(),
            result["structuredContent"]["params"]["name"].take()
        ]));
    }
    assert_eq!(who[0], who[1]);
    who.remove(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn prefixes_distinguish_equal_names() {
    let (a, b) = (with_tools("a", &["x", "y"]), with_tools("b", &["x"]));
    let gateway = gateway(&[&a, &b]).await;
    assert_eq!(seen(gateway.url()).await, names(&["a_x", "a_y", "b_x"]));
    assert_eq!(backend_of(gateway.url(), "a_x").await, json!(["a", "x"]));
    assert_eq!(backend_of(gateway.url(), "b_x").await, json!(["b", "x"]));
    let sections = "aggregation: {conflictResolutionConfig: {prefixFormat: \"{workload}.\"}}\n";
    let gateway = gateway_with(&[&a, &b], sections).await;
    assert_eq!(seen(gateway.url()).await, names(&["a.x", "a.y", "b.x"]));
    assert_eq!(backend_of(gateway.url(), "b.x").await, json!(["b", "x"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn priority_assigns_name_to_first_backend_and_reports() {
    let (a, b, c) =
        (with_tools("a", &["x", "y"]), with_tools("b", &["x", "z"]), with_tools("c", &["z"]));
    let sections = "aggregation:\n  conflictResolution: priority\n  \
                    conflictResolutionConfig: {priorityOrder: [b, a]}\n";
    let gateway = gateway_with(&[&a, &b, &c], sections).await;
    assert_eq!(seen(gateway.url()).await, names(&["x", "y", "z"]));
    assert_eq!(backend_of(gateway.url(), "x").await, json!(["b", "x"]));
    assert_eq!(backend_of(gateway.url(), "z").await, json!(["b", "z"]));
    let status = status(&gateway).await;
    let conflicts = status["conflicts"].as_array().unwrap();
    let mut told: Vec<_> = conflicts.iter().map(|one| one["name"].as_str().unwrap()).collect();
    told.sort_unstable();
    assert_eq!(told, ["x", "z"], "{status}");
}

#[tokio::test(flavor = "multi_thread")]
async fn overrides_resolve_conflicts_in_manual_mode() {
    let (a, b) = (with_tools("a", &["x", "y"]), with_tools("b", &["x"]));
    let sections = "aggregation:\n  conflictResolution: manual\n  tools:\n  - workload: b\n    \
                    overrides: {x: {name: other}}\n";
    let gateway = gateway_with(&[&a, &b], sections).await;
    assert_eq!(seen(gateway.url()).await, names(&["other", "x", "y"]));
    assert_eq!(backend_of(gateway.url(), "x").await, json!(["a", "x"]));
    assert_eq!(backend_of(gateway.url(), "other").await, json!(["b", "x"]));
    // A later conflict removes its contenders and sends a notification.
    b.add_tool("y");
    let mut caller = Caller::stateless(gateway.url());
    until("the new conflict is settled", async || caller.tools().await.unwrap() == ["other", "x"])
        .await;
    assert_eq!(status(&gateway).await["conflicts"][0]["name"], "y");
}

#[tokio::test(flavor = "multi_thread")]
async fn filters_apply_after_overrides_and_hide_names() {
    let a = with_tools("a", &["x", "y", "z"]);
    let b = with_tools("b", &["x"]);
    let sections = "aggregation:\n  tools:\n  - workload: a\n    filter: [new, z]\n    overrides:\n      \
                    x: {name: new, description: words, annotations: {readOnlyHint: true}}\n  \
                    - {workload: b, excludeAll: true}\n";
    let gateway = gateway_with(&[&a, &b], sections).await;
    assert_eq!(seen(gateway.url()).await, names(&["a_new", "a_z"]));
    assert_eq!(backend_of(gateway.url(), "a_new").await, json!(["a", "x"]));
    let mut caller = Caller::stateless(gateway.url());
    let list = caller.result("tools/list", json!({})).await.unwrap();
    let tool = &list["tools"][0];
    assert_eq!((&tool["name"], &tool["description"]), (&json!("a_new"), &json!("words")), "{list}");
    assert_eq!(tool["annotations"], json!({ "readOnlyHint": true }), "{list}");
    for mut caller in both(gateway.url()).await.unwrap() {
        for hidden in ["a_x", "a_y", "b_x"] {
            let unknown = caller.ask("tools/call", json!({ "name": hidden })).await.unwrap();
            let never = caller.ask("tools/call", json!({ "name": "never" })).await.unwrap();
            let said = |answer: &Value, name| answer["error"].to_string().replace(name, "NAME");
            assert_eq!(said(&unknown, hidden), said(&never, "never"));
        }
    }
    let gateway = gateway_with(&[&a, &b], "aggregation: {excludeAllTools: true}\n").await;
    assert!(seen(gateway.url()).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_backends_become_pages_for_clients() {
    let all: Vec<String> = (0..2500).map(|number| format!("t{number:04}")).collect();
    for generation in [Generation::Stateful, Generation::Stateless] {
        let many = conforming_server("m")
            .protocol(generation)
            .items("tools", all.iter().map(|name| tool(name)))
            .page_size(73);
        let many = many.start();
        let gateway = gateway(&[&many]).await;
        for mut caller in both(gateway.url()).await.unwrap() {
            let expected: Vec<_> = all.iter().map(|name| format!("m_{name}")).collect();
            assert_eq!(caller.tools().await.unwrap(), expected);
            let first = caller.result("tools/list", json!({})).await.unwrap();
            assert_eq!(first["tools"].as_array().unwrap().len(), 1000);
            let params = json!({ "cursor": first["nextCursor"] });
            let second = caller.result("tools/list", params.clone()).await.unwrap();
            assert_eq!(second["tools"][0]["name"], "m_t1000");
            assert_eq!(second, caller.result("tools/list", params).await.unwrap());
        }
        until("all pages were read, and no more", async || {
            many.count("tools/list").is_multiple_of(35)
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn forwards_definitions_byte_for_byte() {
    for generation in [Generation::Stateful, Generation::Stateless] {
        let good = conforming_server("a")
            .protocol(generation)
            .items("tools", [RICH.to_owned()])
            .page_size(10);
        let prompt =
            r#"{"name":"p","title":"P","arguments":[{"name":"x","y":1.0}],"_meta":{"a":1.10}}"#;
        let resource = r#"{"uri":"x://\u0079","name":"y","size":1e3,"icons":[],"annotations":{"priority":0.50}}"#;
        let template = r#"{"uriTemplate":"file:///{path}","name":"t","x-more":[1.0]}"#;
        let good = good.items("prompts", [prompt.to_owned()]);
        let good = good
            .items("resources", [resource.to_owned()])
            .items("resourceTemplates", [template.to_owned()])
            .start();
        let gateway = gateway(&[&good]).await;
        for mut caller in both(gateway.url()).await.unwrap() {
            for (method, original, renamed) in [
                ("tools/list", RICH, Some(("\"name\":\"rich\"", "\"name\":\"a_rich\""))),
                ("prompts/list", prompt, Some(("\"name\":\"p\"", "\"name\":\"a_p\""))),
                ("resources/list", resource, None),
                ("resources/templates/list", template, None),
            ] {
                let expected = match renamed {
                    Some((own, shown)) => original.replacen(own, shown, 1),
                    None => original.to_owned(),
                };
                let reply = caller.reply(method, json!({})).await.unwrap();
                let body = std::str::from_utf8(&reply.body).unwrap();
                assert!(body.contains(&format!("[{expected}]")), "{method}: {body}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn arguments_and_results_stay_byte_for_byte() {
    // Numbers beyond the precision of a double, a superfluous escape, and the order of keys.
    let arguments = r#"{"z":18446744073709551616.10,"a":"\u0041\/","m":{"b":1,"a":[1.0,-0]}}"#;
    for generation in [Generation::Stateful, Generation::Stateless] {
        let good = conforming_server("a").protocol(generation).start();
        let gateway = gateway(&[&good]).await;
        for mut caller in both(gateway.url()).await.unwrap() {
            let params = json!({ "name": "a_echo", "arguments": { "PLACE": 0 } });
            let message = caller.request("tools/call", params);
            let headers = caller.headers(&message);
            let body = message.to_string().replace(r#"{"PLACE":0}"#, arguments);
            let mut all = headers.clone();
            all.insert("content-type", "application/json".parse().unwrap());
            all.insert("accept", "application/json, text/event-stream".parse().unwrap());
            let reply = caller.line().send(http::Method::POST, "/mcp", &all, body).await.unwrap();
            assert_eq!(reply.status, 200, "{reply:?}");
            let last = last_call(&good);
            assert!(last.contains(arguments), "{generation:?}: {last}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn routes_prompts_and_resources_by_name_or_uri() {
    let prompt = |name: &str| json!({ "name": name }).to_string();
    let resource = |uri: &str| json!({ "uri": uri, "name": uri }).to_string();
    let template = |uri: &str| json!({ "uriTemplate": uri, "name": uri }).to_string();
    for generation in [Generation::Stateful, Generation::Stateless] {
        let a = conforming_server("a")
            .protocol(generation)
            .items("prompts", [prompt("p"), prompt("q")]);
        let a = a
            .items("resources", [resource("x://one"), resource("x://both")])
            .items("resourceTemplates", [template("a://{id}")]);
        let b = conforming_server("b").protocol(generation).items("prompts", [prompt("p")]);
        let b = b
            .items("resources", [resource("x://two"), resource("x://both")])
            .items("resourceTemplates", [template("b://{id}")]);
        let (a, b) = (a.start(), b.start());
        let gateway = gateway(&[&a, &b]).await;
        for mut caller in both(gateway.url()).await.unwrap() {
            let prompts = caller.result("prompts/list", json!({})).await.unwrap();
            assert_eq!(prompts["prompts"].as_array().unwrap().len(), 3, "{prompts}");
            let resources = caller.result("resources/list", json!({})).await.unwrap();
            assert_eq!(resources["resources"].as_array().unwrap().len(), 3, "{resources}");
            for (name, whose) in [("a_p", "a"), ("a_q", "a"), ("b_p", "b")] {
                let got = caller.result("prompts/get", json!({ "name": name })).await.unwrap();
                assert_eq!(got["description"], whose, "{name}: {got}");
            }
            for (uri, whose) in [
                ("x://one", "a"),
                ("x://two", "b"),
                ("x://both", "a"),
                ("a://7", "a"),
                ("b://7", "b"),
            ] {
                let read = caller.result("resources/read", json!({ "uri": uri })).await.unwrap();
                assert_eq!(read["contents"][0], json!({ "uri": uri, "text": whose }), "{read}");
            }
            for (reference, whose, own) in [
                (json!({ "type": "ref/prompt", "name": "b_p" }), "b", "\"name\":\"p\""),
                (json!({ "type": "ref/resource", "uri": "b://{id}" }), "b", "b://{id}"),
                (json!({ "type": "ref/resource", "uri": "x://one" }), "a", "x://one"),
            ] {
                let params = json!({ "ref": reference, "argument": { "name": "id", "value": "" } });
                let values = caller.result("completion/complete", params).await.unwrap();
                let values = &values["completion"]["values"];
                assert_eq!(values[0], whose, "{values}");
                assert!(values[1].as_str().unwrap().contains(own), "{values}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn merges_instructions_under_backend_names() {
    let a = conforming_server("a").instructions("Use a\nwisely.").start();
    let b = conforming_server("b").start();
    let c = conforming_server("c").instructions("Use \"c\".").start();
    let gateway = gateway(&[&a, &b, &c]).await;
    let mut stateless = Caller::stateless(gateway.url());
    let found = stateless.result("server/discover", json!({})).await.unwrap();
    let mut session = Caller::stateful(gateway.url()).await.unwrap();
    let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {} });
    let welcome = session.result("initialize", hello).await.unwrap();
    for said in [&found["instructions"], &welcome["instructions"]] {
        assert_eq!(*said, "## a\n\nUse a\nwisely.\n\n## c\n\nUse \"c\".");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn notifies_all_listening_clients_of_backend_change() {
    for generation in [Generation::Stateful, Generation::Stateless] {
        let a = conforming_server("a").protocol(generation).start();
        let b = conforming_server("b").start();
        let gateway = gateway(&[&a, &b]).await;
        let mut callers = both(gateway.url()).await.unwrap();
        let mut streams = Vec::new();
        for caller in &mut callers {
            streams.push(caller.listen().await.unwrap());
        }
        a.add_tool("new");
        for (caller, stream) in callers.iter_mut().zip(&mut streams) {
            let told = stream.next().await.unwrap().unwrap();
            assert_eq!(told["method"], "notifications/tools/list_changed", "{told}");
            // Notified clients list the new catalog.
            assert!(caller.tools().await.unwrap().contains(&"a_new".to_owned()));
        }
    }
}
