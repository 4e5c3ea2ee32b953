//! Reachability of a backend with per-caller offers. The gateway only probes the backend; offers are fetched for each caller,
//! and an offer to the gateway itself is never used.

use std::sync::Arc;

use vmcp_core::{BoxError, CredentialError, Generation, cause_ref};

use super::ObservationRound;
use crate::backend::context::BackendContext;
use crate::backend::error::BackendError;
use crate::backend::health::check::probe_modes;
use crate::backend::{BackendHandle, is_unauthorized};

/// Probes the backend periodically until it does not respond.
pub(super) async fn probe_until_failure(
    context: &BackendContext,
    backend: &Arc<BackendHandle>,
    round: &ObservationRound,
) -> Result<(), BoxError> {
    loop {
        let refused = match probe_modes(context, backend).await {
            Ok(()) => false,
            Err(error) if is_reachable(&error) => true,
            Err(error) => return Err(error),
        };
        round.finish();
        backend.mark_reachable(refused);
        backend.signal(Generation::Stateful).next_poll().await;
    }
}

/// Returns `true` if a failure only shows that the gateway has no credentials of its own; the backend is reachable or not known
/// to be unavailable.
fn is_reachable(error: &BoxError) -> bool {
    let unarmed = cause_ref::<CredentialError>(error.as_ref()).is_some();
    let refused =
        matches!(cause_ref::<BackendError>(error.as_ref()), Some(BackendError::Handshake { .. }));
    unarmed || refused || is_unauthorized(error)
}
