//! Load balancer for tests that can drop or delay responses.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::counterparts::TestError;

/// Maximum number of bytes forwarded at once.
const CHUNK: usize = 16 * 1024;

/// A load balancer with one server at a time, stopped on drop.
#[derive(Debug)]
pub struct LoadBalancer {
    port: u16,
    target: watch::Sender<u16>,
    trouble: Arc<Mutex<ResponseFault>>,
    /// True while a response is delayed.
    held: watch::Sender<bool>,
    serving: JoinHandle<()>,
}

/// Fault of the next responses.
#[derive(Debug)]
enum ResponseFault {
    /// Responses are forwarded.
    None,
    /// The next response is dropped with its connection.
    Lose,
    /// After this many responses, all further ones are delayed.
    Hold(usize),
}

/// Handling of one response.
enum Fate {
    Arrives,
    Lost,
    Held,
}

impl LoadBalancer {
    /// Starts a load balancer without a server.
    ///
    /// # Errors
    /// Returns an error if no port is free.
    pub async fn start() -> Result<Self, TestError> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let port = listener.local_addr()?.port();
        let (target, to) = watch::channel(0);
        let trouble = Arc::new(Mutex::new(ResponseFault::None));
        let held = watch::Sender::new(false);
        let (holding, ahead) = (held.clone(), Arc::clone(&trouble));
        let serving = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (to, ahead, holding) = (to.clone(), Arc::clone(&ahead), holding.clone());
                // A client whose connection is cut sees the error itself.
                tokio::spawn(async move { drop(join(client, to, &ahead, &holding).await) });
            }
        });
        Ok(Self { port, target, trouble, held, serving })
    }

    /// Returns its port on the loopback interface.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns its origin for clients.
    #[must_use]
    pub fn origin(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Routes clients to this port from now on, and closes all connections to other ports.
    pub fn leads_to(&self, port: u16) {
        self.target.send_replace(port);
    }

    /// Drops the next response: its server has processed the request, but the client receives no response.
    pub fn loses_an_answer(&self) {
        self.is_troubled_by(ResponseFault::Lose);
    }

    /// Forwards this many further responses and delays the rest. Servers go on processing requests.
    pub fn holds_answers_after(&self, count: usize) {
        self.is_troubled_by(ResponseFault::Hold(count));
    }

    /// Waits until a response is delayed.
    pub async fn held(&self) {
        // The sender lives as long as this load balancer.
        drop(self.held.subscribe().wait_for(|held| *held).await);
    }

    /// Forwards all responses again, the delayed ones first.
    pub fn releases(&self) {
        self.is_troubled_by(ResponseFault::None);
        self.held.send_replace(false);
    }

    fn is_troubled_by(&self, trouble: ResponseFault) {
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = trouble;
    }
}

impl Drop for LoadBalancer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl ResponseFault {
    fn meets(trouble: &Mutex<Self>) -> Fate {
        let mut trouble = trouble.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *trouble {
            Self::None => Fate::Arrives,
            Self::Lose => {
                *trouble = Self::None;
                Fate::Lost
            }
            Self::Hold(0) => Fate::Held,
            Self::Hold(left) => {
                *left -= 1;
                Fate::Arrives
            }
        }
    }
}

async fn join(
    mut client: TcpStream,
    mut to: watch::Receiver<u16>,
    trouble: &Mutex<ResponseFault>,
    holding: &watch::Sender<bool>,
) -> Result<(), TestError> {
    let port = *to.borrow_and_update();
    let mut server = TcpStream::connect(("127.0.0.1", port)).await?;
    let (mut from_client, mut to_client) = client.split();
    let (mut from_server, mut to_server) = server.split();
    let answers = async {
        let mut chunk = vec![0; CHUNK];
        loop {
            let length = from_server.read(&mut chunk).await?;
            if length == 0 {
                return Ok::<_, TestError>(());
            }
            match ResponseFault::meets(trouble) {
                Fate::Arrives => to_client.write_all(&chunk[..length]).await?,
                Fate::Lost => return Ok(()),
                Fate::Held => {
                    let mut released = holding.subscribe();
                    holding.send_replace(true);
                    released.wait_for(|held| !*held).await?;
                    to_client.write_all(&chunk[..length]).await?;
                }
            }
        }
    };
    tokio::select! {
        ended = answers => ended,
        ended = copy(&mut from_client, &mut to_server) => Ok(ended.map(drop)?),
        changed = to.changed() => Ok(changed?),
    }
}
