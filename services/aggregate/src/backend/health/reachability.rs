//! Reachability of a backend with per-caller offers. The gateway only probes the backend; offers are fetched for each caller,
//! and an offer to the gateway itself is never used.

use std::sync::Arc;

use vmcp_core::{BoxError, CredentialError, Generation, cause_ref};

use crate::backend::error::BackendError;
use crate::backend::observe::ObservationRound;
use crate::backend::{BackendHandle, asks_for_credentials, handshake};
use crate::gateway_state::GatewayState;
use crate::settings::Transport;

/// Probes the backend periodically until it does not respond.
pub(in crate::backend) async fn reach(
    hub: &Arc<GatewayState>,
    link: &Arc<BackendHandle>,
    round: &ObservationRound,
) -> Result<(), BoxError> {
    loop {
        let refused = match knock(hub, link).await {
            Ok(()) => false,
            Err(error) if answers(&error) => true,
            Err(error) => return Err(error),
        };
        round.finish();
        link.knocked(refused);
        link.signal(Generation::Stateful).next_poll().await;
    }
}

/// Probes the backend for the supported generations, which do not depend on the caller.
pub(crate) async fn knock(hub: &GatewayState, link: &Arc<BackendHandle>) -> Result<(), BoxError> {
    let who = hub.introduction();
    match link.transport {
        Transport::Sse => {
            drop(handshake::open(link, who.get()).await?);
        }
        Transport::StreamableHttp => link.learn(handshake::probe(link, who.get()).await?.0),
    }
    Ok(())
}

/// Returns `true` if a failure only shows that the gateway has no credentials of its own; the backend is reachable or not known
/// to be unavailable.
fn answers(error: &BoxError) -> bool {
    let unarmed = cause_ref::<CredentialError>(error.as_ref()).is_some();
    let refused =
        matches!(cause_ref::<BackendError>(error.as_ref()), Some(BackendError::Handshake { .. }));
    unarmed || refused || asks_for_credentials(error)
}
