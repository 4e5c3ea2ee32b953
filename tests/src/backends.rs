//! Small MCP servers to put behind the gateway: [`conforming_server`] for each method of MCP, [`ServerFault`] for servers
//! with faults, and [`echo_server`] for servers that return what they receive.

mod conforming_server;
mod echo_server;
mod faulty_server;

pub use conforming_server::{conforming_server, last_call};
pub use echo_server::echo_server;
pub use faulty_server::{FaultyServer, ServerFault};

/// The header that names a session.
pub const SESSION: &str = "mcp-session-id";

/// The header that names a revision of MCP.
pub const VERSION: &str = "mcp-protocol-version";

/// The revision of the stateless generation.
pub const STATELESS: &str = "2026-07-28";
