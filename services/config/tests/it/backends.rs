//! `backends`.

use vmcp_config::{BackendKind, Config, Format, Transport};

use crate::support::{assert_error, errors, file};

fn backend(rest: &str) -> String {
    format!("backends: [{{name: a, url: 'http://a/mcp', transport: sse{rest}}}]\n")
}

#[test]
fn backend_requires_name_url_and_transport() {
    let file = file(
        "backends:\n  - {name: a, url: 'https://a.example/mcp', transport: streamable-http}\n  - {name: b, url: 'http://b:1', transport: sse}\n",
    );
    assert_eq!(file.backends[0].url.as_str(), "https://a.example/mcp");
    assert_eq!(file.backends[0].transport, Transport::StreamableHttp);
    assert_eq!(file.backends[1].transport, Transport::Sse);
    assert_eq!(file.backends[1].kind, BackendKind::Workload);
    assert_error("backends: [{url: 'http://a', transport: sse}]\n", "backends[0].name", "required");
    assert_error("backends: [{name: a, transport: sse}]\n", "backends[0].url", "required");
    assert_error("backends: [{name: a, url: 'http://a'}]\n", "backends[0].transport", "required");
}

#[test]
fn requires_unique_non_empty_name() {
    assert_error(
        "backends: [{name: '', url: 'http://a', transport: sse}]\n",
        "backends[0].name",
        "non-empty",
    );
    assert_error(
        "backends: [{name: a, url: 'http://a', transport: sse}, {name: a, url: 'http://b', transport: sse}]\n",
        "backends[1].name",
        "the duplicate value \"a\"",
    );
}

#[test]
fn backend_url_is_absolute_http_or_https() {
    for bad in ["ftp://a", "a:80", "/mcp", "", "http://", "http:a", "HTTP://a"] {
        let text = format!("backends: [{{name: a, url: '{bad}', transport: sse}}]\n");
        assert_error(&text, "backends[0].url", "an absolute http:// or https:// URL with a host");
    }
}

#[test]
fn rejects_url_with_credentials_without_quoting_it() {
    let text = "backends: [{name: a, url: 'http://u:sesame@a/', transport: sse}]\n";
    assert_error(text, "backends[0].url", "found a URL with user or password");
}

#[test]
fn accepts_only_sse_and_streamable_http() {
    assert_error(
        "backends: [{name: a, url: 'http://a', transport: streamable_http}]\n",
        "backends[0].transport",
        "did you mean streamable-http?",
    );
    assert_error(
        "backends: [{name: a, url: 'http://a', transport: stdio}]\n",
        "backends[0].transport",
        "sse or streamable-http",
    );
}

#[test]
fn accepts_only_entry_or_empty_type() {
    assert_eq!(file(&backend(", type: ''")).backends[0].kind, BackendKind::Workload);
    assert_eq!(
        file(&backend(", type: entry")).backends[0].kind,
        BackendKind::Entry { ca_bundle_path: None, allow_private_endpoint: None }
    );
    assert_error(&backend(", type: container"), "backends[0].type", "\"\" or entry");
}

#[test]
fn ca_bundle_requires_entry_and_absolute_path() {
    let file = file(&backend(", type: entry, caBundlePath: /etc/a.crt"));
    let BackendKind::Entry { ca_bundle_path: Some(path), .. } = &file.backends[0].kind else {
        panic!("an entry")
    };
    assert_eq!(path.as_path().to_str(), Some("/etc/a.crt"));
    assert_error(
        &backend(", caBundlePath: /etc/a.crt"),
        "backends[0].caBundlePath",
        "only with type: entry",
    );
    for bad in ["etc/a.crt", "/etc/../a.crt", "\"/etc/\\0\""] {
        assert_error(
            &backend(&format!(", type: entry, caBundlePath: {bad}")),
            "backends[0].caBundlePath",
            "an absolute path",
        );
    }
}

#[test]
fn placeholders_read_listed_variables_only() {
    let text = "variables: [HOST, KEY]\nbackends: [{name: a, url: 'https://${HOST}/mcp?k=${KEY:-x}', transport: sse, \
                headers: {X-Key: 'Bearer ${KEY}', X-Org: a}}]\n";
    let read = file(text);
    let backend = &read.backends[0];
    assert_eq!(backend.url.as_str(), "https://${HOST}/mcp?k=${KEY:-x}");
    let lookup = |name: &str| (name == "HOST").then(|| "a.test".to_owned());
    assert_eq!(backend.url.resolve(lookup).unwrap().as_str(), "https://a.test/mcp?k=x");
    assert!(backend.url.resolve(|_| None).unwrap_err().to_string().contains("HOST is not set"));
    assert!(backend.url.resolve(|_| Some("a b".to_owned())).is_err());
    let names: Vec<_> = backend.headers.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["X-Key", "X-Org"]);
    let unlisted = text.replace("[HOST, KEY]", "[HOST]");
    let list = errors(&unlisted);
    assert_eq!(list.len(), 2, "{list:#?}");
    assert!(list[0].contains("backends[0].url: found ${KEY}; allowed: a listed variable"));
    assert!(list[1].contains("backends[0].headers.X-Key: found ${KEY}"));
    let unused = file("variables: [OTHER]\n").warnings();
    assert_eq!(unused[0].path, "variables[0]");
}

#[test]
fn rejects_malformed_headers_and_placeholders() {
    for (rest, path, words) in [
        (
            ", headers: {'a b': x}",
            "backends[0].headers[\"a b\"]",
            "found a key that is not a header name",
        ),
        (", headers: {x-a: b, X-A: c}", "backends[0].headers.X-A", "each header once"),
        (", headers: {X-A: ''}", "backends[0].headers.X-A", "an empty value"),
        (", headers: {X-A: '${'}", "backends[0].headers.X-A", "a ${ without }"),
        (", headers: [a]", "backends[0].headers", "a map"),
    ] {
        assert_error(&backend(rest), path, words);
    }
    let many: Vec<_> = (0..33).map(|number| format!("X-{number}: a")).collect();
    let many = format!(", headers: {{{}}}", many.join(", "));
    assert_error(&backend(&many), "backends[0].headers", "at most 32");
    let text = "backends: [{name: a, url: 'ftp://${A}', transport: sse}]\nvariables: [A]\n";
    assert_error(text, "backends[0].url", "found an invalid URL with placeholders");
}

#[test]
fn resource_rejects_headers_and_variables() {
    let text = "backends: [{name: a, url: 'http://a', transport: sse, headers: {X-A: b}}]\nvariables: [A]\n";
    let error = Config::parse(text, Format::Yaml).unwrap_err().to_string();
    assert!(error.contains("backends[0].headers: found headers of a backend"), "{error}");
    assert!(error.contains("variables: "), "{error}");
}

#[test]
fn metadata_is_text_by_any_key() {
    let file = file(&backend(", metadata: {team: a, 'odd key': b}"));
    assert_eq!(file.backends[0].metadata["odd key"], "b");
    assert_error(
        &backend(", metadata: {team: [a]}"),
        "backends[0].metadata.team",
        "found a list; allowed: text",
    );
}

#[test]
fn rejects_backends_with_discovered_credentials() {
    assert_error(
        &format!("outgoingAuth: {{source: discovered}}\n{}", backend("")),
        "backends",
        "only with outgoingAuth.source: inline",
    );
    assert_eq!(file("outgoingAuth: {source: discovered}\nbackends: []\n").backends, []);
}
