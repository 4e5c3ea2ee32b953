//! Buffer for a body that is read as a whole.

use bytes::Bytes;

use crate::{BodyError, BudgetExceededError, Reservation};

/// Size up to which a body is not counted: messages of usual size cost nothing, and the number of requests bounds them.
const UNCOUNTED_SIZE: usize = 4 << 10;

/// Maximum growth of the room at a time, in bytes.
const MAX_GROWTH: usize = 64 << 10;

/// Buffer for one body, bounded by a limit of its own and, beyond the first 4 KiB, by a [`ByteBudget`](crate::ByteBudget).
///
/// Memory is taken and counted as bytes arrive, whatever the sender announces. A body of one frame is not copied.
#[derive(Debug)]
pub struct BodyBuffer {
    /// The first frame, until a second one arrives.
    first: Bytes,
    /// Bytes after the first frame, in pieces that never move: the allocator would keep memory that is freed to make room for
    /// more.
    pieces: Vec<Vec<u8>>,
    /// The bytes in `pieces`.
    length: usize,
    /// The room in `pieces`.
    room: usize,
    /// The frame that waits for room.
    pending: Bytes,
    limit: usize,
    /// The length that the sender announces, or 0.
    announced: usize,
    reservation: Option<Reservation>,
}

impl BodyBuffer {
    /// Creates an empty buffer for at most `limit` bytes, of which the sender announces `announced` or 0.
    #[must_use]
    pub fn new(limit: usize, announced: usize) -> Self {
        Self {
            first: Bytes::new(),
            pieces: Vec::new(),
            length: 0,
            room: 0,
            pending: Bytes::new(),
            limit,
            announced: announced.min(limit),
            reservation: None,
        }
    }

    /// Returns the number of bytes that have arrived.
    #[must_use]
    pub fn len(&self) -> usize {
        self.first.len() + self.length + self.pending.len()
    }

    /// Returns `true` if no bytes have arrived.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds what has arrived. Unless [`missing`](Self::missing) is 0 then, that has to be reserved before more is read.
    ///
    /// # Errors
    /// The body is larger than the limit.
    pub fn push(&mut self, data: Bytes) -> Result<(), BodyError> {
        if self.len() + data.len() > self.limit {
            return Err(BodyError::TooLarge { limit: self.limit });
        }
        if self.is_empty() {
            self.first = data;
            return Ok(());
        }
        // Without a budget nothing is reserved.
        self.commit_pending();
        self.pending = data;
        if self.missing() == 0 {
            self.commit_pending();
        }
        Ok(())
    }

    /// Returns the number of bytes to reserve.
    #[must_use]
    pub fn missing(&self) -> usize {
        let needed = if self.pending.is_empty() { self.len() } else { self.needed() };
        if needed <= UNCOUNTED_SIZE {
            return 0;
        }
        needed.saturating_sub(self.reservation.as_ref().map_or(0, Reservation::bytes))
    }

    /// Reserves what is missing, in a reservation that `open` makes when the first bytes are. Waits until it fits: the time
    /// is for the caller to bound.
    ///
    /// # Errors
    /// Too many wait already.
    pub async fn reserve(
        &mut self,
        open: impl FnOnce() -> Reservation,
    ) -> Result<(), BudgetExceededError> {
        let missing = self.missing();
        if missing > 0 {
            let reservation = self.reservation.get_or_insert_with(open);
            reservation.grow(missing).await?;
        }
        self.commit_pending();
        Ok(())
    }

    /// Returns the body. What was reserved for it is given back when its last slice is dropped.
    #[must_use]
    pub fn finish(self) -> Bytes {
        let (bytes, reservation) = self.into_parts();
        match reservation {
            Some(reservation) => reservation.attach(bytes),
            None => bytes,
        }
    }

    /// Returns the body, and what was reserved for it.
    #[must_use]
    pub fn into_parts(mut self) -> (Bytes, Option<Reservation>) {
        self.commit_pending();
        let Self { first, mut pieces, length, reservation, .. } = self;
        let bytes = match pieces.len() {
            0 => first,
            1 => pieces.pop().unwrap_or_default().into(),
            _ => {
                let mut whole = Vec::with_capacity(length);
                // Each piece goes as soon as it is copied, so that both together are no more memory than one.
                for piece in pieces {
                    whole.extend_from_slice(&piece);
                }
                whole.into()
            }
        };
        (bytes, reservation)
    }

    /// Returns the room for all bytes that have arrived: more than their number, so that few frames need a piece of their
    /// own, but never more than the body can have.
    fn needed(&self) -> usize {
        let length = self.len();
        if length <= self.room {
            return self.room;
        }
        let room = if length < MAX_GROWTH {
            length.next_power_of_two().max(UNCOUNTED_SIZE)
        } else {
            length.next_multiple_of(MAX_GROWTH)
        };
        let max = if self.announced >= length { self.announced } else { self.limit };
        room.min(max)
    }

