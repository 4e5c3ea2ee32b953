//! Load balancer without affinity: each connection, or each request, goes to the next server. With affinity, all connections of a
//! client go to one server while it accepts them.
//!
//! It tries another server only if a connection is refused. A request that a server has received is never sent again: its
//! client sees a broken connection.

use std::collections::HashMap;
use std::error::Error;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::server::conn::http1::Builder;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use crate::counterparts::TestError;

type BoxError = Box<dyn Error + Send + Sync>;

/// A load balancer with two ports, stopped on drop.
#[derive(Debug)]
pub struct RoundRobin {
    ports: [u16; 2],
    servers: Arc<Servers>,
    serving: Mutex<Vec<JoinHandle<()>>>,
}

/// Unit that goes to the next server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Balance {
    /// All requests of a connection go to one server.
    PerConnection,
    /// Each request goes to the next server.
    PerRequest,
}

/// Ports of the servers.
#[derive(Debug, Default)]
struct Servers {
    ports: Mutex<Vec<u16>>,
    next: AtomicUsize,
}

/// Idle connections of one client's connection, by the port of the server.
type Connections = Arc<Mutex<HashMap<u16, SendRequest<Incoming>>>>;

impl RoundRobin {
    /// Starts a load balancer without servers.
    ///
    /// # Errors
    /// Returns an error if no port is free.
    pub async fn start() -> Result<Self, TestError> {
        let servers = Arc::<Servers>::default();
        let connections = TcpListener::bind("127.0.0.1:0").await?;
        let requests = TcpListener::bind("127.0.0.1:0").await?;
        let ports = [connections.local_addr()?.port(), requests.local_addr()?.port()];
        let serving = vec![
            tokio::spawn(serve(connections, Arc::clone(&servers), Balance::PerConnection)),
            tokio::spawn(serve(requests, Arc::clone(&servers), Balance::PerRequest)),
        ];
        Ok(Self { ports, servers, serving: Mutex::new(serving) })
    }

    /// Returns a URL of the MCP endpoint for one more client, in place of its address: all its connections go to one server, and
    /// to the next one if that refuses.
    ///
    /// # Errors
    /// Returns an error if no port is free.
    pub async fn client_url(&self) -> Result<String, TestError> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let port = listener.local_addr()?.port();
        let serving = tokio::spawn(serve_client(listener, Arc::clone(&self.servers)));
        self.serving.lock().unwrap_or_else(PoisonError::into_inner).push(serving);
        Ok(format!("http://127.0.0.1:{port}/mcp"))
    }

    /// Returns the URL of the MCP endpoint.
    #[must_use]
    pub fn url(&self, balance: Balance) -> String {
        let [connections, requests] = self.ports;
        let port = match balance {
            Balance::PerConnection => connections,
            Balance::PerRequest => requests,
        };
        format!("http://127.0.0.1:{port}/mcp")
    }

    /// Sets the ports of the servers. Open connections stay.
    pub fn balance_over(&self, ports: Vec<u16>) {
        *self.servers.lock() = ports;
    }
}

impl Drop for RoundRobin {
    fn drop(&mut self) {
        let serving = self.serving.get_mut().unwrap_or_else(PoisonError::into_inner);
        serving.iter().for_each(JoinHandle::abort);
    }
}

impl Servers {
    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<u16>> {
        self.ports.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns all ports, the next one first.
    fn turn(&self) -> Vec<u16> {
        let mut ports = self.lock().clone();
        let turn = self.next.fetch_add(1, Ordering::Relaxed) % ports.len().max(1);
        ports.rotate_left(turn);
        ports
    }
}

async fn serve(listener: TcpListener, servers: Arc<Servers>, balance: Balance) {
    while let Ok((client, _)) = listener.accept().await {
        let servers = Arc::clone(&servers);
        // A client whose connection breaks sees the error itself.
        tokio::spawn(async move {
            _ = match balance {
                Balance::PerConnection => forward_connection(client, servers).await,
                Balance::PerRequest => forward_requests(client, servers).await,
            };
        });
    }
}

/// Serves the connections of one client.
async fn serve_client(listener: TcpListener, servers: Arc<Servers>) {
    let mut current = None;
    while let Ok((mut client, _)) = listener.accept().await {
        let others = servers.turn().into_iter().filter(|port| Some(*port) != current);
        for port in current.into_iter().chain(others) {
            let Ok(mut server) = connect(port).await else { continue };
            current = Some(port);
            // A client whose connection breaks sees the error itself.
            tokio::spawn(async move { _ = copy_bidirectional(&mut client, &mut server).await });
            break;
        }
    }
}

async fn forward_connection(mut client: TcpStream, servers: Arc<Servers>) -> Result<(), BoxError> {
    for port in servers.turn() {
        if let Ok(mut server) = connect(port).await {
            copy_bidirectional(&mut client, &mut server).await?;
            return Ok(());
        }
    }
    Ok(())
}

async fn forward_requests(client: TcpStream, servers: Arc<Servers>) -> Result<(), BoxError> {
    client.set_nodelay(true)?;
    let connections = Connections::default();
    let service = service_fn(move |request| {
        let (servers, connections) = (Arc::clone(&servers), Arc::clone(&connections));
        forward(request, servers, connections)
    });
    Ok(Builder::new().serve_connection(TokioIo::new(client), service).await?)
}

/// Sends a request to the next server. An error breaks the connection of the client.
async fn forward(
    request: Request<Incoming>,
    servers: Arc<Servers>,
    connections: Connections,
) -> Result<Response<Incoming>, BoxError> {
    for port in servers.turn() {
        let Some(mut sender) = sender(port, &connections).await else { continue };
        let response = sender.send_request(request).await?;
        idle(&connections).insert(port, sender);
        return Ok(response);
    }
    Err("no server accepts connections".into())
}

/// Returns the connection to a server, or `None` if it is refused.
async fn sender(port: u16, connections: &Connections) -> Option<SendRequest<Incoming>> {
    let kept = idle(connections).remove(&port);
    if let Some(mut kept) = kept
        && kept.ready().await.is_ok()
    {
        return Some(kept);
    }
    let stream = connect(port).await.ok()?;
    let (sender, connection) = handshake(TokioIo::new(stream)).await.ok()?;
    // Ends with the sender, or when the server closes.
    tokio::spawn(connection);
    Some(sender)
}

fn idle(
    connections: &Connections,
) -> std::sync::MutexGuard<'_, HashMap<u16, SendRequest<Incoming>>> {
    connections.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn connect(port: u16) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(("127.0.0.1", port)).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}
