//! A server that discovers its backends: the planned pod, the real program, and an API server that enforces the pod's role.

use serde_json::{Value, json};
use vmcp_api::conversion::{SecretSource, SourceKind};
use vmcp_kube_fixture::{Fault, FaultRule};
use vmcp_test_support::McpBackend;

use super::cluster::Kubernetes;
use super::pod::Pod;
use super::server;
use super::session::Session;

/// Returns a server that discovers its backends, with fields besides those that are required.
fn discovering(fields: &str) -> String {
    server(&format!(
        "  outgoingAuth: {{source: discovered}}\n  incomingAuth: {{type: anonymous}}\n{fields}"
    ))
}

/// Returns names and reasons of the backends that are left out.
async fn left_out(pod: &Pod) -> Vec<(String, String)> {
    let status = pod.status().await;
    let text = |one: &Value, field: &str| one[field].as_str().unwrap().to_owned();
    let left_out = status["left_out_backends"].as_array().unwrap();
    left_out.iter().map(|one| (text(one, "name"), text(one, "reason"))).collect()
}

/// Waits until exactly these backends are left out.
async fn wait_left_out(pod: &Pod, expected: &[(&str, &str)]) {
    let expected: Vec<_> =
        expected.iter().map(|(name, reason)| ((*name).into(), (*reason).into())).collect();
    pod.until(async || left_out(pod).await == expected).await;
}

#[tokio::test]
async fn members_change_while_session_goes_on() {
    let [one, two, three] = [["x"], ["y"], ["z"]].map(|tools| McpBackend::stateless(&tools));
    let cluster = Kubernetes::new("discovered-members", &discovering("")).await;
    cluster.member("MCPServer", "a", &one.url());
    let pod = cluster.pod();
    pod.until_ready().await;
    assert!(pod.get("/readyz").await.contains("\"discovered\""));
    let mut session = Session::open(&pod).await;
    let id = session.id().to_owned();
    assert_eq!(session.tools().await, ["a_x"]);
    // Added, changed, removed.
    cluster.member("MCPRemoteProxy", "b", &two.url());
    session.wait_tools(&["a_x", "b_y"]).await;
    session.call("b_y").await;
    cluster.member("MCPRemoteProxy", "b", &three.url());
    session.wait_tools(&["a_x", "b_z"]).await;
    cluster.delete("MCPServer", "a").await;
    session.wait_tools(&["b_z"]).await;
    // In another group.
    cluster.member_with(
        "MCPRemoteProxy",
        "b",
        &three.url(),
        &json!({"groupRef": {"name": "other"}}),
    );
    session.wait_tools(&[]).await;
    cluster.member("MCPServer", "a", &one.url());
    session.wait_tools(&["a_x"]).await;
    session.call("a_x").await;
    assert_eq!(session.id(), id);
    assert!(pod.log().contains("backend b added"), "{}", pod.log());
    cluster.check_allowed();
    pod.stop().await;
}

#[tokio::test]
async fn equal_names_are_decided_by_kind() {
    let [one, two] = [["x"], ["y"]].map(|tools| McpBackend::stateless(&tools));
    let cluster = Kubernetes::new("discovered-names", &discovering("")).await;
    cluster.member("MCPServerEntry", "a", "https://entry.invalid/mcp");
    cluster.member("MCPRemoteProxy", "a", &two.url());
    cluster.member("MCPServer", "a", &one.url());
    let pod = cluster.pod();
    pod.until_ready().await;
    let mut session = Session::open(&pod).await;
    assert_eq!(session.tools().await, ["a_x"]);
    let both = [("a", "DuplicateName"), ("a", "DuplicateName")];
    wait_left_out(&pod, &both).await;
    cluster.delete("MCPServer", "a").await;
    session.wait_tools(&["a_y"]).await;
    wait_left_out(&pod, &both[1..]).await;
    cluster.delete("MCPRemoteProxy", "a").await;
    wait_left_out(&pod, &[]).await;
    assert_eq!(pod.status().await["backends"][0]["url"], "https://entry.invalid/mcp");
}

