use http::Method;
use tower_test::mock::{Handle, Spawn, spawn_layer};
use vmcp_core::Body;

use super::*;

fn check(layer: &AllowedHostsLayer, host: &str, origin: Option<&str>) -> Option<u16> {
    let mut headers = HeaderMap::new();
    headers.insert(header::HOST, host.parse().unwrap());
    if let Some(origin) = origin {
        headers.insert(header::ORIGIN, origin.parse().unwrap());
    }
    layer.check(&Uri::from_static("/mcp"), &headers).err().map(|no| no.status().as_u16())
}

#[test]
fn loopback_server_accepts_only_own_hosts() {
    let layer = AllowedHostsLayer::loopback(vec!["gateway.test".to_owned()], Vec::new());
    for host in ["localhost", "LOCALHOST:4483", "127.0.0.1:1", "[::1]:4483", "gateway.test:9"] {
        assert_eq!(check(&layer, host, None), None, "{host}");
    }
    for host in ["evil.example.com", "127.0.0.1.evil.com:80", "localhost.evil.com", ""] {
        assert_eq!(check(&layer, host, None), Some(403), "{host}");
    }
}

#[test]
fn loopback_server_rejects_foreign_origins() {
    let layer = AllowedHostsLayer::loopback(Vec::new(), vec!["https://app.test".to_owned()]);
    let host = "127.0.0.1:4483";
    for origin in ["http://localhost:6274", "http://127.0.0.1:4483", "https://app.test"] {
        assert_eq!(check(&layer, host, Some(origin)), None, "{origin}");
    }
    for origin in ["http://evil.example.com", "null", "https://app.test.evil.com"] {
        assert_eq!(check(&layer, host, Some(origin)), Some(403), "{origin}");
    }
}

#[test]
fn compares_hosts_and_origins_exactly() {
    let layer = AllowedHostsLayer::loopback(vec!["[fd00::7]".to_owned()], Vec::new());
    for host in ["[fd00::7]:80", "[FD00::7]", "127.3.2.1:65535"] {
        assert_eq!(check(&layer, host, None), None, "{host}");
    }
    for host in [
        "localhost:80@evil",
        "localhost@evil.com",
        "[::1].evil.com",
        "[::1]evil",
        "::1",
        "[localhost]",
        "localhost:",
        "localhost:99999",
        "localhost:+80",
        "localhost:80:80",
        "localhost/",
        "localhost#",
        "local host",
        "[::1",
        "[]",
    ] {
        assert_eq!(check(&layer, host, None), Some(403), "{host}");
    }
    for origin in [
        "chrome-extension://localhost",
        "file://localhost",
        "http://localhost@evil.com",
        "http://[::1].evil.com",
        "//localhost",
        "localhost",
        "http://localhost/",
    ] {
        assert_eq!(check(&layer, "localhost", Some(origin)), Some(403), "{origin}");
    }
    let status = |uri: &'static str, hosts: &[&'static str], origins: &[&'static str]| {
        let mut headers = HeaderMap::new();
        for host in hosts {
            headers.append(header::HOST, HeaderValue::from_static(host));
        }
        for origin in origins {
            headers.append(header::ORIGIN, HeaderValue::from_static(origin));
        }
        layer.check(&Uri::from_static(uri), &headers).err().map(|no| no.status().as_u16())
    };
    assert_eq!(status("/mcp", &["localhost", "localhost"], &[]), Some(403));
    assert_eq!(status("/mcp", &["localhost", "evil.com"], &[]), Some(403));
    assert_eq!(status("/mcp", &[], &[]), Some(403));
    let configured = "http://localhost";
    assert_eq!(status("/mcp", &["localhost"], &[configured]), None);
    assert_eq!(status("/mcp", &["localhost"], &[configured, "http://evil.com"]), Some(403));
    assert_eq!(status("http://localhost/mcp", &["localhost"], &[]), None);
    for target in ["http://evil.com/mcp", "http://localhost:1/mcp", "http://me@localhost/mcp"] {
        assert_eq!(status(target, &["localhost"], &[]), Some(403), "{target}");
    }
    let network = AllowedHostsLayer::network(Vec::new(), Vec::new());
    for host in ["", "a@b", "a:b"] {
        assert_eq!(check(&network, host, None), Some(403), "{host}");
    }
}

