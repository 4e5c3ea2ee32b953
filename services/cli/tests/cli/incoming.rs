//! Authentication and authorization of callers.

use std::time::Duration;

use serde_json::{Value, json};
use vmcp_test_support::McpBackend;

use crate::http::{Answer, get, request};
use crate::issuer::Issuer;
use crate::mcp::{Stateful, text};
use crate::program::{Folder, ServerProcess, vmcp};

const MEDIA: [(&str, &str); 2] =
    [("content-type", "application/json"), ("accept", "application/json, text/event-stream")];

fn file(backend: &McpBackend, section: &str) -> String {
    let url = backend.url();
    format!(
        "name: x\n{section}backends:\n- {{name: a, url: \"{url}\", transport: streamable-http}}\n"
    )
}

/// Sends a stateless request with `token`.
pub(crate) fn ask(port: u16, token: Option<&str>, method: &str, params: &Value) -> Answer {
    let mut params = params.clone();
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "tests", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let bearer = token.map(|token| format!("Bearer {token}")).unwrap_or_default();
    let name = params["name"].as_str().unwrap_or_default().to_owned();
    let mut headers = MEDIA.to_vec();
    headers.extend([("mcp-protocol-version", "2026-07-28"), ("mcp-method", method)]);
    if !name.is_empty() {
        headers.push(("mcp-name", &name));
    }
    if token.is_some() {
        headers.push(("authorization", &bearer));
    }
    let message = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
    request(port, "POST", "/mcp", &headers, &message.to_string())
}

