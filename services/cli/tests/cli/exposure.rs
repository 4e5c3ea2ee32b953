//! Which machines and host names are served.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use serde_json::json;
use vmcp_test_support::McpBackend;

use crate::http::request;
use crate::issuer::Issuer;
use crate::mcp::{Stateful, text as text_of};
use crate::program::{CommandOutput, Folder, ServerProcess, vmcp, while_default_is_taken};

fn serve(kind: &str, arguments: &[&str]) -> CommandOutput {
    let folder = Folder::new();
    let file = folder.write("vmcp.yaml", &format!("name: x\nincomingAuth: {{type: {kind}}}\n"));
    vmcp(&[&["serve", "--port", "0", "--host", "0.0.0.0", "-c", &file][..], arguments].concat())
}

#[test]
fn local_mode_rejects_network_bind() {
    for arguments in [&[][..], &["--allow-anonymous-network"]] {
        let ended = serve("local", arguments);
        assert_eq!(ended.code, 1, "{ended:?}");
        assert!(
            ended.err.contains("other machines would act as the user of this one"),
            "{ended:?}"
        );
    }
}

#[test]
fn anonymous_network_bind_requires_flag() {
    let ended = serve("anonymous", &[]);
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(ended.err.contains("--allow-anonymous-network"), "{ended:?}");
    let folder = Folder::new();
    let file = folder.write("vmcp.yaml", "name: x\nincomingAuth: {type: anonymous}\n");
    let fixed = ["serve", "--port", "0", "--host", "0.0.0.0", "-c", &file];
    let server = ServerProcess::start(&[&fixed[..], &["--allow-anonymous-network"]].concat());
    server.logs("http://0.0.0.0:");
}

#[test]
fn reload_rejects_local_user_on_network_bind() {
    let (folder, issuer) = (Folder::new(), Issuer::start());
    let file = folder.write("vmcp.yaml", &format!("name: x\n{}", issuer.section("")));
    let server = ServerProcess::start(&["serve", "--port", "0", "--host", "0.0.0.0", "-c", &file]);
    server.logs("http://0.0.0.0:");
    folder.write("vmcp.yaml", "name: x\nincomingAuth: {type: local}\n");
    server.logs("other machines would act as the user of this one");
}

/// The status of the answer to a client that knows the server by this name.
fn status(port: u16, host: &str) -> u16 {
    status_at(port, "/status", host)
}

fn status_at(port: u16, path: &str, host: &str) -> u16 {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    line.split(' ').nth(1).unwrap().parse().unwrap()
}

#[test]
fn accepts_resource_host_without_flag() {
    let (folder, issuer) = (Folder::new(), Issuer::start());
    let section = |resource: &str| {
        let section = issuer.section(&format!(", resource: \"https://{resource}/mcp\""));
        format!("name: x\n{section}")
    };
    let file = folder.write("vmcp.yaml", &section("mcp.example.com"));
    let (server, port) = ServerProcess::serve(&file, &[]);
    for (host, expected) in
        [("mcp.example.com", 200), ("mcp.example.com:443", 200), ("evil.example.com", 403)]
    {
        assert_eq!(status(port, host), expected, "{host}");
    }
    folder.write("vmcp.yaml", &section("tools.example.com"));
    server.logs("configuration reloaded");
    for (host, expected) in [("tools.example.com", 200), ("mcp.example.com", 403)] {
        assert_eq!(status(port, host), expected, "{host}");
    }
}

/// The status of an answer at a path.
fn at(port: u16, path: &str, headers: &[(&str, &str)]) -> u16 {
    request(port, "GET", path, headers, "").status
}

#[test]
fn status_on_networks_needs_own_listener_or_token() {
    let folder = Folder::new();
    let text = "name: x\nincomingAuth: {type: anonymous}\ntelemetry: {enablePrometheusMetricsPath: true}\n";
    let file = folder.write("vmcp.yaml", text);
    let network =
        ["--host", "0.0.0.0", "--allow-anonymous-network", "--admin-listen", "127.0.0.1:0"];
    let (server, port) = ServerProcess::serve(&file, &network);
    let line = server.logs("/status is at http://127.0.0.1:");
    let admin: u16 =
        line.split("127.0.0.1:").nth(1).unwrap().split('/').next().unwrap().parse().unwrap();
    for path in ["/status", "/api/backends/health"] {
        assert_eq!((at(port, path, &[]), at(admin, path, &[])), (404, 200), "{path}");
    }
    for path in ["/metrics", "/livez"] {
        assert_eq!((at(port, path, &[]), at(admin, path, &[])), (200, 200), "{path}");
    }
    assert_eq!((at(admin, "/mcp", &[]), at(admin, "/", &[])), (404, 404));
    // A name that was made to lead to loopback (DNS rebinding).
    for path in ["/status", "/api/backends/health", "/metrics"] {
        assert_eq!(status_at(admin, path, "evil.example.com"), 403, "{path}");
    }
    server.stop();
    // With a token, the main port shows them to those who have it.
    let token = folder.write("token", "0123456789abcdef0123\n");
    let with_token = [&network[..], &["--admin-token-file", &token]].concat();
    let (server, port) = ServerProcess::serve(&file, &with_token);
    for path in ["/status", "/api/backends/health", "/metrics"] {
        assert_eq!(at(port, path, &[]), 401, "{path}");
        assert_eq!(at(port, path, &[("Authorization", "Bearer 0123456789abcdef0124")]), 401);
        assert_eq!(at(port, path, &[("Authorization", "Bearer 0123456789abcdef0123")]), 200);
    }
    let (_, log) = server.stop();
    assert!(!log.contains("0123456789abcdef"), "{log}");
    folder.write("token", "short");
    assert_eq!(serve("anonymous", &["--admin-token-file", &token]).code, 2);
}