#[test]
fn accepts_configured_hosts() {
    let configured = || vec!["mcp.example.com".to_owned()];
    let (host, origin) = ("mcp.example.com:80", Some("http://mcp.example.com:80"));
    let loopback = AllowedHostsLayer::loopback(Vec::new(), Vec::new());
    assert_eq!(check(&loopback, host, None), Some(403));
    let loopback = loopback.with_configured_hosts(configured());
    assert_eq!(check(&loopback, host, origin), None);
    assert_eq!(check(&loopback, "evil.example.com", None), Some(403));
    let network =
        AllowedHostsLayer::network(Vec::new(), Vec::new()).with_configured_hosts(configured());
    assert_eq!(check(&network, host, origin), None);
    assert_eq!(check(&network, "other.example.com", None), None);
    let named = AllowedHostsLayer::network(vec!["a.test".to_owned()], Vec::new())
        .with_configured_hosts(configured());
    assert_eq!(check(&named, host, None), None);
    assert_eq!(check(&named, "other.example.com", None), Some(403));
}

#[test]
fn network_server_rejects_localhost_origins() {
    let layer = AllowedHostsLayer::network(Vec::new(), Vec::new());
    assert_eq!(check(&layer, "mcp.example.com", None), None);
    assert_eq!(check(&layer, "mcp.example.com", Some("https://mcp.example.com")), None);
    assert_eq!(check(&layer, "mcp.example.com", Some("http://localhost:1")), Some(403));
}

#[test]
fn network_server_rejects_dns_rebinding_origins() {
    let (host, origin) = ("evil.example.com:4483", Some("http://evil.example.com:4483"));
    let any = AllowedHostsLayer::network(Vec::new(), Vec::new());
    assert_eq!(check(&any, host, origin), Some(403));
    for configured in ["10.0.0.7:4483", "[fd00::7]:4483"] {
        assert_eq!(
            check(&any, configured, Some(&format!("http://{configured}"))),
            None,
            "{configured}"
        );
    }
    let named = AllowedHostsLayer::network(vec!["tools.example.com".to_owned()], Vec::new());
    assert_eq!(check(&named, host, origin), Some(403));
    let (host, origin) = ("tools.example.com:4483", Some("http://tools.example.com:4483"));
    assert_eq!(check(&named, host, origin), None);
}

type Mock = Spawn<AllowedHosts<tower_test::mock::Mock<Request<()>, Response<Body>>>>;

/// Address of the page in these tests.
const PAGE: &str = "http://localhost:6274";

fn spawn(layer: AllowedHostsLayer) -> (Mock, Handle<Request<()>, Response<Body>>) {
    spawn_layer(layer)
}

fn loopback() -> AllowedHostsLayer {
    AllowedHostsLayer::loopback(Vec::new(), Vec::new())
}

fn request(method: Method, headers: &[(&str, &str)]) -> Request<()> {
    let mut request = Request::builder().method(method).uri("/mcp").header("host", "localhost");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap()
}

/// Calls the service in front of an inner service that responds with this head.
async fn call(layer: AllowedHostsLayer, request: Request<()>, inner: Response<Body>) -> HeaderMap {
    let (mut service, mut handle) = spawn(layer);
    assert!(service.poll_ready().is_ready());
    let response = service.call(request);
    let (_, respond) = handle.next_request().await.unwrap();
    respond.send_response(inner);
    response.await.unwrap().into_parts().0.headers
}

/// Calls the service, which responds by itself.
async fn respond(layer: AllowedHostsLayer, request: Request<()>) -> Response<Body> {
    let (mut service, mut handle) = spawn(layer);
    assert!(service.poll_ready().is_ready());
    let response = service.call(request).await.unwrap();
    drop(service);
    assert!(handle.next_request().await.is_none(), "the inner service was called");
    response
}

