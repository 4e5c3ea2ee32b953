//! HTTP server whose connections run a script.

use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

/// Listener on loopback whose connections run a script.
#[derive(Debug)]
pub struct ScriptedServer {
    url: String,
    connections: Arc<AtomicUsize>,
    requests: Arc<Mutex<Vec<String>>>,
    acknowledgement: Arc<Notify>,
}

/// Server side of one connection.
#[derive(Debug)]
pub struct Peer {
    stream: TcpStream,
    /// Index of the connection, from 0.
    pub index: usize,
    requests: Arc<Mutex<Vec<String>>>,
    acknowledgement: Arc<Notify>,
}

impl ScriptedServer {
    /// Starts a server that runs `script` on each connection.
    pub async fn start<F>(script: impl Fn(Peer) -> F + Send + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port of loopback is free");
        let address = listener.local_addr().expect("the listener is bound");
        let connections = Arc::new(AtomicUsize::new(0));
        let requests = Arc::default();
        let acknowledgement = Arc::new(Notify::new());
        let server = Self {
            url: format!("http://{address}/mcp"),
            connections: Arc::clone(&connections),
            requests: Arc::clone(&requests),
            acknowledgement: Arc::clone(&acknowledgement),
        };
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                stream.set_nodelay(true).expect("the socket is open");
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

    /// Starts a server that sends `response` to every request.
    pub async fn responding(response: &'static [u8]) -> Self {
        Self::start(move |mut peer| async move {
            while peer.request().await.is_some() {
                peer.write(response).await;
            }
        })
        .await
    }

    /// Returns the URL of the server.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the number of accepted connections.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// Returns head and body of all requests so far.
    #[must_use]
    pub fn requests(&self) -> Vec<String> {
        self.requests.lock().expect("no holder panics").clone()
    }

    /// Releases one [`Peer::acknowledged`].
    pub fn acknowledge(&self) {
        self.acknowledgement.notify_one();
    }
}

impl Peer {
    /// Reads one request. Returns `None` if the client has closed the connection.
    pub async fn request(&mut self) -> Option<String> {
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
                    .and_then(|rest| rest.lines().next())
                    .map_or(0, |length| length.parse().expect("the length is a number"));
                wanted = Some(end + 4 + length);
            }
        }
        assert_eq!(wanted, Some(seen.len()), "no pipelining");
        let request = String::from_utf8_lossy(&seen).into_owned();
        self.requests.lock().expect("no holder panics").push(request.clone());
        Some(request)
    }

    /// Writes `bytes`.
    pub async fn write(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.expect("the client reads");
        self.stream.flush().await.expect("the client reads");
    }

    /// Writes unless the client has closed the connection. Returns whether it wrote.
    pub async fn try_write(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).await.is_ok()
    }

    /// Closes the connection abruptly, like a crashed process.
    pub fn reset(self) {
        self.stream.set_zero_linger().expect("the socket is open");
    }

    /// Waits for [`ScriptedServer::acknowledge`].
    pub async fn acknowledged(&mut self) {
        self.acknowledgement.notified().await;
    }

    /// Waits until data has arrived, without reading it.
    pub async fn stirred(&mut self) {
        self.stream.peek(&mut [0]).await.expect("the connection is open");
    }

    /// Waits until the client closes the connection.
    pub async fn closed(&mut self) {
        let mut rest = [0; 1024];
        while !matches!(self.stream.read(&mut rest).await, Ok(0) | Err(_)) {}
    }
}
