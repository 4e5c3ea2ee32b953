//! Reports of real servers in the status of their VirtualMCPServer, with the role that the operator plans for them.

use std::time::Duration;

use http::StatusCode;
use serde_json::{Value, json};
use tokio::time::Instant;
use vmcp_api::conversion::{SecretSource, SourceKind};
use vmcp_kube_fixture::{Fault, FaultRule};
use vmcp_test_support::McpBackend;
use vmcp_test_support::mcp_backend::Behavior;

use super::cluster::Kubernetes;
use super::pod::Pod;
use super::session::Session;
use super::{anonymous, server};

/// Address where nothing listens.
const CLOSED: &str = "http://127.0.0.1:1/mcp";

/// Checks and reports every second.
pub(super) const FAST: &str = "healthCheckInterval: 1s, healthCheckTimeout: 900ms, unhealthyThreshold: 2, partialFailureMode: best_effort, statusReportingInterval: 1s";

/// Reports every second. Checks do not happen within a test.
const UNCHECKED: &str = "healthCheckInterval: 10h, healthCheckTimeout: 1h, unhealthyThreshold: 1, partialFailureMode: best_effort, statusReportingInterval: 1s";

/// Returns a member of the group with its address.
pub(super) fn member(name: &str, url: &str) -> String {
    format!(
        "---\napiVersion: vmcp.dev/v1beta1\nkind: MCPServer\nmetadata: {{name: {name}, namespace: team}}\nspec: {{image: i, transport: streamable-http, groupRef: {{name: tools}}}}\nstatus: {{url: '{url}', phase: Ready}}\n"
    )
}

/// Returns credentials of a header.
fn header_injection(name: &str) -> String {
    format!(
        "---\napiVersion: vmcp.dev/v1beta1\nkind: MCPExternalAuthConfig\nmetadata: {{name: {name}, namespace: team}}\nspec: {{type: headerInjection, headerInjection: {{headerName: X-Key, valueSecretRef: {{name: keys, key: a}}}}}}\n"
    )
}

/// Returns a server with handling of failures.
pub(super) fn handling(failures: &str) -> String {
    anonymous(&format!("  config: {{operational: {{failureHandling: {{{failures}}}}}}}\n"))
}

/// Waits until the status says this about a backend, apart from times.
async fn wait_backend(cluster: &Kubernetes, pod: &Pod, expected: &Value) {
    let name = expected["name"].as_str().unwrap();
    let shown = || {
        let mut shown = cluster.backend(name);
        if let Some(fields) = shown.as_object_mut() {
            fields.remove("lastHealthCheck");
            fields.remove("circuitLastChanged");
        }
        shown
    };
    let is_so = || {
        let (mut shown, mut expected) = (shown(), expected.clone());
        // Failures of a backend that is away become more.
        if expected["consecutiveFailures"] == "some" {
            let failures = shown["consecutiveFailures"].take();
            let count = format!("(failed checks: {failures})");
            let message = expected["message"].as_str().unwrap().replace("(count)", &count);
            expected["message"] = message.into();
            expected["consecutiveFailures"] = Value::Null;
            return shown == expected && failures.as_u64().unwrap_or_default() >= 2;
        }
        shown == expected
    };
    pod.until_or(async || is_so(), || format!("{expected:#}\n{:#}", cluster.status())).await;
}

