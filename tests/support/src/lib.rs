#![doc = include_str!("../README.md")]
#![expect(clippy::missing_panics_doc, reason = "a panic fails the test that causes it")]

mod embedding_server;
mod http_listener;
mod log_capture;
pub mod mcp_backend;
mod scripted_server;
mod signing_key;

pub use self::embedding_server::{EmbeddingBehavior, EmbeddingListener, EmbeddingServer};
pub use self::http_listener::{BoxResponse, HttpListener};
pub use self::log_capture::LogCapture;
pub use self::mcp_backend::McpBackend;
pub use self::scripted_server::{Peer, ScriptedServer};
pub use self::signing_key::SigningKey;
