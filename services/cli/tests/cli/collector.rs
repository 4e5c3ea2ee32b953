//! An OTLP collector that keeps what it is sent, over HTTP and gRPC, with and without TLS.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, Version};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

/// Idle time after which all exports have arrived.
const IDLE_TIMEOUT: Duration = Duration::from_millis(200);

/// OpenTelemetry collector that runs until the test ends.
#[derive(Debug)]
pub(crate) struct Collector {
    port: u16,
    got: Receiver<Export>,
    /// The CA that its certificate is of, as PEM.
    pub(crate) authority: Option<String>,
}

/// One export.
#[derive(Debug)]
pub(crate) struct Export {
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) version: Version,
    /// The message, without the frame that gRPC puts around it.
    pub(crate) message: Bytes,
}

impl Collector {
    pub(crate) fn start() -> Self {
        Self::with(None)
    }

    /// Starts a collector with a certificate of a private certificate authority.
    pub(crate) fn encrypted() -> Self {
        Self::with(Some(private_authority(&[b"h2", b"http/1.1"])))
    }

    fn with(tls: Option<(TlsAcceptor, String)>) -> Self {
        let (acceptor, authority) = tls.unzip();
        let (sender, got) = channel();
        let (started, port) = channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async move {
                let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                started.send(listener.local_addr().unwrap().port()).unwrap();
                loop {
                    let (tcp, _) = listener.accept().await.unwrap();
                    tokio::spawn(connection(tcp, acceptor.clone(), sender.clone()));
                }
            });
        });
        Self { port: port.recv().unwrap(), got, authority }
    }

    pub(crate) fn url(&self) -> String {
        let scheme = if self.authority.is_some() { "https" } else { "http" };
        format!("{scheme}://localhost:{}", self.port)
    }

    /// Returns the exports so far. Called after the exporter has ended.
    pub(crate) fn all(&self) -> Vec<Export> {
        std::iter::from_fn(|| self.got.recv_timeout(IDLE_TIMEOUT).ok()).collect()
    }

    /// The spans among it.
    pub(crate) fn spans(&self) -> Vec<Span> {
        let traces = self.all().into_iter().filter(|got| got.path.to_lowercase().contains("trace"));
        let exports = traces.map(|got| ExportTraceServiceRequest::decode(got.message).unwrap());
        let resources = exports.flat_map(|export| export.resource_spans);
        let scopes = resources.flat_map(|resource| resource.scope_spans);
        scopes.flat_map(|scope| scope.spans).collect()
    }
}

/// Returns a TLS acceptor for `localhost` with a certificate of a new private authority, and the authority's
/// certificate as PEM.
pub(crate) fn private_authority(protocols: &[&[u8]]) -> (TlsAcceptor, String) {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let certificate = params.signed_by(&key, &issuer).unwrap();
    let provider = Arc::new(aws_lc_rs::default_provider());
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .unwrap();
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    (TlsAcceptor::from(Arc::new(config)), issuer.pem())
}

/// An attribute of a span, if it is a text.
pub(crate) fn attribute<'a>(span: &'a Span, key: &str) -> Option<&'a str> {
    let found = span.attributes.iter().find(|one| one.key == key)?;
    match found.value.as_ref()?.value.as_ref()? {
        Value::StringValue(text) => Some(text),
        _ => None,
    }
}

async fn connection(
    tcp: tokio::net::TcpStream,
    acceptor: Option<TlsAcceptor>,
    got: Sender<Export>,
) {
    let take = service_fn(move |request| {
        let got = got.clone();
        async move { Ok::<_, Infallible>(take(request, &got).await) }
    });
    let builder = Builder::new(TokioExecutor::new());
    // Connection errors are irrelevant to the tests.
    _ = match acceptor {
        None => builder.serve_connection(TokioIo::new(tcp), take).await,
        Some(acceptor) => {
            let Ok(tls) = acceptor.accept(tcp).await else { return };
            builder.serve_connection(TokioIo::new(tls), take).await
        }
    };
}

async fn take(
    request: Request<hyper::body::Incoming>,
    got: &Sender<Export>,
) -> Response<UnsyncBoxBody<Bytes, Infallible>> {
    let (parts, body) = request.into_parts();
    let mut message = body.collect().await.unwrap().to_bytes();
    let is_grpc = parts.headers["content-type"] == "application/grpc";
    let mut answer = Bytes::new();
    if is_grpc {
        let frame = message.split_to(5);
        assert_eq!(frame[0], 0, "compressed");
        assert_eq!(frame[1..], u32::try_from(message.len()).unwrap().to_be_bytes());
        answer = Bytes::from_static(&[0; 5]);
    }
    let path = parts.uri.path().to_owned();
    let (headers, version) = (parts.headers, parts.version);
    _ = got.send(Export { path, headers, version, message });
    let status = (HeaderName::from_static("grpc-status"), HeaderValue::from_static("0"));
    let trailers = is_grpc.then(|| Ok(HeaderMap::from_iter([status])));
    let body = Full::new(answer).with_trailers(std::future::ready(trailers));
    let kind = if is_grpc { "application/grpc" } else { "application/x-protobuf" };
    Response::builder().header("content-type", kind).body(body.boxed_unsync()).unwrap()
}
