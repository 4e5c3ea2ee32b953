//! Replicas with a service that describes its requests.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use futures_util::stream;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Incoming;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tower::service_fn;
use vmcp_core::{Body, BoxError, Clock};
use vmcp_peer::{
    Forwarded, PeerClient, PeerIdentity, PeerListener, PeerNetworks, PeerSettings, ReplicaHandle,
};
use vmcp_seal::{KeyRing, SealKey};

pub(crate) struct Replica {
    pub(crate) peers: PeerClient,
    /// Requests that the service received.
    pub(crate) requests: Arc<AtomicUsize>,
    /// Sender of pieces of the response to `/stream`.
    pub(crate) pieces: mpsc::UnboundedSender<Result<Frame<Bytes>, BoxError>>,
    pub(crate) stop: Option<oneshot::Sender<()>>,
    pub(crate) running: JoinHandle<()>,
}

pub(crate) fn ring(byte: u8) -> KeyRing {
    KeyRing::new("server", &[SealKey::from_bytes([byte; 32])], Clock::system()).unwrap()
}

/// Binds the same port on several addresses of the loopback interface.
pub(crate) async fn bind<const N: usize>() -> [TcpListener; N] {
    'ports: loop {
        let first = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = first.local_addr().unwrap().port();
        let mut listeners = vec![first];
        for host in 2..=N {
            let ip = IpAddr::from([127, 0, 0, u8::try_from(host).unwrap()]);
            match TcpListener::bind((ip, port)).await {
                Ok(listener) => listeners.push(listener),
                Err(_) => continue 'ports,
            }
        }
        return listeners.try_into().unwrap();
    }
}

pub(crate) fn client_at(address: SocketAddr, ring: KeyRing) -> PeerClient {
    let networks = PeerNetworks::Networks(vec!["127.0.0.0/8".parse().unwrap()]);
    let settings = PeerSettings { address, networks };
    PeerClient::new(PeerIdentity::generate().unwrap(), settings, ring)
}

impl Replica {
    pub(crate) fn start(listener: TcpListener, ring: KeyRing) -> Self {
        let peers = client_at(listener.local_addr().unwrap(), ring);
        Self::with_client(listener, peers)
    }

    pub(crate) fn with_client(listener: TcpListener, peers: PeerClient) -> Self {
        let requests = Arc::<AtomicUsize>::default();
        let (pieces, receiver) = mpsc::unbounded_channel();
        let receiver = Arc::new(std::sync::Mutex::new(Some(receiver)));
        let counted = Arc::clone(&requests);
        let service = service_fn(move |request: Request<Incoming>| {
            counted.fetch_add(1, Ordering::SeqCst);
            let receiver = Arc::clone(&receiver);
            async move {
                let body = match request.uri().path() {
                    "/stream" => {
                        let receiver = receiver.lock().unwrap().take().unwrap();
                        Body::wrap(StreamBody::new(stream::unfold(receiver, async |mut it| {
                            it.recv().await.map(|piece| (piece, it))
                        })))
                    }
                    "/hang" => std::future::pending().await,
                    _ => Body::from(describe(request).await),
                };
                Ok::<_, Infallible>(Response::new(body))
            }
        });
        let (stop, stopped) = oneshot::channel::<()>();
        let listener = PeerListener::new(listener, peers.clone());
        let running = tokio::spawn(async move {
            let open = listener.run(service, async { drop(stopped.await) }).await;
            open.drain(std::time::Duration::from_secs(5)).await;
        });
        Self { peers, requests, pieces, stop: Some(stop), running }
    }

    pub(crate) fn handle(&self) -> ReplicaHandle {
        self.peers.own().clone()
    }

    pub(crate) fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }
}

async fn describe(request: Request<Incoming>) -> String {
    let (parts, body) = request.into_parts();
    let forwarded: &Forwarded = parts.extensions.get().unwrap();
    let by = forwarded.by.address().ip();
    let client = forwarded.client;
    let mut names: Vec<_> = parts.headers.keys().map(http::HeaderName::as_str).collect();
    names.sort_unstable();
    let body = body.collect().await.unwrap().to_bytes();
    let body = String::from_utf8_lossy(&body).into_owned();
    format!("{} {} by={by} client={client:?} {names:?} {body}", parts.method, parts.uri)
}

pub(crate) fn request(path: &str, body: &'static str) -> Request<Bytes> {
    Request::post(path).body(Bytes::from_static(body.as_bytes())).unwrap()
}

pub(crate) async fn text(response: Response<Body>) -> String {
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(bytes.to_vec()).unwrap()
}
