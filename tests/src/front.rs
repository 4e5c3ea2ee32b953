//! What stands before servers: it sends their clients to one of them, and some answers never arrive.

use std::sync::{Arc, Mutex, PoisonError};

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
    trouble: Arc<Mutex<Trouble>>,
    /// Whether an answer is held back.
    held: watch::Sender<bool>,
    serving: JoinHandle<()>,
}

/// What becomes of answers.
#[derive(Debug)]
enum Trouble {
    /// They arrive.
    None,
    /// The next one is lost, with its connection.
    Lose,
    /// After so many none arrives any more.
    Hold(usize),
}

/// What becomes of one answer.
enum Fate {
    Arrives,
    Lost,
    Held,
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
        let trouble = Arc::new(Mutex::new(Trouble::None));
        let held = watch::Sender::new(false);
        let (holding, ahead) = (held.clone(), Arc::clone(&trouble));
        let serving = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (to, ahead, holding) = (to.clone(), Arc::clone(&ahead), holding.clone());
                // Whoever is cut off on the way notices.
                tokio::spawn(async move { drop(join(client, to, &ahead, &holding).await) });
            }
        });
        Ok(Self { port, target, trouble, held, serving })
    }

    /// Where it listens, on the loopback interface.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
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
        self.is_troubled_by(Trouble::Lose);
    }

    /// Lets so many answers arrive from now on, and no more. Servers go on doing what they are asked for.
    pub fn holds_answers_after(&self, count: usize) {
        self.is_troubled_by(Trouble::Hold(count));
    }

    /// Waits until an answer is held back.
    pub async fn held(&self) {
        // Whoever holds it back lives as long as this.
        drop(self.held.subscribe().wait_for(|held| *held).await);
    }

    /// Lets all answers arrive again, those first that were held back.
    pub fn releases(&self) {
        self.is_troubled_by(Trouble::None);
        self.held.send_replace(false);
    }

    fn is_troubled_by(&self, trouble: Trouble) {
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = trouble;
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Trouble {
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
    trouble: &Mutex<Trouble>,
    holding: &watch::Sender<bool>,
) -> Result<(), Fault> {
    let port = *to.borrow_and_update();
    let mut server = TcpStream::connect(("127.0.0.1", port)).await?;
    let (mut from_client, mut to_client) = client.split();
    let (mut from_server, mut to_server) = server.split();
    let answers = async {
        let mut chunk = vec![0; CHUNK];
        loop {
            let length = from_server.read(&mut chunk).await?;
            if length == 0 {
                return Ok::<_, Fault>(());
            }
            match Trouble::meets(trouble) {
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
