//! Event streams of backends.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::Body as _;
use tokio::time::{Sleep, sleep};
use vmcp_core::{
    Body, BoxError, BudgetAccount, BudgetExceededError, MAX_BUDGET_WAIT, Reservation, TransferRate,
};
use vmcp_wire::sse::{Event, Reader};

use super::error::BackendError;

/// Bytes up to the first event of a response that are exempt from the budget, if there are no more than these.
const UNCHARGED_BYTES: usize = 4 << 10;

/// Interval at which a long-lived stream retries to reserve bytes.
const RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// Events of one response.
///
/// With an account, bytes stay reserved until the next event is requested; [`take_reservation`](Self::take_reservation) hands
/// the reservation over with an event that is buffered for longer. Reading stops while the budget is exhausted.
#[derive(Debug)]
pub(crate) struct EventReader {
    body: Body,
    reader: Reader,
    count: Option<Box<ReadReservation>>,
}

/// Bytes that a reader has reserved.
#[derive(Debug)]
struct ReadReservation {
    reservation: Reservation,
    /// Number of bytes that are exempt from the budget.
    uncharged_bytes: usize,
    /// Size of the last returned event, in bytes.
    event_bytes: usize,
    /// Size of the last chunk, in bytes.
    chunk: usize,
    /// Chunk that waits for a reservation.
    pending: Option<Bytes>,
    /// End of the wait for a reservation.
    deadline: Option<Pin<Box<Sleep>>>,
    /// `true` for long-lived streams, which wait for a reservation without a limit as long as they hold none.
    is_long_lived: bool,
    /// Rate at which the backend sends a partial event.
    transfer_rate: TransferRate,
    /// Current interval of the rate.
    interval: Option<Pin<Box<Sleep>>>,
}

impl EventReader {
    /// Reads events of up to `largest` bytes each.
    pub(crate) fn new(body: Body, largest: usize) -> Self {
        Self { body, reader: Reader::new(largest), count: None }
    }

    /// Charges the bytes of a response to `account`. If the budget stays exhausted, the stream fails with [`BackendError::NoRoom`].
    pub(crate) fn charged(self, account: Option<&BudgetAccount>) -> Self {
        self.with_count(account, UNCHARGED_BYTES, false)
    }

    /// Charges the bytes of a long-lived stream to `account`. While the budget is exhausted, reading pauses.
    pub(crate) fn charged_while_open(self, account: Option<&BudgetAccount>) -> Self {
        self.with_count(account, 0, true)
    }

    fn with_count(
        mut self,
        account: Option<&BudgetAccount>,
        uncharged_bytes: usize,
        is_long_lived: bool,
    ) -> Self {
        self.count = account.map(|account| {
            Box::new(ReadReservation {
                reservation: account.open(),
                uncharged_bytes,
                event_bytes: 0,
                chunk: 0,
                pending: None,
                deadline: None,
                is_long_lived,
                transfer_rate: TransferRate::default(),
                interval: None,
            })
        });
        self
    }

    /// Returns the next event with data; `None` at the end.
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

    /// Returns the next event if it is already buffered. An event without data only updates the resumption id.
    pub(crate) fn buffered(&mut self) -> Option<Result<Event, BoxError>> {
        let has_data = |event: &Result<Event, _>| {
            event.as_ref().map_or(true, |event: &Event| !event.data.is_empty())
        };
        let mut event = self.reader.by_ref().find(has_data).map(|event| event.map_err(Into::into));
        if let Some(count) = &mut self.count {
            count.charge_event(
                event.as_mut().and_then(|event| event.as_mut().ok()),
                self.reader.held(),
            );
        }
        event
    }

