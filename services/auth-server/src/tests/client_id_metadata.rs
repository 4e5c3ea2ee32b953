//! Tests for clients identified by the URL of their metadata document.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use serde_json::{Value, json};
use vmcp_core::{Body, BoxError};

use crate::testing::{APP, LOOPBACK, TestEnv, UserAgent};

const URL: &str = "https://app.example/client.json";

fn document() -> Value {
    json!({
        "client_id": URL, "client_name": "Editor", "redirect_uris": [APP, LOOPBACK],
        "grant_types": ["authorization_code", "refresh_token", "urn:ietf:params:oauth:grant-type:device_code"],
        "response_types": ["code"], "token_endpoint_auth_method": "none",
    })
}

/// Creates a server whose fetches all return this response, and a counter of the fetches.
fn env_with_document(
    respond: impl Fn() -> Response<Bytes> + Clone + Send + 'static,
) -> (TestEnv, Arc<AtomicUsize>) {
    let fetched = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&fetched);
    let http = tower::service_fn(move |request: Request<Body>| {
        assert_eq!(request.method(), "GET");
        count.fetch_add(1, Ordering::SeqCst);
        let response = respond().map(Body::from);
        async move {
            tokio::task::yield_now().await;
            Ok::<_, BoxError>(response)
        }
    });
    let mut env = TestEnv::new();
    let server = std::mem::replace(&mut env.server, TestEnv::new().server);
    env.server = server.with_client_metadata(http);
    (env, fetched)
}

fn response(status: u16, media: &str, text: String) -> Response<Bytes> {
    Response::builder().status(status).header("content-type", media).body(text.into()).unwrap()
}

fn json_response(text: String) -> Response<Bytes> {
    response(200, "application/json", text)
}

#[tokio::test]
async fn client_with_metadata_document_needs_no_registration() {
    let (env, fetched) = env_with_document(|| json_response(document().to_string()));
    let metadata = env.get("/.well-known/oauth-authorization-server").await.json();
    assert_eq!(metadata["client_id_metadata_document_supported"], true);
    let mut browser = UserAgent::default();
    let page = browser.get(&env, &TestEnv::authorize(URL, &[])).await;
    assert!(page.text.contains("<bdi>app.example</bdi>"), "{}", page.text);
    let issued = env.tokens(URL).await;
    assert_eq!(env.refresh(URL, &issued.refresh).await.status, 200);
    assert_eq!(fetched.load(Ordering::SeqCst), 1, "it was kept");
    assert_eq!(env.store.counts().await.unwrap().clients, 0);
    // The client has no secret, so any secret is wrong.
    let code = env.code(URL).await;
    assert_eq!(env.redeem(URL, &code, &[("client_secret", "x")]).await.error(), "invalid_client");
}

#[tokio::test]
async fn ignores_private_use_schemes_in_documents() {
    let (env, _) = env_with_document(|| {
        let mut document = document();
        document["redirect_uris"] = json!([APP, "com.example.app:/cb", "http://app.example/cb"]);
        json_response(document.to_string())
    });
    for (uri, status) in [(APP, 200), ("com.example.app:/cb", 400), ("http://app.example/cb", 400)]
    {
        let response = env.get(&TestEnv::authorize(URL, &[("redirect_uri", uri)])).await;
        assert_eq!(response.status, status, "{uri}");
    }
}

#[tokio::test]
async fn asks_for_consent_each_time_on_loopback() {
    let (env, _) = env_with_document(|| json_response(document().to_string()));
    let mut browser = UserAgent::default();
    for (uri, asked) in [(APP, 303), (LOOPBACK, 200)] {
        let address = TestEnv::authorize(URL, &[("redirect_uri", uri)]);
        env.log_in_at(&mut browser, &address).await;
        assert_eq!(browser.get(&env, &address).await.status, asked, "{uri}");
    }
}

