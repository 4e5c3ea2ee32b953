//! Reading of whole bodies: within the budget of the process, or bounded because they carry no content.

use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http_body::Body as _;
use http_body_util::{BodyExt, Limited};
use tokio::time::timeout;
use vmcp_core::{
    Body, BodyBuffer, BoxError, BudgetAccount, MAX_BUDGET_WAIT, MediaType, Reservation,
};

use super::error::BackendError;

/// Maximum size of an error response's body in bytes, and the timeout for reading it.
const ERROR_BODY_LIMITS: (usize, Duration) = (64 << 10, Duration::from_secs(5));

/// Timeout for reading the rest of a body without content.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

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
            return Err(BackendError::RESPONSE_OVER_BUFFER.into());
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
    if let Ok(Ok(())) = timeout(MAX_BUDGET_WAIT, reserving).await {
        return Ok(());
    }
    account.budget().count_rejection();
    Err(BackendError::NoRoom.into())
}

/// Reads the rest of a response without content, so the connection can be reused.
pub(crate) async fn drain_body(response: Response<Body>) {
    if !response.body().is_end_stream()
        && MediaType::of(response.headers()) != MediaType::EventStream
    {
        let body = Limited::new(response.into_body(), ERROR_BODY_LIMITS.0);
        _ = timeout(DRAIN_TIMEOUT, body.collect()).await;
    }
}

/// Reads the body of an error response.
pub(crate) async fn read_error_body(body: Body) -> Result<Bytes, BoxError> {
    let collected =
        timeout(ERROR_BODY_LIMITS.1, Limited::new(body, ERROR_BODY_LIMITS.0).collect()).await;
    Ok(collected.map_err(|_| BackendError::Ended)??.to_bytes())
}
