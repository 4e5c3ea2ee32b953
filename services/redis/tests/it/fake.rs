//! Server with scripted responses.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use vmcp_redis::Node;

/// Server that records the commands it receives. It stops when it is dropped.
pub(crate) struct FakeServer {
    port: u16,
    record: Arc<Record>,
    task: JoinHandle<()>,
}

/// Response to a command, in RESP.
pub(crate) enum Reply {
    Text(String),
    /// The server sends the response when it is notified.
    After(Arc<Notify>, String),
    /// The server closes the connection after the response.
    Last(String),
    /// The server closes the connection without a response.
    Lost,
}

#[derive(Default)]
struct Record {
    connections: AtomicUsize,
    commands: Mutex<Vec<String>>,
    received: Notify,
    closed: Notify,
}

type Respond = Arc<dyn Fn(&str) -> Reply + Send + Sync>;

impl FakeServer {
    /// Starts a server that responds to each command, given as its words separated by spaces.
    pub(crate) async fn start(respond: impl Fn(&str) -> Reply + Send + Sync + 'static) -> Self {
        Self::start_with(None, Arc::new(respond)).await
    }

    /// As [`start`](Self::start), over TLS.
    pub(crate) async fn start_tls(
        acceptor: TlsAcceptor,
        respond: impl Fn(&str) -> Reply + Send + Sync + 'static,
    ) -> Self {
        Self::start_with(Some(acceptor), Arc::new(respond)).await
    }

    async fn start_with(acceptor: Option<TlsAcceptor>, respond: Respond) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let record = Arc::new(Record::default());
        let of_connections = Arc::clone(&record);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                of_connections.connections.fetch_add(1, Ordering::Relaxed);
                let (acceptor, respond) = (acceptor.clone(), Arc::clone(&respond));
                let record = Arc::clone(&of_connections);
                tokio::spawn(async move {
                    let Some(acceptor) = acceptor else {
                        return serve(stream, respond, record).await;
                    };
                    if let Ok(stream) = acceptor.accept(stream).await {
                        serve(stream, respond, record).await;
                    }
                });
            }
        });
        Self { port, record, task }
    }

    pub(crate) fn node(&self) -> Node {
        Node::new("127.0.0.1", self.port)
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Returns the number of accepted connections.
    pub(crate) fn connections(&self) -> usize {
        self.record.connections.load(Ordering::Relaxed)
    }

    /// Returns the commands of all connections.
    pub(crate) fn commands(&self) -> Vec<String> {
        self.record.commands.lock().unwrap().clone()
    }

    /// Waits until the server has received a command.
    pub(crate) async fn received(&self, command: &str) {
        while !self.commands().iter().any(|received| received == command) {
            self.record.received.notified().await;
        }
    }

    /// Waits until the server has closed a connection.
    pub(crate) async fn closed(&self) {
        self.record.closed.notified().await;
    }
}

impl Drop for FakeServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin, respond: Respond, record: Arc<Record>) {
    let mut stream = BufReader::new(stream);
    while let Some(command) = read_command(&mut stream).await {
        record.commands.lock().unwrap().push(command.clone());
        record.received.notify_one();
        let (text, is_last) = match respond(&command) {
            Reply::Text(text) => (text, false),
            Reply::After(notify, text) => {
                notify.notified().await;
                (text, false)
            }
            Reply::Last(text) => (text, true),
            Reply::Lost => break,
        };
        if stream.write_all(text.as_bytes()).await.is_err() || is_last {
            break;
        }
    }
    drop(stream);
    record.closed.notify_one();
}

/// Reads an array of strings without line breaks.
async fn read_command(stream: &mut (impl AsyncBufReadExt + Unpin)) -> Option<String> {
    let mut line = async || {
        let mut line = String::new();
        stream.read_line(&mut line).await.ok()?;
        line.strip_suffix("\r\n").map(str::to_owned)
    };
    let count = line().await?.strip_prefix('*')?.parse().ok()?;
    let mut words = Vec::new();
    for _ in 0..count {
        line().await?;
        words.push(line().await?);
    }
    Some(words.join(" "))
}