    /// Reads the next chunk; `None` at the end.
    pub(crate) async fn chunk(&mut self) -> Option<Result<(), BoxError>> {
        poll_fn(|cx| self.poll_chunk(cx)).await
    }

    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<(), BoxError>>> {
        let buffered = self.reader.held();
        // The rest of a partial event is reserved before it is read, so unread bytes stay with the backend.
        if let Some(count) = self.count.as_mut().filter(|count| count.expects_more(buffered)) {
            ready!(count.poll_room(cx, buffered + count.chunk))?;
        }
        let pending = self.count.as_mut().and_then(|count| count.pending.take());
        let data = match pending {
            Some(data) => data,
            None => match Pin::new(&mut self.body).poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) => data,
                    Err(_) => return Poll::Ready(Some(Ok(()))),
                },
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(error))),
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Pending => {
                    let Some(count) = self.count.as_mut() else { return Poll::Pending };
                    return count.poll_transfer_rate(cx, buffered).map(|slow| Some(Err(slow)));
                }
            },
        };
        if let Some(count) = &mut self.count {
            match count.poll_room(cx, buffered + data.len()) {
                Poll::Ready(Ok(())) => {
                    count.chunk = data.len();
                    count.transfer_rate.add(data.len());
                }
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

    /// Takes the reservation of the last returned event, if there is one.
    pub(crate) fn take_reservation(&mut self) -> Option<Reservation> {
        let count = self.count.as_mut()?;
        let event_bytes = std::mem::take(&mut count.event_bytes);
        Some(count.reservation.split(event_bytes)).filter(|reservation| reservation.bytes() > 0)
    }

    /// Returns the number of buffered bytes of events that have not been returned.
    pub(crate) fn buffered_bytes(&self) -> usize {
        self.reader.held()
    }

    /// Returns the event id from which the stream can be resumed.
    pub(crate) fn last_id(&self) -> Option<&Bytes> {
        self.reader.last_id()
    }

    /// Returns the backend's reconnection delay, in milliseconds.
    pub(crate) fn retry(&self) -> Option<u64> {
        self.reader.retry()
    }
}

impl ReadReservation {
    /// Moves the reservation from the previous event to `event`, plus `buffered` bytes.
    fn charge_event(&mut self, event: Option<&mut Event>, buffered: usize) {
        self.event_bytes = event.as_ref().map_or(0, |event| event.data.len());
        if let Some(event) = event {
            let is_counted = buffered + self.event_bytes > self.uncharged_bytes;
            if is_counted && event.data.len() < self.chunk / 2 {
                // Copied: the consumer may hold a short event for longer than the chunk that contains it.
                event.data = Bytes::copy_from_slice(&event.data);
            }
            // Events after the first may queue up for the client, so they are not exempt.
            self.uncharged_bytes = 0;
        }
        if self.pending.is_none() {
            self.reservation.shrink(buffered + self.event_bytes);
        }
    }

    /// Returns the maximum number of bytes that can ever be reserved.
    fn most(&self) -> usize {
        self.reservation.budget().limit() / 2
    }

    /// Returns `true` if a partial event of `buffered` bytes needs another chunk, assumed as large as the last, that fits the
    /// limit.
    fn expects_more(&self, buffered: usize) -> bool {
        buffered > 0 && self.pending.is_none() && buffered + self.chunk <= self.most()
    }

    /// Polls for a reservation of `bytes` in total.
    fn poll_room(&mut self, cx: &mut Context<'_>, bytes: usize) -> Poll<Result<(), BoxError>> {
        let more = bytes.saturating_sub(self.reservation.bytes());
        if bytes <= self.uncharged_bytes || more == 0 {
            return Poll::Ready(Ok(()));
        }
        if bytes > self.most() {
            // A reservation of this size can never succeed.
            return Poll::Ready(self.refuse());
        }
        // A stream that waits with a partial event could wait for bytes that others hold for the same reason.
        let has_limit = !self.is_long_lived || self.reservation.bytes() > 0;
        loop {
            match self.reservation.poll_grow(cx, more) {
                Poll::Ready(Ok(())) => {
                    self.deadline = None;
                    return Poll::Ready(Ok(()));
                }
                Poll::Ready(Err(BudgetExceededError)) if has_limit => {
                    return Poll::Ready(self.refuse());
                }
                Poll::Ready(Err(BudgetExceededError)) => {
                    let retry =
                        self.deadline.get_or_insert_with(|| Box::pin(sleep(RETRY_INTERVAL)));
                    ready!(retry.as_mut().poll(cx));
                    self.deadline = None;
                }
                Poll::Pending if !has_limit => return Poll::Pending,
                Poll::Pending => {
                    let end = self.deadline.get_or_insert_with(|| Box::pin(sleep(MAX_BUDGET_WAIT)));
                    ready!(end.as_mut().poll(cx));
                    return Poll::Ready(self.refuse());
                }
            }
        }
    }

    /// Ready with an error if the backend is too slow with a partial event of `buffered` bytes, which others wait for.
    fn poll_transfer_rate(&mut self, cx: &mut Context<'_>, buffered: usize) -> Poll<BoxError> {
        if buffered == 0 || self.reservation.bytes() == 0 {
            self.interval = None;
            return Poll::Pending;
        }
        loop {
            let interval =
                self.interval.get_or_insert_with(|| Box::pin(sleep(TransferRate::INTERVAL)));
            ready!(interval.as_mut().poll(cx));
            self.interval = None;
            if self.transfer_rate.end_interval(self.reservation.budget()) {
                return Poll::Ready(self.no_room());
            }
        }
    }

    fn refuse(&mut self) -> Result<(), BoxError> {
        Err(self.no_room())
    }

    fn no_room(&mut self) -> BoxError {
        self.reservation.stop_waiting();
        self.reservation.budget().count_rejection();
        BackendError::NoRoom.into()
    }
}

#[cfg(test)]
mod tests;