#[test]
fn start_fails_for_occupied_administration_address() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let asked = ["--admin-listen", &address.to_string()];
    for arguments in [&[][..], &["--allow-anonymous-network"]] {
        let folder = Folder::new();
        let file = folder.write("vmcp.yaml", "name: x\nincomingAuth: {type: anonymous}\n");
        let host = if arguments.is_empty() { "127.0.0.1" } else { "0.0.0.0" };
        let fixed = ["serve", "--port", "0", "--host", host, "-c", &file];
        let ended = vmcp(&[&fixed[..], &asked, arguments].concat());
        assert_eq!(ended.code, 1, "{ended:?}");
        let says = format!("port {} is in use: choose another with --admin-listen", address.port());
        assert!(ended.err.contains(&says), "{ended:?}");
    }
}

#[test]
fn serves_without_taken_default_of_administration() {
    let folder = Folder::new();
    let file = folder.write("vmcp.yaml", "name: x\nincomingAuth: {type: anonymous}\n");
    let network = ["--host", "0.0.0.0", "--allow-anonymous-network"];
    while_default_is_taken(|| {
        let fixed = ["serve", "--port", "0", "-c", &file];
        let server = ServerProcess::start(&[&fixed[..], &network].concat());
        // The warning, or where /status is.
        let line = server.logs("127.0.0.1:4484");
        line.contains("choose another address with --admin-listen")
            && !server.logs("listening on http://0.0.0.0:").is_empty()
    });
}

#[test]
fn hides_metrics_from_foreign_host_names() {
    let folder = Folder::new();
    let text = "name: x\nincomingAuth: {type: anonymous}\ntelemetry: {enablePrometheusMetricsPath: true}\n";
    let (_server, port) = ServerProcess::serve(&folder.write("vmcp.yaml", text), &[]);
    for (path, host, expected) in [
        ("/metrics", "evil.test", 403),
        ("/metrics", "10.0.0.7:9090", 200),
        ("/metrics", "localhost", 200),
        ("/status", "evil.test", 403),
        ("/api/backends/health", "evil.test", 403),
        ("/", "evil.test", 403),
        ("/livez", "10-0-0-7.pod.test", 200),
    ] {
        assert_eq!(status_at(port, path, host), expected, "{path} {host}");
    }
}

/// Policies that let everybody use everything.
const POLICIES: &str =
    ", authz: {type: cedar, policies: [\"permit(principal, action, resource);\"]}";

/// A configuration with `/metrics` and these policies.
fn measured(backend: &McpBackend, authz: &str) -> String {
    format!(
        "name: x\nincomingAuth: {{type: anonymous{authz}}}\ntelemetry: {{enablePrometheusMetricsPath: true}}\n\
         backends: [{{name: a, url: \"{}\", transport: streamable-http}}]\n",
        backend.url()
    )
}

#[test]
fn metrics_name_no_tools_that_policies_may_hide() {
    let (folder, backend) = (Folder::new(), McpBackend::stateless(&["secret"]));
    let token = folder.write("token", "0123456789abcdef0123");
    let text = |authz: &str| measured(&backend, authz);
    for (authz, arguments, shown) in [
        ("", &[][..], true),
        (POLICIES, &[], false),
        (POLICIES, &["--admin-token-file", &token], true),
    ] {
        let (_server, port) =
            ServerProcess::serve(&folder.write("vmcp.yaml", &text(authz)), arguments);
        assert_eq!(text_of(&Stateful::open(port).call("a_secret", &json!({}))), "done");
        let bearer = [("Authorization", "Bearer 0123456789abcdef0123")];
        let mut metrics = String::new();
        request(port, "GET", "/metrics", &bearer, "").read(&mut metrics);
        assert!(metrics.contains("tools/call"), "{metrics}");
        assert_eq!(metrics.contains("secret"), shown, "{authz} {arguments:?}: {metrics}");
    }
}

#[test]
fn metrics_drop_names_once_policies_may_hide_tools() {
    let (folder, backend) = (Folder::new(), McpBackend::stateless(&["secret"]));
    let file = folder.write("vmcp.yaml", &measured(&backend, ""));
    let (server, port) = ServerProcess::serve(&file, &[]);
    let metrics = || {
        assert_eq!(text_of(&Stateful::open(port).call("a_secret", &json!({}))), "done");
        let mut metrics = String::new();
        request(port, "GET", "/metrics", &[], "").read(&mut metrics);
        metrics
    };
    let before = metrics();
    assert!(before.contains("secret"), "{before}");
    folder.write("vmcp.yaml", &measured(&backend, POLICIES));
    server.logs("configuration reloaded");
    let after = metrics();
    assert!(!after.contains("secret") && after.contains("_OTHER"), "{after}");
    // Nor does the name come back without policies, with what was recorded of it.
    folder.write("vmcp.yaml", &measured(&backend, ""));
    server.logs("configuration reloaded");
    let after = metrics();
    assert!(!after.contains("secret"), "{after}");
}
