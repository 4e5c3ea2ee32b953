//! Room for answers that are held as a whole.

use bytes::Bytes;
use http_body::Body as _;
use http_body_util::BodyExt;
use vmcp_core::{Body, BodyBuffer, BoxError, ByteBudget, MAX_BUDGET_WAIT};

use crate::backend::Link;
use crate::backend::failure::Failure;
use crate::hub::Hub;

/// Room for one answer of a backend: within the budget of the process, of which each backend has a share.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Room<'a> {
    pub(super) budget: Option<&'a ByteBudget>,
    pub(super) backend: &'a str,
}

impl<'a> Room<'a> {
    pub(crate) fn new(hub: &'a Hub, link: &'a Link) -> Self {
        Self { budget: hub.limits.buffered.as_ref(), backend: link.name() }
    }

    /// Reads `body` to its end, behind what was read already. At most `most` bytes in all, each of which may be held.
    pub(crate) async fn collect(
        self,
        begun: Bytes,
        mut body: Body,
        most: usize,
        may_hold: impl Fn(usize) -> bool,
    ) -> Result<Bytes, BoxError> {
        let mut buffer = BodyBuffer::new(most, 0);
        let mut next = Some(begun);
        loop {
            if let Some(data) = next {
                buffer.push(data).map_err(|_| Failure::TooLarge { limit: most })?;
                self.reserve(&mut buffer).await?;
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
        Ok(buffer.finish())
    }

    async fn reserve(self, buffer: &mut BodyBuffer) -> Result<(), BoxError> {
        let Some(budget) = self.budget.filter(|_| buffer.missing() > 0) else { return Ok(()) };
        let reserving = buffer.reserve(budget, || budget.backend(self.backend));
        if let Ok(Ok(())) = tokio::time::timeout(MAX_BUDGET_WAIT, reserving).await {
            return Ok(());
        }
        budget.count_refusal();
        Err(Failure::NoRoom.into())
    }
}
