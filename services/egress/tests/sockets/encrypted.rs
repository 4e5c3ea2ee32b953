//! TLS with a private CA, and HTTP/2 over it.

use std::{
    convert::Infallible,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, Version};
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::{body::Frame, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::{
    ALL_VERSIONS, ServerConfig, SupportedProtocolVersion, pki_types::PrivateKeyDer, version::TLS12,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpListener,
    sync::Notify,
    time::sleep,
};
use tokio_rustls::TlsAcceptor;
use url::Url;
use vmcp_core::Body;
use vmcp_egress::{
    Client, ClientSettings, Egress, Error, FetchAddresses, FetchPolicy, Fetcher, Gauges, Settings,
    Versions,
};

use crate::support::{OK, eventually, exchange, post};

/// CA in a file, with servers that have its certificates.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    file: PathBuf,
}

struct Server {
    url: Url,
    connections: Arc<AtomicUsize>,
    /// Makes every connection send GOAWAY.
    leave: Arc<Notify>,
}

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let file =
            std::env::temp_dir().join(format!("vmcp-egress-{}-{name}.crt", std::process::id()));
        std::fs::write(&file, issuer.pem()).unwrap();
        Self { issuer, file }
    }

    fn client_settings(&self) -> ClientSettings {
        ClientSettings::allowing_private_addresses().with_ca_bundle(&self.file)
    }

    fn client(&self, server: &Server) -> Client {
        Egress::default().client(&server.url, self.client_settings()).unwrap()
    }

    async fn serve(&self, name: &str, protocols: &[&[u8]]) -> Server {
        start(Some(self.acceptor(name, protocols, ALL_VERSIONS))).await
    }

    fn acceptor(
        &self,
        name: &str,
        protocols: &[&[u8]],
        versions: &[&'static SupportedProtocolVersion],
    ) -> TlsAcceptor {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![certificate.der().clone()],
                PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
            )
            .unwrap();
        config.alpn_protocols = protocols.iter().map(|it| it.to_vec()).collect();
        TlsAcceptor::from(Arc::new(config))
    }
}

impl Drop for Authority {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.file);
    }
}

/// Responds with the received request and its properties; `/stream` never ends.
async fn answer(
    request: Request<hyper::body::Incoming>,
) -> Result<Response<UnsyncBoxBody<Bytes, Infallible>>, Infallible> {
    let version = request.version();
    let (head, body) = request.into_parts();
    let body = match head.uri.path() {
        "/stream" => {
            let first = futures_util::stream::iter([Ok(Frame::data(Bytes::from_static(b":\n")))]);
            let never = futures_util::stream::pending();
            StreamBody::new(futures_util::StreamExt::chain(first, never)).boxed_unsync()
        }
        "/trailers" => {
            let trailers = HeaderMap::from_iter([(
                HeaderName::from_static("grpc-status"),
                HeaderValue::from_static("0"),
            )]);
            let body = Full::new(Bytes::from_static(b"whole"));
            body.with_trailers(std::future::ready(Some(Ok(trailers)))).boxed_unsync()
        }
        "/slow" => {
            sleep(Duration::from_millis(10)).await;
            Full::new(Bytes::from_static(b"slow")).boxed_unsync()
        }
        _ => {
            let got = body.collect().await.unwrap().to_bytes();
            let host = head.headers.get("host").map(|it| it.to_str().unwrap().to_owned());
            let authority = head.uri.authority().map(ToString::to_string);
            let text = format!("{version:?} {host:?} {authority:?} {}", got.len());
            Full::new(Bytes::from(text)).boxed_unsync()
        }
    };
    Ok(Response::new(body))
}

/// Starts a server of both HTTP versions, with or without TLS.
async fn start(acceptor: Option<TlsAcceptor>) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let scheme = if acceptor.is_some() { "https" } else { "http" };
    let connections = Arc::new(AtomicUsize::new(0));
    let leave = Arc::new(Notify::new());
    let server = Server {
        url: Url::parse(&format!("{scheme}://localhost:{port}/mcp")).unwrap(),
        connections: Arc::clone(&connections),
        leave: Arc::clone(&leave),
    };
    tokio::spawn(async move {
        while let Ok((tcp, _)) = listener.accept().await {
            connections.fetch_add(1, Ordering::SeqCst);
            let (acceptor, leave) = (acceptor.clone(), Arc::clone(&leave));
            tokio::spawn(async move {
                match acceptor {
                    None => serve(tcp, &leave).await,
                    Some(acceptor) => {
                        let Ok(tls) = acceptor.accept(tcp).await else { return };
                        serve(tls, &leave).await;
                    }
                }
            });
        }
    });
    server
}

