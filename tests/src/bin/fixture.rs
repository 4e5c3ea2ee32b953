//! Runs the MCP server that tests put behind the gateway.

use std::io::{self, Write};
use std::net::SocketAddr;

use clap::Parser;
use tokio::net::TcpListener;
use vmcp_tests::fixture::{self, Generation};

/// An MCP server with everything that the conformance suite calls.
#[derive(Debug, Parser)]
struct Options {
    /// Address to listen on; port 0 takes a free one.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Supported revisions.
    #[arg(long, value_enum, default_value_t)]
    generation: Generation,
    /// Print `ready URL` once connections are accepted.
    #[arg(long)]
    print_ready: bool,
}

#[tokio::main]
async fn main() -> io::Result<()> {
    let Options { listen, generation, print_ready } = Options::parse();
    let listener = TcpListener::bind(listen).await?;
    if print_ready {
        let mut out = io::stdout().lock();
        writeln!(out, "ready http://{}/mcp", listener.local_addr()?)?;
        out.flush()?;
    }
    fixture::serve(listener, generation).await
}