fn tools(answer: Answer) -> Vec<String> {
    let listed = answer.message();
    let tools = listed["result"]["tools"].as_array().unwrap_or_else(|| panic!("{listed}"));
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn rejects_missing_token_with_resource_metadata() {
    let (folder, backend, issuer) = (Folder::new(), McpBackend::stateless(&["x"]), Issuer::start());
    let config = file(&backend, &issuer.section(", scopes: [openid, tools]"));
    let (server, port) = ServerProcess::serve(&folder.write("vmcp.yaml", &config), &[]);
    let refused = ask(port, None, "tools/list", &json!({}));
    assert_eq!(refused.status, 401);
    let challenge = refused.header("www-authenticate").unwrap().to_owned();
    let document = "http://localhost/.well-known/oauth-protected-resource/mcp";
    assert!(challenge.starts_with("Bearer "), "{challenge}");
    assert!(challenge.contains(&format!("resource_metadata=\"{document}\"")), "{challenge}");
    assert!(challenge.contains("scope=\"openid tools\"") && !challenge.contains("error="));
    for path in
        ["/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"]
    {
        let found = get(port, path);
        assert_eq!(found["resource"], "http://localhost/mcp");
        assert_eq!(found["authorization_servers"], json!([issuer.url]));
    }
    assert_eq!(request(port, "GET", "/.well-known/other", &[], "").status, 404);
    let narrow = issuer.token("alice", &json!({}));
    let refused = ask(port, Some(&narrow), "tools/list", &json!({}));
    assert_eq!(refused.status, 403);
    assert!(refused.header("www-authenticate").unwrap().contains("error=\"insufficient_scope\""));
    let token = issuer.token("alice", &json!({"scope": "tools"}));
    assert_eq!(tools(ask(port, Some(&token), "tools/list", &json!({}))), ["a_x"]);
    let call = json!({"name": "a_x", "arguments": {}});
    assert_eq!(text(&ask(port, Some(&token), "tools/call", &call).message()), "done");
    let old = issuer.token("alice", &json!({"scope": "tools", "exp": 1_700_000_000}));
    let refused = ask(port, Some(&old), "tools/list", &json!({}));
    assert_eq!(refused.status, 401);
    assert!(refused.header("www-authenticate").unwrap().contains("error=\"invalid_token\""));
    for request in backend.requests() {
        assert_eq!(request.header("authorization"), "", "{request:?}");
    }
    // While the first token was verified the keys changed from none to some; the expired one is not kept.
    assert_eq!(get(port, "/status")["cache_entries"]["verified_tokens"], 1);
    let (_, log) = server.stop();
    assert!(!log.contains(&token), "{log}");
}

#[test]
fn introspects_opaque_tokens_at_issuer() {
    let (folder, backend, issuer) = (Folder::new(), McpBackend::stateless(&["x"]), Issuer::start());
    let more =
        format!(", introspectionUrl: \"{}/introspect\", clientSecretEnv: SECRET", issuer.url);
    let path = folder.write("vmcp.yaml", &file(&backend, &issuer.section(&more)));
    for (secret, token, status) in [
        ("s3cret", "opaque-alice", 200),
        ("s3cret", "opaque-eve", 401),
        ("wrong", "opaque-alice", 503),
    ] {
        let (_server, port) = ServerProcess::serve_with(&path, &[], &[("SECRET", secret)]);
        let answer = ask(port, Some(token), "tools/list", &json!({}));
        assert_eq!(answer.status, status, "{secret} {token}");
    }
}

#[test]
fn fetches_keys_with_bundle_and_token() {
    let (folder, backend) = (Folder::new(), McpBackend::stateless(&["x"]));
    let (issuer, authority) = Issuer::encrypted("canary-1");
    let bundle = folder.write("ca.pem", &authority);
    let other = folder.write("other.pem", &Issuer::encrypted("").1);
    let token = folder.write("token", "canary-1\n");
    let wrong = folder.write("wrong", "canary-2");
    let alice = issuer.token("alice", &json!({}));
    for (bundle, token, status) in
        [(&other, &token, 503), (&bundle, &wrong, 503), (&bundle, &token, 200)]
    {
        let more = format!(", caBundlePath: {bundle}, jwksAuthTokenPath: {token}");
        let path = folder.write("vmcp.yaml", &file(&backend, &issuer.section(&more)));
        let (server, port) = ServerProcess::serve(&path, &[]);
        assert_eq!(ask(port, Some(&alice), "tools/list", &json!({})).status, status, "{more}");
        let (_, log) = server.stop();
        assert!(!log.contains("canary"), "{log}");
    }
    for (field, says) in [
        (format!("caBundlePath: {token}"), "incomingAuth.oidc.caBundlePath: found"),
        (format!("jwksAuthTokenPath: {}", folder.path("none")), "which cannot be read"),
        (
            format!("jwksUrl: \"http://id.test/keys\", jwksAuthTokenPath: {token}"),
            "could read the token",
        ),
    ] {
        let text = file(&backend, &issuer.section(&format!(", {field}")));
        let ended = vmcp(&["validate", "-c", &folder.write("vmcp.yaml", &text)]);
        assert!(ended.code == 1 && ended.err.contains(says), "{field}: {ended:?}");
    }
}

#[test]
fn changed_bundle_of_issuer_applies() {
    let (folder, backend) = (Folder::new(), McpBackend::stateless(&["x"]));
    let (issuer, authority) = Issuer::encrypted("canary-1");
    let token = folder.write("token", "canary-1");
    let bundle = folder.write("ca.pem", &Issuer::encrypted("").1);
    let more = format!(", caBundlePath: {bundle}, jwksAuthTokenPath: {token}");
    let path = folder.write("vmcp.yaml", &file(&backend, &issuer.section(&more)));
    let (server, port) = ServerProcess::serve(&path, &[]);
    let alice = issuer.token("alice", &json!({}));
    assert_eq!(ask(port, Some(&alice), "tools/list", &json!({})).status, 503);
    folder.write("ca.pem", &authority);
    server.logs("configuration reloaded");
    assert_eq!(ask(port, Some(&alice), "tools/list", &json!({})).status, 200);
}

#[test]
fn sessions_and_legacy_streams_belong_to_owners() {
    let (folder, backend, issuer) = (Folder::new(), McpBackend::stateless(&["x"]), Issuer::start());
    let config = file(&backend, &issuer.section(""));
    let (_server, port) = ServerProcess::serve(&folder.write("vmcp.yaml", &config), &[]);
    let alice = format!("Bearer {}", issuer.token("alice", &json!({})));
    let again = format!("Bearer {}", issuer.token("alice", &json!({"jti": "2"})));
    let mallory = format!("Bearer {}", issuer.token("mallory", &json!({})));
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"},
    }});
    let send = |bearer: &str, more: &[(&str, &str)], message: &Value| {
        let headers = [&MEDIA[..], &[("authorization", bearer)], more].concat();
        request(port, "POST", "/mcp", &headers, &message.to_string())
    };
    let opened = send(&alice, &[], &hello);
    let session = opened.header("mcp-session-id").unwrap().to_owned();
    let own = [("mcp-session-id", &*session), ("mcp-protocol-version", "2025-11-25")];
    let list = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"});
    assert_eq!(send(&mallory, &own, &list).status, 404);
    assert_eq!(send(&again, &own, &list).status, 200);
    assert_eq!(request(port, "GET", "/sse", &[("accept", "text/event-stream")], "").status, 401);
    let headers = [("accept", "text/event-stream"), ("authorization", &*alice)];
    assert_eq!(request(port, "GET", "/sse", &headers, "").status, 200);
}

