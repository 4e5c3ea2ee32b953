//! Reading events from chunks as they come.

use bytes::{Buf, Bytes, BytesMut};

use super::chunked_buffer::ChunkedBuffer;

/// One event that has data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// The data lines, joined by line feeds; a slice of the chunk when the event has one data line and came whole.
    pub data: Bytes,
    /// The field `event` of this event.
    pub event: Option<Bytes>,
    /// The field `id` of this event; empty when it resets the stream's last id.
    pub id: Option<Bytes>,
    /// The field `retry` of this event, in milliseconds.
    pub retry: Option<u64>,
}

/// Error of an event over the limit of the reader. The event is skipped, and the next call continues after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an event of the stream is longer than {limit} bytes")]
pub struct EventTooLargeError {
    /// The most bytes that an event may have.
    pub limit: usize,
}

/// Incremental reader of an event stream by WHATWG HTML 9.2.6.
///
/// Chunks may be cut anywhere. Lines end with CR, LF or both; a byte order mark at the beginning, comments and unknown
/// fields are passed over. Blocks without data are not events, but their `id` and `retry` count. Bytes that are not UTF-8
/// pass through: the parser of the data rejects them.
#[derive(Debug)]
pub struct Reader {
    max_event: usize,
    /// Pushed bytes that are not read yet.
    chunk: Bytes,
    /// The beginning of a line whose end has not come.
    line: ChunkedBuffer,
    /// Bytes in the lines of the current event so far, the unfinished one aside.
    size: usize,
    /// The current event so far.
    current: Event,
    data: Data,
    mode: Mode,
    /// The last byte was a CR: an LF that comes now belongs to it.
    after_cr: bool,
    /// No line has ended yet: the first may begin with a byte order mark.
    at_start: bool,
    last_id: Option<Bytes>,
    retry: Option<u64>,
}

#[derive(Debug, Default)]
enum Data {
    #[default]
    None,
    One(Bytes),
    /// Several lines, with a line feed between each two.
    Joined(ChunkedBuffer),
}

/// Use of the bytes of the current line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Read,
    /// A comment is thrown away as it comes.
    Comment,
    /// The event was too large. Whether the current line has bytes: an empty one ends the event.
    Skip {
        filled: bool,
    },
}

/// Outcome of reading up to the next line end.
enum Step {
    /// There is no line end yet.
    Incomplete,
    /// The bytes were a comment or part of an event that is too large.
    Skipped,
    Line(Bytes),
    TooLarge(EventTooLargeError),
}

impl Reader {
    /// Creates a reader at the beginning of a stream. `max_event` bounds the bytes in the lines of one event, line ends and
    /// comments aside; the reader holds little more than that and the pushed chunk.
    #[must_use]
    pub fn new(max_event: usize) -> Self {
        Self {
            max_event,
            chunk: Bytes::new(),
            line: ChunkedBuffer::default(),
            size: 0,
            current: Event::default(),
            data: Data::None,
            mode: Mode::Read,
            after_cr: false,
            at_start: true,
            last_id: None,
            retry: None,
        }
    }

    /// Takes the next chunk of the stream. Call `next` until it gives `None` before pushing another one, or both are copied
    /// together.
    pub fn push(&mut self, chunk: Bytes) {
        if self.chunk.is_empty() {
            self.chunk = chunk;
        } else {
            let mut both = BytesMut::from(std::mem::take(&mut self.chunk));
            both.extend_from_slice(&chunk);
            self.chunk = both.freeze();
        }
    }

    /// Ends the stream: whether it ended between events. The data of an unfinished event is dropped, as WHATWG demands.
    #[must_use]
    pub fn finish(self) -> bool {
        let between = matches!(self.mode, Mode::Read | Mode::Comment) && self.size == 0;
        self.chunk.is_empty() && self.line.is_empty() && between
    }

    /// Returns the number of pushed bytes that are held: chunks that were not read, and the incomplete event.
    #[must_use]
    pub fn held(&self) -> usize {
        self.chunk.len() + self.line.len() + self.size
    }

    /// Returns the last `id` of the stream, also of a block without data, from which to resume. Empty after a reset.
    #[must_use]
    pub fn last_id(&self) -> Option<&Bytes> {
        self.last_id.as_ref()
    }

    /// Returns the last `retry` of the stream, in milliseconds, also of a block without data.
    #[must_use]
    pub fn retry(&self) -> Option<u64> {
        self.retry
    }

