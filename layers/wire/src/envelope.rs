//! What a message is: one strict pass over its bytes.

use crate::{Fault, Params, Refused, Span, Text};

/// A JSON-RPC message of MCP, read as far as a gateway has to know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Envelope {
    /// Asks for an answer.
    Request {
        /// The id's literal, a string with its quotes or an integer; to be sent back byte for byte.
        id: Span,
        /// What is asked for.
        method: Text,
        /// With what.
        params: Params,
    },
    /// Tells something.
    Notification {
        /// What kind of thing.
        method: Text,
        /// With what.
        params: Params,
    },
    /// Answers a request of the other side.
    Answer {
        /// The literal of the request's id; `None` when it is null, or absent beside an error.
        id: Option<Span>,
        /// How it ended.
        outcome: Outcome,
    },
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The value of `result`.
    Result(Span),
    /// The value of `error`.
    Error(Span),
}

/// Reads a complete message in one strict pass.
pub fn scan(bytes: &[u8]) -> Result<Envelope, Refused> {
    todo!()
}

/// Reads an object that stands for `params` without being in a message, as in a call inside a call, by the same rules.
pub fn scan_params(bytes: &[u8]) -> Result<Params, Fault> {
    todo!()
}
