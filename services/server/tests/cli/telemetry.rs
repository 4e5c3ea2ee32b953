//! What is measured and traced.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};

use serde_json::json;
use tokio::time::Duration;

use crate::backend::Backend;
use crate::http::request;
use crate::mcp::{Stateless, text};
use crate::program::{Folder, Running, vmcp, vmcp_with};

fn config(backend: &Backend, telemetry: &str) -> String {
    let url = backend.url();
    format!(
        "name: x\nincomingAuth: {{type: anonymous}}\nbackends:\n- {{name: a, url: \"{url}\", transport: streamable-http}}\n\
         telemetry: {{{telemetry}}}\n"
    )
}

/// The heads, in lower case, and bodies of what a collector is sent.
fn collector() -> (String, Receiver<(String, Vec<u8>)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (sender, received) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let sender = sender.clone();
            std::thread::spawn(move || {
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                let mut stream = stream;
                loop {
                    let mut head = String::new();
                    while !head.ends_with("\r\n\r\n") {
                        if reader.read_line(&mut head).unwrap_or(0) == 0 {
                            return;
                        }
                    }
                    let head = head.to_ascii_lowercase();
                    let (_, rest) = head.split_once("content-length: ").unwrap();
                    let length = rest.split_once('\r').unwrap().0.parse().unwrap();
                    let mut body = vec![0; length];
                    reader.read_exact(&mut body).unwrap();
                    write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").unwrap();
                    _ = sender.send((head, body));
                }
            });
        }
    });
    (url, received)
}

fn metrics(port: u16) -> String {
    let mut body = String::new();
    let answer = request(port, "GET", "/metrics", &[], "");
    assert_eq!(answer.status, 200);
    answer.read(&mut body);
    body
}

#[test]
fn metrics_are_shown_only_where_that_is_asked_for() {
    let (folder, backend) = (Folder::new(), Backend::start(&["x"]));
    let shown = folder.write("vmcp.yaml", &config(&backend, "enablePrometheusMetricsPath: true"));
    let (_server, port) = Running::serve(&shown, &[]);
    assert_eq!(text(&Stateless(port).call("a_x", &json!({}))), "done");
    let found = metrics(port);
    for part in [
        "vmcp_mcp_requests_total",
        "a_x",
        "vmcp_connections",
        "vmcp_backend_requests_total",
        // As the dashboard and the alerts ask for it.
        r#"vmcp_backend_healthy{vmcp_backend_name="a"} 1"#,
        "vmcp_backend_connections 1",
    ] {
        assert!(found.contains(part), "{part}:\n{found}");
    }
    let hidden = folder.write("vmcp.yaml", &config(&backend, "serviceName: y"));
    let (_server, port) = Running::serve(&hidden, &[]);
    assert_eq!(request(port, "GET", "/metrics", &[], "").status, 404);
}

#[test]
fn traces_and_metrics_reach_the_collector_with_everything_that_they_are_to_carry() {
    let (folder, backend, (url, received)) = (Folder::new(), Backend::start(&["x"]), collector());
    let telemetry = format!(
        "endpoint: \"{url}\", insecure: true, headers: {{X-Key: canary}}, tracingEnabled: true, samplingRate: \"1.0\", \
         metricsEnabled: true, serviceName: gate, serviceVersion: \"7\", customAttributes: {{room: cellar}}, \
         environmentVariables: [STAGE], useLegacyAttributes: true"
    );
    let path = folder.write("vmcp.yaml", &config(&backend, &telemetry));
    let (server, port) = Running::serve_with(&path, &[], &[("STAGE", "prod-7")]);
    assert_eq!(text(&Stateless(port).call("a_x", &json!({}))), "done");
    let (code, log) = server.stop();
    assert_eq!(code, Some(0), "{log}");
    let (mut traces, mut metrics) = (String::new(), String::new());
    while let Ok((head, body)) = received.recv_timeout(Duration::from_millis(200)) {
        assert!(head.contains("x-key: canary\r\n"), "{head}");
        let to = if head.starts_with("post /v1/traces ") { &mut traces } else { &mut metrics };
        to.push_str(&String::from_utf8_lossy(&body));
    }
    for part in ["tools/call a_x", "gate", "cellar", "prod-7", "mcp.method.name", "mcp.tool.name"] {
        assert!(traces.contains(part), "{part} in {traces:?}");
    }
    assert!(metrics.contains("mcp.server.operation.duration") && metrics.contains("gate"));
    assert!(backend.heads().iter().any(|head| head.contains("traceparent: 00-")));
    assert!(!log.contains("canary"), "{log}");
}

#[test]
fn without_tracing_there_is_nothing_to_send_and_no_older_names_where_they_are_switched_off() {
    let (folder, backend, (url, received)) = (Folder::new(), Backend::start(&["x"]), collector());
    let telemetry = format!(
        "endpoint: \"{url}\", insecure: true, metricsEnabled: true, useLegacyAttributes: false"
    );
    let path = folder.write("vmcp.yaml", &config(&backend, &telemetry));
    let (server, port) = Running::serve(&path, &[]);
    assert_eq!(text(&Stateless(port).call("a_x", &json!({}))), "done");
    server.stop();
    let heads: Vec<String> =
        std::iter::from_fn(|| received.recv_timeout(Duration::from_millis(200)).ok())
            .map(|(head, _)| head)
            .collect();
    assert!(!heads.is_empty() && heads.iter().all(|head| head.starts_with("post /v1/metrics ")));
}

#[test]
fn a_section_that_cannot_work_is_refused_with_what_to_change() {
    let (folder, backend) = (Folder::new(), Backend::start(&["x"]));
    for (telemetry, path, says) in [
        ("tracingEnabled: true", "telemetry.endpoint", "is missing"),
        (
            "metricsEnabled: true, endpoint: \"http://otel:4318\"",
            "telemetry.endpoint",
            "insecure: true",
        ),
        (
            "metricsEnabled: true, endpoint: \"otel:4318\", caCertPath: /no/ca.pem",
            "telemetry.caCertPath",
            "PEM",
        ),
        (
            "metricsEnabled: true, endpoint: \"otel:4318\", headers: {X-A: \"hunter2\\n\"}",
            "telemetry.headers",
            "cannot be sent",
        ),
    ] {
        let file = folder.write("vmcp.yaml", &config(&backend, telemetry));
        let ended = vmcp(&["validate", "--config", &file]);
        assert_eq!(ended.code, 1, "{telemetry}: {ended:?}");
        assert!(ended.err.contains(path) && ended.err.contains(says), "{telemetry}: {ended:?}");
        assert!(!ended.err.contains("hunter2"), "{ended:?}");
    }
    let file = folder
        .write("vmcp.yaml", &config(&backend, "metricsEnabled: true, endpoint: \"otel:4317\""));
    let ended =
        vmcp_with(&["validate", "--config", &file], &[("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")]);
    assert!(ended.code == 1 && ended.err.contains("http/protobuf"), "{ended:?}");
}

#[test]
fn a_changed_section_waits_for_a_restart_and_says_so() {
    let (folder, backend) = (Folder::new(), Backend::start(&["x"]));
    let path = folder.write("vmcp.yaml", &config(&backend, "enablePrometheusMetricsPath: true"));
    let (server, port) = Running::serve(&path, &[]);
    folder.write("vmcp.yaml", &config(&backend, "enablePrometheusMetricsPath: false"));
    server.signal("HUP");
    server.logs("at a restart only");
    assert_eq!(request(port, "GET", "/metrics", &[], "").status, 200);
}
