#![doc = include_str!("../README.md")]
#![expect(clippy::missing_panics_doc, reason = "a panic fails the test that causes it")]

mod log_capture;
mod scripted_server;
mod signing_key;

pub use self::log_capture::LogCapture;
pub use self::scripted_server::{Peer, ScriptedServer};
pub use self::signing_key::SigningKey;
