//! Buffering of whole responses within a budget.

use bytes::Bytes;
use vmcp_core::{Body, BoxError, BudgetAccount, Reservation};

use crate::backend::collect::collect;

/// Request for which backend responses are buffered.
pub(crate) trait ReservationHolder: Sync {
    /// Returns the caller's account in the budget of the process, if that has one.
    fn account(&self) -> Option<BudgetAccount>;

    /// Holds the reservation of a response for as long as the request and its response exist.
    fn hold(&self, reservation: Reservation);
}

/// Buffer for one backend response within the budget of the process.
#[derive(Clone, Copy, Default)]
pub(crate) struct ResponseBuffer<'a>(Option<&'a dyn ReservationHolder>);

impl<'a> ResponseBuffer<'a> {
    pub(crate) fn new(holder: &'a dyn ReservationHolder) -> Self {
        Self(Some(holder))
    }

    /// Returns `prefix`, which was read before, and the rest of `body`, at most `max_bytes` in total. Fails unless
    /// `may_buffer` permits each new length.
    pub(crate) async fn collect(
        self,
        prefix: Bytes,
        body: Body,
        max_bytes: usize,
        may_buffer: impl Fn(usize) -> bool,
    ) -> Result<Bytes, BoxError> {
        let account = self.0.and_then(ReservationHolder::account);
        let collected = collect(prefix, body, max_bytes, account.as_ref(), may_buffer).await;
        let (answer, reservation) = collected?;
        if let (Some(holder), Some(reservation)) = (self.0, reservation) {
            holder.hold(reservation);
        }
        Ok(answer)
    }
}