#[tokio::test]
async fn shares_fetch_and_honors_cache_headers() {
    let (env, fetched) = env_with_document(|| {
        let mut response = json_response(document().to_string());
        response.headers_mut().insert("cache-control", "max-age=900".parse().unwrap());
        response
    });
    let ask = async || env.get(&TestEnv::authorize(URL, &[])).await.status;
    let asking: Vec<_> = (0..50).map(|_| ask()).collect();
    for status in futures_util::future::join_all(asking).await {
        assert_eq!(status, 200);
    }
    assert_eq!(fetched.load(Ordering::SeqCst), 1);
    env.clock.advance(Duration::from_secs(899));
    ask().await;
    assert_eq!(fetched.load(Ordering::SeqCst), 1);
    env.clock.advance(Duration::from_secs(1));
    ask().await;
    assert_eq!(fetched.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn rejects_invalid_documents_without_redirect() {
    let with = |member: &str, value: Value| {
        let mut document = document();
        document[member] = value;
        json_response(document.to_string())
    };
    let mut padded = document().to_string();
    padded.push_str(&" ".repeat(10 * 1024 + 1 - padded.len()));
    for wrong in [
        with("client_id", json!("https://app.example/other.json")),
        with("client_id", json!("https://app.example/client.json#")),
        with("client_name", Value::Null),
        with("client_name", json!("a\u{202e}b")),
        with("redirect_uris", json!([])),
        with("redirect_uris", json!(["com.example.app:/cb", "http://app.example/cb"])),
        with("redirect_uris", json!([APP].repeat(33))),
        with("client_secret", json!("x")),
        with("client_secret_expires_at", json!(0)),
        with("token_endpoint_auth_method", json!("client_secret_post")),
        with("grant_types", json!(["client_credentials"])),
        with("response_types", json!(["token"])),
        with("scope", json!("a\"b")),
        json_response(format!("{{\"client_id\":\"{URL}\",{}", &document().to_string()[1..])),
        json_response("[]".into()),
        json_response(padded),
        response(200, "text/html", document().to_string()),
        response(404, "application/json", document().to_string()),
        response(302, "application/json", document().to_string()),
    ] {
        let (env, fetched) = env_with_document(move || wrong.clone());
        let response = env.get(&TestEnv::authorize(URL, &[])).await;
        assert_eq!(response.status, 400);
        assert!(response.text.contains("Invalid application metadata"), "{}", response.text);
        env.get(&TestEnv::authorize(URL, &[])).await;
        assert_eq!(fetched.load(Ordering::SeqCst), 1, "a failure is not asked for again at once");
        env.clock.advance(Duration::from_secs(10));
        env.get(&TestEnv::authorize(URL, &[])).await;
        assert_eq!(fetched.load(Ordering::SeqCst), 2, "nor kept for long");
    }
}

#[tokio::test]
async fn fetches_only_document_urls() {
    let (env, fetched) = env_with_document(|| json_response(document().to_string()));
    for id in [
        "http://app.example/client.json",
        "https://app.example/",
        "https://app.example",
        "https://user@app.example/client.json",
        "https://app.example/client.json#x",
        "https://app.example/a/../client.json",
        "https://app.example/a/..%2fclient.json",
        "https://app.example/%2e%2e/client.json",
        "https://APP.example/client.json",
        "https://app.example:443/client.json",
        "https://127.0.0.1/client.json",
        "https://[::1]/client.json",
        "https://2130706433/client.json",
        "file:///etc/passwd",
    ] {
        let response = env.get(&TestEnv::authorize(id, &[])).await;
        assert_eq!(response.status, 400, "{id}");
    }
    assert_eq!(fetched.load(Ordering::SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn limits_slow_document_fetches() {
    let http = tower::service_fn(|_: Request<Body>| async {
        std::future::pending::<()>().await;
        Ok::<_, BoxError>(Response::new(Body::empty()))
    });
    let mut env = TestEnv::new();
    let server = std::mem::replace(&mut env.server, TestEnv::new().server);
    env.server = server.with_client_metadata(http);
    let urls: Vec<_> = (0..1000).map(|at| format!("https://app.example/{at}.json")).collect();
    let asking =
        urls.iter().map(|url| async { env.get(&TestEnv::authorize(url, &[])).await.status });
    let began = tokio::time::Instant::now();
    let statuses = futures_util::future::join_all(asking).await;
    assert!(statuses.iter().all(|status| *status == 400));
    assert!(began.elapsed() < Duration::from_secs(6));
}

/// Creates a server for which hosts below `slow.example` never respond, and others respond after a second.
fn env_with_slow_hosts() -> TestEnv {
    let http = tower::service_fn(|request: Request<Body>| async move {
        if request.uri().host().is_some_and(|host| host.ends_with("slow.example")) {
            std::future::pending::<()>().await;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        let mut document = document();
        document["client_id"] = json!(request.uri().to_string());
        Ok::<_, BoxError>(json_response(document.to_string()).map(Body::from))
    });
    let mut env = TestEnv::new();
    let server = std::mem::replace(&mut env.server, TestEnv::new().server);
    env.server = server.with_client_metadata(http);
    env
}

#[tokio::test(start_paused = true)]
async fn slow_hosts_do_not_block_other_clients() {
    let env = env_with_slow_hosts();
    let get = async |address: &str, url: &str| {
        UserAgent::at(address).get(&env, &TestEnv::authorize(url, &[])).await.status.as_u16()
    };
    // One address requests documents of many hosts, and many addresses request documents of one host.
    let mut urls: Vec<_> = (0..200)
        .map(|at| ("192.0.2.1".to_owned(), format!("https://{at}.slow.example/client.json")))
        .collect();
    urls.extend(
        (0..100).map(|at| (format!("198.51.100.{at}"), format!("https://slow.example/{at}.json"))),
    );
    let flood = urls.iter().map(|(address, url)| get(address, url));
    let others = async {
        tokio::time::sleep(Duration::from_millis(1)).await;
        let own = get("192.0.2.2", URL);
        // An address at its limit may still join a running fetch.
        let joined = async {
            tokio::time::sleep(Duration::from_millis(1)).await;
            get("192.0.2.1", URL).await
        };
        tokio::join!(own, joined)
    };
    let (flooded, others) = tokio::join!(futures_util::future::join_all(flood), others);
    assert!(flooded.iter().all(|status| *status == 400));
    assert_eq!(others, (200, 200));
}

#[tokio::test]
async fn failures_evict_no_document() {
    let fetched = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&fetched);
    let http = tower::service_fn(move |request: Request<Body>| {
        let found = *request.uri() == URL;
        count.fetch_add(usize::from(found), Ordering::SeqCst);
        let response = if found {
            json_response(document().to_string())
        } else {
            response(404, "", String::new())
        };
        async move { Ok::<_, BoxError>(response.map(Body::from)) }
    });
    let mut env = TestEnv::new();
    let server = std::mem::replace(&mut env.server, TestEnv::new().server);
    env.server = server.with_client_metadata(http);
    assert_eq!(env.get(&TestEnv::authorize(URL, &[])).await.status, 200);
    for at in 0..5000 {
        let url = format!("https://app.example/{at}.json");
        assert_eq!(env.get(&TestEnv::authorize(&url, &[])).await.status, 400);
    }
    assert_eq!(env.get(&TestEnv::authorize(URL, &[])).await.status, 200);
    assert_eq!(fetched.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn withdrawn_document_ends_grants_at_next_refresh() {
    let without = json!({"grant_types": ["authorization_code"]});
    let mut quiet = document();
    quiet["grant_types"] = without["grant_types"].clone();
    let mut other = document();
    other["client_id"] = json!("https://app.example/other.json");
    let json = "application/json";
    for (then, error, ends) in [
        (response(404, "text/html", String::new()), "invalid_grant", true),
        (response(410, "text/html", String::new()), "invalid_grant", true),
        (response(200, json, quiet.to_string()), "unauthorized_client", false),
        (response(200, json, other.to_string()), "invalid_client", false),
        // A temporary failure does not end the grant.
        (response(503, "text/html", String::new()), "", false),
        (response(302, "text/html", String::new()), "", false),
    ] {
        let now = Arc::new(std::sync::Mutex::new(json_response(document().to_string())));
        let served = Arc::clone(&now);
        let (env, _) = env_with_document(move || served.lock().unwrap().clone());
        let issued = env.tokens(URL).await;
        *now.lock().unwrap() = then.clone();
        // The document is cached for a while.
        let issued = env.refresh(URL, &issued.refresh).await.tokens();
        env.clock.advance(Duration::from_secs(301));
        let response = env.refresh(URL, &issued.refresh).await;
        assert_eq!(response.error(), error, "{then:?}");
        let sessions = env.store.counts().await.unwrap().sessions;
        assert_eq!(sessions, usize::from(!ends), "{then:?}");
        let verifier = env.server.verifier(crate::testing::RESOURCE).unwrap();
        assert_eq!(verifier.verify(&issued.access).is_err(), ends, "{then:?}");
    }
}
