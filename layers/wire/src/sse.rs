//! `text/event-stream` (WHATWG HTML 9.2), read and written as bytes.

mod frame;
mod pieces;
mod reader;

pub use frame::{Encoder, KEEP_ALIVE, frame};
pub use reader::{Event, Reader, TooLarge};

#[cfg(test)]
mod tests;
