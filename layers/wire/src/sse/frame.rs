//! Writing events.

use bytes::BufMut;

/// A comment that keeps a silent stream alive.
pub const KEEP_ALIVE: &[u8] = b": keep-alive\n\n";

/// Appends one event, ready to be sent.
pub fn frame(id: Option<&str>, event: Option<&str>, data: &[u8], out: &mut impl BufMut) {
    todo!()
}