#[test]
fn ends_anonymous_streams_when_authentication_begins() {
    let (folder, backend, issuer) = (Folder::new(), McpBackend::stateless(&["x"]), Issuer::start());
    let path = folder.write("vmcp.yaml", &file(&backend, "incomingAuth: {type: anonymous}\n"));
    let (server, port) = ServerProcess::serve(&path, &[]);
    let client = Stateful::open(port);
    let filter = json!({"notifications": {"toolsListChanged": true}});
    let sse = [("accept", "text/event-stream")];
    let open = || {
        let old = request(port, "GET", "/sse", &sse, "");
        [client.listen(), old, ask(port, None, "subscriptions/listen", &filter)]
    };
    let streams = open();
    for stream in &streams {
        assert_eq!(stream.status, 200);
        assert_eq!(stream.header("content-type"), Some("text/event-stream"));
    }
    folder.write("vmcp.yaml", &file(&backend, &issuer.section("")));
    server.logs("configuration reloaded");
    let (ended, wait) = std::sync::mpsc::channel();
    for stream in streams {
        let ended = ended.clone();
        // A stream that goes on has comments, and is read for ever.
        std::thread::spawn(move || {
            stream.read(&mut String::new());
            ended.send(()).unwrap();
        });
    }
    for number in 0..3 {
        let over = wait.recv_timeout(Duration::from_secs(10));
        assert!(over.is_ok(), "{number} of 3 streams ended");
    }
    for stream in open() {
        assert_eq!(stream.status, 401);
    }
}

#[test]
fn applies_policies_and_rejects_invalid_reload() {
    let (folder, backend, issuer) =
        (Folder::new(), McpBackend::stateless(&["x", "y"]), Issuer::start());
    let with = |policies: &str| {
        let authz = format!("  authz: {{type: cedar, policies: [{policies}]}}\n");
        file(&backend, &(issuer.section("") + &authz))
    };
    let eng = r#"'permit(principal in Group::"eng", action, resource == Tool::"a_x");'"#;
    let path = folder.write("vmcp.yaml", &with(eng));
    let (server, port) = ServerProcess::serve(&path, &[]);
    let alice = issuer.token("alice", &json!({"groups": ["eng"]}));
    let bob = issuer.token("bob", &json!({"groups": ["ops"]}));
    let list = |token: &str| tools(ask(port, Some(token), "tools/list", &json!({})));
    assert_eq!(list(&alice), ["a_x"]);
    assert!(list(&bob).is_empty());
    let call = |token: &str, name: &str| {
        ask(port, Some(token), "tools/call", &json!({"name": name, "arguments": {}})).message()
    };
    assert_eq!(text(&call(&alice, "a_x")), "done");
    let hidden = call(&alice, "a_y").to_string();
    assert_eq!(hidden.replace("a_y", "a_z"), call(&alice, "a_z").to_string());
    let wrong = folder.write("wrong.yaml", &with("'permit(principal);', 'forbid'"));
    let ended = vmcp(&["validate", "--config", &wrong]);
    assert_eq!(ended.code, 1);
    for at in ["incomingAuth.authz.policies[0]", "incomingAuth.authz.policies[1]"] {
        assert!(ended.err.contains(at), "{ended:?}");
    }
    folder.write("vmcp.yaml", &with("'permit(principal);'"));
    server.signal("HUP");
    server.logs("failed to reload");
    assert_eq!(list(&alice), ["a_x"]);
    let entities = r#"[{"uid": {"type": "Group", "id": "ops"}, "attrs": {}, "parents":
        [{"type": "Group", "id": "staff"}]}]"#;
    let staff = r#"'permit(principal in Group::"staff", action, resource);'], entitiesJson: '"#;
    let authz = format!("  authz: {{type: cedar, policies: [{staff}{entities}'}}\n");
    folder.write("vmcp.yaml", &file(&backend, &(issuer.section("") + &authz)));
    server.signal("HUP");
    server.logs("configuration reloaded");
    assert_eq!(list(&bob), ["a_x", "a_y"]);
    assert!(list(&alice).is_empty());
}

