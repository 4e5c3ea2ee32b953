#![doc = include_str!("../README.md")]

mod clock;
mod definition;
mod dice;
mod listener;
mod notes;

use std::io;

use rmcp::ServerHandler;
use rmcp::transport::StreamableHttpServerConfig;
use tokio::net::TcpListener;
use tokio::task::AbortHandle;

use self::notes::{Notes, SharedNotes};

/// Running example servers. Dropping them stops the servers.
#[derive(Debug)]
pub struct DemoServers {
    /// Name and URL of each server.
    pub backends: Vec<(&'static str, String)>,
    tasks: Vec<AbortHandle>,
}

impl DemoServers {
    /// Starts the servers on free ports of the loopback interface.
    ///
    /// # Errors
    /// Returns the error of a listener that cannot be opened.
    pub async fn start() -> io::Result<Self> {
        let mut servers = Self { backends: Vec::new(), tasks: Vec::new() };
        let stateless = StreamableHttpServerConfig::default().with_legacy_session_mode(false);
        servers.add(clock::NAME, stateless.clone(), || clock::Clock).await?;
        servers.add(dice::NAME, stateless, || dice::Dice).await?;
        let notes = SharedNotes::default();
        let stateful = StreamableHttpServerConfig::default();
        servers.add(notes::NAME, stateful, move || Notes::new(notes.clone())).await?;
        Ok(servers)
    }

    /// Starts a server. `handler` is called for each session, and for each request without a session.
    async fn add<H: ServerHandler>(
        &mut self,
        name: &'static str,
        config: StreamableHttpServerConfig,
        handler: impl Fn() -> H + Send + Sync + 'static,
    ) -> io::Result<()> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let url = format!("http://{}{}", listener.local_addr()?, listener::PATH);
        self.backends.push((name, url));
        let task = tokio::spawn(listener::serve(listener, config, handler));
        self.tasks.push(task.abort_handle());
        Ok(())
    }
}

impl Drop for DemoServers {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}
