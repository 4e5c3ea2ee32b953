//! Proxy before a replica that passes bytes until it freezes. What has arrived stays unread, as with a stopped process.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::replica::{Replica, client_at, ring};

/// State of a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    /// Both directions pass.
    Open,
    /// Only the first piece of each client passes: that of the TLS handshake.
    FirstPiece,
    /// Nothing passes, and connections stay open.
    Frozen,
    /// Connections are cut, and new ones closed.
    Cut,
}

/// Proxy of one replica.
pub(crate) struct Proxy {
    pub(crate) replica: Replica,
    pub(crate) flow: watch::Sender<Flow>,
}

impl Proxy {
    /// Starts a replica at `target`, whose handle names `front`.
    pub(crate) fn start(front: TcpListener, target: TcpListener) -> Self {
        let address = target.local_addr().unwrap();
        let peers = client_at(front.local_addr().unwrap(), ring(1));
        let replica = Replica::with_client(target, peers);
        let (flow, state) = watch::channel(Flow::Open);
        tokio::spawn(async move {
            loop {
                let (stream, _) = front.accept().await.unwrap();
                tokio::spawn(pass(stream, address, state.clone()));
            }
        });
        Self { replica, flow }
    }
}

async fn pass(client: TcpStream, target: SocketAddr, flow: watch::Receiver<Flow>) {
    if *flow.borrow() == Flow::Cut {
        return;
    }
    let server = TcpStream::connect(target).await.unwrap();
    let ((from_client, to_client), (from_server, to_server)) =
        (client.into_split(), server.into_split());
    let mut cut = flow.clone();
    tokio::select! {
        () = copy(from_client, to_server, true, flow.clone()) => {}
        () = copy(from_server, to_client, false, flow) => {}
        _ = cut.wait_for(|flow| *flow == Flow::Cut) => {}
    }
}

async fn copy(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    is_client: bool,
    mut flow: watch::Receiver<Flow>,
) {
    let mut buffer = vec![0; 1 << 16];
    let mut pieces = 0;
    loop {
        let passes = |flow: &Flow| match flow {
            Flow::Open => true,
            Flow::FirstPiece => !is_client || pieces == 0,
            Flow::Frozen | Flow::Cut => false,
        };
        flow.wait_for(passes).await.unwrap();
        let read = tokio::select! {
            read = from.read(&mut buffer) => read,
            _ = flow.changed() => continue,
        };
        let Ok(length @ 1..) = read else { return };
        if to.write_all(&buffer[..length]).await.is_err() {
            return;
        }
        pieces += 1;
    }
}