async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, leave: &Notify) {
    let mut builder = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
    builder.http2().max_concurrent_streams(8);
    let connection = builder.serve_connection(TokioIo::new(stream), service_fn(answer));
    let mut connection = std::pin::pin!(connection);
    loop {
        tokio::select! {
            _ = connection.as_mut() => return,
            () = leave.notified() => connection.as_mut().graceful_shutdown(),
        }
    }
}

const BOTH: &[&[u8]] = &[b"h2", b"http/1.1"];

#[tokio::test]
async fn trusts_bundle_and_falls_back_to_http1() {
    let authority = Authority::new("http1");
    for protocols in [&[b"http/1.1".as_slice()][..], &[]] {
        let server = authority.serve("localhost", protocols).await;
        let client = authority.client(&server);
        let port = server.url.port().unwrap();
        for _ in 0..3 {
            let answer = exchange(&client, "body").await.unwrap();
            assert_eq!(answer, format!("HTTP/1.1 Some(\"localhost:{port}\") None 4"));
        }
        assert_eq!(server.connections.load(Ordering::SeqCst), 1);
    }
}

#[tokio::test]
async fn handshake_errors_state_remedy() {
    let (ours, theirs) = (Authority::new("remedy-ours"), Authority::new("remedy-theirs"));
    let server = theirs.serve("localhost", BOTH).await;
    let error = exchange(&ours.client(&server), "a").await.unwrap_err().to_string();
    assert!(
        error.contains("configure a CA bundle with the certificate of its authority"),
        "{error}"
    );
    let server = ours.serve("elsewhere.test", BOTH).await;
    let error = exchange(&ours.client(&server), "a").await.unwrap_err().to_string();
    assert!(error.contains("use a host name in the URL"), "{error}");
    let plain = start(None).await;
    let mut url = plain.url.clone();
    url.set_scheme("https").unwrap();
    let client =
        Egress::default().client(&url, ClientSettings::allowing_private_addresses()).unwrap();
    let error = exchange(&client, "a").await.unwrap_err().to_string();
    assert!(error.contains("plain HTTP on an https URL"), "{error}");
}

#[tokio::test]
async fn names_end_entity_certificates_in_bundles() {
    let authority = Authority::new("leaf");
    let server = authority.serve("localhost", BOTH).await;
    let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    params.distinguished_name.push(DnType::CommonName, "server");
    let leaf = params.signed_by(&KeyPair::generate().unwrap(), &authority.issuer).unwrap();
    let bundle = authority.file.with_extension("leaf.crt");
    std::fs::write(&bundle, leaf.pem()).unwrap();
    let settings = ClientSettings::allowing_private_addresses().with_ca_bundle(&bundle);
    let client = Egress::default().client(&server.url, settings).unwrap();
    let error = exchange(&client, "a").await.unwrap_err().to_string();
    assert!(error.contains("the CA bundle holds an end-entity certificate"), "{error}");

    // Beside the authority's certificate it is harmless.
    std::fs::write(&bundle, leaf.pem() + &authority.issuer.pem()).unwrap();
    let settings = ClientSettings::allowing_private_addresses().with_ca_bundle(&bundle);
    let client = Egress::default().client(&server.url, settings).unwrap();
    exchange(&client, "a").await.unwrap();
    std::fs::remove_file(bundle).unwrap();
}

#[tokio::test]
async fn hidden_origins_appear_in_no_error() {
    let authority = Authority::new("hidden");
    let hidden = || authority.client_settings().with_display_origin("https://${HOST}");
    let shows = |error: Error, host: &str| {
        let mut text = format!("{error} {error:?}");
        let mut source = std::error::Error::source(&error);
        while let Some(cause) = source {
            text = format!("{text} {cause} {cause:?}");
            source = cause.source();
        }
        assert!(text.contains("${HOST}") && !text.contains(host), "{text}");
    };
    // A certificate for another name, a closed port, and an unknown name.
    let server = authority.serve("elsewhere.test", BOTH).await;
    let port = server.url.port().unwrap();
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    for (url, host) in [
        (format!("https://localhost:{port}/"), "localhost"),
        (format!("https://localhost:{free}/"), "localhost"),
        ("https://canary.invalid/".to_owned(), "canary"),
    ] {
        let client = Egress::default().client(&Url::parse(&url).unwrap(), hidden()).unwrap();
        shows(exchange(&client, "a").await.unwrap_err(), host);
    }
}

