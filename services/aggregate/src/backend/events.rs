//! Messages as a backend sends them in an event stream.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::Body as _;
use tokio::time::{Sleep, sleep};
use vmcp_core::{Body, BoxError, BudgetAccount, MAX_BUDGET_WAIT, OverBudget, Reservation};
use vmcp_wire::sse::{Event, Reader};

use super::failure::Failure;

/// The bytes up to the first event of a response that are not counted, if they are no more than these.
const FREE: usize = 4 << 10;

/// The pause after which a stream that lasts asks for room once more.
const RETRY: Duration = Duration::from_millis(100);

/// The events of one response.
///
/// With an account, what is read counts until the next event is asked for; [`take_reservation`](Self::take_reservation)
/// passes the count on with an event that is held for longer. Where there is no room, nothing more is read.
#[derive(Debug)]
pub(crate) struct Events {
    body: Body,
    reader: Reader,
    count: Option<Box<Count>>,
}

/// Count of what a reader holds.
#[derive(Debug)]
struct Count {
    reservation: Reservation,
    /// The most bytes that are not counted.
    free: usize,
    /// Bytes of the event that was given out last.
    given: usize,
    /// The length of the chunk that was read last.
    chunk: usize,
    /// A chunk that there is no room for yet.
    pending: Option<Bytes>,
    /// When the wait for room ends.
    deadline: Option<Pin<Box<Sleep>>>,
    /// Whether the stream lasts: it waits for as long as it takes.
    lasts: bool,
}

impl Events {
    /// Events up to `largest` bytes each.
    pub(crate) fn new(body: Body, largest: usize) -> Self {
        Self { body, reader: Reader::new(largest), count: None }
    }

    /// Counts what is read of an answer. Without room for some time, its stream fails with [`Failure::NoRoom`].
    pub(crate) fn counted(self, account: Option<&BudgetAccount>) -> Self {
        self.with_count(account, FREE, false)
    }

    /// Counts what is read of a stream that lasts. Without room, its backend waits.
    pub(crate) fn counted_while_open(self, account: Option<&BudgetAccount>) -> Self {
        self.with_count(account, 0, true)
    }

    fn with_count(mut self, account: Option<&BudgetAccount>, free: usize, lasts: bool) -> Self {
        self.count = account.map(|account| {
            let (reservation, pending, deadline) = (account.open(), None, None);
            Box::new(Count { reservation, free, given: 0, chunk: 0, pending, deadline, lasts })
        });
        self
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
        let mut event = self.reader.by_ref().find(has_data).map(|event| event.map_err(Into::into));
        if let Some(count) = &mut self.count {
            count.give(event.as_mut().and_then(|event| event.as_mut().ok()), self.reader.held());
        }
        event
    }

    /// Takes in the next chunk; `None` at the end.
    pub(crate) async fn chunk(&mut self) -> Option<Result<(), BoxError>> {
        poll_fn(|cx| self.poll_chunk(cx)).await
    }

    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<(), BoxError>>> {
        let held = self.reader.held();
        // Room for more of an event comes first: what waits for it stays with the backend.
        if let Some(count) = self.count.as_mut().filter(|count| count.expects_more(held)) {
            ready!(count.poll_room(cx, held + count.chunk))?;
        }
        let pending = self.count.as_mut().and_then(|count| count.pending.take());
        let data = match pending {
            Some(data) => data,
            None => match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => data,
                    Err(_) => return Poll::Ready(Some(Ok(()))),
                },
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            },
        };
        if let Some(count) = &mut self.count {
            match count.poll_room(cx, held + data.len()) {
                Poll::Ready(Ok(())) => count.chunk = data.len(),
                Poll::Ready(Err(error)) => return Poll::Ready(Some(Err(error))),
                Poll::Pending => {
                    count.pending = Some(data);
                    return Poll::Pending;
                }
            }
        }
        self.reader.push(data);
        Poll::Ready(Some(Ok(())))
    }

    /// The count of the event that was given out last, if it has one.
    pub(crate) fn take_reservation(&mut self) -> Option<Reservation> {
        let count = self.count.as_mut()?;
        let given = std::mem::take(&mut count.given);
        Some(count.reservation.split(given)).filter(|reservation| reservation.bytes() > 0)
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

impl Count {
    /// Counts `event`, which is given out, in the place of the one before, besides `held` bytes that are not.
    fn give(&mut self, event: Option<&mut Event>, held: usize) {
        self.given = event.as_ref().map_or(0, |event| event.data.len());
        if let Some(event) = event {
            let is_counted = held + self.given > self.free;
            if is_counted && event.data.len() < self.chunk / 2 {
                // A short event may be held for longer than the chunk that it is a slice of.
                event.data = Bytes::copy_from_slice(&event.data);
            }
            // What follows a first event may queue up for the client.
            self.free = 0;
        }
        if self.pending.is_none() {
            self.reservation.shrink(held + self.given);
        }
    }

    /// The most bytes that there can ever be room for.
    fn most(&self) -> usize {
        self.reservation.budget().limit() / 2
    }

    /// Whether more of an event is expected behind the `held` bytes of it, as much as came last, and can find room.
    fn expects_more(&self, held: usize) -> bool {
        held > 0 && self.pending.is_none() && held + self.chunk <= self.most()
    }

    /// Polls for room for `bytes` in all.
    fn poll_room(&mut self, cx: &mut Context<'_>, bytes: usize) -> Poll<Result<(), BoxError>> {
        let more = bytes.saturating_sub(self.reservation.bytes());
        if bytes <= self.free || more == 0 {
            return Poll::Ready(Ok(()));
        }
        if bytes > self.most() {
            // There will never be room.
            return Poll::Ready(self.refuse());
        }
        loop {
            match self.reservation.poll_grow(cx, more) {
                Poll::Ready(Ok(())) => {
                    self.deadline = None;
                    return Poll::Ready(Ok(()));
                }
                Poll::Ready(Err(OverBudget)) if !self.lasts => return Poll::Ready(self.refuse()),
                Poll::Ready(Err(OverBudget)) => {
                    let retry = self.deadline.get_or_insert_with(|| Box::pin(sleep(RETRY)));
                    ready!(retry.as_mut().poll(cx));
                    self.deadline = None;
                }
                Poll::Pending if self.lasts => return Poll::Pending,
                Poll::Pending => {
                    let end = self.deadline.get_or_insert_with(|| Box::pin(sleep(MAX_BUDGET_WAIT)));
                    ready!(end.as_mut().poll(cx));
                    return Poll::Ready(self.refuse());
                }
            }
        }
    }

    fn refuse(&mut self) -> Result<(), BoxError> {
        self.reservation.stop_waiting();
        self.reservation.budget().count_refusal();
        Err(Failure::NoRoom.into())
    }
}

#[cfg(test)]
mod tests;