    /// Puts what is pending, and the first frame before it, into pieces.
    fn commit_pending(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        let more = self.needed() - self.room;
        if more > 0 {
            self.pieces.push(Vec::with_capacity(more));
            self.room += more;
        }
        let (first, pending) = (std::mem::take(&mut self.first), std::mem::take(&mut self.pending));
        self.length += first.len() + pending.len();
        let start = self.pieces.len().saturating_sub(2);
        let mut left = [&first[..], &pending[..]];
        for piece in self.pieces.iter_mut().skip(start) {
            for data in &mut left {
                let (fits, rest) = data.split_at(data.len().min(piece.capacity() - piece.len()));
                piece.extend_from_slice(fits);
                *data = rest;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use proptest::prelude::*;

    use super::*;
    use crate::ByteBudget;

    const LIMIT: usize = 1 << 20;

    fn budget(limit: usize) -> ByteBudget {
        ByteBudget::new(2 * limit)
    }

    /// Pushes and reserves; whether that fits.
    fn push(buffer: &mut BodyBuffer, budget: &ByteBudget, data: Vec<u8>) -> bool {
        buffer.push(data.into()).unwrap();
        let reserving = std::pin::pin!(buffer.reserve(|| budget.open(budget.backend("a"))));
        matches!(reserving.poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(Ok(())))
    }

    #[test]
    fn small_bodies_are_not_counted() {
        let budget = budget(LIMIT);
        for frames in [1, 4, 64] {
            let mut buffer = BodyBuffer::new(LIMIT, 0);
            for _ in 0..frames {
                assert!(push(&mut buffer, &budget, vec![1; UNCOUNTED_SIZE / frames]));
            }
            assert_eq!(budget.counts().held, 0);
            assert_eq!(buffer.finish(), vec![1; UNCOUNTED_SIZE]);
        }
    }

    #[test]
    fn bytes_count_as_they_arrive() {
        let budget = budget(LIMIT);
        let mut buffer = BodyBuffer::new(LIMIT, LIMIT);
        for (length, held) in [
            (10, 0),
            (UNCOUNTED_SIZE, 2 * UNCOUNTED_SIZE),
            (UNCOUNTED_SIZE - 10, 2 * UNCOUNTED_SIZE),
            (1, 4 * UNCOUNTED_SIZE),
            (MAX_GROWTH, 2 * MAX_GROWTH),
            (MAX_GROWTH, 3 * MAX_GROWTH),
        ] {
            assert!(push(&mut buffer, &budget, vec![1; length]));
            assert_eq!(budget.counts().held, held);
        }
        let bytes = buffer.finish();
        assert_eq!(
            (bytes.len(), budget.counts().held),
            (2 * UNCOUNTED_SIZE + 1 + 2 * MAX_GROWTH, 3 * MAX_GROWTH)
        );
        drop(bytes);
        assert_eq!(budget.counts().held, 0);
    }

    #[test]
    fn reserves_no_more_than_the_announced_length() {
        let budget = budget(LIMIT);
        let mut buffer = BodyBuffer::new(LIMIT, UNCOUNTED_SIZE + 100);
        assert!(push(&mut buffer, &budget, vec![1; UNCOUNTED_SIZE]));
        assert!(push(&mut buffer, &budget, vec![1; 50]));
        assert_eq!(budget.counts().held, UNCOUNTED_SIZE + 100);
        let mut longer = BodyBuffer::new(LIMIT, 5);
        assert!(push(&mut longer, &budget, vec![1; UNCOUNTED_SIZE]));
        assert!(push(&mut longer, &budget, vec![1; 50]), "the announced length is exceeded");
        let larger = longer.push(vec![1; LIMIT].into());
        assert!(matches!(larger, Err(BodyError::TooLarge { limit: LIMIT })));
    }

    #[test]
    fn takes_bytes_that_fit_exactly() {
        let budget = budget(2 * UNCOUNTED_SIZE);
        let mut buffer = BodyBuffer::new(LIMIT, 0);
        assert!(push(&mut buffer, &budget, vec![1; UNCOUNTED_SIZE + 10]));
        assert!(push(&mut buffer, &budget, vec![1; UNCOUNTED_SIZE - 10]));
        assert!(!push(&mut buffer, &budget, vec![1; 1]));
        assert_eq!(buffer.missing(), 2 * UNCOUNTED_SIZE);
        drop(buffer);
        assert_eq!(budget.counts().held, 0);
        let rejection = budget.rejection();
        assert_eq!((rejection.status().as_u16(), budget.counts().rejections), (503, 1));
    }

    proptest! {
        /// All bytes come back in order, with a budget and without, and their memory is counted.
        #[test]
        fn returns_all_bytes_in_order(
            frames in proptest::collection::vec(0..100_000_usize, 0..8),
            announced in 0..LIMIT,
            is_counted in any::<bool>(),
        ) {
            let budget = budget(LIMIT);
            let mut buffer = BodyBuffer::new(LIMIT, announced);
            let mut whole = Vec::new();
            for (number, length) in (0_u8..).zip(frames) {
                let data = vec![number; length];
                whole.extend_from_slice(&data);
                if is_counted {
                    prop_assert!(push(&mut buffer, &budget, data));
                    let room: usize = buffer.pieces.iter().map(Vec::capacity).sum();
                    prop_assert!(room <= UNCOUNTED_SIZE || budget.counts().held >= room);
                    prop_assert!(room <= 2 * whole.len() + MAX_GROWTH);
                } else {
                    buffer.push(data.into()).unwrap();
                }
            }
            prop_assert_eq!(buffer.len(), whole.len());
            prop_assert_eq!(buffer.finish(), whole);
        }
    }
}
