//! `vmcp demo`.

use std::fmt::Write as _;
use std::net::SocketAddr;

use clap::Args;
use vmcp_demo::DemoServers;
use vmcp_server::parts::Environment;
use vmcp_server::serve::{Options, Server};

use super::config::{LoadedConfig, load};
use super::output::{Failure, block_on, eprint_line, print};
use super::serve::{start_failure, stop_signal};

#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// The port to listen on; 0 takes a free one.
    #[arg(long, default_value_t = 4483)]
    port: u16,
}

impl Demo {
    pub(crate) fn run(self) -> Result<(), Failure> {
        block_on(self.show())
    }

    async fn show(self) -> Result<(), Failure> {
        let servers = DemoServers::start().await.map_err(|error| {
            Failure::Error(format!("failed to start the example servers: {error}"))
        })?;
        let text = configuration(&servers);
        let LoadedConfig { text: _, named: _, file: _, parts, warnings: _, egress } =
            load(text.clone(), &Environment::default(), None).map_err(|load_errors| {
                Failure::Error(load_errors.describe("the configuration of the demo".as_ref()))
            })?;
        let address = SocketAddr::from(([127, 0, 0, 1], self.port));
        let options = Options { address, ..Options::default() };
        let server = Server::start(parts, egress, options).await.map_err(|e| start_failure(&e))?;
        let address = server.address().map_err(|error| Failure::Error(error.to_string()))?;
        let stop = stop_signal();
        let gateway = server.gateway().clone();
        let url = format!("http://{address}/mcp");
        tokio::spawn(async move {
            gateway.wait_ready().await;
            print(&welcome(&url, &text));
        });
        server.run(stop).await;
        eprint_line("stopped");
        Ok(())
    }
}

/// Returns the configuration of the demo.
fn configuration(servers: &DemoServers) -> String {
    let mut text = String::from("name: demo\nincomingAuth: {type: anonymous}\nbackends:\n");
    for (name, url) in &servers.backends {
        // Writing to a string cannot fail.
        _ = writeln!(text, "  - {{name: {name}, url: \"{url}\", transport: streamable-http}}");
    }
    text
}

/// Describes the running servers and the way for clients to connect.
fn welcome(url: &str, configuration: &str) -> String {
    format!(
        r#"Three example servers behind one endpoint: {url}

Claude Code
  claude mcp add --transport http vmcp {url}
Cursor (.cursor/mcp.json)
  {{"mcpServers": {{"vmcp": {{"url": "{url}"}}}}}}
VS Code (.vscode/mcp.json)
  {{"servers": {{"vmcp": {{"type": "http", "url": "{url}"}}}}}}
MCP Inspector
  npx @modelcontextprotocol/inspector --cli {url} --transport http --method tools/list

`vmcp serve` runs the same gateway with this file:

{configuration}
Ctrl-C stops it.
"#
    )
}
