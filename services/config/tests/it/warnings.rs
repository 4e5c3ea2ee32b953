//! Warnings for settings that are valid but probably unintended.

use crate::support::{config, file};

fn warnings(more: &str) -> Vec<String> {
    let backends = "backends: [{name: github, url: 'https://g', transport: sse}]\n";
    file(&format!("{backends}{more}")).warnings().iter().map(ToString::to_string).collect()
}

#[test]
fn warns_about_unknown_backends_with_suggestion() {
    for (text, path) in [
        ("aggregation: {tools: [{workload: gihub}]}\n", "aggregation.tools[0].workload"),
        (
            "aggregation: {conflictResolution: priority, conflictResolutionConfig: {priorityOrder: [github, gihub]}}\n",
            "aggregation.conflictResolutionConfig.priorityOrder[1]",
        ),
        (
            "operational: {timeouts: {perWorkload: {gihub: 1s}}}\n",
            "operational.timeouts.perWorkload.gihub",
        ),
    ] {
        let expected = format!("{path}: no backend has the name \"gihub\" (did you mean github?)");
        assert_eq!(warnings(text), [expected], "{text}");
    }
}

#[test]
fn known_backends_cause_no_warning() {
    let text = "aggregation: {tools: [{workload: github}]}\noperational: {timeouts: {perWorkload: {github: 1s}}}\n";
    assert_eq!(warnings(text), [""; 0]);
}

#[test]
fn discovered_backends_cause_no_warning() {
    let file = file(
        "outgoingAuth: {source: discovered}\noperational: {timeouts: {perWorkload: {a: 1s}}}\n",
    );
    assert_eq!(file.warnings(), []);
    assert_eq!(config("operational: {timeouts: {perWorkload: {a: 1s}}}\n").warnings(), []);
    let config = config(
        "operational: {timeouts: {perWorkload: {a: 1s}}}\nbackends: [{name: b, url: 'http://b', transport: sse}]\n",
    );
    assert_eq!(config.warnings().len(), 1);
}

#[test]
fn warns_about_group_in_backend_metadata() {
    let text = "backends: [{name: a, url: 'http://a', transport: sse, metadata: {group: mine}}]\n";
    let warnings = file(text).warnings();
    assert_eq!(warnings[0].path, "backends[0].metadata.group");
    assert_eq!(warnings[0].message, "no effect: the server sets this key");
}

#[test]
fn warns_of_client_secret_in_document() {
    let text = "outgoingAuth: {source: inline, default: {type: token_exchange, tokenExchange: {tokenUrl: 'https://t', clientId: c, clientSecret: s}}}\n";
    assert_eq!(
        warnings(text),
        [
            "outgoingAuth.default.tokenExchange.clientSecret: the configuration contains the secret itself (did you mean clientSecretEnv?)"
        ]
    );
}

#[test]
fn warns_about_prefixes_that_break_tool_names() {
    let prefix = |format| {
        warnings(&format!(
            "aggregation: {{conflictResolutionConfig: {{prefixFormat: '{format}'}}}}\n"
        ))
    };
    for good in ["{workload}_", "{workload}.", "x-"] {
        assert_eq!(prefix(good), [""; 0], "{good}");
    }
    let odd = prefix("{workload}/");
    assert_eq!(odd.len(), 1, "{odd:?}");
    assert!(odd[0].starts_with("aggregation.conflictResolutionConfig.prefixFormat: "), "{odd:?}");
    assert!(odd[0].contains("A-Z, a-z, 0-9, _, - and ."), "{odd:?}");
    let backends = "backends: [{name: a, url: 'http://a', transport: sse}, {name: grün, url: 'http://b', transport: sse}]\n";
    assert_eq!(file(backends).warnings()[0].path, "backends[1].name");
    let constant =
        format!("{backends}aggregation: {{conflictResolutionConfig: {{prefixFormat: x_}}}}\n");
    assert!(file(&constant).warnings()[0].message.contains("all backends get the same prefix"));
    let bare = format!(
        "{backends}aggregation: {{conflictResolution: priority, conflictResolutionConfig: {{priorityOrder: [a]}}}}\n"
    );
    assert_eq!(file(&bare).warnings(), []);
}

#[test]
fn prefixes_within_other_prefixes_are_reported() {
    let backends = |names: [&str; 2], more: &str| {
        let each = names.map(|name| format!("{{name: {name}, url: 'http://a', transport: sse}}"));
        let text = format!("backends: [{}]\n{more}", each.join(", "));
        file(&text).warnings().into_iter().map(|it| it.path).collect::<Vec<_>>()
    };
    assert_eq!(backends(["a", "a_b"], ""), ["backends[1].name"]);
    assert_eq!(backends(["a_b", "a"], ""), ["backends[0].name"]);
    assert_eq!(backends(["a", "ab"], ""), [""; 0]);
    let dotted = "aggregation: {conflictResolutionConfig: {prefixFormat: '{workload}.'}}\n";
    assert_eq!(backends(["a", "a_b"], dotted), [""; 0]);
    let bare = "aggregation: {conflictResolution: priority, conflictResolutionConfig: {priorityOrder: [a]}}\n";
    assert_eq!(backends(["a", "a_b"], bare), [""; 0]);
}

