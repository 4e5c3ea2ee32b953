//! Backends whose health is watched.

use std::time::Duration;

use http::StatusCode;
use serde_json::Value;
use tokio::time::Instant;
use vmcp_test_support::McpBackend;
use vmcp_test_support::mcp_backend::Behavior;

use crate::http::{get, request};
use crate::mcp::Stateless;
use crate::program::{Folder, ServerProcess, vmcp};

/// A configuration with the backend `a`.
fn config(keeper: &McpBackend, failures: &str) -> String {
    let url = keeper.url();
    format!(
        "name: x\nincomingAuth: {{type: anonymous}}\nbackends: [{{name: a, url: \"{url}\", \
         transport: streamable-http}}]\noperational: {{failureHandling: {{{failures}}}}}\n"
    )
}

fn checks(interval: &str, timeout: &str, threshold: u32) -> String {
    format!(
        "healthCheckInterval: {interval}, healthCheckTimeout: {timeout}, unhealthyThreshold: {threshold}"
    )
}

fn backend(port: u16) -> Value {
    get(port, "/status")["backends"][0].clone()
}

/// Waits for something that takes its time. With the defaults, bad news takes a minute.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let patience = Instant::now() + Duration::from_secs(20);
    while !is_so() {
        assert!(Instant::now() < patience, "still waiting: {what}");
        std::thread::yield_now();
    }
}

fn until_status(port: u16, status: &str) -> Value {
    let mut found = Value::Null;
    until(status, || {
        found = backend(port);
        found["status"] == status
    });
    found
}

#[test]
fn marks_dead_backend_unavailable_until_recovery() {
    let (folder, mut keeper) = (Folder::new(), McpBackend::stateful(&["x"]));
    let strict = folder.write("strict.yaml", &config(&keeper, &checks("200ms", "150ms", 3)));
    let (server, port) = ServerProcess::serve(&strict, &[]);
    let patient = folder.write("patient.yaml", &config(&keeper, &checks("200ms", "150ms", 1000)));
    let (_patient, patient) = ServerProcess::serve(&patient, &[]);
    until_status(port, "ready");
    until_status(patient, "ready");
    keeper.stop();
    let shown = until_status(port, "unavailable");
    let checks = &shown["checks"];
    assert!(checks["consecutive_failures"].as_u64().unwrap() >= 3, "{shown}");
    assert_eq!(checks["last_error"]["kind"], "unreachable", "{shown}");
    assert_eq!(shown["message"], "is unreachable");
    for time in ["since", "last_check", "next_check"] {
        assert!(checks[time].as_str().unwrap().ends_with('Z'), "{time}: {shown}");
    }
    let health = get(port, "/api/backends/health");
    assert_eq!(
        (&health["monitoring_enabled"], &health["summary"]["unavailable"]),
        (&true.into(), &1.into())
    );
    assert_eq!(health["backends"]["a"]["status"], "unavailable");
    assert_eq!(health["backends"]["a"]["circuit"], Value::Null);
    until("more failures", || {
        backend(patient)["checks"]["consecutive_failures"].as_u64() > Some(4)
    });
    assert_ne!(backend(patient)["status"], "unavailable", "a thousand failures are not there yet");
    keeper.restart();
    let shown = until_status(port, "ready");
    assert_eq!(shown["checks"]["consecutive_failures"], 0);
    assert_eq!(Stateless(port).tools(), ["a_x"]);
    let (_, log) = server.stop();
    let told = |to: &str| log.matches(&format!("\"to\":\"{to}\"")).count();
    // That it was ready at first may have been told before the server listened.
    assert!(told("unavailable") == 1 && (1..=2).contains(&told("ready")), "{log}");
}

#[test]
fn times_out_checks_of_hung_backend() {
    let (folder, keeper) = (Folder::new(), McpBackend::stateful(&["x"]));
    let file = folder.write("vmcp.yaml", &config(&keeper, &checks("1s", "300ms", 2)));
    let (_server, port) = ServerProcess::serve(&file, &[]);
    until_status(port, "ready");
    keeper.set_behavior(Behavior::Hung);
    let shown = until_status(port, "unavailable");
    assert_eq!(shown["checks"]["last_error"]["kind"], "timeout", "{shown}");
    keeper.set_behavior(Behavior::Normal);
    until_status(port, "ready");
}

