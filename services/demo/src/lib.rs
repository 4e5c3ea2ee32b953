#![doc = include_str!("../README.md")]

mod clock;
mod dice;
mod http;
mod mcp_server;
mod notes;
mod stateful;
mod stateless;

use std::io;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::task::AbortHandle;

use self::mcp_server::McpServer;

/// Running example servers. Dropping them stops the servers.
#[derive(Debug)]
pub struct DemoServers {
    /// Name and URL of each server.
    pub backends: Vec<(&'static str, String)>,
    tasks: Vec<AbortHandle>,
}

impl DemoServers {
    /// Starts the servers on free ports of the loopback interface.
    pub async fn start() -> io::Result<Self> {
        let mut servers = Self { backends: Vec::new(), tasks: Vec::new() };
        servers.add(stateless::Stateless(clock::Clock)).await?;
        servers.add(stateless::Stateless(dice::Dice)).await?;
        servers.add(stateful::Stateful::new(notes::Notes::default())).await?;
        Ok(servers)
    }

    async fn add<S: http::ProtocolServer>(&mut self, server: S) -> io::Result<()> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let url = format!("http://{}/mcp", listener.local_addr()?);
        self.backends.push((S::McpServer::NAME, url));
        let task = tokio::spawn(http::serve(listener, Arc::new(server)));
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
