//! Whether an answer in a 2xx is an error, seen in its first bytes while it passes by.

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use vmcp_core::Media;
use vmcp_wire::sse::Reader;
use vmcp_wire::{HeadOutcome, find, head, may_fail, unquote};

use crate::Data;

/// How much of an answer is looked at; of an event stream, of each message in it.
const WINDOW: usize = 16 << 10;

/// The longest error message that is recorded, in bytes.
pub(crate) const MAX_MESSAGE: usize = 256;

/// Looks at an answer as it passes.
pub(crate) enum Detector {
    /// A JSON body, whose beginning so far is kept if it came in pieces.
    Json(BytesMut),
    /// An event stream.
    Events(Box<Reader>),
    /// What was looked for has been found, or nothing can be.
    Done(Finding),
}

/// What the answer turned out to be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Finding {
    /// The message that answers the request went by, all of it.
    pub(crate) answered: bool,
    pub(crate) error: Option<ApplicationError>,
}

/// An error within a 2xx.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ApplicationError {
    /// A JSON-RPC error.
    Rpc { code: Option<i64>, message: Option<Data> },
    /// A tool's result with `isError`: the protocol was kept, the operation failed.
    Tool,
}

impl Detector {
    /// For an answer with these headers; `None` if there is nothing to be found in it.
    pub(crate) fn new(headers: &HeaderMap) -> Option<Self> {
        match Media::of(headers) {
            Media::Json => Some(Self::Json(BytesMut::new())),
            Media::Events => Some(Self::Events(Box::new(Reader::new(WINDOW)))),
            Media::Other => None,
        }
    }

    /// Looks at the next piece. `last` if there will be no other.
    pub(crate) fn look(&mut self, piece: &Bytes, last: bool) {
        let found = match self {
            Self::Json(kept) if kept.is_empty() && (last || piece.len() >= WINDOW) => {
                Some(Finding { answered: last, ..body(piece.get(..WINDOW).unwrap_or(piece)) })
            }
            Self::Json(kept) => {
                let room = WINDOW - kept.len();
                kept.extend_from_slice(piece.get(..room).unwrap_or(piece));
                let enough = last || kept.len() == WINDOW;
                enough.then(|| Finding { answered: last, ..body(kept) })
            }
            Self::Events(reader) => {
                reader.push(piece.clone());
                // Of a message that is too long, nothing is known but that it is none of the short ones
                // that go before an answer.
                let answer = |event: Result<vmcp_wire::sse::Event, _>| match event {
                    Ok(event) => Some(message(&event.data)).filter(|found| found.answered),
                    Err(_) => Some(Finding { answered: true, error: None }),
                };
                reader.find_map(answer)
            }
            Self::Done(_) => return,
        };
        if let Some(found) = found {
            *self = Self::Done(found);
        }
    }

    /// No other piece comes.
    pub(crate) fn end(self) -> Finding {
        match self {
            Self::Done(found) => found,
            Self::Json(kept) if !kept.is_empty() => Finding { answered: false, ..body(&kept) },
            Self::Json(_) | Self::Events(_) => Finding::default(),
        }
    }
}

/// What the beginning of a JSON body, or all of it, says. Whether that is an answer, its end tells.
fn body(bytes: &[u8]) -> Finding {
    if may_fail(bytes) { message(bytes) } else { Finding::default() }
}

/// What the beginning of a message, or all of it, says.
fn message(bytes: &[u8]) -> Finding {
    let outcome = head(bytes).ok().and_then(|head| head.outcome);
    let value = |start: u32| bytes.get(start as usize..).unwrap_or_default();
    let error = match outcome {
        None => return Finding::default(),
        Some(HeadOutcome::Error { start, code }) => {
            let message = find(value(start), "message").and_then(unquote);
            let message = message.map(|message| Data::new(message.as_bytes(), MAX_MESSAGE));
            Some(ApplicationError::Rpc { code, message })
        }
        Some(HeadOutcome::Result { start, .. }) => {
            // Most results do not have the member, and need not be gone through once more.
            let value = value(start);
            let failed = memchr::memmem::find(value, b"\"isError\"").is_some()
                && find(value, "isError") == Some(b"true");
            failed.then_some(ApplicationError::Tool)
        }
    };
    Finding { answered: true, error }
}

#[cfg(test)]
mod tests;
