//! Effects of the configuration's keys.

use http::Method;
use serde_json::json;
use vmcp_test_support::McpBackend;

use crate::http::{get, request};
use crate::mcp::{Stateful, Stateless, text};
use crate::program::{Folder, ServerProcess, vmcp};

const ANONYMOUS: &str = "name: x\nincomingAuth: {type: anonymous}\n";

/// Each setting of a replica of a VirtualMCPServer, and the path under which other servers refuse it.
const REFUSED: [(&str, &str); 2] = [
    ("outgoingAuth: {source: discovered}", "outgoingAuth.source"),
    (
        "operational: {failureHandling: {statusReportingInterval: 31s}}",
        "operational.failureHandling.statusReportingInterval",
    ),
];

#[test]
fn serve_rejects_settings_of_kubernetes() {
    let folder = Folder::new();
    for (section, path) in REFUSED {
        let file = folder.write("vmcp.yaml", &format!("{ANONYMOUS}{section}\n"));
        let ended = vmcp(&["serve", "--port", "0", "--config", &file]);
        assert_eq!(ended.code, 1, "{section}: {ended:?}");
        let refusal = format!("\n{path}: applies only in Kubernetes: ");
        assert!(ended.err.contains(&refusal), "{section}: {ended:?}");
        assert!(ended.err.contains("--virtual-mcp-server"), "{section}: {ended:?}");
        assert!(!ended.err.contains("hunter2"), "{ended:?}");
    }
}

#[test]
fn serve_refuses_redis_without_seal_key() {
    let folder = Folder::new();
    let section = "sessionStorage: {provider: redis, address: \"127.0.0.1:1\"}";
    let file = folder.write("vmcp.yaml", &format!("{ANONYMOUS}{section}\n"));
    let ended = vmcp(&["serve", "--port", "0", "--config", &file]);
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(ended.err.contains("sessionStorage.provider: redis needs --seal-key"), "{ended:?}");
    let key = folder.write("key", &"5a".repeat(32));
    // Redis may come back.
    let (_server, port) = ServerProcess::serve(&file, &["--seal-key", &key]);
    let storage = get(port, "/status")["session_storage"].clone();
    assert_eq!(storage["provider"], "redis");
    assert_eq!(storage["sessions"]["status"], "unavailable");
}

#[test]
fn anonymous_clients_are_served() {
    let folder = Folder::new();
    let backend = McpBackend::stateless(&["x"]);
    let file = folder.write("vmcp.yaml", &with(&backend, ""));
    let (_server, port) = ServerProcess::serve(&file, &[]);
    assert_eq!(Stateful::open(port).tools(), ["a_x"]);
    assert_eq!(Stateless(port).tools(), ["a_x"]);
}

#[test]
fn sends_no_credentials_to_backends() {
    let folder = Folder::new();
    let backend = McpBackend::stateless(&["x"]);
    let outgoing = "outgoingAuth: {source: inline, default: {type: unauthenticated}, \
                    backends: {a: {type: unauthenticated}}}\n";
    let file = folder.write("vmcp.yaml", &with(&backend, outgoing));
    let (_server, port) = ServerProcess::serve(&file, &[]);
    let session = Stateful::open(port);
    assert_eq!(text(&session.call("a_x", &json!({}))), "done");
    let headers = [
        ("authorization", "Bearer hunter2"),
        ("cookie", "hunter2=1"),
        ("x-api-key", "hunter2"),
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", "a_x"),
    ];
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "a_x",
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "tests", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        },
    }});
    let answer = request(port, "POST", "/mcp", &headers, &message.to_string());
    assert_eq!(text(&answer.message()), "done");
    assert!(backend.count("tools/call") >= 2);
    for request in backend.requests() {
        let text = request.text();
        assert!(!text.contains("hunter2") && !text.contains("authorization"), "{text}");
    }
}

#[test]
fn uses_configured_backend_transport() {
    let folder = Folder::new();
    for (transport, method) in [("sse", Method::GET), ("streamable-http", Method::POST)] {
        let backend = McpBackend::stateless(&["x"]);
        let url = backend.url();
        let text =
            format!("{ANONYMOUS}backends: [{{name: a, url: \"{url}\", transport: {transport}}}]\n");
        vmcp(&["validate", "--connect", "--config", &folder.write("vmcp.yaml", &text)]);
        let first = &backend.requests()[0];
        assert_eq!((&first.method, &*first.path), (&method, "/mcp"));
    }
}

