//! Reachability of a backend with per-caller offers. The gateway only probes the backend; offers are fetched for each caller,
//! and an offer to the gateway itself is never used.

use std::sync::Arc;

use vmcp_core::{BoxError, CredentialError, Generation, cause_ref};

use crate::backend::context::BackendContext;
use crate::backend::error::BackendError;
use crate::backend::observe::ObservationRound;
use crate::backend::{BackendHandle, handshake, is_unauthorized};
use crate::settings::Transport;

/// Probes the backend periodically until it does not respond.
pub(in crate::backend) async fn probe_until_failure(
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

/// Probes the backend for the supported generations, which do not depend on the caller.
pub(crate) async fn probe_modes(
    context: &BackendContext,
    backend: &Arc<BackendHandle>,
) -> Result<(), BoxError> {
    let client_info = context.client_info();
    match backend.transport {
        Transport::Sse => {
            drop(handshake::open(backend, client_info.get()).await?);
        }
        Transport::StreamableHttp => {
            backend.set_modes(handshake::probe(backend, client_info.get()).await?.0);
        }
    }
    Ok(())
}

/// Returns `true` if a failure only shows that the gateway has no credentials of its own; the backend is reachable or not known
/// to be unavailable.
fn is_reachable(error: &BoxError) -> bool {
    let unarmed = cause_ref::<CredentialError>(error.as_ref()).is_some();
    let refused =
        matches!(cause_ref::<BackendError>(error.as_ref()), Some(BackendError::Handshake { .. }));
    unarmed || refused || is_unauthorized(error)
}