#[tokio::test]
async fn rejects_certificate_of_other_authority() {
    let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
    let server = theirs.serve("localhost", BOTH).await;
    let error = exchange(&ours.client(&server), "a").await.unwrap_err();
    assert!(matches!(error, Error::Tls { .. }) && !error.sent(), "{error:?}");

    let client =
        Egress::default().client(&server.url, ClientSettings::allowing_private_addresses());
    let error = exchange(&client.unwrap(), "a").await.unwrap_err();
    assert_eq!(error.kind(), "tls", "the system doesn't trust it either");
}

#[tokio::test]
async fn rejects_certificate_of_other_name() {
    let authority = Authority::new("name");
    let server = authority.serve("elsewhere.example", BOTH).await;
    let error = exchange(&authority.client(&server), "a").await.unwrap_err();
    assert_eq!(error.kind(), "tls");
}

#[tokio::test]
async fn missing_close_notify_fails_the_body() {
    let authority = Authority::new("truncated");
    for media in ["application/json", "text/event-stream", "text/plain"] {
        for closes in [true, false] {
            let acceptor = authority.acceptor("localhost", &[b"http/1.1"], ALL_VERSIONS);
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let port = listener.local_addr().unwrap().port();
            tokio::spawn(async move {
                while let Ok((tcp, _)) = listener.accept().await {
                    let mut tls = acceptor.accept(tcp).await.unwrap();
                    let mut request = vec![0; 4096];
                    _ = tls.read(&mut request).await;
                    let answer = format!("HTTP/1.1 200 OK\r\ncontent-type: {media}\r\n\r\n{{}}");
                    tls.write_all(answer.as_bytes()).await.unwrap();
                    tls.flush().await.unwrap();
                    if closes {
                        tls.shutdown().await.unwrap();
                    } else {
                        tls.get_mut().0.shutdown().await.unwrap();
                    }
                    _ = tls.read(&mut request).await;
                }
            });
            let url = Url::parse(&format!("https://localhost:{port}/mcp")).unwrap();
            let client = Egress::default().client(&url, authority.client_settings()).unwrap();
            let read = exchange(&client, "a").await;
            assert_eq!(read.is_ok(), closes, "{media}: {read:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn shares_one_http2_connection() {
    let authority = Authority::new("http2");
    let server = authority.serve("localhost", BOTH).await;
    let egress = Egress::default();
    let client = egress.client(&server.url, authority.client_settings()).unwrap();
    let exchanges: Vec<_> = (0..50)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move {
                let request = Request::post("/slow").body(Full::default()).unwrap();
                let response = client.send(request).await.unwrap();
                assert_eq!(response.version(), Version::HTTP_2);
                assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "slow");
            })
        })
        .collect();
    for exchange in exchanges {
        exchange.await.unwrap();
    }
    let port = server.url.port().unwrap();
    let answer = exchange(&client, "body").await.unwrap();
    assert_eq!(answer, format!("HTTP/2.0 None Some(\"localhost:{port}\") 4"));
    assert_eq!(server.connections.load(Ordering::SeqCst), 1);
    assert_eq!(egress.gauges(), Gauges { open: 1, idle: 1, in_flight: 0 });
}

#[tokio::test]
async fn moves_large_bodies_over_http2() {
    let authority = Authority::new("large");
    let server = authority.serve("localhost", BOTH).await;
    let client = authority.client(&server);
    let response = client.send(post(vec![b'x'; 5 << 20])).await.unwrap();
    let answer = response.into_body().collect().await.unwrap().to_bytes();
    assert!(answer.ends_with(b" 5242880"), "{answer:?}");
}

#[tokio::test]
async fn opens_a_new_http2_connection_after_goaway() {
    let authority = Authority::new("goaway");
    let server = authority.serve("localhost", BOTH).await;
    let egress = Egress::default();
    let client = egress.client(&server.url, authority.client_settings()).unwrap();
    for expected in 1..=3 {
        exchange(&client, "a").await.unwrap();
        assert_eq!(server.connections.load(Ordering::SeqCst), expected);
        server.leave.notify_one();
        eventually(|| egress.gauges().open == 0).await;
    }
}

#[tokio::test]
async fn dropped_body_resets_its_stream_only() {
    let authority = Authority::new("reset");
    let server = authority.serve("localhost", BOTH).await;
    let egress = Egress::default();
    let client = egress.client(&server.url, authority.client_settings()).unwrap();
    // More than the server allows concurrently.
    for _ in 0..20 {
        let request = Request::get("/stream").body(Full::default()).unwrap();
        let mut body = client.send(request).await.unwrap().into_body();
        body.frame().await.unwrap().unwrap();
        assert_eq!(egress.gauges().in_flight, 1);
    }
    exchange(&client, "a").await.unwrap();
    assert_eq!(server.connections.load(Ordering::SeqCst), 1);
    assert_eq!(egress.gauges().in_flight, 0);
}

