use std::collections::BTreeSet;

use serde_json::Value;
use vmcp_core::Backend;
use vmcp_telemetry::metrics::names::BACKEND;
use vmcp_telemetry::metrics::{
    ClientMetrics, ErrorType, HttpMetrics, Outcome, RunOutcome, ServerMetrics, StepOutcome,
    WorkflowMetrics,
};
use vmcp_telemetry_export::{Settings, Telemetry};

use super::*;

const DASHBOARD: &str = include_str!("../../dashboards/grafana.json");
const ALERTS: &str = include_str!("../../dashboards/alerts.yaml");

/// Returns all queries of the dashboard and the alert rules.
fn queries() -> Vec<String> {
    fn walk(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(members) => {
                for (key, member) in members {
                    match member {
                        Value::String(text) if matches!(key.as_str(), "expr" | "query") => {
                            found.push(text.clone());
                        }
                        _ => walk(member, found),
                    }
                }
            }
            Value::Array(elements) => elements.iter().for_each(|element| walk(element, found)),
            _ => {}
        }
    }
    let mut found = Vec::new();
    walk(&serde_json::from_str(DASHBOARD).unwrap(), &mut found);
    let alerts = ALERTS.lines().filter_map(|line| line.trim().strip_prefix("expr: "));
    found.extend(alerts.map(str::to_owned));
    found
}

/// Labels of the metrics that the server feeds with some.
const LABELS: &[(Metric, &[&str])] = &[
    (AUTH_STORED, &[AUTH_KIND]),
    (AUTH_HELD, &[AUTH_KIND]),
    (AUTH_STORE_UP, &[AUTH_STORAGE]),
    (CACHE_ENTRIES, &[CACHE_NAME]),
    (CIRCUIT_STATE, &[BACKEND]),
    (HEALTH_CHANGES, &[BACKEND]),
    (BACKEND_HEALTHY, &[BACKEND]),
    (TOOL_SEARCHES, &[SEARCH_MODE]),
    (WORKFLOW_RUNS_ACTIVE, &[WORKFLOW_STATUS]),
    (SESSION_STORAGE_UP, &[SESSION_STORAGE_PART]),
    (PEER_CONNECTIONS, &[PEER_DIRECTION]),
    (PEER_REQUESTS, &[PEER_REQUEST_KIND, PEER_REQUEST_OUTCOME]),
    (REPORTS, &[REPORT_OUTCOME]),
];

/// Returns the text that Prometheus reads after one failed call, with a value of each metric.
fn exposition() -> String {
    let settings = Settings { prometheus: true, ..Settings::default() };
    let telemetry = Telemetry::builder(settings).build().unwrap();
    let outcome = Outcome {
        http_method: "POST",
        status: 200,
        error_type: ErrorType::TOOL,
        ..Outcome::default()
    };
    let meter = telemetry.meter();
    let server = ServerMetrics::new(&meter, "gateway".into());
    server.request_started();
    server.record(&server.bind("tools/call", Some("t"), true), outcome, 0.1);
    let client = ClientMetrics::new(&meter, false).backend(&Backend::new("meteo"));
    let broken = Outcome { error_type: ErrorType::BROKEN, ..outcome };
    client.record(&client.bind("tools/call", Some("t")), broken, 0.1);
    let shown =
        Outcome { http_method: "GET", status: 503, error_type: ErrorType::Status(503), ..outcome };
    HttpMetrics::new(&meter).record(Some("/oauth/authorize"), shown, 0.1);
    let workflows = WorkflowMetrics::new(&meter);
    workflows.record_run("t", RunOutcome::Failed, 0.1);
    workflows.record_step(StepOutcome::Failed, 0.1);
    for metric in METRICS {
        match LABELS.iter().find(|(labeled, _)| labeled == metric).map(|(_, labels)| *labels) {
            Some([label]) => telemetry.observe_each(metric, label, |record| record("x", 1)),
            Some(labels) => {
                let labels = <[_; 2]>::try_from(labels).unwrap();
                telemetry.observe_each_pair(metric, labels, |record| record(["x", "y"], 1));
            }
            None => telemetry.observe(metric, || 1),
        }
    }
    String::from_utf8(telemetry.scrape().unwrap().text().to_vec()).unwrap()
}

/// Splits the names in a query outside of strings into labels (in braces and after `by`) and others.
fn split_names(query: &str) -> (BTreeSet<String>, BTreeSet<String>) {
    let (mut labels, mut others) = (BTreeSet::new(), BTreeSet::new());
    let (mut in_braces, mut in_by, mut after_by) = (false, false, false);
    for (number, outside) in query.split('"').enumerate() {
        if number % 2 == 1 {
            continue;
        }
        let mut word = String::new();
        for char in outside.chars().chain([' ']) {
            if char.is_ascii_alphanumeric() || matches!(char, '_' | ':' | '$') {
                word.push(char);
                continue;
            }
            if !word.is_empty() {
                let word = std::mem::take(&mut word);
                after_by = word == "by";
                if in_braces || in_by {
                    labels.insert(word)
                } else {
                    others.insert(word)
                };
            }
            match char {
                '{' => in_braces = true,
                '}' => in_braces = false,
                '(' if after_by => (in_by, after_by) = (true, false),
                ')' => in_by = false,
                _ => {}
            }
        }
    }
    (labels, others)
}

#[test]
fn splits_labels_from_metrics() {
    let (labels, others) = split_names(r#"sum by (a, le) (rate(m_total{b="by (c)",d=~"$x"}[5m]))"#);
    assert_eq!(labels.into_iter().collect::<Vec<_>>(), ["a", "b", "d", "le"]);
    assert_eq!(others.into_iter().collect::<Vec<_>>(), ["5m", "by", "m_total", "rate", "sum"]);
}

#[test]
fn dashboard_and_alerts_query_existing_metrics() {
    let recorded: BTreeSet<_> = all()
        .flat_map(|metric| {
            ["", "_bucket", "_sum", "_count"].map(|end| format!("{}{end}", metric.prometheus()))
        })
        .collect();
    let queries = queries();
    assert!(queries.len() > 30, "{}", queries.len());
    let mut used = BTreeSet::new();
    for query in &queries {
        for name in split_names(query).1 {
            if ["vmcp_", "mcp_", "http_"].iter().any(|start| name.starts_with(start)) {
                assert!(recorded.contains(&name), "{name} in {query}");
                used.insert(name);
            }
        }
    }
    for metric in all() {
        let name = metric.prometheus();
        assert!(used.iter().any(|used| used.starts_with(&name)), "{name} is not on the dashboard");
    }
}

#[test]
fn dashboard_and_alerts_use_existing_labels() {
    let text = exposition();
    for query in queries() {
        // Prometheus adds `job` itself.
        for label in split_names(&query).0.iter().filter(|label| *label != "job") {
            assert!(text.contains(&format!("{label}=\"")), "{label} in {query}\n{text}");
        }
    }
}

#[test]
fn alerts_name_storage_and_peers() {
    for name in ["VmcpSessionStorageUnavailable", "VmcpPeersUnreachable", "VmcpStatusNotReported"] {
        assert!(ALERTS.contains(&format!("- alert: {name}\n")), "{name}");
    }
}
