//! The event stream reader, against itself with other chunks and against one that needs the whole stream.

use bytes::Bytes;
use vmcp_wire::sse::{Event, EventTooLargeError, Reader, frame};

#[derive(Debug, Default, PartialEq, Eq)]
struct Outcome {
    events: Vec<Result<Event, EventTooLargeError>>,
    last_id: Option<Bytes>,
    retry: Option<u64>,
    whole: bool,
}

/// Holds for any bytes: one that limits the size of events, three that cut the stream, then the stream.
pub(crate) fn check(bytes: &[u8]) {
    let Some((&[limit, cuts @ ..], stream)) = bytes.split_first_chunk::<4>() else { return };
    let limit = usize::from(limit);
    let at_once = read(limit, [stream]);
    assert_eq!(at_once, read(limit, stream.chunks(1)));
    let (first, rest) = stream.split_at(usize::from(cuts[0]).min(stream.len()));
    let chunks = [first].into_iter().chain(rest.chunks(usize::from(cuts[1]).max(1)));
    assert_eq!(at_once, read(limit, chunks));
    let reference = reference(limit, stream);
    assert_eq!(at_once.events, reference.events, "{:?}", String::from_utf8_lossy(stream));
    assert_eq!((&at_once.last_id, at_once.retry), (&reference.last_id, reference.retry));
    // Chunks without a read in between.
    let mut reader = Reader::new(limit);
    for chunk in stream.chunks(usize::from(cuts[2]).max(1)) {
        reader.push(Bytes::copy_from_slice(chunk));
    }
    assert_eq!(reader.collect::<Vec<_>>(), at_once.events);
}

/// A written event is read back, with line ends as line feeds.
pub(crate) fn check_frame(id: Option<&str>, event: Option<&str>, data: &str) {
    let mut out = Vec::new();
    frame(id, event, data.as_bytes(), &mut out);
    frame(None, None, b"next", &mut out);
    let found = read(4096, [&out[..]]);
    let clean = |text: &str| Bytes::from(text.replace(['\r', '\n', '\0'], ""));
    let expected = Event {
        data: Bytes::from(data.replace("\r\n", "\n").replace('\r', "\n")),
        event: event.map(clean),
        id: id.map(clean),
        retry: None,
    };
    let next = Event { data: Bytes::from_static(b"next"), ..Event::default() };
    assert_eq!(found.events, [Ok(expected), Ok(next)]);
    assert!(found.whole);
}

fn read<'a>(limit: usize, chunks: impl IntoIterator<Item = &'a [u8]>) -> Outcome {
    let mut reader = Reader::new(limit);
    let mut events = Vec::new();
    for chunk in chunks {
        reader.push(Bytes::copy_from_slice(chunk));
        events.extend(&mut reader);
    }
    let (last_id, retry) = (reader.last_id().cloned(), reader.retry());
    Outcome { events, last_id, retry, whole: reader.finish() }
}

/// Splits the whole stream into lines first.
fn reference(limit: usize, stream: &[u8]) -> Outcome {
    let mut outcome = Outcome::default();
    let (mut event, mut data) = (Event::default(), Vec::<&[u8]>::new());
    let (mut size, mut skipping) = (0, false);
    let (lines, rest) = lines(stream);
    let count = lines.len();
    for (index, whole) in lines.into_iter().chain([rest]).enumerate() {
        let bom = if index == 0 { whole.strip_prefix(b"\xEF\xBB\xBF") } else { None };
        let line = bom.unwrap_or(whole);
        size += if whole.starts_with(b":") { 0 } else { whole.len() };
        if size > limit && !skipping {
            outcome.events.push(Err(EventTooLargeError { limit }));
            skipping = true;
        }
        if index == count {
            break;
        }
        if skipping && !whole.is_empty() {
            continue;
        }
        if line.is_empty() {
            let done = std::mem::take(&mut event);
            if !skipping && !data.is_empty() {
                outcome.events.push(Ok(Event { data: Bytes::from(data.join(&b'\n')), ..done }));
            }
            data.clear();
            (size, skipping) = (0, false);
            continue;
        }
        let mut halves = line.splitn(2, |&byte| byte == b':');
        let (name, value) = (halves.next().unwrap(), halves.next().unwrap_or_default());
        let value = value.strip_prefix(b" ").unwrap_or(value);
        let owned = Some(Bytes::copy_from_slice(value));
        match name {
            b"data" => data.push(value),
            b"event" => event.event = owned,
            b"id" if !value.contains(&0) => {
                outcome.last_id.clone_from(&owned);
                event.id = owned;
            }
            b"retry" if value.iter().all(u8::is_ascii_digit) => {
                if let Ok(retry) = String::from_utf8_lossy(value).parse() {
                    outcome.retry = Some(retry);
                    event.retry = Some(retry);
                }
            }
            _ => {}
        }
    }
    outcome
}

/// The lines that ended, and what stands behind the last end.
fn lines(mut stream: &[u8]) -> (Vec<&[u8]>, &[u8]) {
    let mut lines = Vec::new();
    while let Some(end) = stream.iter().position(|byte| matches!(byte, b'\r' | b'\n')) {
        let (line, behind) = stream.split_at(end);
        lines.push(line);
        stream = behind.strip_prefix(b"\r\n").unwrap_or(&behind[1..]);
    }
    (lines, stream)
}
