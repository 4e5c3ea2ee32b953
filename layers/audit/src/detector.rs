//! Whether an answer in a 2xx is an error, seen in its first bytes while it passes by.

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use vmcp_core::Media;
use vmcp_wire::sse::Reader;
use vmcp_wire::{HeadOutcome, find, head, may_fail, unquote};

use crate::PayloadExcerpt;

/// How much of an answer is looked at; of an event stream, of each message in it.
const MAX_INSPECTED: usize = 16 << 10;

/// The longest error message that is recorded, in bytes.
pub(crate) const MAX_ERROR_MESSAGE: usize = 256;

/// Looks at an answer as it passes.
pub(crate) enum Detector {
    /// A JSON body, whose beginning so far is kept if it came in pieces.
    Json(BytesMut),
    /// An event stream.
    Events(Box<Reader>),
    /// What was looked for has been found, or nothing can be.
    Done(DetectionResult),
}

/// What the answer turned out to be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DetectionResult {
    /// The message that answers the request went by, all of it.
    pub(crate) response_passed: bool,
    pub(crate) error: Option<ApplicationError>,
}

/// An error within a 2xx.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ApplicationError {
    /// A JSON-RPC error.
    Rpc { code: Option<i64>, message: Option<PayloadExcerpt> },
    /// A tool's result with `isError`: the protocol was kept, the operation failed.
    Tool,
}

impl Detector {
    /// For an answer with these headers; `None` if there is nothing to be found in it.
    pub(crate) fn new(headers: &HeaderMap) -> Option<Self> {
        match Media::of(headers) {
            Media::Json => Some(Self::Json(BytesMut::new())),
            Media::Events => Some(Self::Events(Box::new(Reader::new(MAX_INSPECTED)))),
            Media::Other => None,
        }
    }

    /// Looks at the next piece. `last` if there will be no other.
    pub(crate) fn inspect(&mut self, chunk: &Bytes, last: bool) {
        let result = match self {
            Self::Json(buffer) if buffer.is_empty() && (last || chunk.len() >= MAX_INSPECTED) => {
                Some(DetectionResult {
                    response_passed: last,
                    ..body(chunk.get(..MAX_INSPECTED).unwrap_or(chunk))
                })
            }
            Self::Json(buffer) => {
                let free = MAX_INSPECTED - buffer.len();
                buffer.extend_from_slice(chunk.get(..free).unwrap_or(chunk));
                let enough = last || buffer.len() == MAX_INSPECTED;
                enough.then(|| DetectionResult { response_passed: last, ..body(buffer) })
            }
            Self::Events(reader) => {
                reader.push(chunk.clone());
                // Of a message that is too long, nothing is known but that it is none of the short ones
                // that go before an answer.
                let answer = |event: Result<vmcp_wire::sse::Event, _>| match event {
                    Ok(event) => Some(message(&event.data)).filter(|result| result.response_passed),
                    Err(_) => Some(DetectionResult { response_passed: true, error: None }),
                };
                reader.find_map(answer)
            }
            Self::Done(_) => return,
        };
        if let Some(result) = result {
            *self = Self::Done(result);
        }
    }

    /// No other piece comes.
    pub(crate) fn finish(self) -> DetectionResult {
        match self {
            Self::Done(result) => result,
            Self::Json(buffer) if !buffer.is_empty() => {
                DetectionResult { response_passed: false, ..body(&buffer) }
            }
            Self::Json(_) | Self::Events(_) => DetectionResult::default(),
        }
    }
}

/// What the beginning of a JSON body, or all of it, says. Whether that is an answer, its end tells.
fn body(bytes: &[u8]) -> DetectionResult {
    if may_fail(bytes) { message(bytes) } else { DetectionResult::default() }
}

/// What the beginning of a message, or all of it, says.
fn message(bytes: &[u8]) -> DetectionResult {
    let outcome = head(bytes).ok().and_then(|head| head.outcome);
    let value = |start: u32| bytes.get(start as usize..).unwrap_or_default();
    let error = match outcome {
        None => return DetectionResult::default(),
        Some(HeadOutcome::Error { start, code }) => {
            let message = find(value(start), "message").and_then(unquote);
            let message =
                message.map(|message| PayloadExcerpt::new(message.as_bytes(), MAX_ERROR_MESSAGE));
            Some(ApplicationError::Rpc { code, message })
        }
        Some(HeadOutcome::Result { start, .. }) => {
            // Most results do not have the member, and need not be gone through once more.
            let value = value(start);
            let is_tool_error = memchr::memmem::find(value, b"\"isError\"").is_some()
                && find(value, "isError") == Some(b"true");
            is_tool_error.then_some(ApplicationError::Tool)
        }
    };
    DetectionResult { response_passed: true, error }
}

#[cfg(test)]
mod tests;