#[test]
fn server_policies_follow_name_change() {
    let (folder, backend) = (Folder::new(), McpBackend::stateless(&["x"]));
    let policy = r#"'permit(principal, action, resource in MCP::"new");'"#;
    let section = format!(
        "incomingAuth: {{type: anonymous, authz: {{type: cedar, policies: [{policy}]}}}}\n"
    );
    let text_of = file(&backend, &section);
    let (server, port) = ServerProcess::serve(&folder.write("vmcp.yaml", &text_of), &[]);
    assert!(Stateful::open(port).tools().is_empty());
    folder.write("vmcp.yaml", &text_of.replacen("name: x", "name: new", 1));
    server.logs("configuration reloaded");
    assert_eq!(Stateful::open(port).tools(), ["a_x"]);
}

#[test]
fn local_mode_names_user_without_token() {
    let (folder, backend) = (Folder::new(), McpBackend::stateless(&["x", "y"]));
    let policy = r#"'permit(principal == Client::"ada", action, resource == Tool::"a_y");'"#;
    let section =
        format!("incomingAuth: {{type: local, authz: {{type: cedar, policies: [{policy}]}}}}\n");
    let path = folder.write("vmcp.yaml", &file(&backend, &section));
    let (_server, port) = ServerProcess::serve_with(&path, &[], &[("USER", "ada")]);
    assert_eq!(Stateful::open(port).tools(), ["a_y"]);
    let (_server, port) = ServerProcess::serve_with(&path, &[], &[("USER", "eve")]);
    assert!(Stateful::open(port).tools().is_empty());
}

#[test]
fn rejects_unusable_oidc_section_with_remedy() {
    let folder = Folder::new();
    let oidc = |fields: &str| {
        format!(
            "name: x\nincomingAuth: {{type: oidc, oidc: {{issuer: \"https://id.test\", clientId: c, {fields}}}}}\n"
        )
    };
    for (fields, path, says) in [
        ("audience: b", "incomingAuth.oidc.resource", "set `resource`"),
        (
            "audience: \"https://10.0.0.1/mcp\"",
            "incomingAuth.oidc.resource",
            "protectedResourceAllowPrivateIp",
        ),
        (
            "audience: \"https://a.test\", jwksUrl: \"http://id.test/keys\"",
            "incomingAuth.oidc.jwksUrl",
            "https",
        ),
        (
            "audience: \"https://a.test\", introspectionUrl: \"http://id.test/i\"",
            "incomingAuth.oidc.introspectionUrl",
            "https",
        ),
        (
            "audience: \"https://a.test\", clientSecretEnv: NOT_SET",
            "incomingAuth.oidc.clientSecretEnv",
            "not set",
        ),
    ] {
        let ended = vmcp(&["validate", "--config", &folder.write("vmcp.yaml", &oidc(fields))]);
        assert_eq!(ended.code, 1, "{fields}: {ended:?}");
        assert!(ended.err.contains(path) && ended.err.contains(says), "{fields}: {}", ended.err);
    }
}

#[test]
fn policies_decide_by_backend_and_generation() {
    let (folder, issuer) = (Folder::new(), Issuer::start());
    let (a, b) = (McpBackend::both(&["x"], &["x", "y"]), McpBackend::stateful(&["x"]));
    let with = |policies: &str| {
        let authz = format!("  authz: {{type: cedar, policies: [{policies}]}}\n");
        let more = format!("- {{name: b, url: \"{}\", transport: streamable-http}}\n", b.url());
        file(&a, &(issuer.section("") + &authz)) + &more
    };
    let permit = r#"'permit(principal, action, resource) when { resource.backend == "a" };'"#;
    let path = folder.write("vmcp.yaml", &with(permit));
    let (server, port) = ServerProcess::serve(&path, &[]);
    let alice = issuer.token("alice", &json!({}));
    let list = || tools(ask(port, Some(&alice), "tools/list", &json!({})));
    let call = |name: &str| {
        ask(port, Some(&alice), "tools/call", &json!({"name": name, "arguments": {}})).message()
    };
    assert_eq!(list(), ["a_x", "a_y"]);
    assert_eq!(text(&call("a_x")), "done");
    let hidden = call("b_x").to_string();
    assert_eq!(hidden, call("b_n").to_string().replace("b_n", "b_x"));
    // A client of the newer generation is served in it where the backend speaks both.
    let older =
        r#"'permit(principal, action, resource) when { resource.generation == "2025-11-25" };'"#;
    folder.write("vmcp.yaml", &with(older));
    server.logs("configuration reloaded");
    assert_eq!(list(), ["b_x"]);
    assert_eq!(text(&call("b_x")), "done");
    assert_eq!(call("a_x").to_string(), call("a_n").to_string().replace("a_n", "a_x"));
}