#[test]
fn reports_backend_with_401_as_unauthenticated() {
    let (folder, keeper) = (Folder::new(), McpBackend::stateful(&["x"]));
    let file = folder.write("vmcp.yaml", &config(&keeper, &checks("200ms", "150ms", 2)));
    let (_server, port) = ServerProcess::serve(&file, &[]);
    until_status(port, "ready");
    keeper.set_behavior(Behavior::Status(StatusCode::UNAUTHORIZED));
    let shown = until_status(port, "unauthenticated");
    assert_eq!(shown["checks"]["last_error"]["kind"], "unauthorized", "{shown}");
    assert_eq!(get(port, "/api/backends/health")["summary"]["unauthenticated"], 1);
}

#[test]
fn makes_fifty_checks_in_one_session() {
    let (folder, keeper) = (Folder::new(), McpBackend::stateful(&["x"]));
    // Shorter than the idle timeout of connections, with a margin for a busy machine.
    let file = folder.write("vmcp.yaml", &config(&keeper, &checks("100ms", "99ms", 1000)));
    let (server, port) = ServerProcess::serve(&file, &[]);
    until_status(port, "ready");
    until("fifty checks", || keeper.count("ping") >= 50);
    // A check that a busy machine gave up takes its connection with it, and can take the session.
    until("one session", || keeper.open_sessions() == 1);
    assert!(keeper.all_sessions() < 10, "{} sessions", keeper.all_sessions());
    assert!(keeper.connections() < 10, "{} connections", keeper.connections());
    server.stop();
    assert_eq!(keeper.open_sessions(), 0, "nothing is left behind");
}

#[test]
fn reloaded_check_interval_keeps_session() {
    let (folder, keeper) = (Folder::new(), McpBackend::stateful(&["x"]));
    let file = folder.write("vmcp.yaml", &config(&keeper, &checks("1h", "10s", 3)));
    let (server, port) = ServerProcess::serve(&file, &[]);
    until_status(port, "ready");
    assert_eq!(keeper.count("ping"), 0);
    folder.write("vmcp.yaml", &config(&keeper, &checks("100ms", "99ms", 1000)));
    server.signal("HUP");
    until("some checks", || keeper.count("ping") > 3);
    until("one session", || keeper.open_sessions() == 1);
}

#[test]
fn rejects_status_reporting_interval_outside_operator() {
    let (folder, keeper) = (Folder::new(), McpBackend::stateful(&["x"]));
    let file = folder.write("vmcp.yaml", &config(&keeper, "statusReportingInterval: 10s"));
    let ended = vmcp(&["serve", "--port", "0", "--config", &file]);
    assert_eq!(ended.code, 1, "{ended:?}");
    let said = "statusReportingInterval: applies only in Kubernetes: name the VirtualMCPServer with --virtual-mcp-server";
    assert!(ended.err.contains(said), "{ended:?}");
}

#[test]
fn becomes_ready_after_first_backend_checks() {
    // It takes requests and does not answer them.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let text = format!(
        "name: x\nincomingAuth: {{type: anonymous}}\n\
         backends: [{{name: a, url: \"http://{}/mcp\", transport: streamable-http}}]\n",
        silent.local_addr().unwrap()
    );
    let folder = Folder::new();
    let (server, port) = ServerProcess::serve(&folder.write("vmcp.yaml", &text), &[]);
    let starting = request(port, "GET", "/readyz", &[], "");
    assert_eq!(starting.status, 503);
    assert_eq!(starting.message()["status"], "starting");
    get(port, "/livez");
    // It breaks the connection: now the state is known.
    drop(silent.accept().unwrap());
    drop(silent);
    server.logs("started");
    let status = get(port, "/status");
    assert!(status["backends"][0]["message"].is_string(), "{status:#}");
    get(port, "/readyz");
}

#[test]
fn health_reflects_partial_failure_mode() {
    let (folder, there) = (Folder::new(), McpBackend::stateless(&["x"]));
    for (mode, healthy) in [("fail", false), ("best_effort", true)] {
        // Nothing listens on port 1.
        let text = format!(
            "name: x\nincomingAuth: {{type: anonymous}}\noperational: {{failureHandling: {{partialFailureMode: {mode}}}}}\n\
             backends:\n- {{name: there, url: \"{}\", transport: streamable-http}}\n\
             - {{name: gone, url: \"http://127.0.0.1:1/mcp\", transport: streamable-http}}\n",
            there.url()
        );
        let (server, port) = ServerProcess::serve(&folder.write("vmcp.yaml", &text), &[]);
        server.logs("started");
        let status = get(port, "/status");
        assert_eq!(status["healthy"], healthy, "{mode}: {status:#}");
        assert_eq!(status["backends"][0]["auth_type"], "none");
        assert!(
            status["backends"][1]["message"].as_str().unwrap().contains("refused"),
            "{status:#}"
        );
        for path in ["/readyz", "/livez"] {
            get(port, path);
        }
    }
}
