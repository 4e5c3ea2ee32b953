//! HTTP/1.1 server on loopback.

use std::convert::Infallible;
use std::error::Error;
use std::future::Future;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::combinators::BoxBody;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpSocket};
use tokio::runtime::Builder;
use tokio::sync::oneshot;

/// Response of a test server. An error in its body breaks the connection.
pub type BoxResponse = Response<BoxBody<Bytes, Box<dyn Error + Send + Sync>>>;

/// Pending connections that the system queues.
const BACKLOG: u32 = 1024;

/// HTTP/1.1 server on a thread of its own, for tests with and without a runtime. Dropping it breaks its connections
/// and frees its port.
#[derive(Debug)]
pub struct HttpListener {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl HttpListener {
    /// Serves `respond` at `port` of the loopback interface; port 0 takes a free one.
    ///
    /// # Errors
    /// Returns an error if the port is in use.
    pub fn start<F, A>(port: u16, respond: F) -> io::Result<Self>
    where
        F: Fn(Request<Incoming>) -> A + Clone + Send + Sync + 'static,
        A: Future<Output = BoxResponse> + Send + 'static,
    {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let listener = {
            let _context = runtime.enter();
            let socket = TcpSocket::new_v4()?;
            socket.set_reuseaddr(true)?;
            socket.bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
            socket.listen(BACKLOG)?
        };
        let address = listener.local_addr()?;
        let connections = Arc::new(AtomicUsize::new(0));
        let accepted = Arc::clone(&connections);
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::spawn(move || {
            runtime.block_on(async move {
                tokio::select! {
                    () = accept(listener, respond, &accepted) => {}
                    _ = stopped => {}
                }
            });
        });
        Ok(Self { address, connections, stop: Some(stop), thread: Some(thread) })
    }

    /// Returns the address of the listener.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the number of accepted connections.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}

impl Drop for HttpListener {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has failed the test already.
            _ = thread.join();
        }
    }
}

async fn accept<F, A>(listener: TcpListener, respond: F, accepted: &AtomicUsize)
where
    F: Fn(Request<Incoming>) -> A + Clone + Send + Sync + 'static,
    A: Future<Output = BoxResponse> + Send + 'static,
{
    while let Ok((stream, _)) = listener.accept().await {
        accepted.fetch_add(1, Ordering::Relaxed);
        // Without it, small responses wait for acknowledgements; a failure only costs time.
        _ = stream.set_nodelay(true);
        let respond = respond.clone();
        let service = service_fn(move |request| {
            let response = respond(request);
            async move { Ok::<_, Infallible>(response.await) }
        });
        // A connection that the client breaks is not a fault of the server.
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    }
}
