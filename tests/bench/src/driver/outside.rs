//! External services of a gateway with all features on: token issuer and trace collector.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::tokens::Keys;
use crate::BoxError;

/// Issuer and collector behind one address, stopped when this is dropped.
#[derive(Debug)]
pub(super) struct Outside {
    url: String,
    keys: Arc<Keys>,
    collected: Arc<AtomicU64>,
    serving: JoinHandle<()>,
}

impl Outside {
    pub(super) async fn start() -> Result<Self, BoxError> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let keys = Arc::new(Keys::generate());
        let documents = Arc::new(Documents {
            discovery: json!({"issuer": url, "jwks_uri": format!("{url}/keys")}).to_string().into(),
            keys: keys.published().to_string().into(),
            collected: Arc::default(),
        });
        let collected = Arc::clone(&documents.collected);
        Ok(Self { url, keys, collected, serving: tokio::spawn(serve(listener, documents)) })
    }

    /// Returns the URL of the issuer, which is the collector too.
    pub(super) fn url(&self) -> &str {
        &self.url
    }

    pub(super) fn keys(&self) -> &Arc<Keys> {
        &self.keys
    }

    /// Returns the number of exports that the collector received.
    pub(super) fn collected(&self) -> u64 {
        self.collected.load(Relaxed)
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

struct Documents {
    discovery: Bytes,
    keys: Bytes,
    collected: Arc<AtomicU64>,
}

async fn serve(listener: TcpListener, documents: Arc<Documents>) {
    while let Ok((stream, _)) = listener.accept().await {
        let documents = Arc::clone(&documents);
        tokio::spawn(async move {
            let service = service_fn(|request| async {
                Ok::<_, Infallible>(documents.answer(request).await)
            });
            // A client that disconnects early is not a fault of the server.
            _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

impl Documents {
    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let (parts, body) = request.into_parts();
        let (kind, document) = match parts.uri.path() {
            "/.well-known/openid-configuration" => ("application/json", self.discovery.clone()),
            "/keys" => ("application/json", self.keys.clone()),
            // An empty protobuf message means that the export was accepted.
            "/v1/traces" | "/v1/metrics" => {
                let whole = body.collect().await.is_ok();
                self.collected.fetch_add(u64::from(whole), Relaxed);
                ("application/x-protobuf", Bytes::new())
            }
            _ => {
                let mut response = Response::new(Full::default());
                *response.status_mut() = StatusCode::NOT_FOUND;
                return response;
            }
        };
        let mut response = Response::new(Full::from(document));
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        response
    }
}
