//! Effects of the configuration's keys, observed from outside the process.

use serde_json::{Value, json};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use vmcp_test_support::McpBackend;

use crate::collector::private_authority;
use crate::http::get;
use crate::mcp::{Stateful, Stateless};
use crate::program::{Folder, ServerProcess, vmcp};

/// A server in front of `a` and `b`, when it knows what they offer.
fn serve(a: &McpBackend, b: &McpBackend, aggregation: &str) -> (ServerProcess, u16, Folder) {
    let folder = Folder::new();
    let text = format!(
        "name: x\nincomingAuth: {{type: anonymous}}\naggregation: {aggregation}\nbackends:\n\
         - {{name: a, url: \"{}\", transport: streamable-http}}\n\
         - {{name: b, url: \"{}\", transport: streamable-http}}\n",
        a.url(),
        b.url(),
    );
    let (server, port) = ServerProcess::serve(&folder.write("vmcp.yaml", &text), &[]);
    server.logs("\"started\"");
    (server, port, folder)
}

/// Each conflict: the name, who wants it, and what became of it.
fn conflicts(port: u16) -> Vec<(Value, Value, String)> {
    let mut status = get(port, "/status");
    let all = status["conflicts"].as_array_mut().unwrap();
    let parts = |one: &mut Value| {
        let settled = one["resolution"].as_str().unwrap().to_owned();
        (one["name"].take(), one["contenders"].take(), settled)
    };
    all.iter_mut().map(parts).collect()
}

#[test]
fn lists_tools_by_overrides_and_filters() {
    let (a, b) = (McpBackend::stateless(&["x", "y", "z"]), McpBackend::stateless(&["x"]));
    // Each annotation has other values on the two tools than any other annotation.
    let aggregation = "{tools: [{workload: b, excludeAll: true}, {workload: a, filter: [new, y], overrides: {\
        x: {name: new, description: words, annotations: {title: T, readOnlyHint: true, destructiveHint: false, \
            idempotentHint: true, openWorldHint: false}}, \
        y: {annotations: {readOnlyHint: true, destructiveHint: true, idempotentHint: false, openWorldHint: false}}}}]}";
    let (_server, port, _folder) = serve(&a, &b, aggregation);
    let schema = json!({"type": "object"});
    let expected = json!([
        {"name": "a_new", "inputSchema": schema, "description": "words", "annotations": {"title": "T",
            "readOnlyHint": true, "destructiveHint": false, "idempotentHint": true, "openWorldHint": false}},
        {"name": "a_y", "inputSchema": schema, "annotations": {
            "readOnlyHint": true, "destructiveHint": true, "idempotentHint": false, "openWorldHint": false}},
    ]);
    assert_eq!(Stateless(port).ask("tools/list", &json!({}))["result"]["tools"], expected);
    let listed = Stateful::open(port).ask("tools/list", &json!({}));
    assert_eq!(listed["result"]["tools"], expected);
    Stateless(port).call("a_new", &json!({}));
    let called = a.messages().into_iter().rfind(|it| it["method"] == "tools/call").unwrap();
    assert_eq!(called["params"]["name"], "x");
    for hidden in ["a_z", "b_x"] {
        assert_eq!(Stateless(port).call(hidden, &json!({}))["error"]["code"], -32602);
    }
}

#[test]
fn hides_all_tools_when_configured() {
    let (a, b) = (McpBackend::stateless(&["x"]), McpBackend::stateless(&["x"]));
    let (_server, port, _folder) = serve(&a, &b, "{excludeAllTools: true}");
    assert!(Stateless(port).tools().is_empty());
}

#[test]
fn resolves_conflicts_as_configured() {
    let (a, b) = (McpBackend::stateless(&["x", "y"]), McpBackend::stateless(&["x"]));
    let (_server, port, _folder) =
        serve(&a, &b, "{conflictResolutionConfig: {prefixFormat: \"v.{workload}-\"}}");
    assert_eq!(Stateless(port).tools(), ["v.a-x", "v.a-y", "v.b-x"]);
    assert_eq!(conflicts(port), []);

    let priority =
        "{conflictResolution: priority, conflictResolutionConfig: {priorityOrder: [b, a]}}";
    let (_server, port, _folder) = serve(&a, &b, priority);
    assert_eq!(Stateless(port).tools(), ["x", "y"]);
    let settled = "b has it: it comes first in priorityOrder".to_owned();
    assert_eq!(conflicts(port), [(json!("x"), json!(["b", "a"]), settled)]);

    let manual = "{conflictResolution: manual, tools: [{workload: b, filter: [x]}]}";
    let (_server, port, _folder) = serve(&a, &b, manual);
    assert_eq!(Stateless(port).tools(), ["y"]);
    let [(name, contenders, settled)] = &conflicts(port)[..] else { panic!("one conflict") };
    assert_eq!((name, contenders), (&json!("x"), &json!(["a", "b"])));
    assert!(settled.starts_with("left out: "), "{settled}");
}

#[test]
fn trusts_backend_by_configured_ca_bundle() {
    let backend = McpBackend::stateless(&["x"]);
    let (port, authority) = encrypted(backend.port());
    let folder = Folder::new();
    let bundle = folder.write("ca.pem", &authority);
    for (named, code, offers) in [
        (format!(", type: entry, caBundlePath: {bundle}"), 0, "tools: 1"),
        (", type: entry".to_owned(), 1, "certificate"),
    ] {
        let text = format!(
            "name: x\nincomingAuth: {{type: anonymous}}\nbackends:\n\
             - {{name: a, url: \"https://localhost:{port}/mcp\", transport: streamable-http{named}}}\n"
        );
        let file = folder.write("vmcp.yaml", &text);
        let ended = vmcp(&["validate", "--connect", "-c", &file]);
        assert_eq!(ended.code, code, "{ended:?}");
        assert!(ended.out.contains(offers), "{offers}: {ended:?}");
    }
}

/// TLS in front of a port, and the authority that vouches for it.
pub(crate) fn encrypted(behind: u16) -> (u16, String) {
    let (acceptor, authority) = private_authority(&[b"http/1.1"]);
    let (started, port) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.unwrap().block_on(async move {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            started.send(listener.local_addr().unwrap().port()).unwrap();
            loop {
                let (tcp, _) = listener.accept().await.unwrap();
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    // A client that does not trust the certificate disconnects.
                    let Ok(mut outer) = acceptor.accept(tcp).await else { return };
                    let mut inner = TcpStream::connect(("127.0.0.1", behind)).await.unwrap();
                    _ = copy_bidirectional(&mut outer, &mut inner).await;
                });
            }
        });
    });
    (port.recv().unwrap(), authority)
}
