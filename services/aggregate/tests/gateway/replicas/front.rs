//! Front of a replica's peer listener, which can stop.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Proxy that passes bytes, unless it is frozen. What has arrived stays unread then, as with a stopped process.
pub(crate) struct Front {
    frozen: watch::Sender<bool>,
    accepting: JoinHandle<()>,
}

impl Front {
    pub(crate) fn start(listener: TcpListener, target: SocketAddr) -> Self {
        let (frozen, state) = watch::channel(false);
        let accepting = tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                let server = TcpStream::connect(target).await.unwrap();
                let ((from_client, to_client), (from_server, to_server)) =
                    (client.into_split(), server.into_split());
                tokio::spawn(copy(from_client, to_server, state.clone()));
                tokio::spawn(copy(from_server, to_client, state.clone()));
            }
        });
        Self { frozen, accepting }
    }

    pub(crate) fn freeze(&self, frozen: bool) {
        self.frozen.send(frozen).unwrap();
    }

    /// Closes the listener.
    pub(crate) fn kill(&self) {
        self.accepting.abort();
    }
}

async fn copy(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut frozen: watch::Receiver<bool>) {
    let mut buffer = vec![0; 1 << 16];
    loop {
        if frozen.wait_for(|frozen| !frozen).await.is_err() {
            return;
        }
        let read = tokio::select! {
            read = from.read(&mut buffer) => read,
            changed = frozen.changed() => match changed {
                Ok(()) => continue,
                Err(_) => return,
            },
        };
        let Ok(length @ 1..) = read else { return };
        if to.write_all(&buffer[..length]).await.is_err() {
            return;
        }
    }
}
