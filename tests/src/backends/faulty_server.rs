//! Servers with faults.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::{Response, StatusCode, header};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use vmcp_test_support::mcp_backend::{Behavior, full_response};
use vmcp_test_support::{BoxResponse, HttpListener, McpBackend};

use super::conforming_server;
use crate::counterparts::{TestError, free_port};

/// Response delay of a [`ServerFault::Slow`] server.
const LATE: Duration = Duration::from_secs(2);

/// A fault of a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerFault {
    /// The connection is never established.
    HungOnConnect,
    /// The server accepts the connection and sends nothing.
    HungAfterAccept,
    /// The port refuses connections.
    Refusing,
    /// Every response is an HTML page with status 200.
    Html,
    /// Every response is JSON, but not JSON-RPC.
    Nonsense,
    /// Every body is endless.
    Endless,
    /// Every response takes two seconds.
    Slow,
    /// Lists and results break off in the middle.
    Dying,
}

/// A running bad server.
#[derive(Debug)]
pub enum FaultyServer {
    /// A listener with a fault.
    Here(HttpListener),
    /// A listener without HTTP.
    Silent(SilentListener),
    /// A working server with a fault in its responses.
    Odd(McpBackend),
    /// A port without a listener.
    Away(u16),
}

/// A listener without HTTP, until this is dropped.
#[derive(Debug)]
pub struct SilentListener {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl ServerFault {
    /// One of each.
    pub const ALL: [Self; 8] = [
        Self::HungOnConnect,
        Self::HungAfterAccept,
        Self::Refusing,
        Self::Html,
        Self::Nonsense,
        Self::Endless,
        Self::Slow,
        Self::Dying,
    ];

    /// Returns its backend name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::HungOnConnect => "hung-connect",
            Self::HungAfterAccept => "hung-accept",
            Self::Refusing => "refusing",
            Self::Html => "html",
            Self::Nonsense => "nonsense",
            Self::Endless => "endless",
            Self::Slow => "slow",
            Self::Dying => "dying",
        }
    }

    /// Starts a server at a free port.
    ///
    /// # Errors
    /// Returns an error if no port is free.
    pub async fn start(self) -> Result<FaultyServer, TestError> {
        self.start_at(0).await
    }

    /// Starts a server at this port, or at a free one for 0.
    ///
    /// # Errors
    /// Returns an error if the port is in use.
    pub async fn start_at(self, port: u16) -> Result<FaultyServer, TestError> {
        Ok(match self {
            Self::HungOnConnect => FaultyServer::Silent(full_queue(port).await?),
            Self::HungAfterAccept => FaultyServer::Silent(mute(port)?),
            Self::Refusing => FaultyServer::Away(if port == 0 { free_port().await? } else { port }),
            Self::Html => FaultyServer::Here(HttpListener::start(port, |_| async {
                full_response(StatusCode::OK, "text/html; charset=utf-8", "<html>It works!</html>")
            })?),
            Self::Nonsense => FaultyServer::Here(HttpListener::start(port, |_| async {
                full_response(StatusCode::OK, "application/json", r#"{"status":"UP","id":7}"#)
            })?),
            Self::Endless => {
                FaultyServer::Here(HttpListener::start(port, |_| async { endless() })?)
            }
            Self::Slow => FaultyServer::Odd(
                conforming_server("slow")
                    .behavior(Behavior::Delayed(LATE))
                    .port(port)
                    .try_start()?,
            ),
            Self::Dying => {
                FaultyServer::Odd(conforming_server("dying").truncated().port(port).try_start()?)
            }
        })
    }
}

impl FaultyServer {
    /// Returns the URL of its MCP endpoint.
    #[must_use]
    pub fn url(&self) -> String {
        match self {
            Self::Here(listener) => format!("http://{}/mcp", listener.address()),
            Self::Silent(listener) => format!("http://{}/mcp", listener.address),
            Self::Odd(backend) => backend.url(),
            Self::Away(port) => format!("http://127.0.0.1:{port}/mcp"),
        }
    }
}

impl SilentListener {
    /// Runs `task`, which owns the listener at `address`.
    fn run(address: SocketAddr, task: impl Future<Output = ()> + Send + 'static) -> Self {
        Self { address, task: tokio::spawn(task) }
    }
}

impl Drop for SilentListener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Listens on the loopback interface, at a port that may just have been released.
fn listen(port: u16, backlog: u32) -> Result<TcpListener, TestError> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
    Ok(socket.listen(backlog)?)
}

/// Starts a listener with a full accept queue, so that further connections hang.
async fn full_queue(port: u16) -> Result<SilentListener, TestError> {
    let listener = listen(port, 1)?;
    let address = listener.local_addr()?;
    let mut waiting = Vec::new();
    while let Ok(stream) = timeout(Duration::from_millis(200), TcpStream::connect(address)).await {
        waiting.push(stream?);
    }
    Ok(SilentListener::run(address, async move {
        std::future::pending::<()>().await;
        drop((listener, waiting));
    }))
}

/// Starts a listener that keeps its connections open and sends nothing.
fn mute(port: u16) -> Result<SilentListener, TestError> {
    let listener = listen(port, 1024)?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, listener.local_addr()?.port()));
    Ok(SilentListener::run(address, async move {
        let mut held = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            held.push(stream);
        }
    }))
}

/// Returns a response with an endless JSON string.
fn endless() -> BoxResponse {
    let chunk = Bytes::from(vec![b'a'; 64 << 10]);
    let start = stream::iter([Bytes::from_static(b"{\"jsonrpc\":\"2.0\",\"result\":\"")]);
    let rest = stream::repeat(chunk);
    let frames = start.chain(rest).map(|chunk| Ok::<_, Infallible>(Frame::data(chunk)));
    let mut response =
        Response::new(StreamBody::new(frames).map_err(|never| match never {}).boxed());
    let media = header::HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, media);
    response
}
