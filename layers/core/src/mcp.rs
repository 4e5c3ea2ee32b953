//! Envelope of a request, parsed once.

use std::borrow::Cow;

use bytes::Bytes;
use vmcp_wire::{Envelope, Key, Params, Span, StringSpan};

/// The revision of the stateless generation: per-request `_meta`, no sessions.
pub const STATELESS: &str = "2026-07-28";

/// The newest revision of the stateful generation, returned to a client that requests an unknown one.
pub const LATEST_STATEFUL: &str = "2025-11-25";

/// The revisions of the stateful generation (`initialize`, `Mcp-Session-Id`), newest first.
pub const STATEFUL: [&str; 4] = [LATEST_STATEFUL, "2025-06-18", "2025-03-26", "2024-11-05"];

/// JSON-RPC error codes, those of JSON-RPC 2.0 section 5.1 and those of MCP.
pub mod code {
    /// The body is not JSON.
    pub const PARSE: i32 = -32700;
    /// The JSON is not one JSON-RPC message of the revision in use.
    pub const INVALID_REQUEST: i32 = -32600;
    /// The method does not exist, or not in this generation.
    pub const METHOD_NOT_FOUND: i32 = -32601;
    /// The parameters name something that does not exist, or lack something.
    pub const INVALID_PARAMS: i32 = -32602;
    /// The gateway or a backend failed.
    pub const INTERNAL: i32 = -32603;
    /// The session is unknown, ended, or another caller's.
    pub const SESSION: i32 = -32001;
    /// A resource that does not exist (2025-11-25 and older).
    pub const RESOURCE_NOT_FOUND: i32 = -32002;
    /// Authorization denied it. The code of the nearest existing gateways.
    pub const FORBIDDEN: i32 = 403;
    /// A header contradicts the body (2026-07-28).
    pub const HEADER_MISMATCH: i32 = -32020;
    /// The client did not declare a capability that the response needs (2026-07-28).
    pub const MISSING_CAPABILITY: i32 = -32021;
    /// The revision is not supported (2026-07-28).
    pub const UNSUPPORTED_REVISION: i32 = -32022;
}

/// Generation of MCP over HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Generation {
    /// 2025-11-25 and older: `initialize`, a session, server-to-client requests.
    Stateful,
    /// 2026-07-28: every request has its own `_meta`, and the server sends its requests in results.
    Stateless,
}

impl Generation {
    /// Returns the newest revision of the generation, which names it in policies.
    #[must_use]
    pub fn revision(self) -> &'static str {
        match self {
            Self::Stateful => LATEST_STATEFUL,
            Self::Stateless => STATELESS,
        }
    }
}

/// Decoded message. `vmcp-decode` inserts it into the request's extensions.
///
/// The bytes are those that were received; the envelope holds ranges into them. Cloning costs a reference
/// count.
#[derive(Clone, Debug)]
pub struct McpRequest {
    /// The message as it came.
    pub bytes: Bytes,
    /// Ranges of its parts.
    pub envelope: Envelope,
    /// Which generation the client speaks in this message.
    pub generation: Generation,
}

impl McpRequest {
    /// Returns the id of a request, as in the message.
    #[must_use]
    pub fn id(&self) -> Option<&[u8]> {
        match self.envelope {
            Envelope::Request { id, .. } => Some(id.of(&self.bytes)),
            Envelope::Notification { .. } | Envelope::Response { .. } => None,
        }
    }

    /// Returns the method of a request or notification; empty for a response.
    #[must_use]
    pub fn method(&self) -> Cow<'_, str> {
        match self.envelope {
            Envelope::Request { method, .. } | Envelope::Notification { method, .. } => {
                method.read(&self.bytes)
            }
            Envelope::Response { .. } => Cow::Borrowed(""),
        }
    }

    /// Returns the range of the parameters; `None` for a response.
    #[must_use]
    pub fn params(&self) -> Option<&Params> {
        match &self.envelope {
            Envelope::Request { params, .. } | Envelope::Notification { params, .. } => {
                Some(params)
            }
            Envelope::Response { .. } => None,
        }
    }

    /// Returns the raw value of a routing member of `params`.
    #[must_use]
    pub fn param(&self, key: Key) -> Option<&[u8]> {
        self.span(key).map(|span| span.of(&self.bytes))
    }

    /// Returns the range of a routing member of `params`.
    #[must_use]
    pub fn span(&self, key: Key) -> Option<Span> {
        self.params().and_then(|params| params.get(key))
    }

    /// Returns a routing member of `params` that is a string.
    #[must_use]
    pub fn text(&self, key: Key) -> Option<StringSpan> {
        self.params().and_then(|params| params.text(&self.bytes, key))
    }
}