#[test]
fn checks_in_quick_succession_are_reported() {
    let checks = |interval, timeout| {
        warnings(&format!(
            "operational: {{failureHandling: {{healthCheckInterval: {interval}, healthCheckTimeout: {timeout}}}}}\n"
        ))
    };
    assert_eq!(checks("1s", "500ms"), [""; 0]);
    assert_eq!(
        checks("2ns", "1ns"),
        [
            "operational.failureHandling.healthCheckInterval: each backend is checked every 2ns: use 1s or more"
        ]
    );
}

fn paths(text: &str) -> Vec<String> {
    file(text).warnings().into_iter().map(|warning| warning.path).collect()
}

#[test]
fn warns_about_settings_without_effect() {
    let breaker = "operational.failureHandling.circuitBreaker";
    for (text, expected) in [
        (
            "telemetry: {enablePrometheusMetricsPath: true, samplingRate: '0.5'}",
            "telemetry.samplingRate",
        ),
        (
            "telemetry: {metricsEnabled: true, endpoint: 'a:1', samplingRate: '0.5'}",
            "telemetry.samplingRate",
        ),
        (
            "telemetry: {enablePrometheusMetricsPath: true, environmentVariables: [A]}",
            "telemetry.environmentVariables",
        ),
        ("telemetry: {enablePrometheusMetricsPath: true, headers: {a: b}}", "telemetry.headers"),
        ("telemetry: {serviceName: x}", "telemetry"),
        (
            "operational: {failureHandling: {circuitBreaker: {failureThreshold: 2}}}",
            &format!("{breaker}.failureThreshold"),
        ),
        (
            "operational: {failureHandling: {circuitBreaker: {timeout: 2s}}}",
            &format!("{breaker}.timeout"),
        ),
        (
            "backends: [{name: a, url: 'http://a', transport: sse}]\n\
             aggregation: {tools: [{workload: a, excludeAll: true, filter: [x]}]}",
            "aggregation.tools[0].filter",
        ),
        ("audit: {logFile: /a}", "audit"),
        (
            "audit: {enabled: true, eventTypes: [mcp_ping], excludeEventTypes: [mcp_ping]}",
            "audit.excludeEventTypes",
        ),
        ("audit: {enabled: true, maxDataSize: 5}", "audit.maxDataSize"),
        (
            "backends: [{name: a, url: 'https://a', transport: sse}]\n\
             outgoingAuth: {source: inline, default: {type: unauthenticated}, backends: {a: {type: unauthenticated}}}",
            "outgoingAuth.default",
        ),
    ] {
        assert_eq!(paths(&format!("{text}\n")), [expected], "{text}");
    }
    for text in [
        "telemetry: {tracingEnabled: true, endpoint: 'a:1', samplingRate: '0.5'}",
        "operational: {failureHandling: {circuitBreaker: {enabled: true, timeout: 2s}}}",
        "audit: {enabled: true, includeRequestData: true, maxDataSize: 5, eventTypes: [mcp_ping]}",
    ] {
        assert_eq!(paths(&format!("{text}\n")), [""; 0], "{text}");
    }
}

#[test]
fn credentials_over_plain_http_are_reported() {
    for (url, credentials, count) in [
        (
            "http://a.example",
            "header_injection, headerInjection: {headerName: Authorization, headerValue: x}",
            1,
        ),
        (
            "http://10.0.0.7:80",
            "header_injection, headerInjection: {headerName: X-Key, headerValue: x}",
            1,
        ),
        ("http://a.example", "unauthenticated", 0),
        (
            "https://a.example",
            "header_injection, headerInjection: {headerName: X-Key, headerValue: x}",
            0,
        ),
        (
            "http://127.0.0.1:80",
            "header_injection, headerInjection: {headerName: X-Key, headerValue: x}",
            0,
        ),
        (
            "http://localhost",
            "header_injection, headerInjection: {headerName: X-Key, headerValue: x}",
            0,
        ),
    ] {
        let text = format!(
            "backends: [{{name: a, url: '{url}', transport: sse}}]\n\
             outgoingAuth: {{source: inline, default: {{type: {credentials}}}}}\n"
        );
        let expected = vec!["backends[0].url".to_owned(); count];
        assert_eq!(paths(&text), expected, "{url} {credentials}");
    }
}

#[test]
fn warns_about_steps_of_unknown_backends() {
    let warnings = |tool: &str, more: &str| {
        let text = format!(
            "backends: [{{name: git.hub, url: 'https://g', transport: sse}}]\n{more}\
             compositeTools: [{{name: one, steps: [{{id: a, tool: {tool}}}]}}]\n"
        );
        file(&text).warnings().iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let expected = |tool: &str| {
        format!(
            "compositeTools[0].steps[0].tool: no backend can have the tool \"{tool}\": name it workload.tool_name"
        )
    };
    assert_eq!(warnings("gitlab", ""), [expected("gitlab")]);
    let suggestion = "(did you mean git.hub.create.pr?)";
    assert_eq!(
        warnings("githb.create.pr", ""),
        [format!("{} {suggestion}", expected("githb.create.pr"))]
    );
    for known in ["git.hub.create.pr", "git.hub_create"] {
        assert_eq!(warnings(known, ""), [""; 0], "{known}");
    }
    let discovered = "outgoingAuth: {source: discovered}\n\
                      compositeTools: [{name: one, steps: [{id: a, tool: x.y}]}]\n";
    assert_eq!(file(discovered).warnings(), []);
    let priority = "aggregation: {conflictResolution: priority, conflictResolutionConfig: {priorityOrder: [git.hub]}}\n";
    assert_eq!(warnings("x.y", priority), [""; 0], "tools keep their names");
}
