//! HTTP listener shared by all of these servers.

use std::convert::Infallible;
use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::combinators::BoxBody;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpSocket};
use tokio::task::{JoinHandle, JoinSet};

use crate::counterparts::TestError;

/// Response of a test server. An error in its body breaks the connection.
pub type BoxResponse = Response<BoxBody<Bytes, Box<dyn std::error::Error + Send + Sync>>>;

/// A server that runs until this is dropped; then its connections break.
#[derive(Debug)]
pub struct HttpListener {
    address: SocketAddr,
    accepting: JoinHandle<()>,
}

impl HttpListener {
    /// Serves `behaviour` at `port`; port 0 takes a free one.
    ///
    /// # Errors
    /// Returns an error if the port is in use.
    pub fn start<F, A>(port: u16, behaviour: F) -> Result<Self, TestError>
    where
        F: Fn(Request<Incoming>) -> A + Clone + Send + Sync + 'static,
        A: Future<Output = BoxResponse> + Send + 'static,
    {
        let listener = listen(port, 1024)?;
        let address = listener.local_addr()?;
        let accepting = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                // Without it, small responses wait for acknowledgements; a failure only costs time.
                _ = stream.set_nodelay(true);
                let behaviour = behaviour.clone();
                connections.spawn(async move {
                    let service = service_fn(move |request| {
                        let answer = behaviour(request);
                        async move { Ok::<_, Infallible>(answer.await) }
                    });
                    // Connections that the gateway breaks are not a fault of the server.
                    _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
                });
                while connections.try_join_next().is_some() {}
            }
        });
        Ok(Self { address, accepting })
    }

    /// Runs `task`, which owns a listener at `address`, in place of an HTTP server.
    pub(super) fn raw(
        address: SocketAddr,
        task: impl Future<Output = ()> + Send + 'static,
    ) -> Self {
        Self { address, accepting: tokio::spawn(task) }
    }

    /// Returns the URL of its MCP endpoint.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// Closes its connections and waits until the port is free.
    pub async fn stop(mut self) {
        self.accepting.abort();
        // The only possible result is that of the abort.
        _ = (&mut self.accepting).await;
    }

    /// Returns its port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.address.port()
    }
}

impl Drop for HttpListener {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Listens on the loopback interface, at a port that may just have been released.
pub(super) fn listen(port: u16, backlog: u32) -> Result<TcpListener, TestError> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
    Ok(socket.listen(backlog)?)
}
