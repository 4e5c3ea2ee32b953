//! Requests that are no reviews, too large, or too slow.

use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use kube::client::Body;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tower::ServiceExt;

use super::*;

/// Returns the warnings that a dry run of an update has.
pub(super) async fn warnings(cluster: &Cluster, object: &Value) -> Vec<String> {
    let mut object = object.clone();
    object["spec"]["replicas"] = 1.into();
    let request =
        Request::patch("/apis/vmcp.dev/v1beta1/namespaces/default/virtualmcpservers/a?dryRun=All")
            .header("content-type", "application/merge-patch+json")
            .body(Body::from(object.to_string().into_bytes()))
            .unwrap();
    let response = cluster.server.clone().oneshot(request).await.unwrap();
    assert_eq!(response.status(), 200);
    let warnings = response.headers().get_all("warning").iter();
    warnings.map(|warning| warning.to_str().unwrap().to_owned()).collect()
}

/// Verifier of a client that wants to be refused: another test shows that the certificate is trusted.
#[derive(Debug)]
struct NoVerification;

impl ServerCertVerifier for NoVerification {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        aws_lc_rs::default_provider().signature_verification_algorithms.supported_schemes()
    }
}

/// Operator with its webhook.
struct Served {
    _cluster: Cluster,
    sender: mpsc::Sender<DuplexStream>,
}

async fn serve() -> Served {
    let mut cluster = Cluster::new();
    let (sender, connections) = connections();
    cluster.start_operator(|operator| operator.webhook(service(), connections));
    cluster.settle().await;
    Served { _cluster: cluster, sender }
}

// === impl Served ===

impl Served {
    async fn connect(&self) -> TlsStream<DuplexStream> {
        let (own, other) = tokio::io::duplex(64 * 1024);
        self.sender.send(other).await.unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(NoVerification))
            .with_no_client_auth();
        let name = ServerName::try_from("vmcp-operator-webhook.default.svc").unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, own).await.unwrap()
    }

    async fn send(&self, request: Request<Full<Bytes>>) -> Response<Incoming> {
        let stream = TokioIo::new(self.connect().await);
        let (mut sender, connection) = http1::handshake(stream).await.unwrap();
        tokio::spawn(connection);
        sender.send_request(request).await.unwrap()
    }

    async fn post(&self, path: &str, kind: &str, body: impl Into<Bytes>) -> (StatusCode, String) {
        let request = Request::post(path).header("host", "x").header("content-type", kind);
        let response = self.send(request.body(Full::new(body.into())).unwrap()).await;
        let status = response.status();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8_lossy(&body).into_owned())
    }
}

const JSON: &str = "application/json";

fn review(change: impl FnOnce(&mut Value)) -> String {
    let mut review = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "u", "operation": "CREATE", "namespace": "default", "object": with_bad_policy("a"),
            "kind": {"group": "vmcp.dev", "version": "v1beta1", "kind": "VirtualMCPServer"},
        },
    });
    change(&mut review);
    review.to_string()
}

#[tokio::test(start_paused = true)]
async fn reviews_alone_are_read() {
    let served = serve().await;
    let (status, body) = served.post("/validate?timeout=2s", JSON, review(|_| {})).await;
    assert_eq!(status, 200);
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(
        (&body["response"]["uid"], &body["response"]["allowed"]),
        (&json!("u"), &json!(false))
    );
    let version = |review: &mut Value| review["apiVersion"] = "admission.k8s.io/v1beta1".into();
    let kind = |review: &mut Value| review["request"]["kind"]["group"] = "other.dev".into();
    for (path, kind, body, expected) in [
        ("/validate", JSON, "not JSON".to_owned(), 400),
        ("/validate", JSON, "{}".to_owned(), 400),
        ("/validate", JSON, review(version), 400),
        ("/validate", JSON, review(kind), 400),
        ("/validate", "text/plain", review(|_| {}), 415),
        ("/other", JSON, review(|_| {}), 404),
    ] {
        let (status, text) = served.post(path, kind, body).await;
        assert_eq!(status, expected, "{path} {text}");
    }
    let get = Request::builder().method(Method::GET).uri("/validate").header("host", "x");
    let response = served.send(get.body(Full::default()).unwrap()).await;
    assert_eq!(response.status(), 405);
}

#[tokio::test(start_paused = true)]
async fn oversize_request_is_refused() {
    let served = serve().await;
    let (status, text) = served.post("/validate", JSON, vec![b' '; 3 * 1024 * 1024 + 1]).await;
    assert_eq!(status, 413, "{text}");
}

#[tokio::test(start_paused = true)]
async fn slow_request_is_given_up() {
    let served = serve().await;
    let mut stream = served.connect().await;
    let head = "POST /validate HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{";
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.flush().await.unwrap();
    let start = tokio::time::Instant::now();
    let mut text = [0; 12];
    stream.read_exact(&mut text).await.unwrap();
    assert_eq!(&text, b"HTTP/1.1 408");
    assert!(start.elapsed() < Duration::from_secs(2));
}

#[tokio::test(start_paused = true)]
async fn client_without_handshake_is_closed() {
    let served = serve().await;
    let (mut own, other) = tokio::io::duplex(1024);
    served.sender.send(other).await.unwrap();
    let start = tokio::time::Instant::now();
    assert_eq!(own.read(&mut [0; 1]).await.unwrap(), 0);
    assert_eq!(start.elapsed().as_secs(), 2);
}
