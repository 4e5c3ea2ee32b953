//! Audit events of client requests.

use std::path::Path;

use serde_json::{Value, json};
use tokio::time::{Duration, Instant};
use vmcp_test_support::McpBackend;

use crate::http::{get, request};
use crate::issuer::Issuer;
use crate::login::{Client, Provider, sections};
use crate::mcp::{Stateful, text};
use crate::program::{Folder, ServerProcess, vmcp};

fn config(backend: &McpBackend, incoming: &str, audit: &str) -> String {
    let url = backend.url();
    format!(
        "name: x\n{incoming}backends:\n- {{name: a, url: \"{url}\", transport: streamable-http}}\naudit: {{enabled: true{audit}}}\n"
    )
}

const ANONYMOUS: &str = "incomingAuth: {type: anonymous}\n";

/// The events in a file, once there are `count` of them.
fn events(path: &str, count: usize) -> Vec<Value> {
    let patience = Instant::now() + Duration::from_secs(20);
    loop {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let whole = text.lines().filter_map(|line| serde_json::from_str(line).ok());
        let events: Vec<Value> = whole.collect();
        if events.len() >= count {
            return events;
        }
        assert!(Instant::now() < patience, "{count} events expected:\n{text}");
        std::thread::yield_now();
    }
}

fn types(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().unwrap()).collect()
}

#[test]
fn records_caller_operation_and_backend_in_file() {
    let (folder, backend, issuer) = (Folder::new(), McpBackend::stateless(&["x"]), Issuer::start());
    let log = folder.path("audit.log");
    let audit = format!(
        ", logFile: \"{log}\", component: gate, includeRequestData: true, includeResponseData: true, maxDataSize: 60"
    );
    let text_of = config(&backend, &issuer.section(""), &audit);
    let (server, port) = ServerProcess::serve(&folder.write("vmcp.yaml", &text_of), &[]);
    let token = issuer.token("ann", &json!({"name": "Ann"}));
    let bearer = format!("Bearer {token}");
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "a_x",
        "arguments": {"password": "canary"},
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "tests", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        },
    }});
    let headers = [
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", "a_x"),
        ("authorization", &*bearer),
    ];
    let answer = request(port, "POST", "/mcp", &headers, &message.to_string());
    assert_eq!(text(&answer.message()), "done");
    assert_eq!(request(port, "POST", "/mcp", &headers[..5], &message.to_string()).status, 401);
    let events = events(&log, 2);
    let call = &events[0];
    assert_eq!((&call["type"], &call["outcome"]), (&json!("mcp_tool_call"), &json!("success")));
    assert_eq!((&call["component"], &call["target"]["name"]), (&json!("gate"), &json!("a_x")));
    assert_eq!(
        (&call["subjects"]["user"], &call["subjects"]["user_id"]),
        (&json!("Ann"), &json!("ann"))
    );
    assert_eq!(call["source"]["value"], "127.0.0.1");
    assert_eq!(call["metadata"]["extra"]["backend_name"], "a");
    assert!(call["data"]["request"].as_str().unwrap().contains("[cut]"), "{call}");
    assert!(call["data"]["response"].as_str().unwrap().contains("jsonrpc"), "{call}");
    assert_eq!(
        (&events[1]["type"], &events[1]["outcome"]),
        (&json!("http_request"), &json!("denied"))
    );
    let written = std::fs::read_to_string(&log).unwrap();
    assert!(!written.contains("canary") && !written.contains(&token), "{written}");
    let mode =
        std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&log).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    let (code, _) = server.stop();
    assert_eq!(code, Some(0));
}

#[test]
fn records_source_reported_by_trusted_proxies() {
    for (trusted, source) in [("0", "127.0.0.1"), ("1", "198.51.100.2"), ("2", "203.0.113.9")] {
        let (folder, backend) = (Folder::new(), McpBackend::stateless(&["x"]));
        let log = folder.path("audit.log");
        let text = config(&backend, ANONYMOUS, &format!(", logFile: \"{log}\""));
        let path = folder.write("vmcp.yaml", &text);
        let (_server, port) = ServerProcess::serve(&path, &["--trusted-proxies", trusted]);
        let forwarded = [("x-forwarded-for", "192.0.2.1, 203.0.113.9, 198.51.100.2")];
        request(port, "POST", "/mcp", &forwarded, "{}");
        assert_eq!(events(&log, 1)[0]["source"]["value"], source);
    }
}

