//! The log: formats, levels, and a line for what an operator has to know.

use http::StatusCode;
use serde_json::{Value, json};
use vmcp_test_support::McpBackend;
use vmcp_test_support::mcp_backend::Behavior;

use crate::mcp::{Stateful, Stateless};
use crate::program::{Folder, ServerProcess};

fn configuration(backends: &[(&str, &McpBackend)], rest: &str) -> String {
    let one = |(name, backend): &(&str, &McpBackend)| {
        format!("- {{name: {name}, url: \"{}\", transport: streamable-http}}\n", backend.url())
    };
    let backends: String = backends.iter().map(one).collect();
    format!("name: x\nincomingAuth: {{type: anonymous}}\nbackends:\n{backends}{rest}")
}

fn json_line(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
}

#[test]
fn logs_address_and_backends_at_start() {
    let (folder, backend) = (Folder::new(), McpBackend::stateless(&["x", "y"]));
    let gone = "- {name: gone, url: \"http://127.0.0.1:1/mcp\", transport: streamable-http}\n";
    let rest = "operational: {failureHandling: {partialFailureMode: best_effort}}\n";
    let text = configuration(&[("a", &backend)], &format!("{gone}{rest}"));
    let file = folder.write("vmcp.yaml", &text);
    let (server, port) = ServerProcess::serve(&file, &[]);
    let line = json_line(&server.logs("\"started\""));
    assert_eq!(line["endpoint"], format!("http://127.0.0.1:{port}/mcp"));
    assert_eq!(line["configuration"], file);
    assert_eq!(line["backends"], "1 of 2 ready");
    assert_eq!(line["tools"], 2);
    assert_eq!(line["version"], env!("CARGO_PKG_VERSION"));
}

#[test]
fn logs_failed_call_as_one_line() {
    let (folder, backend) = (Folder::new(), McpBackend::stateless(&["x"]));
    let rest = "outgoingAuth: {source: inline, default: {type: header_injection, headerInjection: \
                {headerName: Authorization, headerValue: Bearer canary}}}\n";
    let file = folder.write("vmcp.yaml", &configuration(&[("a", &backend)], rest));
    let (server, port) = ServerProcess::serve(&file, &[]);
    let session = Stateful::open(port);
    session.call("a_x", &json!({}));
    session.call("nothing", &json!({}));
    backend.reject_token("canary");
    let answer = session.call("a_x", &json!({}));
    assert_eq!(answer["error"]["code"], -32603, "{answer}");
    let (_, log) = server.stop();
    assert!(!log.contains("canary"), "{log}");
    let lines: Vec<_> =
        log.lines().filter(|line| line.contains("request failed")).map(json_line).collect();
    assert_eq!(lines.len(), 2, "{log}");
    assert_eq!(
        (&lines[0]["name"], &lines[0]["refused_by"]),
        (&json!("nothing"), &json!("aggregate"))
    );
    assert_eq!((&lines[0]["code"], &lines[0]["level"]), (&json!(-32602), &json!("WARN")));
    assert_eq!((&lines[1]["name"], &lines[1]["refused_by"]), (&json!("a_x"), &json!("backend")));
    assert_eq!((&lines[1]["backend"], &lines[1]["method"]), (&json!("a"), &json!("tools/call")));
    assert!(lines[1]["duration_ms"].is_u64() && lines[1]["error"].is_string(), "{}", lines[1]);
}

#[test]
fn logs_open_circuit_as_one_line() {
    let (folder, backend) = (Folder::new(), McpBackend::stateless(&["x"]));
    let rest = "operational: {failureHandling: {circuitBreaker: {enabled: true, failureThreshold: 2, timeout: 1m}}}\n";
    let file = folder.write("vmcp.yaml", &configuration(&[("a", &backend)], rest));
    let (server, port) = ServerProcess::serve(&file, &[]);
    assert_eq!(Stateless(port).tools(), ["a_x"]);
    backend.set_behavior(Behavior::Status(StatusCode::SERVICE_UNAVAILABLE));
    for _ in 0..4 {
        Stateless(port).ask("tools/call", &json!({"name": "a_x", "arguments": {}}));
    }
    let (_, log) = server.stop();
    let opened: Vec<_> =
        log.lines().filter(|line| line.contains("circuit_changed")).map(json_line).collect();
    assert_eq!(opened.len(), 1, "{log}");
    assert_eq!((&opened[0]["backend"], &opened[0]["to"]), (&json!("a"), &json!("open")));
    assert!(log.contains("\"refused_by\":\"breaker\""), "{log}");
}

#[test]
fn debug_shows_each_request_and_reload_its_changes() {
    let (folder, backend) = (Folder::new(), McpBackend::stateless(&["x"]));
    let file = folder.write("vmcp.yaml", &configuration(&[("a", &backend)], ""));
    let (server, port) = ServerProcess::serve(&file, &[]);
    Stateless(port).tools();
    let debug =
        configuration(&[("a", &backend), ("b", &backend)], "operational: {logLevel: debug}\n");
    folder.write("vmcp.yaml", &debug);
    let line = json_line(&server.logs("configuration reloaded"));
    assert_eq!(line["changes"], "operational, backend b added");
    Stateless(port).tools();
    let line = json_line(&server.logs("\"message\":\"request\""));
    assert_eq!((&line["method"], &line["status"]), (&json!("tools/list"), &json!(200)));
    assert!(line["span"]["request_id"].is_string(), "{line}");
}

#[test]
fn applies_configured_log_format_and_filter() {
    let (folder, backend) = (Folder::new(), McpBackend::stateless(&["x"]));
    let file = folder.write("vmcp.yaml", &configuration(&[("a", &backend)], ""));
    let (server, _) = ServerProcess::serve(&file, &["--log-format", "text"]);
    let line = server.logs("started");
    assert!(!line.starts_with('{') && !line.contains('\u{1b}') && line.contains("INFO"), "{line}");
    let debug = [("RUST_LOG", "info,vmcp=debug")];
    let (server, port) = ServerProcess::serve_with(&file, &[], &debug);
    Stateless(port).tools();
    server.logs("\"request\"");
}
