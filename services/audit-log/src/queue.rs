//! Between the requests and the writer: bounded in bytes, cheap to put into.

use std::mem;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use tokio::time::timeout;
use vmcp_audit::{Data, Event};

/// How long the writer lets events gather: one wake-up for many requests.
const BATCH_DELAY: Duration = Duration::from_millis(10);

/// Events that wait to be written.
#[derive(Debug)]
pub(crate) struct Queue {
    state: Mutex<State>,
    /// Bytes of events that are not written yet, those in the writer's hands included.
    weight: AtomicUsize,
    limit: usize,
    /// There is something to do.
    work: Notify,
    /// It is not to wait for more.
    flush_now: Notify,
    /// There may be room again.
    capacity: Notify,
    pub(crate) written: AtomicU64,
    pub(crate) dropped: AtomicU64,
    pub(crate) failed: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    pending: PendingEvents,
    commands: WriterCommands,
    /// Nobody writes any more.
    ended: bool,
}

/// Events in their order: `lines` come before the first one of `unformatted`, and so on.
#[derive(Debug, Default)]
pub(crate) struct PendingEvents {
    /// Events whose lines are written already.
    pub(crate) lines: Vec<u8>,
    /// Events that are still to be turned into lines, each with the lines that follow it.
    pub(crate) unformatted: Vec<(Event, Vec<u8>)>,
    pub(crate) count: usize,
    pub(crate) weight: usize,
}

/// An event on its way to the writer.
pub(crate) enum QueueEntry<'a> {
    /// Its line.
    Line(&'a [u8]),
    /// Itself: making a line of it takes long.
    Event(Box<Event>),
}

/// What the writer is to do besides.
#[derive(Debug, Default)]
pub(crate) struct WriterCommands {
    pub(crate) reopen: bool,
    pub(crate) close: bool,
    /// Who waits for the events before this.
    pub(crate) flushed: Vec<oneshot::Sender<()>>,
}

impl Queue {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            state: Mutex::default(),
            weight: AtomicUsize::new(0),
            limit,
            work: Notify::new(),
            flush_now: Notify::new(),
            capacity: Notify::new(),
            written: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            failed: AtomicU64::new(0),
        }
    }

    /// Puts an event in, or counts it as dropped if it would be over `limit_factor` times the limit.
    pub(crate) fn push(&self, entry: QueueEntry<'_>, limit_factor: usize) {
        let weight = entry.weight();
        let mut state = self.lock();
        let sum = self.weight.load(Ordering::Relaxed) + weight;
        if sum > self.limit.saturating_mul(limit_factor) || state.commands.close || state.ended {
            drop(state);
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        self.weight.store(sum, Ordering::Relaxed);
        let first = state.pending.count == 0;
        state.pending.add(entry, weight);
        drop(state);
        if first {
            self.work.notify_one();
        }
        if sum > self.limit / 2 && sum - weight <= self.limit / 2 {
            self.flush_now.notify_one();
        }
    }

    /// Bytes of events that are not written yet.
    pub(crate) fn weight(&self) -> usize {
        self.weight.load(Ordering::Relaxed)
    }

    /// Whether less than the limit waits, or waiting makes no sense.
    pub(crate) fn has_capacity(&self) -> bool {
        self.weight() < self.limit || self.lock().ended
    }

    /// Ready when there is room.
    pub(crate) async fn capacity(&self) {
        loop {
            let mut capacity = std::pin::pin!(self.capacity.notified());
            // Before looking, so that what happens in between is not missed.
            capacity.as_mut().enable();
            if self.has_capacity() {
                return;
            }
            capacity.await;
        }
    }

    /// Gives the writer something else to do.
    pub(crate) fn command(&self, order: impl FnOnce(&mut WriterCommands)) {
        {
            let mut state = self.lock();
            if state.ended {
                return;
            }
            order(&mut state.commands);
        }
        self.work.notify_one();
        self.flush_now.notify_one();
    }

    /// Waits for something to do, and a little for more.
    pub(crate) async fn gather(&self) {
        self.work.notified().await;
        // Either is fine: more has come, or nothing for this long.
        _ = timeout(BATCH_DELAY, self.flush_now.notified()).await;
    }

    /// Waits `time`, less if something has been ordered.
    pub(crate) async fn pause(&self, time: Duration) {
        _ = timeout(time, self.flush_now.notified()).await;
    }

    /// Whether nobody writes any more.
    pub(crate) fn has_ended(&self) -> bool {
        self.lock().ended
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.lock().commands.close
    }

    /// Everything that waits, and what was ordered. `emptied` takes its place.
    pub(crate) fn take(&self, emptied: PendingEvents) -> (PendingEvents, WriterCommands) {
        let mut state = self.lock();
        let commands = mem::take(&mut state.commands);
        // Once closed, it stays so.
        state.commands.close = commands.close;
        (mem::replace(&mut state.pending, emptied), commands)
    }

    /// Events of this weight are no longer held.
    pub(crate) fn release(&self, weight: usize) {
        {
            let _state = self.lock();
            self.weight.fetch_sub(weight, Ordering::Relaxed);
        }
        self.capacity.notify_waiters();
    }

    /// Nobody will write what comes now; what is here is lost.
    pub(crate) fn end(&self) {
        let lost = {
            let mut state = self.lock();
            state.ended = true;
            state.commands.flushed.clear();
            mem::take(&mut state.pending)
        };
        self.dropped.fetch_add(lost.count as u64, Ordering::Relaxed);
        self.capacity.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl PendingEvents ===

impl PendingEvents {
    fn add(&mut self, entry: QueueEntry<'_>, weight: usize) {
        self.count += 1;
        self.weight += weight;
        match entry {
            QueueEntry::Event(event) => self.unformatted.push((*event, Vec::new())),
            QueueEntry::Line(line) => {
                let lines = self.unformatted.last_mut().map_or(&mut self.lines, |(_, lines)| lines);
                lines.extend_from_slice(line);
            }
        }
    }
}

// === impl QueueEntry ===

impl QueueEntry<'_> {
    /// About how many bytes it takes while it waits to be written.
    fn weight(&self) -> usize {
        match self {
            Self::Line(line) => line.len(),
            Self::Event(event) => {
                let data = |data: &Option<Data>| data.as_ref().map_or(0, |data| data.start.len());
                size_of::<Event>() + 512 + data(&event.request) + data(&event.response)
            }
        }
    }
}
