//! What the first bytes of a backend's message already tell.

use crate::{Fault, Span, Text};

/// What is known of a message as far as its bytes have come. See [`head`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// The id's literal, complete; `null` is possible.
    pub id: Option<Span>,
    /// How the request ended, once its member has begun.
    pub outcome: Option<HeadOutcome>,
    /// The string `resultType` of the result (revision 2026-07-28).
    pub result_type: Option<Text>,
    /// Whether the result object has members; `None` until its first byte behind the brace has come, or it is no object.
    pub result_has_members: Option<bool>,
    /// The method: the message is a request (with an id) or a notification of the backend, no answer.
    pub method: Option<Text>,
    /// Whether the whole message has come.
    pub complete: bool,
}

/// How a request ended, as far as known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadOutcome {
    /// With a result.
    Result {
        /// Offset of the value's first byte.
        start: u32,
        /// Whether the value is an object.
        is_object: bool,
    },
    /// With an error.
    Error {
        /// Offset of the value's first byte.
        start: u32,
        /// The JSON-RPC error code, once it has come; `None` also when it is no integer of 64 bits.
        code: Option<i64>,
    },
}

/// Reads `bytes`, the beginning of a message or all of it.
pub fn head(bytes: &[u8]) -> Result<Head, Fault> {
    todo!()
}
