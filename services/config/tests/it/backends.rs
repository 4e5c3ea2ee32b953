//! `backends`.

use vmcp_config::{BackendKind, Transport};

use crate::support::{file, one};

fn backend(rest: &str) -> String {
    format!("backends: [{{name: a, url: 'http://a/mcp', transport: sse{rest}}}]\n")
}

#[test]
fn a_backend_has_a_name_a_url_and_a_transport() {
    let file = file(
        "backends:\n  - {name: a, url: 'https://a.example/mcp', transport: streamable-http}\n  - {name: b, url: 'http://b:1', transport: sse}\n",
    );
    assert_eq!(file.backends[0].url.as_str(), "https://a.example/mcp");
    assert_eq!(file.backends[0].transport, Transport::StreamableHttp);
    assert_eq!(file.backends[1].transport, Transport::Sse);
    assert_eq!(file.backends[1].kind, BackendKind::Workload);
    one("backends: [{url: 'http://a', transport: sse}]\n", "backends[0].name", "required");
    one("backends: [{name: a, transport: sse}]\n", "backends[0].url", "required");
    one("backends: [{name: a, url: 'http://a'}]\n", "backends[0].transport", "required");
}

#[test]
fn the_name_is_unique_and_not_empty() {
    one(
        "backends: [{name: '', url: 'http://a', transport: sse}]\n",
        "backends[0].name",
        "not empty",
    );
    one(
        "backends: [{name: a, url: 'http://a', transport: sse}, {name: a, url: 'http://b', transport: sse}]\n",
        "backends[1].name",
        "\"a\" a second time",
    );
}

#[test]
fn the_url_is_absolute_http_or_https_with_a_host() {
    for bad in ["ftp://a", "a:80", "/mcp", "", "http://", "http:a", "HTTP://a"] {
        let text = format!("backends: [{{name: a, url: '{bad}', transport: sse}}]\n");
        one(&text, "backends[0].url", "an absolute http:// or https:// URL with a host");
    }
}

#[test]
fn a_url_with_credentials_is_refused_and_not_repeated() {
    let text = "backends: [{name: a, url: 'http://u:sesame@a/', transport: sse}]\n";
    one(text, "backends[0].url", "found a URL with user or password");
}

#[test]
fn the_transport_is_one_of_two() {
    one(
        "backends: [{name: a, url: 'http://a', transport: streamable_http}]\n",
        "backends[0].transport",
        "did you mean streamable-http?",
    );
    one(
        "backends: [{name: a, url: 'http://a', transport: stdio}]\n",
        "backends[0].transport",
        "sse or streamable-http",
    );
}

#[test]
fn the_type_is_entry_or_nothing() {
    assert_eq!(file(&backend(", type: ''")).backends[0].kind, BackendKind::Workload);
    assert_eq!(
        file(&backend(", type: entry")).backends[0].kind,
        BackendKind::Entry { ca_bundle_path: None }
    );
    one(&backend(", type: container"), "backends[0].type", "\"\" or entry");
}

#[test]
fn a_ca_bundle_belongs_to_an_entry_and_has_an_absolute_path() {
    let file = file(&backend(", type: entry, caBundlePath: /etc/a.crt"));
    let BackendKind::Entry { ca_bundle_path: Some(path) } = &file.backends[0].kind else {
        panic!("an entry")
    };
    assert_eq!(path.as_path().to_str(), Some("/etc/a.crt"));
    one(
        &backend(", caBundlePath: /etc/a.crt"),
        "backends[0].caBundlePath",
        "only with type: entry",
    );
    for bad in ["etc/a.crt", "/etc/../a.crt", "\"/etc/\\0\"", "''"] {
        one(
            &backend(&format!(", type: entry, caBundlePath: {bad}")),
            "backends[0].caBundlePath",
            "an absolute path",
        );
    }
}

#[test]
fn metadata_is_text_by_any_key() {
    let file = file(&backend(", metadata: {team: a, 'odd key': b}"));
    assert_eq!(file.backends[0].metadata["odd key"], "b");
    one(
        &backend(", metadata: {team: [a]}"),
        "backends[0].metadata.team",
        "found a list; allowed: text",
    );
}

#[test]
fn with_discovered_credentials_no_backends_stand_in_the_document() {
    one(
        &format!("outgoingAuth: {{source: discovered}}\n{}", backend("")),
        "backends",
        "only with outgoingAuth.source: inline",
    );
    assert_eq!(file("outgoingAuth: {source: discovered}\nbackends: []\n").backends, []);
}
