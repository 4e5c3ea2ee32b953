//! Buffer for a body that is read as a whole.

use bytes::{Bytes, BytesMut};

use crate::{BodyError, BudgetOwner, ByteBudget, OverBudget, Reservation};

/// The bytes of a body that are not counted: messages of usual size cost nothing, and are bounded by the number of
/// requests.
const FREE: usize = 4 << 10;

/// The step in which bytes are reserved.
const STEP: usize = 64 << 10;

/// Buffer for one body, bounded by a limit of its own and, beyond the first 4 KiB, by a [`ByteBudget`].
///
/// Bytes are counted as they arrive, whatever the sender announces. A body of one frame is not copied.
#[derive(Debug)]
pub struct BodyBuffer {
    first: Bytes,
    rest: BytesMut,
    limit: usize,
    /// The length that the sender announces, or 0.
    announced: usize,
    reservation: Option<Reservation>,
}

impl BodyBuffer {
    /// An empty buffer for at most `limit` bytes, of which the sender announces `announced` or 0.
    #[must_use]
    pub fn new(limit: usize, announced: usize) -> Self {
        let announced = announced.min(limit);
        Self { first: Bytes::new(), rest: BytesMut::new(), limit, announced, reservation: None }
    }

    /// The bytes that have arrived.
    #[must_use]
    pub fn len(&self) -> usize {
        self.first.len() + self.rest.len()
    }

    /// Whether no bytes have arrived.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds what has arrived. Unless [`missing`](Self::missing) is 0 then, it has to be reserved before more is read.
    ///
    /// # Errors
    /// The body is larger than the limit.
    pub fn push(&mut self, data: Bytes) -> Result<(), BodyError> {
        let length = self.len() + data.len();
        if length > self.limit {
            return Err(BodyError::TooLarge { limit: self.limit });
        }
        if self.is_empty() {
            self.first = data;
            return Ok(());
        }
        if self.rest.is_empty() {
            // Room for all is made once some of it is counted: until it is written to, it is no memory.
            let room = if length > FREE { self.announced.max(length) } else { length };
            self.rest.reserve(room);
            self.rest.extend_from_slice(&std::mem::take(&mut self.first));
        }
        self.rest.extend_from_slice(&data);
        Ok(())
    }

    /// The bytes that have arrived and are not reserved yet.
    #[must_use]
    pub fn missing(&self) -> usize {
        let length = self.len();
        if length <= FREE {
            return 0;
        }
        length.saturating_sub(self.reservation.as_ref().map_or(0, Reservation::bytes))
    }

    /// Reserves what is missing, as soon as it fits. The time is for the caller to bound.
    ///
    /// # Errors
    /// Too many wait already.
    pub async fn reserve(
        &mut self,
        budget: &ByteBudget,
        owner: impl FnOnce() -> BudgetOwner,
    ) -> Result<(), OverBudget> {
        let missing = self.missing();
        if missing == 0 {
            return Ok(());
        }
        let (length, announced, limit) = (self.len(), self.announced, self.limit);
        let reservation = self.reservation.get_or_insert_with(|| budget.open(owner()));
        // In steps, so that few frames cost a lock, but never more than will come.
        let most = if announced >= length { announced } else { limit };
        let step = missing.next_multiple_of(STEP).min(most.saturating_sub(reservation.bytes()));
        if step > missing && reservation.try_grow(step).is_ok() {
            return Ok(());
        }
        reservation.grow(missing).await
    }

    /// Returns the body. What was reserved for it is given back when its last slice is dropped.
    #[must_use]
    pub fn finish(self) -> Bytes {
        let Self { first, rest, limit: _, announced: _, reservation } = self;
        let bytes = if rest.is_empty() { first } else { rest.freeze() };
        match reservation {
            Some(reservation) => reservation.attach(bytes),
            None => bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use super::*;

    const LIMIT: usize = 1 << 20;

    fn budget(limit: usize) -> ByteBudget {
        ByteBudget::new(limit, limit)
    }

    /// Pushes and reserves; whether that fits.
    fn push(buffer: &mut BodyBuffer, budget: &ByteBudget, length: usize) -> bool {
        buffer.push(vec![1; length].into()).unwrap();
        let reserving = std::pin::pin!(buffer.reserve(budget, || budget.backend("a")));
        matches!(reserving.poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(Ok(())))
    }

    #[test]
    fn small_bodies_are_not_counted() {
        let budget = budget(LIMIT);
        let mut buffer = BodyBuffer::new(LIMIT, 0);
        assert!(push(&mut buffer, &budget, FREE));
        assert_eq!(budget.counts().held, 0);
        assert_eq!(buffer.finish(), vec![1; FREE]);
    }

    #[test]
    fn bytes_count_as_they_arrive() {
        let budget = budget(LIMIT);
        let mut buffer = BodyBuffer::new(LIMIT, LIMIT);
        assert!(push(&mut buffer, &budget, 10));
        assert_eq!(budget.counts().held, 0, "what is announced is not there");
        assert!(push(&mut buffer, &budget, STEP));
        assert_eq!(budget.counts().held, 2 * STEP);
        assert!(push(&mut buffer, &budget, STEP - 10));
        assert_eq!(budget.counts().held, 2 * STEP);
        let bytes = buffer.finish();
        assert_eq!((bytes.len(), budget.counts().held), (2 * STEP, 2 * STEP));
        drop(bytes);
        assert_eq!(budget.counts().held, 0);
    }

    #[test]
    fn no_more_is_reserved_than_will_come() {
        let budget = budget(LIMIT);
        let mut buffer = BodyBuffer::new(LIMIT, FREE + 100);
        assert!(push(&mut buffer, &budget, FREE + 50));
        assert_eq!(budget.counts().held, FREE + 100);
        let mut longer = BodyBuffer::new(LIMIT, 5);
        assert!(push(&mut longer, &budget, FREE + 50), "the announced length is exceeded");
        assert!(matches!(
            longer.push(vec![1; LIMIT].into()),
            Err(BodyError::TooLarge { limit: LIMIT })
        ));
    }

    #[test]
    fn exactly_what_fits_is_taken() {
        let budget = budget(FREE + 10);
        let mut buffer = BodyBuffer::new(LIMIT, 0);
        assert!(push(&mut buffer, &budget, FREE + 10));
        assert!(!push(&mut buffer, &budget, 1));
        assert_eq!(buffer.missing(), 1);
        drop(buffer);
        assert_eq!(budget.counts().held, 0);
        let refused = budget.rejection();
        assert_eq!((refused.status().as_u16(), budget.counts().refusals), (503, 1));
    }
}
