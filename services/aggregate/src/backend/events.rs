//! Messages as a backend sends them in an event stream.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::Body as _;
use vmcp_core::{Body, BoxError};
use vmcp_wire::sse::{Event, Reader};

/// The events of one response.
#[derive(Debug)]
pub(crate) struct Events {
    body: Body,
    reader: Reader,
}

impl Events {
    /// Events up to `largest` bytes each.
    pub(crate) fn new(body: Body, largest: usize) -> Self {
        Self { body, reader: Reader::new(largest) }
    }

    /// The next event that has data; `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<Result<Event, BoxError>> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    pub(crate) fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Event, BoxError>>> {
        loop {
            if let Some(event) = self.buffered() {
                return Poll::Ready(Some(event));
            }
            match ready!(self.poll_chunk(cx)) {
                Some(Ok(())) => {}
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
    }

    /// What has come without waiting for the network: the next event, if it is there. One without
    /// data only says where the stream can be resumed.
    pub(crate) fn buffered(&mut self) -> Option<Result<Event, BoxError>> {
        let has_data = |event: &Result<Event, _>| {
            event.as_ref().map_or(true, |event: &Event| !event.data.is_empty())
        };
        self.reader.by_ref().find(has_data).map(|event| event.map_err(Into::into))
    }

    /// Takes in the next chunk; `None` at the end.
    pub(crate) async fn chunk(&mut self) -> Option<Result<(), BoxError>> {
        poll_fn(|cx| self.poll_chunk(cx)).await
    }

    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<(), BoxError>>> {
        match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    self.reader.push(data);
                }
                Poll::Ready(Some(Ok(())))
            }
            Some(Err(error)) => Poll::Ready(Some(Err(error))),
            None => Poll::Ready(None),
        }
    }

    /// How many bytes are held of events that have not been given out.
    pub(crate) fn held(&self) -> usize {
        self.reader.held()
    }

    /// The id that the stream can be resumed behind.
    pub(crate) fn last_id(&self) -> Option<&Bytes> {
        self.reader.last_id()
    }

    /// How long the backend asks to wait before resuming, in milliseconds.
    pub(crate) fn retry(&self) -> Option<u64> {
        self.reader.retry()
    }
}