    /// Reads to the next line end, or as far as bytes have come.
    fn step(&mut self) -> Step {
        if self.after_cr && !self.chunk.is_empty() {
            self.after_cr = false;
            if self.chunk.starts_with(b"\n") {
                self.chunk.advance(1);
            }
        }
        if self.mode == Mode::Read && self.line.is_empty() && self.chunk.starts_with(b":") {
            self.mode = Mode::Comment;
        }
        let end = memchr::memchr2(b'\r', b'\n', &self.chunk);
        let part = self.chunk.split_to(end.unwrap_or(self.chunk.len()));
        if end.is_some() {
            self.after_cr = self.chunk.split_to(1).starts_with(b"\r");
        }
        match self.mode {
            Mode::Read => self.read(part, end.is_some()),
            Mode::Comment if end.is_none() => Step::Incomplete,
            Mode::Comment => {
                self.mode = Mode::Read;
                self.at_start = false;
                Step::Skipped
            }
            Mode::Skip { filled } => {
                let filled = filled || !part.is_empty();
                self.mode = match end {
                    Some(_) if !filled => Mode::Read,
                    Some(_) => Mode::Skip { filled: false },
                    None => Mode::Skip { filled },
                };
                if end.is_some() { Step::Skipped } else { Step::Incomplete }
            }
        }
    }

    /// Takes in `part` of a line, which may be its last one.
    fn read(&mut self, part: Bytes, ended: bool) -> Step {
        if self.size + self.line.len() + part.len() > self.max_event {
            self.reset();
            self.mode = Mode::Skip { filled: !ended };
            return Step::TooLarge(EventTooLargeError { limit: self.max_event });
        }
        if !ended {
            self.line.extend(&part);
            return Step::Incomplete;
        }
        let mut line = if self.line.is_empty() {
            part
        } else {
            self.line.extend(&part);
            self.line.take()
        };
        self.size += line.len();
        if std::mem::take(&mut self.at_start) && line.starts_with(b"\xEF\xBB\xBF") {
            line.advance(3);
        }
        Step::Line(line)
    }

    /// Takes in a line that is not empty.
    fn field(&mut self, line: &Bytes) {
        let colon = memchr::memchr(b':', line);
        let name = line.slice(..colon.unwrap_or(line.len()));
        // A field without a colon has an empty value.
        let mut value = colon.map_or_else(Bytes::new, |colon| line.slice(colon + 1..));
        if value.starts_with(b" ") {
            value.advance(1);
        }
        match &name[..] {
            b"data" => self.data.add(value),
            b"event" => self.current.event = Some(value),
            b"id" if !value.contains(&0) => {
                // A copy, so that a short id doesn't keep its chunk alive.
                self.last_id = Some(Bytes::copy_from_slice(&value));
                self.current.id = Some(value);
            }
            b"retry" if value.iter().all(u8::is_ascii_digit) => {
                let retry = std::str::from_utf8(&value).ok().and_then(|digits| digits.parse().ok());
                self.retry = retry.or(self.retry);
                self.current.retry = retry.or(self.current.retry);
            }
            _ => {}
        }
    }

    fn reset(&mut self) -> (Event, Data) {
        self.size = 0;
        self.line.clear();
        self.at_start = false;
        (std::mem::take(&mut self.current), std::mem::take(&mut self.data))
    }
}

impl Iterator for Reader {
    type Item = Result<Event, EventTooLargeError>;

    /// Returns the next complete event, or `None` until the next chunk.
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.step() {
                Step::Incomplete => return None,
                Step::Skipped => {}
                Step::TooLarge(error) => return Some(Err(error)),
                Step::Line(line) if !line.is_empty() => self.field(&line),
                Step::Line(_) => {
                    let (event, data) = self.reset();
                    if let Some(data) = data.finish() {
                        return Some(Ok(Event { data, ..event }));
                    }
                }
            }
        }
    }
}

impl Data {
    fn add(&mut self, line: Bytes) {
        *self = match std::mem::take(self) {
            Self::None => Self::One(line),
            Self::One(first) => {
                let mut joined = ChunkedBuffer::default();
                joined.extend(&first);
                joined.extend(b"\n");
                joined.extend(&line);
                Self::Joined(joined)
            }
            Self::Joined(mut joined) => {
                joined.extend(b"\n");
                joined.extend(&line);
                Self::Joined(joined)
            }
        };
    }

    fn finish(self) -> Option<Bytes> {
        match self {
            Self::None => None,
            Self::One(data) => Some(data),
            Self::Joined(mut data) => Some(data.take()),
        }
    }
}