#[tokio::test]
async fn caps_bodies_over_http2() {
    let authority = Authority::new("cap");
    let server = authority.serve("localhost", BOTH).await;
    let client = authority.client(&server).with_max_body(5);
    let error = exchange(&client, "a").await.unwrap_err();
    assert!(matches!(error, Error::BodyTooLarge { limit: 5 }), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn closes_unused_http2_connection() {
    let authority = Authority::new("idle");
    let server = authority.serve("localhost", BOTH).await;
    // Shorter than the ping interval, because a paused clock keeps the server from answering pings.
    let egress = Egress::new(Settings {
        idle_timeout: Duration::from_secs(10),
        reap_interval: Duration::from_secs(1),
        ..Settings::default()
    });
    let client = egress.client(&server.url, authority.client_settings()).unwrap();
    exchange(&client, "a").await.unwrap();
    sleep(Duration::from_secs(9)).await;
    assert_eq!(egress.gauges(), Gauges { open: 1, idle: 1, in_flight: 0 });
    sleep(Duration::from_secs(3)).await;
    assert_eq!(egress.gauges(), Gauges::default());
}

#[tokio::test]
async fn retries_unsent_request_on_new_connection() {
    let authority = Authority::new("again");
    // With TLS 1.2 the server sends the last message of the handshake, so its close arrives before
    // the client
    // can write.
    let acceptor = authority.acceptor("localhost", &[], &[&TLS12]);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let served = tokio::spawn(async move {
        let (tcp, _) = listener.accept().await.unwrap();
        let mut first = acceptor.accept(tcp).await.unwrap();
        first.shutdown().await.unwrap();
        drop(first);

        let (tcp, _) = listener.accept().await.unwrap();
        let mut second = acceptor.accept(tcp).await.unwrap();
        let mut request = [0; 1024];
        let length = second.read(&mut request).await.unwrap();
        second.write_all(OK).await.unwrap();
        String::from_utf8_lossy(&request[..length]).into_owned()
    });
    let url = Url::parse(&format!("https://localhost:{port}/")).unwrap();
    let client = Egress::default().client(&url, authority.client_settings()).unwrap();
    assert_eq!(exchange(&client, "body").await.unwrap(), "ok");
    assert!(served.await.unwrap().ends_with("\r\n\r\nbody"));
}

#[tokio::test]
async fn http2_without_tls_uses_prior_knowledge() {
    let server = start(None).await;
    let settings = ClientSettings::allowing_private_addresses().with_versions(Versions::Http2);
    let client = Egress::default().client(&server.url, settings).unwrap();
    let port = server.url.port().unwrap();
    for _ in 0..3 {
        let answer = exchange(&client, "body").await.unwrap();
        assert_eq!(answer, format!("HTTP/2.0 None Some(\"localhost:{port}\") 4"));
    }
    assert_eq!(server.connections.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn http2_only_rejects_http1() {
    let authority = Authority::new("alone");
    for (protocols, works) in [(BOTH, true), (&[b"http/1.1".as_slice()], false), (&[], false)] {
        let server = authority.serve("localhost", protocols).await;
        let settings = authority.client_settings().with_versions(Versions::Http2);
        let client = Egress::default().client(&server.url, settings).unwrap();
        match exchange(&client, "body").await {
            Ok(answer) => assert!(works && answer.starts_with(b"HTTP/2.0"), "{answer:?}"),
            Err(error) => assert!(!works && matches!(error, Error::Tls { .. }), "{error:?}"),
        }
    }
}

#[tokio::test]
async fn fetched_response_has_its_trailers() {
    let server = start(None).await;
    let policy = FetchPolicy {
        addresses: FetchAddresses::Any,
        http: true,
        versions: Versions::Http2,
        ..FetchPolicy::configured()
    };
    let fetcher = Fetcher::new(Egress::default(), policy).unwrap();
    let url = server.url.join("/trailers").unwrap();
    let request = Request::post(url.as_str()).header("te", "trailers").body(Body::empty());
    let answer = fetcher.fetch(request.unwrap()).await.unwrap();
    let whole = answer.into_body().collect().await.unwrap();
    assert_eq!(whole.trailers().unwrap()["grpc-status"], "0");
    assert_eq!(whole.to_bytes(), "whole");
}
