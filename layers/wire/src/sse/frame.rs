//! Writing events.

use bytes::BufMut;

/// A comment that keeps a silent stream alive.
pub const KEEP_ALIVE: &[u8] = b": keep-alive\n\n";

/// Appends one event to `out`, ready to be sent.
///
/// Each line of `data` becomes a `data` field, so line ends, which JSON allows between tokens, reach the reader as line feeds.
/// `id` and `event` are one line each: line ends in them, and NUL in an id, are left out.
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
        rest = end.strip_prefix(b"\r\n").or(end.get(1..)).unwrap_or_default();
    }
    data_line(rest, out);
    out.put_u8(b'\n');
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
