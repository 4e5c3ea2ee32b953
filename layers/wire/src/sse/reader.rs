//! Reading events from chunks as they come.

use bytes::Bytes;

/// One event that has data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// The data lines, joined by line feeds; a slice of the chunk when the event has one data line and came whole.
    pub data: Bytes,
    /// The field `event` of this event.
    pub event: Option<Bytes>,
    /// The field `id` of this event.
    pub id: Option<Bytes>,
    /// The field `retry` of this event, in milliseconds.
    pub retry: Option<u64>,
}

/// An event was longer than the reader allows; it is skipped, and the next call reads on behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an event of the stream is longer than {limit} bytes")]
pub struct TooLarge {
    /// The most bytes that an event may have.
    pub limit: usize,
}

/// Incremental reader of an event stream.
#[derive(Debug)]
pub struct Reader {
    max_event: usize,
}

impl Reader {
    /// A reader at the beginning of a stream. `max_event` bounds the bytes of an event's lines.
    #[must_use]
    pub fn new(max_event: usize) -> Self {
        todo!()
    }

    /// Takes the next chunk of the stream; then call `next` until it gives `None`.
    pub fn push(&mut self, chunk: Bytes) {
        todo!()
    }

    /// Ends the stream: whether it ended between events. The data of an unfinished event is dropped, as WHATWG demands.
    #[must_use]
    pub fn finish(self) -> bool {
        todo!()
    }

    /// The last `id` of the stream, also of an event without data: what to resume behind.
    #[must_use]
    pub fn last_id(&self) -> Option<&Bytes> {
        todo!()
    }

    /// The last `retry` of the stream, in milliseconds, also of an event without data.
    #[must_use]
    pub fn retry(&self) -> Option<u64> {
        todo!()
    }
}

impl Iterator for Reader {
    type Item = Result<Event, TooLarge>;

    /// The next event that has come whole, or `None` until another chunk does.
    fn next(&mut self) -> Option<Self::Item> {
        todo!()
    }
}
