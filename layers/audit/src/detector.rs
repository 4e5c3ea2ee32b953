//! Detection of application errors in the first bytes of a 2xx response.

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use vmcp_core::MediaType;
use vmcp_wire::sse::Reader;
use vmcp_wire::{PrefixOutcome, find, may_contain_error, parse_json_string, scan_prefix};

use crate::PayloadExcerpt;

/// Inspected bytes of a response, or of each message in an event stream.
const MAX_INSPECTED: usize = 16 << 10;

/// Maximum length of a recorded error message in bytes.
pub(crate) const MAX_ERROR_MESSAGE: usize = 256;

/// Incremental detector for a response body.
pub(crate) enum Detector {
    /// A JSON body, with a copy of its prefix if it arrived in several chunks.
    Json(BytesMut),
    /// An event stream.
    Events(Box<Reader>),
    /// Finished.
    Done(DetectionResult),
}

/// Result of the detection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DetectionResult {
    /// Set if the response to the request passed completely.
    pub(crate) response_passed: bool,
    pub(crate) error: Option<ApplicationError>,
}

/// An error in a 2xx.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ApplicationError {
    /// A JSON-RPC error.
    Rpc { code: Option<i64>, message: Option<PayloadExcerpt> },
    /// A tool result with `isError`.
    Tool,
}

impl Detector {
    /// Creates a detector for a response with these headers; `None` if the media type carries no messages.
    pub(crate) fn new(headers: &HeaderMap) -> Option<Self> {
        match MediaType::of(headers) {
            MediaType::Json => Some(Self::Json(BytesMut::new())),
            MediaType::EventStream => Some(Self::Events(Box::new(Reader::new(MAX_INSPECTED)))),
            MediaType::Other => None,
        }
    }

    /// Inspects the next chunk.
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
                // A message that exceeds the limit is taken for the response: messages before the response are short.
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

    /// Finishes the detection at the end of the body.
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

/// Inspects a JSON body or its prefix. Completeness is determined by the caller.
fn body(bytes: &[u8]) -> DetectionResult {
    if may_contain_error(bytes) { message(bytes) } else { DetectionResult::default() }
}

/// Inspects a message or its prefix.
fn message(bytes: &[u8]) -> DetectionResult {
    let outcome = scan_prefix(bytes).ok().and_then(|head| head.outcome);
    let value = |start: u32| bytes.get(start as usize..).unwrap_or_default();
    let error = match outcome {
        None => return DetectionResult::default(),
        Some(PrefixOutcome::Error { start, code }) => {
            let message = find(value(start), "message").and_then(parse_json_string);
            let message =
                message.map(|message| PayloadExcerpt::new(message.as_bytes(), MAX_ERROR_MESSAGE));
            Some(ApplicationError::Rpc { code, message })
        }
        Some(PrefixOutcome::Result { start, .. }) => {
            // Most results lack the member; the search avoids parsing them.
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