#[tokio::test]
async fn invalid_member_leaves_only_itself_out() {
    let backend = McpBackend::stateless(&["x"]);
    let cluster = Kubernetes::new("discovered-invalid", &discovering("")).await;
    cluster.member("MCPServer", "a", &backend.url());
    let pod = cluster.pod();
    pod.until_ready().await;
    let session = Session::open(&pod).await;
    // An entry that its controller rejects, one that no controller has seen, and one that the server's own rules reject.
    cluster.member("MCPServerEntry", "b", "https://b.invalid/mcp");
    cluster.set_status("MCPServerEntry", "b", json!({"phase": "Failed"}));
    cluster.apply(
        "MCPServer",
        "c",
        &json!({"image": "i", "groupRef": {"name": "tools"}, "transport": "streamable-http"}),
    );
    let header = json!({"headerForward": {"addPlaintextHeaders": {"Content-Length": "5"}}});
    cluster.member_with("MCPServerEntry", "d", "https://d.invalid/mcp", &header);
    let expected = [("b", "EntryInvalid"), ("c", "UrlUnknown"), ("d", "BackendInvalid")];
    wait_left_out(&pod, &expected).await;
    let status = pod.status().await;
    let messages = status["left_out_backends"].to_string();
    assert!(messages.contains("Content-Length"), "{messages}");
    assert_eq!(status["configuration"]["last_error"], Value::Null);
    assert_eq!(session.tools().await, ["a_x"]);
    session.call("a_x").await;
}

#[tokio::test]
async fn edited_tool_config_changes_tools() {
    let backend = McpBackend::stateless(&["x", "y"]);
    let manifests = format!(
        "{}---\napiVersion: vmcp.dev/v1beta1\nkind: MCPToolConfig\nmetadata: {{name: t, namespace: team}}\nspec: {{toolsFilter: [x]}}\n",
        discovering(
            "  config: {aggregation: {tools: [{workload: a, toolConfigRef: {name: t}}]}}\n"
        )
    );
    let cluster = Kubernetes::new("discovered-tools", &manifests).await;
    cluster.member("MCPServer", "a", &backend.url());
    let pod = cluster.pod();
    pod.until_ready().await;
    let mut session = Session::open(&pod).await;
    assert_eq!(session.tools().await, ["a_x"]);
    cluster.apply("MCPToolConfig", "t", &json!({"toolsFilter": ["y"]}));
    session.wait_tools(&["a_y"]).await;
    let renamed = json!({"toolsFilter": ["z"], "toolsOverride": {"x": {"name": "z"}}});
    cluster.apply("MCPToolConfig", "t", &renamed);
    session.wait_tools(&["a_z"]).await;
    session.call("a_z").await;
    // Without it, the tools are hidden rather than all shown.
    cluster.delete("MCPToolConfig", "t").await;
    session.wait_tools(&[]).await;
    cluster.check_allowed();
}

#[tokio::test]
async fn credentials_follow_resource_and_secret() {
    let backend = McpBackend::stateless(&["x"]);
    let last = |name: &str| {
        let requests = backend.requests();
        let request = requests.iter().rev().find(|request| !request.header(name).is_empty());
        request.map(|request| request.header(name).to_owned())
    };
    let cluster = Kubernetes::new("discovered-secrets", &discovering("")).await;
    let injection = |header: &str| {
        let reference = json!({"name": "keys", "key": "a"});
        json!({"type": "headerInjection", "headerInjection": {"headerName": header, "valueSecretRef": reference}})
    };
    cluster.apply("MCPExternalAuthConfig", "key", &injection("X-One"));
    let reference = json!({"externalAuthConfigRef": {"name": "key"}});
    cluster.member_with("MCPServer", "a", &backend.url(), &reference);
    let pod = cluster.pod();
    pod.until_ready().await;
    let mut session = Session::open(&pod).await;
    wait_left_out(&pod, &[("a", "SecretPending")]).await;
    assert!(backend.requests().is_empty(), "never without its credentials");
    // The operator copies the key into the mounted Secret.
    let source = SecretSource::new(SourceKind::Secret, "keys", "a");
    pod.mount_secret(&source, "canary-1");
    session.wait_tools(&["a_x"]).await;
    session.call("a_x").await;
    assert_eq!(last("x-one").as_deref(), Some("canary-1"));
    pod.mount_secret(&source, "canary-2");
    pod.until(async || {
        session.call("a_x").await;
        last("x-one").as_deref() == Some("canary-2")
    })
    .await;
    cluster.apply("MCPExternalAuthConfig", "key", &injection("X-Two"));
    pod.until(async || {
        session.call("a_x").await;
        last("x-two").as_deref() == Some("canary-2")
    })
    .await;
    cluster.delete("MCPExternalAuthConfig", "key").await;
    session.wait_tools(&[]).await;
    wait_left_out(&pod, &[("a", "AuthConfigNotFound")]).await;
    let status = pod.status().await.to_string();
    assert!(!pod.log().contains("canary") && !status.contains("canary"), "{}", pod.log());
    cluster.check_allowed();
}

