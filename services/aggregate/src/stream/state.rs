//! What a stream holds, and within which bounds.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::task::Waker;

use bytes::Bytes;
use tokio::time::Instant;

use super::{Class, DROPPED, QUEUE};
use crate::detached::Reservation;

/// The most that is kept of what was sent, to be sent again.
const KEPT: usize = 64;

/// The most bytes that a stream holds, sent or not, the response that it is for aside.
pub(super) const MOST_BYTES: usize = 4 << 20;

/// The largest message that is copied when it begins to wait for its client, in bytes: a short one may keep all that came with
/// it in memory.
const MAX_COPIED: usize = 64 << 10;

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) messages: VecDeque<Message>,
    /// The number of the next message.
    pub(super) next: u64,
    /// The number of the first message that was not sent.
    pub(super) unsent: u64,
    pub(super) bytes: usize,
    /// Changes with each connection: an older connection ends when it sees that.
    pub(super) connection: u64,
    pub(super) connected: bool,
    pub(super) waker: Option<Waker>,
    pub(super) ended: Option<Instant>,
    /// When the client left, unless it is connected or never was.
    pub(super) left: Option<Instant>,
    /// Since when a message waits for a client that is connected.
    pub(super) waits_since: Option<Instant>,
    /// Charges what is held while no client is connected.
    pub(super) reservation: Option<Reservation>,
    /// Counts what is held while a client is connected; `None` where the process has no budget.
    pub(super) connected_bytes: Option<vmcp_core::Reservation>,
    /// The message that a connection has begun to send.
    pub(super) sending: Option<u64>,
    /// What the reader of the backend's stream holds of a message that has not come whole.
    pub(super) partial: usize,
    /// Whether more was to wait for the client than there is room for.
    pub(super) overflowed: bool,
}

#[derive(Debug)]
pub(super) struct Message {
    pub(super) number: u64,
    pub(super) data: Bytes,
    pub(super) class: Class,
}

impl State {
    pub(super) fn waiting(&self) -> usize {
        self.messages.iter().rev().take_while(|message| message.number >= self.unsent).count()
    }

    /// Whether a further message would take the place of another.
    pub(super) fn is_full(&self) -> bool {
        let waiting = self.waiting();
        let is_wide = || waiting > 0 && self.bytes >= self.most_bytes();
        self.ended.is_none() && (waiting >= QUEUE || is_wide())
    }

    /// The first message that was not sent.
    pub(super) fn first_unsent(&self) -> Option<&Message> {
        let first = self.messages.partition_point(|message| message.number < self.unsent);
        self.messages.get(first)
    }

    /// Lets go of what was sent and is more than is kept.
    pub(super) fn forget(&mut self) {
        while self.messages.len() > KEPT || self.bytes > MOST_BYTES / 4 {
            match self.messages.front() {
                Some(oldest) if oldest.number < self.unsent => self.drop_at(0),
                _ => return,
            }
        }
    }

    /// Since when the client is away, or does not read what waits for it.
    pub(super) fn unread_since(&self) -> Option<Instant> {
        self.left.or(self.waits_since)
    }

    /// The most bytes that may be held now.
    pub(super) fn most_bytes(&self) -> usize {
        let most = match (&self.reservation, &self.connected_bytes) {
            (Some(reservation), _) => reservation.most().saturating_sub(self.partial),
            (None, Some(held)) => held.bytes() + held.room(),
            (None, None) => MOST_BYTES,
        };
        most.min(MOST_BYTES)
    }

    /// Charges what is held and `more`: to what waits for clients that are away, with what the reader of the backend's stream
    /// holds, or to the budget of the process, which that counts for by itself. `false` where there is no room.
    pub(super) fn charge(&mut self, more: usize) -> bool {
        let bytes = self.bytes + more;
        match (&mut self.reservation, &mut self.connected_bytes) {
            (Some(reservation), _) => reservation.resize(bytes + self.partial),
            (None, Some(held)) => {
                held.shrink(bytes);
                held.try_grow(bytes - held.bytes()).is_ok()
            }
            (None, None) => true,
        }
    }

    /// Whether an equal message waits that is coalesced too.
    pub(super) fn waits(&self, data: &[u8]) -> bool {
        let mut unsent = self.messages.iter().rev().take_while(|it| it.number >= self.unsent);
        unsent.any(|it| it.class == Class::Coalesced && it.data == data)
    }

    /// Makes room for a message of this length, at the cost of what was sent, and then of what may be dropped:
    /// whether there is room.
    pub(super) fn make_room(&mut self, length: usize) -> bool {
        let is_sent =
            |state: &Self| state.messages.front().is_some_and(|it| it.number < state.unsent);
        let most = self.most_bytes();
        while self.bytes + length > most && is_sent(self) {
            self.drop_at(0);
        }
        if length > most {
            return false;
        }
        while self.waiting() >= QUEUE || self.bytes + length > most {
            if !self.drop_oldest() {
                return false;
            }
        }
        true
    }

    /// Drops the oldest message that may be dropped and was not sent: whether there was one.
    pub(super) fn drop_oldest(&mut self) -> bool {
        let unsent = self.unsent;
        let sending = self.sending;
        let may_go = |message: &Message| {
            let is_sending = sending == Some(message.number);
            message.number >= unsent && message.class == Class::Droppable && !is_sending
        };
        let oldest = self.messages.iter().position(may_go);
        if let Some(index) = oldest {
            self.drop_at(index);
            DROPPED.fetch_add(1, Ordering::Relaxed);
        }
        oldest.is_some()
    }

    pub(super) fn add(&mut self, mut data: Bytes, class: Class) {
        if data.len() <= MAX_COPIED {
            data = Bytes::copy_from_slice(&data);
        }
        if self.connected {
            self.waits_since.get_or_insert_with(Instant::now);
        }
        let number = self.next;
        self.next += 1;
        self.bytes += data.len();
        self.messages.push_back(Message { number, data, class });
        self.wake();
    }

    /// Nothing follows: the call is over.
    pub(super) fn close(&mut self) {
        self.ended.get_or_insert_with(Instant::now);
        if let Some(reservation) = &mut self.reservation {
            reservation.end_call();
        }
    }

    pub(super) fn drop_at(&mut self, index: usize) {
        if let Some(message) = self.messages.remove(index) {
            self.bytes -= message.data.len();
        }
    }

    pub(super) fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}
