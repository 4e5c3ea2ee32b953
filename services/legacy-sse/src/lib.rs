#![doc = include_str!("../README.md")]

mod client;
mod forward;
mod service;
mod stream;

use http::header::{HeaderName, HeaderValue};

pub use self::client::ClientTable;
pub use self::forward::MessageService;
pub use self::service::LegacySse;

/// Path of the event stream.
pub const STREAM_PATH: &str = "/sse";

/// Path for messages of the client.
pub const MESSAGES_PATH: &str = "/messages";

const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
const EVENT_STREAM: HeaderValue = HeaderValue::from_static("text/event-stream");