#[tokio::test]
async fn api_server_that_is_away_touches_no_traffic() {
    let [one, two] = [["x"], ["y"]].map(|tools| McpBackend::stateless(&tools));
    let cluster = Kubernetes::new("discovered-outage", &discovering("")).await;
    cluster.member("MCPServer", "a", &one.url());
    let pod = cluster.pod();
    pod.until_ready().await;
    let mut session = Session::open(&pod).await;
    cluster.server.disturb(FaultRule::new(Fault::Refuse));
    cluster.server.drop_watches();
    pod.until(async || pod.log().contains("watch failed")).await;
    cluster.member("MCPServer", "b", &two.url());
    session.call("a_x").await;
    assert_eq!(session.tools().await, ["a_x"]);
    cluster.server.revive();
    session.wait_tools(&["a_x", "b_y"]).await;
}

#[tokio::test]
async fn deleted_server_keeps_last_configuration() {
    let [one, two] = [["x"], ["y"]].map(|tools| McpBackend::stateless(&tools));
    let cluster = Kubernetes::new("discovered-deleted", &discovering("")).await;
    cluster.member("MCPServer", "a", &one.url());
    let pod = cluster.pod();
    pod.until_ready().await;
    let session = Session::open(&pod).await;
    cluster.delete("VirtualMCPServer", "a").await;
    let problem = async || pod.status().await["configuration"]["discovery"]["problem"].clone();
    pod.until(async || problem().await == "VirtualMCPServer a does not exist").await;
    cluster.member("MCPServer", "b", &two.url());
    session.call("a_x").await;
    assert_eq!(session.tools().await, ["a_x"]);
}

#[tokio::test]
async fn first_result_precedes_readiness() {
    let backend = McpBackend::stateless(&["x"]);
    let cluster = Kubernetes::new("discovered-first", &discovering("")).await;
    cluster.member("MCPServer", "a", &backend.url());
    let fault = FaultRule::new(Fault::Status(503)).on_resource("mcptoolconfigs");
    cluster.server.disturb(fault.on_verbs(&["list"]));
    let pod = cluster.pod();
    pod.until(async || pod.log().contains("watch failed")).await;
    assert!(pod.get("/livez").await.starts_with("HTTP/1.1 200 "));
    assert!(pod.get("/readyz").await.starts_with("HTTP/1.1 503 "));
    let start = "the API server has not listed mcptoolconfigs (";
    pod.until(async || {
        let discovery = pod.status().await["configuration"]["discovery"].clone();
        assert_eq!(discovery["synchronized"], false);
        discovery["problem"].as_str().unwrap().starts_with(start)
    })
    .await;
    cluster.server.revive();
    pod.until_ready().await;
    assert_eq!(Session::open(&pod).await.tools().await, ["a_x"]);
}

#[tokio::test]
async fn changed_file_applies_beside_discovered_backends() {
    let backend = McpBackend::stateless(&["x"]);
    let cluster = Kubernetes::new("discovered-file", &discovering("")).await;
    cluster.member("MCPServer", "a", &backend.url());
    let pod = cluster.pod();
    pod.until_ready().await;
    let mut session = Session::open(&pod).await;
    let other = "conflictResolutionConfig:\n    prefixFormat: '{workload}-'\n";
    pod.write_configuration(&format!(
        "name: a\ngroupRef: tools\nincomingAuth: {{type: anonymous}}\noutgoingAuth: {{source: discovered}}\naggregation:\n  {other}"
    ));
    session.wait_tools(&["a-x"]).await;
    pod.write_configuration(
        "name: a\nincomingAuth: {type: anonymous}\noutgoingAuth: {source: inline}\n",
    );
    session.wait_tools(&[]).await;
    pod.write_configuration(pod.configuration());
    session.wait_tools(&["a_x"]).await;
}