#[test]
fn wait_mode_delays_responses_until_queue_room() {
    for (what, waits) in [("drop", false), ("wait", true)] {
        let (folder, backend) = (Folder::new(), McpBackend::stateless(&["x"]));
        // Nothing can ever be written there.
        let audit = ", logFile: /dev/full, includeRequestData: true, maxDataSize: 1048576";
        let path = folder.write("vmcp.yaml", &config(&backend, ANONYMOUS, audit));
        let (_server, port) = ServerProcess::serve(&path, &["--audit-overflow", what]);
        // Twice what the queue holds.
        let asking = std::thread::spawn(move || {
            let padding = "x".repeat(1 << 20);
            let message = json!({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {
                "_meta": {"pad": padding},
            }});
            let headers = [
                ("content-type", "application/json"),
                ("accept", "application/json, text/event-stream"),
            ];
            for _ in 0..32 {
                request(port, "POST", "/mcp", &headers, &message.to_string());
            }
        });
        if !waits {
            asking.join().unwrap();
            continue;
        }
        let patience = Instant::now() + Duration::from_secs(30);
        while get(port, "/status")["cache_entries"]["audit_queue_bytes"].as_u64() < Some(16 << 20) {
            assert!(Instant::now() < patience && !asking.is_finished());
            std::thread::yield_now();
        }
        // From now on responses wait for room in the queue; half of the calls are still pending.
        assert!(!asking.is_finished());
    }
}

#[test]
fn records_only_selected_event_types() {
    let (folder, backend) = (Folder::new(), McpBackend::stateless(&["x"]));
    let log = folder.path("audit.log");
    let audit = format!(
        ", logFile: \"{log}\", eventTypes: [mcp_tools_list, mcp_ping], excludeEventTypes: [mcp_tools_list]"
    );
    let path = folder.write("vmcp.yaml", &config(&backend, ANONYMOUS, &audit));
    let (server, port) = ServerProcess::serve(&path, &[]);
    let session = Stateful::open(port);
    session.tools();
    session.ask("ping", &json!({}));
    server.stop();
    assert_eq!(types(&events(&log, 1)), ["mcp_ping"]);
}

#[test]
fn detects_application_errors_unless_disabled() {
    let (folder, backend) = (Folder::new(), McpBackend::stateless(&["x"]));
    for (detect, outcome) in [("true", "application_error"), ("false", "success")] {
        let log = folder.path(detect);
        let audit = format!(
            ", logFile: \"{log}\", eventTypes: [mcp_tool_call], detectApplicationErrors: {detect}"
        );
        let path = folder.write("vmcp.yaml", &config(&backend, ANONYMOUS, &audit));
        let (server, port) = ServerProcess::serve(&path, &[]);
        Stateful::open(port).call("missing", &json!({}));
        server.stop();
        assert_eq!(events(&log, 1)[0]["outcome"], outcome);
    }
}

#[test]
fn reopens_rotated_log_file() {
    let (folder, backend) = (Folder::new(), McpBackend::stateless(&["x"]));
    let log = folder.path("audit.log");
    let audit = format!(", logFile: \"{log}\", eventTypes: [mcp_ping]");
    let path = folder.write("vmcp.yaml", &config(&backend, ANONYMOUS, &audit));
    let (server, port) = ServerProcess::serve(&path, &[]);
    let session = Stateful::open(port);
    session.ask("ping", &json!({}));
    events(&log, 1);
    let old = folder.path("audit.log.1");
    std::fs::rename(&log, &old).unwrap();
    server.signal("HUP");
    server.logs("configuration reloaded");
    session.ask("ping", &json!({}));
    assert_eq!((events(&log, 1).len(), events(&old, 1).len()), (1, 1));
}

#[test]
fn start_fails_for_unwritable_log_file() {
    let folder = Folder::new();
    let missing = folder.path("no/such/folder/audit.log");
    let text_of = format!("name: x\n{ANONYMOUS}audit: {{enabled: true, logFile: \"{missing}\"}}\n");
    let ended = vmcp(&["serve", "--port", "0", "--config", &folder.write("vmcp.yaml", &text_of)]);
    assert_eq!(ended.code, 1);
    assert!(ended.err.contains("audit.logFile: ") && ended.err.contains(&missing), "{ended:?}");
    assert!(!Path::new(&missing).exists());
}

