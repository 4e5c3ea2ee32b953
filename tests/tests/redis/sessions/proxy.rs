//! Proxy in front of Redis that a test closes.

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Proxy that passes connections on while it is open.
pub(crate) struct Proxy {
    pub(crate) port: u16,
    is_open: watch::Sender<bool>,
}

impl Proxy {
    pub(crate) async fn start(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (is_open, open) = watch::channel(true);
        tokio::spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                let mut open = open.clone();
                if !*open.borrow() {
                    continue;
                }
                tokio::spawn(async move {
                    let mut far = TcpStream::connect(("127.0.0.1", server)).await.unwrap();
                    tokio::select! {
                        _ = copy_bidirectional(&mut near, &mut far) => {}
                        _ = open.wait_for(|is_open| !is_open) => {}
                    }
                });
            }
        });
        Self { port, is_open }
    }

    /// Lets connections pass, or ends all of them.
    pub(crate) fn set_open(&self, is_open: bool) {
        self.is_open.send_replace(is_open);
    }
}