#[tokio::test]
async fn preflight_lists_mcp_and_parameter_headers() {
    let preflight = [
        ("origin", PAGE),
        ("access-control-request-method", "POST"),
        (
            "access-control-request-headers",
            "content-type, x-other, Mcp-Param-Region, mcp-param-a b",
        ),
    ];
    let response = respond(loopback(), request(Method::OPTIONS, &preflight)).await;
    assert_eq!(response.status(), StatusCode::NO_CONTENT);
    let expected = [
        ("access-control-allow-origin", PAGE),
        ("access-control-allow-methods", "GET,POST,DELETE"),
        (
            "access-control-allow-headers",
            "authorization, content-type, accept, last-event-id, mcp-session-id, \
             mcp-protocol-version, mcp-method, mcp-name, mcp-param-region",
        ),
        ("access-control-max-age", "600"),
        ("vary", "origin"),
    ];
    for (name, value) in expected {
        assert_eq!(response.headers()[name], value, "{name}");
    }
    assert_eq!(response.headers().len(), expected.len());
}

#[tokio::test]
async fn options_request_without_method_is_no_preflight() {
    let headers = call(
        loopback(),
        request(Method::OPTIONS, &[("origin", PAGE)]),
        Response::new(Body::empty()),
    );
    assert!(headers.await.is_empty());
}

#[tokio::test]
async fn allowed_page_reads_response_and_mcp_headers() {
    let mut inner = Response::new(Body::empty());
    inner.headers_mut().insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    let headers = call(loopback(), request(Method::POST, &[("origin", PAGE)]), inner).await;
    assert_eq!(headers["access-control-allow-origin"], PAGE);
    let exposed = "mcp-session-id,www-authenticate,retry-after";
    assert_eq!(headers["access-control-expose-headers"], exposed);
    let vary: Vec<_> = headers.get_all(header::VARY).iter().collect();
    assert_eq!(vary, ["accept-encoding", "origin"]);
}

#[tokio::test]
async fn cacheable_response_varies_by_origin_without_page() {
    let respond = || Response::new(Body::empty());
    let headers = call(loopback(), request(Method::GET, &[]), respond()).await;
    assert_eq!(headers[header::VARY], "origin");
    assert!(!headers.contains_key("access-control-allow-origin"));
    let headers = call(loopback(), request(Method::POST, &[]), respond()).await;
    assert!(headers.is_empty(), "the response of a program changed: {headers:?}");
}

#[tokio::test]
async fn any_origin_leaves_cors_to_inner_service() {
    let preflight = [("origin", "https://other.test"), ("access-control-request-method", "POST")];
    let layer = loopback().with_any_origin();
    let inner = Response::new(Body::empty());
    assert!(call(layer, request(Method::OPTIONS, &preflight), inner).await.is_empty());
}

#[tokio::test]
async fn rejection_names_settings_of_the_program() {
    let foreign = || request(Method::POST, &[("origin", "https://other.test")]);
    let message = |response: &Response<Body>| {
        assert_eq!(response.status(), StatusCode::FORBIDDEN);
        response.extensions().get::<Rejection>().unwrap().message().to_owned()
    };
    let response = respond(loopback(), foreign()).await;
    assert_eq!(message(&response), "this Origin is not served here");
    let layer = loopback().with_setting_names("--allow-host", "--allow-origin");
    let response = respond(layer.clone(), foreign()).await;
    assert_eq!(message(&response), "this Origin is not served here: see --allow-origin");
    let mut foreign = foreign();
    foreign.headers_mut().insert("host", HeaderValue::from_static("evil.test"));
    let response = respond(layer, foreign).await;
    assert_eq!(message(&response), "this Host is not served here: see --allow-host");
}

#[tokio::test]
async fn forwards_inner_readiness() {
    let (mut service, mut handle) = spawn(loopback());
    handle.allow(0);
    assert!(service.poll_ready().is_pending());
    handle.allow(1);
    assert!(service.poll_ready().is_ready());
}
