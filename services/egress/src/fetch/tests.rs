use bytes::Bytes;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use super::*;

/// Starts a server that responds to the single request of each connection with `answer` of its
/// head.
async fn serve(answer: impl Fn(&str) -> String + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let mut request = vec![0; 4096];
            let read = socket.read(&mut request).await.unwrap();
            let answer = answer(&String::from_utf8_lossy(&request[..read]));
            _ = socket.write_all(answer.as_bytes()).await;
        }
    });
    url
}

fn ok(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

fn redirect(status: u16, to: &str) -> String {
    format!(
        "HTTP/1.1 {status} x\r\nconnection: close\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n"
    )
}

fn fetcher(policy: FetchPolicy) -> Fetcher {
    Fetcher::new(Egress::default(), policy).unwrap()
}

async fn get(policy: FetchPolicy, url: &str) -> Result<Response<Body>, BoxError> {
    fetcher(policy).fetch(Request::get(url).body(Body::empty()).unwrap()).await
}

async fn error(policy: FetchPolicy, url: &str) -> String {
    get(policy, url).await.unwrap_err().to_string()
}

#[tokio::test]
async fn returns_the_complete_response() {
    let url = serve(|_| ok("{}")).await;
    let response = get(FetchPolicy::configured(), &format!("{url}/keys?x=1")).await.unwrap();
    assert_eq!(response.body().bytes().unwrap(), "{}");
}

#[tokio::test]
async fn posts_a_form_with_its_length() {
    let url =
        serve(|request| ok(if request.contains("content-length: 7\r\n") { "y" } else { "n" }))
            .await;
    let form = Body::from(Bytes::from_static(b"token=a"));
    let request = Request::post(url).body(form).unwrap();
    let response = fetcher(FetchPolicy::configured()).fetch(request).await.unwrap();
    assert_eq!(response.body().bytes().unwrap(), "y");
}

#[tokio::test]
async fn only_configured_urls_may_be_loopback() {
    let url = serve(|_| ok("")).await;
    assert!(get(FetchPolicy::configured(), &url).await.is_ok());
    assert!(error(FetchPolicy::supplied(), &url).await.contains("requires https"));
    let with_http = FetchPolicy { http: true, ..FetchPolicy::supplied() };
    assert!(error(with_http, &url).await.contains("no public address"));
    let any = FetchPolicy { addresses: FetchAddresses::Any, http: true, ..FetchPolicy::supplied() };
    assert!(get(any, &url).await.is_ok());
}

#[tokio::test]
async fn rejects_private_addresses() {
    for host in ["169.254.169.254", "10.0.0.1", "[::ffff:127.0.0.1]", "[fd00::1]", "0.0.0.0"] {
        let url = format!("https://{host}/latest/meta-data");
        for policy in [FetchPolicy::configured(), FetchPolicy::supplied()] {
            let said = error(policy, &url).await;
            assert!(said.contains("no public address"), "{host}: {said}");
        }
    }
}

#[tokio::test]
async fn get_follows_redirects_within_its_origin() {
    let url = serve(|request| match request.split(' ').nth(1) {
        Some("/a") => redirect(302, "/b?q=1"),
        Some("/b?q=1") => redirect(308, "c"),
        Some("/c") => ok("there"),
        _ => redirect(307, "/endless"),
    })
    .await;
    let response = get(FetchPolicy::configured(), &format!("{url}/a")).await.unwrap();
    assert_eq!(response.body().bytes().unwrap(), "there");
    let said = error(FetchPolicy::configured(), &format!("{url}/endless")).await;
    assert!(said.contains("too many"), "{said}");
    let stays = FetchPolicy { redirects: false, ..FetchPolicy::configured() };
    assert_eq!(get(stays, &format!("{url}/a")).await.unwrap().status(), 302);
    let post = Request::post(format!("{url}/a")).body(Body::empty()).unwrap();
    let refused = fetcher(FetchPolicy::configured()).fetch(post).await.unwrap_err();
    assert!(refused.to_string().contains("only a GET"), "{refused}");
}

#[tokio::test]
async fn rejects_redirect_to_other_origin() {
    for to in ["http://169.254.169.254/keys", "https://127.0.0.1/", "//other.example/", "ftp://x/"]
    {
        let url = serve(move |_| redirect(302, to)).await;
        let refused = get(FetchPolicy::configured(), &url).await.unwrap_err();
        let refused = refused.downcast_ref::<Error>();
        assert!(matches!(refused, Some(Error::Redirected { .. })), "{to}: {refused:?}");
    }
}

#[tokio::test]
async fn limits_size_and_time() {
    let url = serve(|_| {
        let head =
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
        format!("{head}{}", "x".repeat(200))
    })
    .await;
    let small = FetchPolicy { max_body: 100, ..FetchPolicy::configured() };
    assert!(error(small, &url).await.contains("exceeds 100 bytes"));

    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::time::pause();
    let said = error(FetchPolicy::configured(), &url).await;
    assert!(said.contains("did not respond within 30s"), "{said}");
}

#[tokio::test]
async fn rejects_urls_that_are_not_absolute() {
    for url in ["/keys", "ftp://host/", "https://user:secret@host/"] {
        let said = error(FetchPolicy::configured(), url).await;
        assert!(!said.contains("secret"), "{said}");
    }
}

#[test]
fn checks_urls_without_a_request() {
    let check = |policy: FetchPolicy, url: &str| policy.check(&Url::parse(url).unwrap());
    for url in ["https://id.example", "http://localhost:1", "http://[::1]/", "https://10.0.0.1/"] {
        assert!(check(FetchPolicy::configured(), url).is_ok(), "{url}");
    }
    for url in ["http://id.example", "http://10.0.0.1/", "ftp://id.example", "https://u@id.example"]
    {
        assert!(check(FetchPolicy::configured(), url).is_err(), "{url}");
    }
    assert!(check(FetchPolicy::supplied(), "http://localhost:1").is_err());
}

#[tokio::test]
async fn rejects_unreadable_bundle_at_construction() {
    let policy = FetchPolicy { ca_bundle: Some("missing.pem".into()), ..FetchPolicy::supplied() };
    assert!(Fetcher::new(Egress::default(), policy).is_err());
}

#[test]
fn keeps_recently_used_origins() {
    let fetcher = fetcher(FetchPolicy::supplied());
    let ask = |host: usize| {
        let uri = format!("https://host-{host}.example/").parse().unwrap();
        fetcher.0.client(&origin(&uri).unwrap()).unwrap();
    };
    ask(0);
    for host in 1..100 {
        ask(host);
        ask(0);
    }
    let clients = fetcher.0.clients.lock().unwrap();
    assert_eq!(clients.len(), MAX_ORIGINS);
    assert_eq!(clients.last().unwrap().origin().to_string(), "https://host-0.example");
}
