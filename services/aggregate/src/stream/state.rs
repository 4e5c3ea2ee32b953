//! Bounded message buffer of a stream.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::task::Waker;

use bytes::Bytes;
use tokio::time::Instant;

use super::{DROPPED, MAX_QUEUED_MESSAGES, MessageClass};
use crate::stream::detached::Reservation;

/// Maximum number of sent messages kept for resending.
const MAX_REPLAY_MESSAGES: usize = 64;

/// Maximum number of bytes in a stream, sent or not, excluding the final response.
pub(super) const MAX_STREAM_BYTES: usize = 4 << 20;

/// Maximum size of a message that is copied when it is queued for a disconnected client, in bytes. A short slice could
/// otherwise keep a large buffer in memory.
const MAX_COPIED: usize = 64 << 10;

#[derive(Debug, Default)]
pub(super) struct StreamState {
    pub(super) messages: VecDeque<Message>,
    /// Number of the next message.
    pub(super) next: u64,
    /// Number of the first unsent message.
    pub(super) unsent: u64,
    pub(super) bytes: usize,
    /// Incremented by each connection; an older connection ends when it observes the change.
    pub(super) connection: u64,
    pub(super) connected: bool,
    pub(super) waker: Option<Waker>,
    pub(super) ended: Option<Instant>,
    /// Time at which the client disconnected; `None` if it is connected or never was.
    pub(super) left: Option<Instant>,
    /// Time since which a message has been waiting for a connected client.
    pub(super) waits_since: Option<Instant>,
    /// Reservation for buffered messages while no client is connected.
    pub(super) reservation: Option<Reservation>,
    /// Reservation for buffered messages while a client is connected; `None` if the process has no budget.
    pub(super) connected_bytes: Option<vmcp_core::Reservation>,
    /// Message that a connection has started to send.
    pub(super) sending: Option<u64>,
    /// Bytes of an incomplete message held by the reader of the backend's stream.
    pub(super) partial: usize,
    /// `true` if messages for the client exceeded the budget.
    pub(super) overflowed: bool,
}

#[derive(Debug)]
pub(super) struct Message {
    pub(super) number: u64,
    pub(super) data: Bytes,
    pub(super) class: MessageClass,
}

impl StreamState {
    pub(super) fn waiting(&self) -> usize {
        self.messages.iter().rev().take_while(|message| message.number >= self.unsent).count()
    }

    /// Returns `true` if a further message would replace another.
    pub(super) fn is_full(&self) -> bool {
        let waiting = self.waiting();
        let is_wide = || waiting > 0 && self.bytes >= self.most_bytes();
        self.ended.is_none() && (waiting >= MAX_QUEUED_MESSAGES || is_wide())
    }

    /// Returns the first unsent message.
    pub(super) fn first_unsent(&self) -> Option<&Message> {
        let first = self.messages.partition_point(|message| message.number < self.unsent);
        self.messages.get(first)
    }

    /// Removes sent messages beyond the limit for resending.
    pub(super) fn forget(&mut self) {
        while self.messages.len() > MAX_REPLAY_MESSAGES || self.bytes > MAX_STREAM_BYTES / 4 {
            match self.messages.front() {
                Some(oldest) if oldest.number < self.unsent => self.drop_at(0),
                _ => return,
            }
        }
    }

    /// Returns the time since which the client has been disconnected or has not read a waiting message.
    pub(super) fn unread_since(&self) -> Option<Instant> {
        self.left.or(self.waits_since)
    }

    /// Returns the current limit of buffered bytes.
    pub(super) fn most_bytes(&self) -> usize {
        let most = match (&self.reservation, &self.connected_bytes) {
            (Some(reservation), _) => reservation.most().saturating_sub(self.partial),
            (None, Some(reserved)) => reserved.bytes() + reserved.room(),
            (None, None) => MAX_STREAM_BYTES,
        };
        most.min(MAX_STREAM_BYTES)
    }

    /// Charges the buffered bytes and `more`. For a disconnected client, this includes the bytes held by the reader of the
    /// backend's stream; otherwise that reader charges the budget of the process by itself. Returns `false` if the budget is
    /// insufficient.
    pub(super) fn charge(&mut self, more: usize) -> bool {
        let bytes = self.bytes + more;
        match (&mut self.reservation, &mut self.connected_bytes) {
            (Some(reservation), _) => reservation.resize(bytes + self.partial),
            (None, Some(reserved)) => {
                reserved.shrink(bytes);
                reserved.try_grow(bytes - reserved.bytes()).is_ok()
            }
            (None, None) => true,
        }
    }

    /// Returns `true` if an equal message that can be coalesced is queued.
    pub(super) fn waits(&self, data: &[u8]) -> bool {
        let mut unsent = self.messages.iter().rev().take_while(|it| it.number >= self.unsent);
        unsent.any(|it| it.class == MessageClass::Coalesced && it.data == data)
    }

    /// Makes space for a message of this length by removing sent messages, then droppable ones. Returns `true` if there is
    /// enough space.
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
        while self.waiting() >= MAX_QUEUED_MESSAGES || self.bytes + length > most {
            if !self.drop_oldest() {
                return false;
            }
        }
        true
    }

    /// Drops the oldest unsent message that may be dropped. Returns `true` if there was one.
    pub(super) fn drop_oldest(&mut self) -> bool {
        let unsent = self.unsent;
        let sending = self.sending;
        let may_go = |message: &Message| {
            let is_sending = sending == Some(message.number);
            message.number >= unsent && message.class == MessageClass::Droppable && !is_sending
        };
        let oldest = self.messages.iter().position(may_go);
        if let Some(index) = oldest {
            self.drop_at(index);
            DROPPED.fetch_add(1, Ordering::Relaxed);
        }
        oldest.is_some()
    }

    pub(super) fn add(&mut self, mut data: Bytes, class: MessageClass) {
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

    /// Marks the stream as ended.
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