#[tokio::test]
async fn static_server_reports_each_field() {
    let [ready, rejecting, unlisted] = [["x"], ["y"], ["z"]].map(|it| McpBackend::stateless(&it));
    rejecting.set_behavior(Behavior::Status(StatusCode::UNAUTHORIZED));
    unlisted.on("tools/list", |request| _ = request.fail(-32603, "canary"));
    let members = [
        ("away", CLOSED.to_owned()),
        ("ready", ready.url()),
        ("rejecting", rejecting.url()),
        ("unlisted", unlisted.url()),
    ];
    let members = members.map(|(name, url)| member(name, &url)).concat();
    let circuit = "circuitBreaker: {enabled: true, failureThreshold: 3, timeout: 1s}";
    let reference = "{type: externalAuthConfigRef, externalAuthConfigRef: {name: github}}";
    let spec = format!(
        "  outgoingAuth: {{source: inline, backends: {{ready: {reference}}}}}\n  incomingAuth: {{type: anonymous}}\n  config: {{operational: {{failureHandling: {{{FAST}, {circuit}}}}}}}\n"
    );
    let manifests = format!("{}{members}{}", server(&spec), header_injection("github"));
    let cluster = Kubernetes::new("reports-static", &manifests).await;
    let pod = cluster.pod();
    pod.until_ready().await;
    let base = |name: &str, url: &str, status: &str, message: &str| {
        json!({
            "name": name, "url": url, "status": status, "message": message,
            "authType": "unauthenticated", "circuitBreakerState": "closed", "consecutiveFailures": 0,
        })
    };
    let mut expected = base("ready", &ready.url(), "ready", "Healthy");
    expected["authType"] = "header_injection".into();
    expected["authConfigRef"] = "github".into();
    wait_backend(&cluster, &pod, &expected).await;
    assert!(cluster.backend("ready")["circuitLastChanged"].is_null(), "never changed");
    let message = "Circuit breaker OPEN - Connection failed (count)";
    let mut expected = base("away", CLOSED, "unavailable", message);
    expected["circuitBreakerState"] = "open".into();
    expected["consecutiveFailures"] = "some".into();
    wait_backend(&cluster, &pod, &expected).await;
    let away = cluster.backend("away");
    for field in ["lastHealthCheck", "circuitLastChanged"] {
        let time: jiff::Timestamp = away[field].as_str().unwrap().parse().unwrap();
        assert!(time.duration_until(jiff::Timestamp::now()).as_secs() < 120, "{away}");
    }
    let message = "Authentication failed (count)";
    let mut expected = base("rejecting", &rejecting.url(), "unauthenticated", message);
    expected["consecutiveFailures"] = "some".into();
    wait_backend(&cluster, &pod, &expected).await;
    let expected = base("unlisted", &unlisted.url(), "degraded", "Failed to list tools");
    wait_backend(&cluster, &pod, &expected).await;
    let status = cluster.status();
    assert_eq!(status["backendCount"], 2, "ready and unauthenticated: {status:#}");
    assert_eq!(status["discoveredBackends"].as_array().unwrap().len(), 4);
    let condition = |type_: &str| {
        let found = cluster.condition(type_);
        [&found["status"], &found["reason"]].map(|text| text.as_str().unwrap_or("-").to_owned())
    };
    assert_eq!(condition("BackendsReady"), ["False", "SomeBackendsUnhealthy"]);
    assert_eq!(condition("BackendsDiscovered"), ["True", "BackendsDiscovered"]);
    assert_eq!(condition("Degraded"), ["True", "BackendsDegraded"]);
    assert!(!status.to_string().contains("canary"), "{status:#}");
    pod.stop().await;
    assert_eq!(cluster.holder(), "", "given up");
    cluster.check_least_role();
}