#[test]
fn records_authorization_server_events_in_same_file() {
    let corp = Provider::start("corp", 3600);
    let folder = Folder::new();
    let log = folder.path("audit.log");
    let own = sections(&[&corp], "");
    let text_of = format!("name: x\n{own}audit: {{enabled: true, logFile: \"{log}\"}}\n");
    let (server, port) = ServerProcess::serve(&folder.write("vmcp.yaml", &text_of), &[]);
    let mut client = Client::logged_in(port);
    let first = client.refresh.clone();
    assert_eq!(client.refreshes(), 200);
    assert_eq!(client.refreshes(), 200);
    let form = format!("grant_type=refresh_token&refresh_token={first}&client_id={}", client.id());
    let headers = [("content-type", "application/x-www-form-urlencoded")];
    assert_eq!(request(port, "POST", "/oauth/token", &headers, &form).status, 400);
    request(port, "GET", "/oauth/authorize?client_id=nobody&state=canary", &[], "");
    server.stop();
    let events = events(&log, 11);
    assert_eq!(
        types(&events),
        [
            "vmcp_client_registered",
            "vmcp_login_started",
            "vmcp_consent_given",
            "vmcp_upstream_linked",
            "vmcp_login_completed",
            "vmcp_token_issued",
            "vmcp_token_refreshed",
            "vmcp_token_refreshed",
            "vmcp_token_reused",
            "vmcp_token_refused",
            "vmcp_login_failed",
        ]
    );
    check_login(&events, client.id());
    let written = std::fs::read_to_string(&log).unwrap();
    for secret in [&*first, &client.access, &client.refresh, "canary", "corp-access", "s7ate-s7ate"]
    {
        assert!(!written.contains(secret), "{secret}: {written}");
    }
}

/// Checks the events of a complete login.
fn check_login(events: &[Value], client: &str) {
    let issued = &events[5];
    assert_eq!(issued["component"], "vmcp-auth-server");
    assert_eq!(
        (&issued["outcome"], &issued["subjects"]["user"]),
        (&json!("success"), &json!("Alice"))
    );
    assert!(issued["subjects"]["user_id"].is_string(), "{issued}");
    assert_eq!(
        (&issued["source"]["type"], &issued["source"]["value"]),
        (&json!("network"), &json!("127.0.0.1"))
    );
    let target = &issued["target"];
    assert_eq!(
        (&target["type"], &target["endpoint"], &target["method"]),
        (&json!("client"), &json!("/oauth/token"), &json!("POST"))
    );
    assert_eq!(target["name"], client);
    let extra = &issued["metadata"]["extra"];
    assert!(
        extra["duration_ms"].is_u64() && extra["scope"].as_str().unwrap().contains("tools"),
        "{extra}"
    );
    let session = |at: usize| &events[at]["metadata"]["extra"]["session"];
    assert!((1..9).all(|at| session(at) == session(5)), "{events:?}");
    assert_eq!(events[3]["target"]["name"], "corp");
    assert_eq!(
        (&events[8]["outcome"], &events[9]["outcome"]),
        (&json!("denied"), &json!("failure"))
    );
    let failed = &events[10]["metadata"]["extra"];
    assert_eq!(failed["reason"], "Unknown application");
}

#[test]
fn reloaded_audit_selection_applies_to_logins() {
    let corp = Provider::start("corp", 3600);
    let folder = Folder::new();
    let log = folder.path("audit.log");
    let own = sections(&[&corp], "");
    let with = |audit: &str| format!("name: x\n{own}audit: {{{audit}}}\n");
    let path = folder.write("vmcp.yaml", &with("enabled: false"));
    let (server, port) = ServerProcess::serve(&path, &[]);
    let mut client = Client::logged_in(port);
    let only = format!("enabled: true, logFile: \"{log}\", eventTypes: [vmcp_token_refreshed]");
    folder.write("vmcp.yaml", &with(&only));
    server.logs("configuration reloaded");
    assert_eq!(client.refreshes(), 200);
    client.logs_in();
    server.stop();
    assert_eq!(types(&events(&log, 1)), ["vmcp_token_refreshed"]);
}
