//! Policies for composite tools and for the tools of their steps.

use http::StatusCode;
use serde_json::{Value, json};
use vmcp_test_support::mcp_backend::Protocol;
use vmcp_tests::authority::Authority;
use vmcp_tests::caller::Caller;

use super::{backend, calls, output, sections};
use crate::common::{config, ready};
use crate::reload::change;

const AUDIENCE: &str = "http://localhost/mcp";

const POLICIES: &str = r#"
  authz:
    type: cedar
    policies:
    - 'permit(principal, action, resource) when { ["reads", "fails", "continues"].contains(resource.name) };'
    - 'permit(principal, action, resource == Tool::"a_echo");'
    - 'permit(principal == Client::"boss", action, resource == Tool::"a_fail");'
    - 'forbid(principal, action, resource == Tool::"a_echo") when { context has arg_text && context.arg_text == "secret" };'
"#;

#[tokio::test(flavor = "multi_thread")]
async fn steps_need_permissions_of_their_own() {
    let a = backend("a", Protocol::Both).start();
    let authority = Authority::start().unwrap();
    let arguments = json!({"text": "{{.params.text}}"});
    let read = json!({"id": "s", "tool": "a.echo", "arguments": arguments});
    let mut optional = read.clone();
    optional["onError"] = json!({"action": "continue"});
    let after =
        json!({"id": "t", "tool": "a.echo", "dependsOn": ["s"], "arguments": {"text": "x"}});
    let tools = json!([
        {"name": "reads", "steps": [read]},
        {"name": "fails", "steps": [{"id": "s", "tool": "a.fail"}]},
        {"name": "continues", "steps": [optional, after]},
    ]);
    let section = authority.section(AUDIENCE) + POLICIES.trim_start_matches('\n');
    let yaml = config([("a", a.url())], &sections(&tools));
    let gateway = ready(&yaml.replace("incomingAuth: {type: anonymous}\n", &section)).await;
    let url = gateway.url();
    for (user, is_boss) in [("ann", false), ("boss", true)] {
        let token = authority.token(user, AUDIENCE, 1);
        let stateful = Caller::stateful_as(url, &token).await.unwrap();
        for caller in &mut [stateful, Caller::stateless_as(url, &token)] {
            let names = caller.tools().await.unwrap();
            assert_eq!(names.contains(&"fails".to_owned()), is_boss, "{names:?}");
            assert!(names.contains(&"reads".to_owned()), "{names:?}");
            let called = caller.ask("tools/call", json!({"name": "fails"})).await.unwrap();
            assert_eq!(called["error"]["code"] == -32602, !is_boss, "{called}");
            assert_eq!(output(caller, "reads", json!({"text": "x"})).await, json!({"text": "x"}));
            assert_denied(caller, "reads").await;
            let goes_on = output(caller, "continues", json!({"text": "secret"})).await;
            assert_eq!(goes_on, json!({"text": "x"}));
        }
    }
    assert!(calls(&a, "echo").iter().all(|call| call["text"] == "x"));
}

/// Asserts that a step with the arguments that a policy forbids makes the call a forbidden one.
async fn assert_denied(caller: &mut Caller, name: &str) {
    let params = json!({"name": name, "arguments": {"text": "secret"}});
    let reply = caller.reply("tools/call", params).await.unwrap();
    let message: Value = reply.message().unwrap();
    assert_eq!(message["error"]["code"], 403, "{message}");
    if caller.session().is_none() {
        assert_eq!(reply.status, StatusCode::FORBIDDEN, "{message}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn reload_reaches_run_that_waits_for_user() {
    let a = backend("a", Protocol::Both).start();
    let authority = Authority::start().unwrap();
    let tools = json!([{"name": "asks", "steps": [
        {"id": "ask", "type": "elicitation", "message": "Sure?",
         "schema": {"type": "object", "properties": {}}},
        {"id": "act", "tool": "a.echo", "dependsOn": ["ask"], "arguments": {"text": "x"}},
    ]}]);
    let with = |policies: &[&str]| {
        let authz = json!({"type": "cedar", "policies": policies});
        let section = authority.section(AUDIENCE) + &format!("  authz: {authz}\n");
        let yaml = config([("a", a.url())], &sections(&tools));
        yaml.replace("incomingAuth: {type: anonymous}\n", &section)
    };
    let all = "permit(principal, action, resource);";
    let gateway = ready(&with(&[all])).await;
    let token = authority.token("ann", AUDIENCE, 1);
    let capabilities = json!({"elicitation": {}});
    let stateful = Caller::stateful_with_token(gateway.url(), capabilities, &token);
    let mut stateful = stateful.await.unwrap();
    let mut stateless = Caller::stateless_with(gateway.url(), json!({"elicitation": {"form": {}}}));
    stateless.comes_with(&token);

    let call = json!({"name": "asks", "arguments": {}});
    let mut stream = stateful.stream("tools/call", call.clone()).await.unwrap();
    let question = stream.next().await.unwrap().unwrap();
    let asked = stateless.result("tools/call", call.clone()).await.unwrap();
    let forbid =
        r#"forbid(principal, action, resource == Tool::"a_echo") when { context has arg_text };"#;
    change(&gateway, &with(&[all, forbid])).await;

    let accepted = json!({"action": "accept", "content": {}});
    let reply = json!({"jsonrpc": "2.0", "id": question["id"], "result": accepted});
    assert_eq!(stateful.post(&reply).await.unwrap().status, 202);
    let ended = stream.next().await.unwrap().unwrap();
    assert_eq!(ended["error"]["code"], 403, "{ended}");
    let message = ended["error"]["message"].as_str().unwrap();
    assert!(message.contains("the configuration was reloaded during the run"), "{message}");

    let mut again = call;
    again["requestState"] = asked["requestState"].clone();
    again["inputResponses"] = json!({"ask": accepted});
    let ended = stateless.ask("tools/call", again).await.unwrap();
    assert_eq!(ended["error"]["code"], 403, "{ended}");
    assert_eq!(calls(&a, "echo").len(), 0);
}
