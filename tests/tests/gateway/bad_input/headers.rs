//! Headers that contradict the message, and unknown revisions.

use serde_json::{Value, json};
use vmcp_tests::backends::conforming_server;
use vmcp_tests::caller::{Caller, Line};

use super::{Case, Scene, asked, check_all};

const PING: &str = r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#;

/// A tool with arguments that are also sent as headers.
const QUERY: &str = r#"{"name":"query","inputSchema":{"type":"object","properties":{
    "region":{"type":"string","x-mcp-header":"Region"},
    "limit":{"type":"integer","x-mcp-header":"Limit"}}}}"#;
const ECHO: &str = r#"{"name":"echo","inputSchema":{"type":"object"}}"#;

fn echo(caller: &mut Caller) -> Case {
    asked(caller, "tools/call", json!({ "name": "a_echo", "arguments": {} }))
}

#[tokio::test(flavor = "multi_thread")]
async fn rejects_stateless_headers_that_contradict_body() {
    let scene = Scene::start().await;
    let caller = &mut Caller::stateless(scene.url());
    let mismatch = |case: Case, tells| case.gets(400, -32020, tells);
    let cases = [
        mismatch(
            echo(caller).header("mcp-protocol-version", ""),
            "MCP-Protocol-Version is missing",
        ),
        mismatch(
            echo(caller).header("mcp-protocol-version", "2025-11-25"),
            "MCP-Protocol-Version differs",
        ),
        mismatch(echo(caller).again("mcp-protocol-version", "2026-07-28"), "more than once"),
        mismatch(echo(caller).header("mcp-method", ""), "Mcp-Method is missing"),
        mismatch(echo(caller).header("mcp-method", "tools/list"), "Mcp-Method differs"),
        mismatch(echo(caller).header("mcp-method", "Tools/Call"), "Mcp-Method differs"),
        mismatch(echo(caller).again("mcp-method", "tools/call"), "more than once"),
        mismatch(echo(caller).header("mcp-name", ""), "Mcp-Name is missing"),
        mismatch(echo(caller).header("mcp-name", "a_slow"), "Mcp-Name differs"),
        mismatch(echo(caller).header("mcp-name", "A_ECHO"), "Mcp-Name differs"),
        mismatch(echo(caller).again("mcp-name", "a_echo"), "more than once"),
        // "a_slow", then invalid base64 and invalid text.
        mismatch(echo(caller).header("mcp-name", "=?base64?YV9zbG93?="), "Mcp-Name differs"),
        mismatch(echo(caller).header("mcp-name", "=?base64?YV9l!2hv?="), "not valid base64"),
        mismatch(echo(caller).header("mcp-name", "=?base64?YV9lY2hv"), "Mcp-Name differs"),
        mismatch(echo(caller).header("mcp-name", "=?base64?//79?="), "not valid base64"),
        echo(caller).header("mcp-name", "=?base64?YV9lY2hv?=").passes(200),
        mismatch(
            asked(caller, "resources/read", json!({ "uri": "x://y" })).header("mcp-name", "x://z"),
            "Mcp-Name differs",
        ),
        mismatch(
            asked(caller, "prompts/get", json!({ "name": "p" })).header("mcp-name", ""),
            "Mcp-Name is missing",
        ),
    ];
    check_all(scene, cases).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rejects_argument_headers_that_contradict_arguments() {
    let tools = [QUERY, ECHO].map(str::to_owned);
    let scene =
        Scene::before(conforming_server("a").items("tools", tools).page_size(10).start()).await;
    let caller = &mut Caller::stateless(scene.url());
    let mut query = |arguments: Value| {
        asked(caller, "tools/call", json!({ "name": "a_query", "arguments": arguments }))
    };
    let mismatch = |case: Case, tells| case.gets(400, -32020, tells);
    let region = json!({ "region": "grün" });
    let cases = [
        mismatch(query(region.clone()), "mcp-param-region is missing"),
        mismatch(
            query(region.clone()).header("mcp-param-region", "blau"),
            "differs from the argument",
        ),
        mismatch(
            query(region.clone()).header("mcp-param-region", "=?base64?Z3L8bg==?="),
            "not valid base64",
        ),
        mismatch(
            query(json!({})).header("mcp-param-region", "x"),
            "mcp-param-region is there, but not the argument",
        ),
        mismatch(
            query(json!({ "limit": 3 })).header("mcp-param-limit", "4"),
            "differs from the argument",
        ),
        mismatch(
            query(json!({ "limit": 3 }))
                .header("mcp-param-limit", "3")
                .again("mcp-param-limit", "3"),
            "more than once",
        ),
        query(region).header("mcp-param-region", "=?base64?Z3LDvG4=?=").passes(200),
        query(json!({ "limit": 3 })).header("mcp-param-limit", "3").passes(200),
        query(json!({ "region": null })).passes(200),
    ];
    check_all(scene, cases).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rejects_unknown_revisions_and_lists_supported_ones() {
    let scene = Scene::start().await;
    let mut line = Line::to(scene.url());
    let mut session = Caller::stateful(scene.url()).await.unwrap();
    let mut stateless = Caller::stateless(scene.url());
    let future = json!({
        "io.modelcontextprotocol/protocolVersion": "2099-01-01",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let body =
        json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/list", "params": { "_meta": future } });
    let cases = [
        Case::post(PING).header("mcp-protocol-version", "1999-01-01").with_id(7),
        asked(&mut session, "ping", json!({})).header("mcp-protocol-version", "1999-01-01"),
        asked(&mut session, "tools/list", json!({})).header("mcp-protocol-version", "2025-11-2"),
        Case::post(body.to_string()).header("mcp-protocol-version", "2099-01-01").with_id(7),
        Case::post(r#"{"jsonrpc":"2.0","method":"notifications/x"}"#)
            .header("mcp-protocol-version", "2099-01-01"),
    ];
    for case in cases {
        let case = case.gets(400, -32022, "unsupported protocol version");
        let message = case.check(&mut line).await.message().unwrap();
        let supported = message["error"]["data"]["supported"].as_array().unwrap();
        assert!(supported.contains(&json!("2026-07-28")), "{message}");
        assert!(supported.contains(&json!("2025-11-25")), "{message}");
    }
    // Older revisions of the same generation are accepted in place of the negotiated one.
    let older = asked(&mut session, "ping", json!({})).header("mcp-protocol-version", "2025-03-26");
    older.passes(200).check(&mut line).await;
    asked(&mut session, "ping", json!({}))
        .header("mcp-protocol-version", "")
        .passes(200)
        .check(&mut line)
        .await;
    let hello = r#"{"jsonrpc":"2.0","id":7,"method":"initialize","params":{"protocolVersion":"1999-01-01","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}"#;
    let answer = line.post(&http::HeaderMap::new(), &serde_json::from_str(hello).unwrap()).await;
    let answer = answer.unwrap().message().unwrap();
    assert_eq!(answer["result"]["protocolVersion"], "2025-11-25");
    assert!(stateless.tools().await.unwrap().contains(&"a_echo".to_owned()));
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stateless_request_requires_meta() {
    let scene = Scene::start().await;
    let version = "io.modelcontextprotocol/protocolVersion";
    let capabilities = "io.modelcontextprotocol/clientCapabilities";
    let metas = [
        (json!({}), "protocolVersion"),
        (json!({ capabilities: {} }), "protocolVersion"),
        (json!({ version: 7, capabilities: {} }), "protocolVersion"),
        (json!({ version: "2026-07-28" }), "clientCapabilities"),
        (json!({ version: "2026-07-28", capabilities: [] }), "clientCapabilities"),
        (json!([]), "params._meta must be an object"),
    ];
    let cases = metas.into_iter().map(|(meta, tells)| {
        let message = json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/list",
            "params": { "_meta": meta } });
        Case::post(message.to_string())
            .header("mcp-protocol-version", "2026-07-28")
            .header("mcp-method", "tools/list")
            .gets(400, -32602, tells)
            .with_id(7)
    });
    check_all(scene, cases).await;
}
