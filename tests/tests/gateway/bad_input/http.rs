//! Requests that are invalid before their message is parsed.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method};
use serde_json::json;
use vmcp_tests::caller::{Caller, Line};

use super::{Case, Scene, check_all};

const PING: &str = r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#;

#[tokio::test(flavor = "multi_thread")]
async fn media_types_have_to_fit() {
    let cases = [
        Case::post(PING).header("content-type", "text/plain").gets(
            415,
            -32600,
            "Content-Type: application/json",
        ),
        Case::post(PING).header("content-type", "").gets(
            415,
            -32600,
            "Content-Type: application/json",
        ),
        Case::post(PING).header("accept", "application/json").gets(
            406,
            -32600,
            "text/event-stream",
        ),
        Case::post(PING).header("accept", "text/event-stream").gets(
            406,
            -32600,
            "application/json",
        ),
        Case::post(PING).header("accept", "text/html").gets(406, -32600, "send Accept"),
        Case::post(PING).header("accept", "application/json, text/event-stream;q=0").gets(
            406,
            -32600,
            "send Accept",
        ),
        Case::new(Method::GET, "GET without Accept").gets(406, -32600, "Accept: text/event-stream"),
        Case::new(Method::GET, "GET of JSON").header("accept", "application/json").gets(
            406,
            -32600,
            "Accept: text/event-stream",
        ),
    ];
    check_all(Scene::start().await, cases).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rejects_oversized_requests_and_names_limit() {
    let scene = Scene::start().await;
    let large = format!(
        r#"{{"jsonrpc":"2.0","id":7,"method":"ping","params":{{"a":"{}"}}}}"#,
        "a".repeat(9 << 20)
    );
    Case::post(large).gets(413, -32600, "8388608 bytes").check(&mut Line::to(scene.url())).await;
    let mut caller = Caller::stateless(scene.url());
    // A body below the limit passes in both directions.
    let word = "a".repeat(7 << 20);
    let seen = caller.call("a_echo", json!({ "word": word })).await.unwrap();
    assert_eq!(seen["structuredContent"]["params"]["arguments"]["word"], word);
    let case = Case::post(PING).header("x-large", &"a".repeat(200 << 10)).passes(431);
    case.check(&mut Line::to(scene.url())).await;
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rejects_unknown_methods_and_paths_in_json() {
    let scene = Scene::start().await;
    let mut line = Line::to(scene.url());
    for method in [Method::PUT, Method::PATCH, Method::HEAD, Method::OPTIONS] {
        let what = method.to_string();
        let case = Case::new(method.clone(), what);
        let case = if method == Method::HEAD {
            case.passes(405)
        } else {
            case.gets(405, -32600, "use POST, GET or DELETE")
        };
        let reply = case.check(&mut line).await;
        assert_eq!(reply.headers["allow"], "GET, POST, DELETE", "{method}");
    }
    for path in [
        "/",
        "/mcp/",
        "/mcp/x",
        "/sse2",
        "/.well-known/oauth-protected-resource",
        "/.well-known/oauth-protected-resource/mcp",
        "/.well-known/oauth-authorization-server",
        "/.well-known/openid-configuration",
    ] {
        for method in [Method::GET, Method::POST] {
            let reply = Case::new(method, path).at(path).passes(404).check(&mut line).await;
            assert_eq!(reply.headers["content-type"], "application/json", "{path}");
            assert!(reply.message().unwrap().is_object(), "{path}");
            assert!(!reply.headers.contains_key("www-authenticate"), "{path}");
        }
    }
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rejects_foreign_hosts_and_origins() {
    let foreign = ["http://evil.example", "https://localhost.evil.example", "null"];
    let origins = foreign.into_iter().map(|origin| {
        Case::post(PING).header("origin", origin).gets(403, -32600, "--allow-origin")
    });
    let hosts = ["evil.example", "evil.example:4483", "127.0.0.1.evil.example"]
        .into_iter()
        .map(|host| Case::post(PING).header("host", host).gets(403, -32600, "--allow-host"));
    let others = [
        // A page of this machine passes the origin check, so the rejection is about the session.
        Case::post(PING)
            .header("origin", "http://localhost:6274")
            .gets(400, -32600, "Mcp-Session-Id")
            .with_id(7),
        Case::new(Method::GET, "/status from a foreign page")
            .at("/status")
            .header("origin", "http://evil.example")
            .gets(403, -32600, "--allow-origin"),
        Case::new(Method::OPTIONS, "foreign preflight")
            .header("origin", "http://evil.example")
            .header("access-control-request-method", "POST")
            .gets(403, -32600, "--allow-origin"),
    ];
    check_all(Scene::start().await, origins.chain(hosts).chain(others)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn local_page_passes_preflight_and_reads_response() {
    let scene = Scene::start().await;
    let mut line = Line::to(scene.url());
    let origin = "http://localhost:6274";
    let reply = Case::new(Method::OPTIONS, "preflight")
        .header("origin", origin)
        .header("access-control-request-method", "POST")
        .header("access-control-request-headers", "content-type, mcp-session-id, mcp-param-region")
        .passes(204)
        .check(&mut line)
        .await;
    assert_eq!(reply.headers["access-control-allow-origin"], origin);
    let list = |name: &str| reply.headers[name].to_str().unwrap().to_ascii_lowercase();
    for method in ["get", "post", "delete"] {
        assert!(list("access-control-allow-methods").contains(method), "{reply:?}");
    }
    for header in [
        "content-type",
        "authorization",
        "mcp-session-id",
        "mcp-protocol-version",
        "mcp-method",
        "mcp-name",
        "last-event-id",
        "mcp-param-region",
    ] {
        assert!(list("access-control-allow-headers").contains(header), "{header}: {reply:?}");
    }
    let mut caller = Caller::stateless(scene.url());
    let message = caller.request("tools/list", json!({}));
    let mut headers = caller.headers(&message);
    headers.insert("origin", HeaderValue::from_static(origin));
    let reply = line.post(&headers, &message).await.unwrap();
    assert_eq!(reply.headers["access-control-allow-origin"], origin);
    assert!(
        reply.headers["access-control-expose-headers"].to_str().unwrap().contains("mcp-session-id")
    );
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn distinguishes_missing_unknown_and_ended_sessions() {
    let scene = Scene::start().await;
    let mut line = Line::to(scene.url());
    let mut caller = Caller::stateful(scene.url()).await.unwrap();
    assert_eq!(caller.leave().await.unwrap().status, 204);
    let ended = caller.session().unwrap().to_owned();
    let unknown = ["00000000000000000000000000000000", "x", &ended, &"a".repeat(4000)];
    for session in unknown {
        let gone = |case: Case| {
            case.header("mcp-session-id", session).gets(404, -32001, "initialize again")
        };
        gone(Case::post(PING)).with_id(7).check(&mut line).await;
        gone(Case::post(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#))
            .check(&mut line)
            .await;
        gone(Case::new(Method::GET, "GET").header("accept", "text/event-stream"))
            .check(&mut line)
            .await;
        gone(Case::new(Method::DELETE, "DELETE")).check(&mut line).await;
    }
    let none = |case: Case| case.gets(400, -32600, "Mcp-Session-Id is missing");
    none(Case::post(PING)).with_id(7).check(&mut line).await;
    none(Case::new(Method::GET, "GET").header("accept", "text/event-stream"))
        .check(&mut line)
        .await;
    none(Case::new(Method::DELETE, "DELETE")).check(&mut line).await;
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_stream_resumption_keeps_session() {
    let scene = Scene::start().await;
    let mut caller = Caller::stateful(scene.url()).await.unwrap();
    let headers = caller.headers(&serde_json::Value::Null);
    for id in ["nonsense", "7-3", "0", "99999999999999999999-1", "-"] {
        let case = Case::new(Method::GET, id)
            .headers(headers.clone())
            .header("accept", "text/event-stream")
            .header("last-event-id", id)
            // 404 would tell the client that its session has ended.
            .gets(400, -32600, "open one without it");
        case.check(&mut Line::to(scene.url())).await;
    }
    caller.call("a_echo", json!({})).await.unwrap();
    caller.listen().await.unwrap();
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn endless_body_does_not_block_other_clients() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let scene = Scene::start().await;
    let address = scene.url().strip_prefix("http://").unwrap().strip_suffix("/mcp").unwrap();
    let mut half = Vec::new();
    for start in [
        "",
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\n",
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{",
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n1\r\n{\r\n",
    ] {
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        stream.write_all(start.as_bytes()).await.unwrap();
        half.push(stream);
    }
    let mut odd = tokio::net::TcpStream::connect(address).await.unwrap();
    odd.write_all(b"\x16\x03\x01\x02\x00\x01\x00\x01 this is no HTTP\r\n\r\n").await.unwrap();
    let mut said = Vec::new();
    odd.read_to_end(&mut said).await.unwrap();
    assert!(said.starts_with(b"HTTP/1.1 400"), "{}", String::from_utf8_lossy(&said));
    let mut line = Line::to(scene.url());
    let reply = line.send(Method::POST, "/mcp", &HeaderMap::new(), Bytes::new()).await.unwrap();
    assert_eq!(reply.status, 415);
    scene.finish().await;
}
