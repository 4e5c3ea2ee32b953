//! Buffering of whole responses within a budget.

use bytes::Bytes;
use http_body::Body as _;
use http_body_util::BodyExt;
use vmcp_core::{Body, BodyBuffer, BoxError, BudgetAccount, MAX_BUDGET_WAIT, Reservation};

use crate::backend::failure::Failure;

/// Request for which backend responses are buffered.
pub(crate) trait Holder: Sync {
    /// Returns the caller's account in the budget of the process, if that has one.
    fn account(&self) -> Option<BudgetAccount>;

    /// Holds the reservation of a response for as long as the request and its response exist.
    fn hold(&self, reservation: Reservation);
}

/// Buffer for one backend response within the budget of the process.
#[derive(Clone, Copy, Default)]
pub(crate) struct Room<'a>(Option<&'a dyn Holder>);

impl<'a> Room<'a> {
    pub(crate) fn new(holder: &'a dyn Holder) -> Self {
        Self(Some(holder))
    }

    /// Reads `body` to its end and appends it to the bytes already read, at most `most` bytes in total. Fails unless
    /// `may_hold` permits each new length.
    pub(crate) async fn collect(
        self,
        begun: Bytes,
        mut body: Body,
        most: usize,
        may_hold: impl Fn(usize) -> bool,
    ) -> Result<Bytes, BoxError> {
        let mut buffer = BodyBuffer::new(most, 0);
        let account = self.0.and_then(Holder::account);
        let mut next = Some(begun);
        loop {
            if let Some(data) = next {
                buffer.push(data).map_err(|_| Failure::TooLarge { limit: most })?;
                reserve(account.as_ref(), &mut buffer).await?;
            }
            if !may_hold(buffer.len()) {
                return Err(Failure::UNKEPT.into());
            }
            if body.is_end_stream() {
                break;
            }
            let Some(frame) = body.frame().await else { break };
            next = frame?.into_data().ok();
        }
        let (answer, reservation) = buffer.into_parts();
        if let (Some(holder), Some(reservation)) = (self.0, reservation) {
            holder.hold(reservation);
        }
        Ok(answer)
    }
}

async fn reserve(account: Option<&BudgetAccount>, buffer: &mut BodyBuffer) -> Result<(), BoxError> {
    let Some(account) = account.filter(|_| buffer.missing() > 0) else { return Ok(()) };
    let reserving = buffer.reserve(|| account.open());
    if let Ok(Ok(())) = tokio::time::timeout(MAX_BUDGET_WAIT, reserving).await {
        return Ok(());
    }
    account.budget().count_refusal();
    Err(Failure::NoRoom.into())
}
