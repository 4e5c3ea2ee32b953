//! Scripted server and shorthands for using a client.

use std::{
    future::Future,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::Notify,
};
use url::Url;
use vmcp_egress::{Client, Egress, Error, Settings, Target};

pub(crate) const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// Listener on loopback whose connections run a script.
pub(crate) struct Server {
    pub(crate) url: Url,
    connections: Arc<AtomicUsize>,
    requests: Arc<Mutex<Vec<String>>>,
    acknowledgement: Arc<Notify>,
}

/// Server side of one connection.
pub(crate) struct Peer {
    stream: TcpStream,
    /// Index of the connection, from 0.
    pub(crate) index: usize,
    requests: Arc<Mutex<Vec<String>>>,
    acknowledgement: Arc<Notify>,
}

impl Server {
    pub(crate) async fn start<F>(script: impl Fn(Peer) -> F + Send + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let requests = Arc::default();
        let acknowledgement = Arc::new(Notify::new());
        let server = Self {
            url: Url::parse(&format!("http://{address}/mcp")).unwrap(),
            connections: Arc::clone(&connections),
            requests: Arc::clone(&requests),
            acknowledgement: Arc::clone(&acknowledgement),
        };
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                stream.set_nodelay(true).unwrap();
                let index = connections.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(script(Peer {
                    stream,
                    index,
                    requests: Arc::clone(&requests),
                    acknowledgement: Arc::clone(&acknowledgement),
                }));
            }
        });
        server
    }

    /// Starts a server that sends `answer` to every request.
    pub(crate) async fn answering(answer: &'static [u8]) -> Self {
        Self::start(move |mut peer| async move {
            while peer.request().await.is_some() {
                peer.write(answer).await;
            }
        })
        .await
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// Returns head and body of all requests so far.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }

    /// Releases one [`Peer::acknowledged`].
    pub(crate) fn acknowledge(&self) {
        self.acknowledgement.notify_one();
    }

    pub(crate) fn client(&self) -> Client {
        self.client_of(&Egress::default())
    }

    pub(crate) fn client_with(&self, settings: Settings) -> Client {
        self.client_of(&Egress::new(settings))
    }

    pub(crate) fn client_of(&self, egress: &Egress) -> Client {
        egress.client(&self.url, Target::allowing_private_addresses()).unwrap()
    }
}

impl Peer {
    /// Reads one request. Returns `None` if the client has closed the connection.
    pub(crate) async fn request(&mut self) -> Option<String> {
        let mut seen = Vec::new();
        let mut wanted = None;
        while wanted.is_none_or(|wanted| seen.len() < wanted) {
            seen.reserve(16 * 1024);
            if self.stream.read_buf(&mut seen).await.ok()? == 0 {
                return None;
            }
            if wanted.is_none()
                && let Some(end) = seen.windows(4).position(|four| four == b"\r\n\r\n")
            {
                let head = String::from_utf8_lossy(&seen[..end]).to_ascii_lowercase();
                let length: usize = head
                    .split("content-length: ")
                    .nth(1)
                    .map_or(0, |rest| rest.lines().next().unwrap().parse().unwrap());
                wanted = Some(end + 4 + length);
            }
        }
        assert_eq!(wanted, Some(seen.len()), "no pipelining");
        let request = String::from_utf8_lossy(&seen).into_owned();
        self.requests.lock().unwrap().push(request.clone());
        Some(request)
    }

    pub(crate) async fn write(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
        self.stream.flush().await.unwrap();
    }

    /// Writes unless the client has closed the connection. Returns whether it wrote.
    pub(crate) async fn try_write(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).await.is_ok()
    }

    /// Closes the connection abruptly, like a crashed process.
    pub(crate) fn reset(self) {
        self.stream.set_zero_linger().unwrap();
    }

    /// Waits for [`Server::acknowledge`].
    pub(crate) async fn acknowledged(&mut self) {
        self.acknowledgement.notified().await;
    }

    /// Waits until data has arrived, without reading it.
    pub(crate) async fn stirred(&mut self) {
        self.stream.peek(&mut [0]).await.unwrap();
    }

    /// Waits until the client closes the connection.
    pub(crate) async fn closed(&mut self) {
        let mut rest = [0; 1024];
        while !matches!(self.stream.read(&mut rest).await, Ok(0) | Err(_)) {}
    }
}

pub(crate) fn post(body: impl Into<Bytes>) -> Request<Full<Bytes>> {
    Request::post("/mcp").body(Full::new(body.into())).unwrap()
}

/// Sends a request and reads the complete response.
pub(crate) async fn exchange(client: &Client, body: &'static str) -> Result<Bytes, Error> {
    let response = client.send(post(body)).await?;
    let body = response.into_body().collect().await.map_err(|error| {
        *error.downcast::<Error>().expect("bodies fail with this crate's error")
    })?;
    Ok(body.to_bytes())
}

/// Runs other tasks until `condition` holds.
pub(crate) async fn eventually(condition: impl Fn() -> bool) {
    for _ in 0..10_000 {
        if condition() {
            return;
        }
        tokio::task::yield_now().await;
    }
    assert!(condition(), "it should have come about");
}
