//! Redirects that are followed, and errors for all others.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use tower::{BoxError, Layer, ServiceExt, service_fn};
use url::Url;
use vmcp_egress::{Error, Origin, RedirectLayer};

use vmcp_test_support::ScriptedServer;

use crate::support::{ServerExt, post};

/// Sends a POST to `/mcp` of a service that responds with `status` and `location` there and with
/// 200 elsewhere. Returns the outcome and the requested URIs.
async fn follow(status: u16, location: Option<&str>) -> (Result<StatusCode, Error>, Vec<String>) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let location = location.map(ToOwned::to_owned);
    let inner = service_fn({
        let asked = Arc::clone(&asked);
        move |request: Request<Full<Bytes>>| {
            let (asked, location) = (Arc::clone(&asked), location.clone());
            async move {
                let (head, body) = request.into_parts();
                assert_eq!(body.collect().await.unwrap().to_bytes(), "body");
                assert_eq!(
                    (head.method.as_str(), &head.headers["x"]),
                    ("POST", &"y".parse().unwrap())
                );
                asked.lock().unwrap().push(head.uri.to_string());
                let mut response = Response::new(());
                if head.uri.path() == "/mcp" {
                    *response.status_mut() = StatusCode::from_u16(status).unwrap();
                    if let Some(location) = location {
                        response.headers_mut().insert(header::LOCATION, location.parse().unwrap());
                    }
                }
                Ok::<_, BoxError>(response)
            }
        }
    });
    let origin = Origin::of(&Url::parse("http://backend:8080/ignored").unwrap()).unwrap();
    let mut request = post("body");
    request.headers_mut().insert("x", "y".parse().unwrap());
    let outcome = RedirectLayer::new(origin).layer(inner).oneshot(request).await;
    let outcome =
        outcome.map(|it| it.status()).map_err(|error| *error.downcast::<Error>().unwrap());
    let asked = asked.lock().unwrap().clone();
    (outcome, asked)
}

#[tokio::test]
async fn follows_307_and_308_within_the_origin() {
    for status in [307, 308] {
        for (location, path) in [
            ("/new", "/new"),
            ("new?a=b#fragment", "/new?a=b"),
            ("http://backend:8080/new", "/new"),
            ("HTTP://BACKEND:8080", "/"),
            ("//backend:8080/new", "/new"),
            ("?a", "/mcp?a"),
        ] {
            if path.starts_with("/mcp") {
                continue;
            }
            let (outcome, asked) = follow(status, Some(location)).await;
            assert_eq!(outcome.unwrap(), 200);
            assert_eq!(asked, ["/mcp", path]);
        }
    }
}

#[tokio::test]
async fn rejects_other_redirects_and_names_origin_only() {
    for (status, location, to) in [
        (301, Some("/new"), Some("http://backend:8080")),
        (302, Some("/new"), Some("http://backend:8080")),
        (303, Some("/new"), Some("http://backend:8080")),
        (307, Some("https://backend:8080/secret"), Some("https://backend:8080")),
        (307, Some("http://backend/secret"), Some("http://backend")),
        (307, Some("http://backend.evil:8080/?secret"), Some("http://backend.evil:8080")),
        (308, Some("//other/secret"), Some("http://other")),
        (308, Some("\\\\other/secret"), Some("http://other")),
        (307, Some("http://user:secret@backend:8080/"), None),
        (307, Some("file:///secret"), None),
        (307, Some("http://[secret"), None),
        (307, None, None),
    ] {
        let (outcome, asked) = follow(status, location).await;
        let error = outcome.unwrap_err();
        assert!(!error.to_string().contains("secret"), "{error}");
        assert_eq!((error.kind(), error.sent()), ("redirected", true));
        let Error::Redirected { to: named, .. } = error else { unreachable!() };
        assert_eq!(named.map(|it| it.to_string()).as_deref(), to, "{status} {location:?}");
        assert_eq!(asked, ["/mcp"]);
    }
}

#[tokio::test]
async fn follows_at_most_five_redirects() {
    let (outcome, asked) = follow(307, Some("/mcp?again")).await;
    let error = outcome.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the backend redirects to http://backend:8080, which is not followed: too many redirects"
    );
    assert_eq!(asked.len(), 6);
}

#[tokio::test]
async fn forwards_other_responses() {
    for status in [200, 204, 300, 304, 400, 404, 503] {
        let (outcome, asked) = follow(status, Some("/new")).await;
        assert_eq!(outcome.unwrap(), status);
        assert_eq!(asked, ["/mcp"]);
    }
}

#[tokio::test]
async fn follows_redirects_on_one_connection() {
    let server = ScriptedServer::start(|mut peer| async move {
        while let Some(request) = peer.request().await {
            peer.write(if request.starts_with("POST /mcp ") {
                b"HTTP/1.1 308 Permanent Redirect\r\nlocation: /mcp/\r\ncontent-length: 5\r\n\r\nmoved"
            } else {
                b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nhere"
            })
            .await;
        }
    })
    .await;
    let client = server.client();
    let service = RedirectLayer::new(client.origin().clone()).layer(client);
    for _ in 0..2 {
        let response = service.clone().oneshot(post("body")).await.unwrap();
        assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "here");
    }
    assert_eq!(server.connections(), 1);
    assert_eq!(server.requests().len(), 4);
}

#[tokio::test]
async fn redirects_of_hidden_origins_name_no_host() {
    let inner = service_fn(|request: Request<Full<Bytes>>| async move {
        let mut response = Response::new(());
        let next = match request.uri().path() {
            "/mcp" => "/next",
            "/next" => "https://canary.test/mcp",
            path => panic!("{path}"),
        };
        *response.status_mut() = StatusCode::PERMANENT_REDIRECT;
        response.headers_mut().insert(header::LOCATION, next.parse().unwrap());
        Ok::<_, BoxError>(response)
    });
    let origin = Origin::of(&Url::parse("http://canary.test").unwrap()).unwrap();
    let layer = RedirectLayer::new(origin.with_label("http://${HOST}"));
    let error = layer.layer(inner).oneshot(post("body")).await.unwrap_err();
    let text = format!("{error} {error:?}");
    assert!(text.contains("leads to another origin") && !text.contains("canary"), "{text}");
}
