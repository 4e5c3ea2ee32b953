//! An MCP server with everything that the MCP conformance suite calls, as a backend for tests.
//!
//! It is built on rmcp, so that the gateway meets an independent implementation of the protocol, in both generations.
//! Beyond the suite's `test_*` names it has a few `fixture_*` tools that change its catalog and return the received
//! request.

mod catalog;
mod forms;
mod gate;
mod handler;
mod questions;
mod server;
mod state;
mod tools;

pub use gate::{BoxResponse, Gate};

use std::convert::Infallible;
use std::io;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::net::TcpListener;
use vmcp_test_support::mcp_backend::Protocol;

/// Revisions of MCP that the fixture supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Generation {
    /// 2025-11-25 and older, with sessions.
    Stateful,
    /// 2026-07-28, stateless.
    Stateless,
    /// Both.
    #[default]
    Both,
    /// Both, each with its own catalog: the tools and prompts that its revision of the suite expects.
    Differing,
}

impl From<Generation> for Protocol {
    fn from(generation: Generation) -> Self {
        match generation {
            Generation::Stateful => Self::Stateful,
            Generation::Stateless => Self::Stateless,
            Generation::Both | Generation::Differing => Self::Both,
        }
    }
}

/// Serves the fixture at `/mcp` until the process ends.
///
/// # Errors
/// Returns an error if the listener fails.
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
            // A broken connection of a client is not an error of the fixture.
            let _ = auto::Builder::new(TokioExecutor::new())
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}
