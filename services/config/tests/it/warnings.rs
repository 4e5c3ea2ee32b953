//! What is legal and probably not what was meant.

use crate::support::{config, file};

fn warnings(more: &str) -> Vec<String> {
    let backends = "backends: [{name: github, url: 'http://g', transport: sse}]\n";
    file(&format!("{backends}{more}")).warnings().iter().map(ToString::to_string).collect()
}

#[test]
fn names_of_no_backend_are_reported_with_a_suggestion() {
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
        (
            "outgoingAuth: {source: inline, backends: {gihub: {type: unauthenticated}}}\n",
            "outgoingAuth.backends.gihub",
        ),
    ] {
        let expected = format!("{path}: no backend is called \"gihub\" (did you mean github?)");
        assert_eq!(warnings(text), [expected], "{text}");
    }
}

#[test]
fn names_of_backends_that_are_there_are_not_reported() {
    let text = "aggregation: {tools: [{workload: github}]}\noperational: {timeouts: {perWorkload: {github: 1s}}}\n";
    assert_eq!(warnings(text), [""; 0]);
}

#[test]
fn discovered_backends_are_not_known_and_not_missed() {
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
fn a_group_in_the_metadata_of_a_backend_is_reported_as_unused() {
    let text = "backends: [{name: a, url: 'http://a', transport: sse, metadata: {group: mine}}]\n";
    let warnings = file(text).warnings();
    assert_eq!(warnings[0].path, "backends[0].metadata.group");
    assert_eq!(warnings[0].message, "the server sets this key; the value is not used");
}

#[test]
fn a_client_secret_in_the_document_is_reported() {
    let text = "outgoingAuth: {source: inline, default: {type: token_exchange, tokenExchange: {tokenUrl: 'https://t', clientId: c, clientSecret: s}}}\n";
    assert_eq!(
        warnings(text),
        [
            "outgoingAuth.default.tokenExchange.clientSecret: a secret in the configuration itself (did you mean clientSecretEnv?)"
        ]
    );
}

#[test]
fn prefixes_that_make_odd_names_of_tools_are_reported() {
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
    assert_eq!(file(&constant).warnings(), []);
    let bare = format!(
        "{backends}aggregation: {{conflictResolution: priority, conflictResolutionConfig: {{priorityOrder: [a]}}}}\n"
    );
    assert_eq!(file(&bare).warnings(), []);
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
            "operational.failureHandling.healthCheckInterval: each backend is asked every 2ns, all the time"
        ]
    );
}
