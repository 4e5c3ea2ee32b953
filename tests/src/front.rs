//! What stands before replicas and sends clients to one of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::counterparts::Fault;

/// How much of an answer is passed on at once, in bytes.
const CHUNK: usize = 16 * 1024;

/// A load balancer with one server at a time. It ends with this.
#[derive(Debug)]
pub struct Front {
    port: u16,
    target: watch::Sender<u16>,
    losing: Arc<AtomicBool>,
    serving: JoinHandle<()>,
}

impl Front {
    /// Starts one that leads nowhere yet.
    ///
    /// # Errors
    /// When there is no port left.
    pub async fn start() -> Result<Self, Fault> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let port = listener.local_addr()?.port();
        let (target, to) = watch::channel(0);
        let losing = Arc::new(AtomicBool::default());
        let lost = Arc::clone(&losing);
        let serving = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (to, lost) = (to.clone(), Arc::clone(&lost));
                // Whoever is cut off on the way notices.
                tokio::spawn(async move { drop(join(client, to, &lost).await) });
            }
        });
        Ok(Self { port, target, losing, serving })
    }

    /// Where clients find it.
    #[must_use]
    pub fn origin(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Sends clients to this port from now on, and ends all connections to another one.
    pub fn leads_to(&self, port: u16) {
        self.target.send_replace(port);
    }

    /// Loses the next answer: its server has done what it was asked for, and whoever asked never hears of it.
    pub fn loses_an_answer(&self) {
        self.losing.store(true, Ordering::SeqCst);
    }

    /// Whether an answer is still to be lost.
    #[must_use]
    pub fn is_losing(&self) -> bool {
        self.losing.load(Ordering::SeqCst)
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn join(
    mut client: TcpStream,
    mut to: watch::Receiver<u16>,
    losing: &AtomicBool,
) -> Result<(), Fault> {
    let port = *to.borrow_and_update();
    let mut server = TcpStream::connect(("127.0.0.1", port)).await?;
    let (mut from_client, mut to_client) = client.split();
    let (mut from_server, mut to_server) = server.split();
    let answers = async {
        let mut chunk = vec![0; CHUNK];
        loop {
            let length = from_server.read(&mut chunk).await?;
            if length == 0 || losing.swap(false, Ordering::SeqCst) {
                return Ok::<_, Fault>(());
            }
            to_client.write_all(&chunk[..length]).await?;
        }
    };
    tokio::select! {
        ended = answers => ended,
        ended = copy(&mut from_client, &mut to_server) => Ok(ended.map(drop)?),
        changed = to.changed() => Ok(changed?),
    }
}