#[test]
fn entry_reaches_own_machine_unless_restricted() {
    let folder = Folder::new();
    for (more, is_reached) in [
        ("type: entry", true),
        ("type: entry, allowPrivateEndpoint: true", false),
        ("type: entry, allowPrivateEndpoint: false", false),
    ] {
        let backend = McpBackend::stateless(&["x"]);
        let url = backend.url().replace("127.0.0.1", "localhost");
        let text = format!(
            "{ANONYMOUS}backends: [{{name: a, url: \"{url}\", transport: streamable-http, {more}}}]\n"
        );
        vmcp(&["validate", "--connect", "--config", &folder.write("vmcp.yaml", &text)]);
        assert_eq!(!backend.requests().is_empty(), is_reached, "{more}");
    }
}

#[test]
fn partial_failure_mode_decides_incomplete_lists() {
    let folder = Folder::new();
    let backend = McpBackend::stateless(&["x"]);
    for mode in ["fail", "best_effort"] {
        let more = "- {name: gone, url: \"http://127.0.0.1:1/mcp\", transport: streamable-http}\n";
        let text = with(&backend, "")
            + more
            + "operational: {failureHandling: {partialFailureMode: "
            + mode
            + "}}\n";
        let (server, port) = ServerProcess::serve(&folder.write("vmcp.yaml", &text), &[]);
        server.logs("\"started\"");
        let listed = Stateful::open(port).ask("tools/list", &json!({}));
        match mode {
            "fail" => {
                let message = listed["error"]["message"].as_str().unwrap();
                assert!(message.contains("gone") && message.contains("fail"), "{message}");
            }
            _ => assert_eq!(listed["result"]["tools"][0]["name"], "a_x"),
        }
    }
}

#[test]
fn logs_debug_events_only_when_configured() {
    let folder = Folder::new();
    for (operational, wanted) in [("", false), ("operational: {logLevel: debug}\n", true)] {
        let file = folder.write("vmcp.yaml", &format!("{ANONYMOUS}{operational}"));
        let (server, port) = ServerProcess::serve(&file, &[]);
        // A connection that breaks is a detail.
        let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
        std::io::Write::write_all(&mut stream, b"no HTTP\r\n\r\n").unwrap();
        std::io::Read::read_to_end(&mut stream, &mut Vec::new()).unwrap();
        let (_, log) = server.stop();
        assert_eq!(log.contains("\"DEBUG\""), wanted, "{log}");
    }
}

#[test]
fn status_and_inspect_show_names_metadata_and_types() {
    let folder = Folder::new();
    let backend = McpBackend::stateless(&["x"]);
    let url = backend.url();
    let file = folder.write(
        "vmcp.yaml",
        &format!(
            "{ANONYMOUS}groupRef: team\nmetadata: {{owner: platform}}\nbackends:\n\
             - {{name: a, url: \"{url}?key=hunter2\", transport: streamable-http, type: entry, \
             metadata: {{tier: gold, group: other}}}}\n"
        ),
    );
    let (server, port) = ServerProcess::serve(&file, &[]);
    server.logs("\"started\"");
    let status = get(port, "/status");
    let inspected = vmcp(&["inspect", "-c", &file, "-o", "json"]);
    let inspected: serde_json::Value = serde_json::from_str(&inspected.out).unwrap();
    assert_eq!((&status["group_ref"], &inspected["group"]), (&json!("team"), &json!("team")));
    for shown in [status, inspected] {
        assert_eq!(shown["name"], "x");
        assert_eq!(shown["metadata"], json!({"owner": "platform"}));
        let backend = &shown["backends"][0];
        assert_eq!(backend["name"], "a");
        assert_eq!(backend["type"], "entry");
        assert_eq!(backend["status"], "ready");
        assert_eq!(backend["metadata"], json!({"tier": "gold", "group": "team"}));
        assert_eq!(backend["url"], url);
        assert!(!shown.to_string().contains("hunter2"));
    }
}

/// A configuration with one backend, `a`.
fn with(backend: &McpBackend, more: &str) -> String {
    let url = backend.url();
    format!(
        "{ANONYMOUS}{more}backends:\n- {{name: a, url: \"{url}\", transport: streamable-http}}\n"
    )
}
