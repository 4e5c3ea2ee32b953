//! Collection of a whole body within the budget of the process.

use bytes::Bytes;
use http_body::Body as _;
use http_body_util::BodyExt;
use vmcp_core::{Body, BodyBuffer, BoxError, BudgetAccount, MAX_BUDGET_WAIT, Reservation};

use super::error::BackendError;

/// Returns `prefix`, which was read before, and the rest of `body`, both charged to `account`. Fails beyond `max_bytes`, and
/// unless `may_buffer` permits each new length.
pub(crate) async fn collect(
    prefix: Bytes,
    mut body: Body,
    max_bytes: usize,
    account: Option<&BudgetAccount>,
    may_buffer: impl Fn(usize) -> bool,
) -> Result<(Bytes, Option<Reservation>), BoxError> {
    let mut buffer = BodyBuffer::new(max_bytes, 0);
    let mut next = Some(prefix);
    loop {
        if let Some(data) = next {
            buffer.push(data).map_err(|_| BackendError::TooLarge { limit: max_bytes })?;
            reserve(account, &mut buffer).await?;
        }
        if !may_buffer(buffer.len()) {
            return Err(BackendError::UNKEPT.into());
        }
        if body.is_end_stream() {
            break;
        }
        let Some(frame) = body.frame().await else { break };
        next = frame?.into_data().ok();
    }
    Ok(buffer.into_parts())
}

async fn reserve(account: Option<&BudgetAccount>, buffer: &mut BodyBuffer) -> Result<(), BoxError> {
    let Some(account) = account.filter(|_| buffer.missing() > 0) else { return Ok(()) };
    let reserving = buffer.reserve(|| account.open());
    if let Ok(Ok(())) = tokio::time::timeout(MAX_BUDGET_WAIT, reserving).await {
        return Ok(());
    }
    account.budget().count_rejection();
    Err(BackendError::NoRoom.into())
}
