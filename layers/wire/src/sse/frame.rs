//! Writing events.

use bytes::{BufMut, Bytes};

/// A comment that keeps a silent stream alive.
pub const KEEP_ALIVE: &[u8] = b": keep-alive\n\n";

/// Appends one event to `out`, ready to be sent.
///
/// Each line of `data` becomes a `data` field, so line ends, which JSON allows between tokens, reach the reader as line
/// feeds. `id` and `event` are one line each: line ends in them, and NUL in an id, are left out.
pub fn frame(id: Option<&str>, event: Option<&str>, data: &[u8], out: &mut impl BufMut) {
    if let Some(id) = id {
        field(b"id: ", id, out);
    }
    if let Some(event) = event {
        field(b"event: ", event, out);
    }
    let mut rest = data;
    while let Some(at) = memchr::memchr2(b'\r', b'\n', rest) {
        let (line, end) = rest.split_at(at);
        data_line(line, out);
        rest = end.strip_prefix(b"\r\n").unwrap_or(&end[1..]);
    }
    data_line(rest, out);
    out.put_u8(b'\n');
}

/// Encoder of one event whose data is written piece by piece.
///
/// The pieces together are what [`frame`] writes, so that a long message takes no second buffer of its length.
#[derive(Debug)]
pub struct Encoder {
    data: Bytes,
    /// The bytes of `data` that are written.
    position: usize,
    /// The field `event`.
    name: Option<&'static str>,
    is_begun: bool,
}

impl Encoder {
    /// Creates an encoder of an event with this data.
    #[must_use]
    pub fn new(data: Bytes) -> Self {
        Self { data, position: 0, name: None, is_begun: false }
    }

    /// Sets the field `event`.
    #[must_use]
    pub fn event(mut self, name: &'static str) -> Self {
        self.name = Some(name);
        self
    }

    /// Returns the bytes of the data that are not written.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.data.len().saturating_sub(self.position)
    }

    /// Appends about `max_len` bytes of the event to `out`, with the field `id` in the first piece. Returns whether the
    /// event is complete.
    pub fn encode(&mut self, id: Option<&str>, max_len: usize, out: &mut impl BufMut) -> bool {
        if !std::mem::replace(&mut self.is_begun, true) {
            if let Some(id) = id {
                field(b"id: ", id, out);
            }
            if let Some(name) = self.name {
                field(b"event: ", name, out);
            }
            out.put_slice(b"data: ");
        }
        let end = self.data.len().min(self.position.saturating_add(max_len));
        while let Some(rest) = self.data.get(self.position..end).filter(|rest| !rest.is_empty()) {
            let Some(at) = memchr::memchr2(b'\r', b'\n', rest) else {
                out.put_slice(rest);
                self.position = end;
                break;
            };
            out.put_slice(&rest[..at]);
            out.put_slice(b"\ndata: ");
            self.position += at;
            self.position += if self.data[self.position..].starts_with(b"\r\n") { 2 } else { 1 };
        }
        let is_complete = self.position >= self.data.len();
        if is_complete {
            out.put_slice(b"\n\n");
        }
        is_complete
    }
}

fn data_line(line: &[u8], out: &mut impl BufMut) {
    out.put_slice(b"data: ");
    out.put_slice(line);
    out.put_u8(b'\n');
}

fn field(name: &[u8], value: &str, out: &mut impl BufMut) {
    out.put_slice(name);
    for part in value.split(['\r', '\n', '\0']) {
        out.put_slice(part.as_bytes());
    }
    out.put_u8(b'\n');
}