#[tokio::test]
async fn trial_and_missing_check_are_reported() {
    let [tried, hung] = [["x"], ["y"]].map(|tools| McpBackend::stateless(&tools));
    hung.set_behavior(Behavior::Hung);
    let circuit = "circuitBreaker: {enabled: true, failureThreshold: 1, timeout: 1s}";
    let manifests = handling(&format!("{UNCHECKED}, {circuit}"))
        + &member("tried", &tried.url())
        + &member("hung", &hung.url());
    let cluster = Kubernetes::new("reports-trial", &manifests).await;
    let pod = cluster.pod();
    pod.until_ready().await;
    let shows = async |name: &str, state: &str, message: &str| {
        let is_so = || {
            let backend = cluster.backend(name);
            let shown = backend["message"].as_str().unwrap_or_default();
            backend["circuitBreakerState"] == state && shown.starts_with(message)
        };
        pod.until_or(async || is_so(), || format!("{state}\n{:#}", cluster.status())).await;
    };
    shows("hung", "closed", "Not checked yet").await;
    let hung = cluster.backend("hung");
    assert_eq!(hung["status"], "unknown");
    assert!(hung["lastHealthCheck"].is_null() && hung["circuitLastChanged"].is_null(), "{hung}");
    shows("tried", "closed", "Healthy").await;
    let session = Session::open(&pod).await;
    tried.set_behavior(Behavior::Status(StatusCode::SERVICE_UNAVAILABLE));
    session.try_call("tried_x").await;
    shows("tried", "open", "Circuit breaker OPEN - ").await;
    tried.set_behavior(Behavior::Hung);
    // The circuit admits one request for a trial after a second.
    let trial = async {
        loop {
            session.try_call("tried_x").await;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::select! {
        () = trial => {}
        () = shows("tried", "half-open", "Circuit breaker testing recovery - ") => {}
    }
    assert!(cluster.backend("tried")["circuitLastChanged"].is_string());
}

#[tokio::test]
async fn discovered_server_reports_members() {
    let backend = McpBackend::stateless(&["x"]);
    let spec = format!(
        "  outgoingAuth: {{source: discovered}}\n  incomingAuth: {{type: anonymous}}\n  config: {{operational: {{failureHandling: {{{FAST}}}}}}}\n"
    );
    let manifests = server(&spec) + &header_injection("github");
    let cluster = Kubernetes::new("reports-discovered", &manifests).await;
    let reference = json!({"externalAuthConfigRef": {"name": "github"}});
    cluster.member_with("MCPServer", "a", &backend.url(), &reference);
    cluster.member("MCPServer", "b", &backend.url());
    let pod = cluster.pod();
    pod.until_ready().await;
    let expected = json!({
        "name": "b", "url": backend.url(), "status": "ready", "message": "Healthy",
        "authType": "unauthenticated", "consecutiveFailures": 0,
    });
    wait_backend(&cluster, &pod, &expected).await;
    let left_out = cluster.backend("a");
    assert_eq!(left_out["status"], "unavailable");
    let message = left_out["message"].as_str().unwrap();
    assert!(message.starts_with("SecretPending: MCPServer: "), "{message}");
    assert_eq!(cluster.status()["backendCount"], 1);
    pod.mount_secret(&SecretSource::new(SourceKind::Secret, "keys", "a"), "canary");
    let expected = json!({
        "name": "a", "url": backend.url(), "status": "ready", "message": "Healthy",
        "authType": "header_injection", "authConfigRef": "github", "consecutiveFailures": 0,
    });
    wait_backend(&cluster, &pod, &expected).await;
    assert_eq!(cluster.status()["backendCount"], 2);
    cluster.delete("MCPServer", "b").await;
    pod.until(async || cluster.backend("b").is_null()).await;
    assert_eq!(cluster.condition("BackendsReady")["reason"], "AllBackendsRoutable");
    assert!(!cluster.status().to_string().contains("canary"));
    pod.stop().await;
    cluster.check_least_role();
}

#[tokio::test]
async fn changed_interval_applies_by_reload() {
    let mut backend = McpBackend::stateless(&["x"]);
    let slow = FAST.replace("statusReportingInterval: 1s", "statusReportingInterval: 10h");
    let manifests = handling(&slow) + &member("x", &backend.url());
    let cluster = Kubernetes::new("reports-interval", &manifests).await;
    let pod = cluster.pod();
    pod.until_ready().await;
    pod.until(async || cluster.backend("x")["status"] == "ready").await;
    let writes = cluster.status_writes();
    backend.stop();
    pod.until(async || pod.status().await["backends"][0]["status"] == "unavailable").await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(cluster.backend("x")["status"], "ready", "not reported for ten hours");
    assert_eq!(cluster.status_writes(), writes);
    let fast = pod.configuration().replace("10h", "1s");
    assert!(fast.contains("statusReportingInterval: 1s"), "{fast}");
    pod.write_configuration(&fast);
    pod.until(async || cluster.backend("x")["status"] == "unavailable").await;
}

#[tokio::test]
async fn unchanged_status_is_not_written() {
    let backend = McpBackend::stateless(&["x"]);
    let manifests = handling(FAST) + &member("x", &backend.url());
    let cluster = Kubernetes::new("reports-unchanged", &manifests).await;
    let pod = cluster.pod();
    pod.until_ready().await;
    pod.until(async || cluster.backend("x")["status"] == "ready").await;
    let writes = cluster.status_writes();
    let reads = || cluster.server.requests().iter().filter(|it| it.verb == "get").count();
    let before = reads();
    pod.until(async || reads() > before + 5).await;
    // Checks went on, but times of checks alone wait for five minutes.
    assert!(backend.count("server/discover") > 2);
    assert_eq!(cluster.status_writes(), writes);
    let reports = pod.status().await["status_reports"].clone();
    assert_eq!((&reports["leader"], &reports["problem"]), (&json!(true), &Value::Null));
    assert_eq!(reports["written"], writes, "{reports}");
    assert!(reports["last_success"].is_string(), "{reports}");
}

#[tokio::test]
async fn api_server_without_responses_touches_no_traffic() {
    let mut backend = McpBackend::stateless(&["x"]);
    let manifests = handling(FAST) + &member("x", &backend.url());
    let cluster = Kubernetes::new("reports-outage", &manifests).await;
    // Away from the start: the server is ready nevertheless.
    cluster.server.disturb(FaultRule::new(Fault::Refuse));
    let pod = cluster.pod();
    pod.until_ready().await;
    let session = Session::open(&pod).await;
    session.call("x_x").await;
    let problem = async || pod.status().await["status_reports"]["problem"].clone();
    pod.until(async || problem().await.is_string()).await;
    cluster.server.revive();
    pod.until(async || cluster.backend("x")["status"] == "ready").await;
    pod.until(async || problem().await.is_null()).await;
    // Without permission.
    let forbidden = FaultRule::new(Fault::Status(403)).on_resource("virtualmcpservers");
    cluster.server.disturb(forbidden.on_verbs(&["patch"]));
    backend.stop();
    let failed = async || pod.status().await["status_reports"]["failed"].as_u64().unwrap();
    pod.until(async || failed().await >= 2).await;
    let text = problem().await;
    assert!(text.as_str().unwrap().contains("(403)"), "{text}");
    assert_eq!(pod.log().matches("failed to report the status").count(), 1, "{}", pod.log());
    backend.restart();
    cluster.server.revive();
    // Slow: calls do not wait.
    cluster.server.disturb(FaultRule::new(Fault::Delay(Duration::from_mins(1))));
    pod.until(async || pod.status().await["backends"][0]["status"] == "ready").await;
    let start = Instant::now();
    for _ in 0..20 {
        session.call("x_x").await;
    }
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
    let start = Instant::now();
    pod.stop().await;
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
}

#[tokio::test]
async fn metrics_show_reports() {
    let backend = McpBackend::stateless(&["x"]);
    let config = format!(
        "  config: {{telemetry: {{enablePrometheusMetricsPath: true}}, operational: {{failureHandling: {{{FAST}}}}}}}\n"
    );
    let manifests = anonymous(&config) + &member("x", &backend.url());
    let cluster = Kubernetes::new("reports-metrics", &manifests).await;
    let pod = cluster.pod();
    pod.until_ready().await;
    pod.until(async || cluster.backend("x")["status"] == "ready").await;
    let metrics = pod.admin("/metrics").await;
    let value = |name: &str| {
        let line = metrics.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
        line.unwrap_or_else(|| panic!("{name}\n{metrics}")).parse::<u64>().unwrap()
    };
    let reports = |outcome: &str| {
        value(&format!("vmcp_status_reports_total{{vmcp_status_report_outcome=\"{outcome}\"}}"))
    };
    assert_eq!(value("vmcp_status_report_leader"), 1);
    assert!(reports("written") > 0 && reports("failed") == 0, "{metrics}");
    assert!(value("vmcp_status_report_last_success_timestamp_seconds") > 1_700_000_000);
}
