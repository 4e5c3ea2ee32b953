//! An MCP server with everything that the MCP conformance suite calls, for tests to put a gateway in front of.
//!
//! It is built on rmcp, so that the gateway meets somebody else's reading of the protocol, in both generations. Beyond
//! the suite's `test_*` names it has a few `fixture_*` tools that change its catalog and tell what reached it.

mod catalog;
mod forms;
mod gate;
mod handler;
mod questions;
mod state;
mod tools;

pub use gate::{Answer, Gate};

use std::convert::Infallible;
use std::io;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::net::TcpListener;

/// Which revisions of MCP the fixture speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Generation {
    /// 2025-11-25 and older: sessions.
    Stateful,
    /// 2026-07-28: each request for itself.
    Stateless,
    /// Both.
    #[default]
    Both,
    /// Both, each with a catalog of its own: clients see and use what their revision of the suite asks for.
    Differing,
}

/// Serves the fixture at `/mcp` until the process ends.
///
/// # Errors
/// When the listener fails.
pub async fn serve(listener: TcpListener, generation: Generation) -> io::Result<()> {
    let gate = Gate::new(generation);
    loop {
        let (stream, _) = listener.accept().await?;
        let gate = gate.clone();
        tokio::spawn(async move {
            let service = service_fn(move |request| {
                let gate = gate.clone();
                async move { Ok::<_, Infallible>(gate.handle(request).await) }
            });
            // A client that breaks its connection is not the fixture's concern.
            let _ = auto::Builder::new(TokioExecutor::new())
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}
