//! Result of the writes of a reconcile, as the owner of the objects reports it.

use std::time::Duration;

use vmcp_api::conversion::ConditionUpdate;
use vmcp_api::virtual_mcp_server::ObjectsApplied;

use super::{REFUSED_INTERVAL, RESYNC_INTERVAL};
use crate::apply::ApplyError;
use crate::events::Notice;

/// Result of the writes of a reconcile.
#[derive(Debug)]
pub(super) struct WriteOutcome {
    /// Events about what was written.
    pub(super) notices: Vec<Notice>,
    /// Condition about the generated objects.
    pub(super) condition: ConditionUpdate,
    /// Reason for which the objects are not those of this generation.
    pub(super) refusal: Option<String>,
    /// Time until the owner is due again.
    pub(super) delay: Duration,
}

// === impl WriteOutcome ===

impl WriteOutcome {
    /// Takes the result of the writes.
    ///
    /// # Errors
    ///
    /// A failure that may pass, after which the reconcile is repeated.
    pub(super) fn of(written: Result<Vec<Notice>, ApplyError>) -> Result<Self, ApplyError> {
        match written {
            Ok(notices) => {
                let message = "the generated objects exist";
                let condition = ConditionUpdate::new(ObjectsApplied::Applied, message);
                Ok(Self { notices, condition, refusal: None, delay: RESYNC_INTERVAL })
            }
            Err(error) if error.is_lasting() => {
                let reason = match error {
                    ApplyError::Foreign { .. } => ObjectsApplied::ForeignOwner,
                    _ => ObjectsApplied::Refused,
                };
                let message = error.to_string();
                Ok(Self {
                    notices: Vec::new(),
                    condition: ConditionUpdate::new(reason, &message),
                    refusal: Some(message),
                    delay: REFUSED_INTERVAL,
                })
            }
            Err(error) => Err(error),
        }
    }
}
