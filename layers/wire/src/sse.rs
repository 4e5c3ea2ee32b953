//! `text/event-stream` (WHATWG HTML 9.2), read and written as bytes.

mod chunked_buffer;
mod frame;
mod reader;

pub use frame::{Encoder, KEEP_ALIVE, frame};
pub use reader::{Event, EventTooLargeError, Reader};

#[cfg(test)]
mod tests;
