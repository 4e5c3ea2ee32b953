//! The standing relation to a backend whose offer depends on who asks: whether it is there. What it offers is
//! fetched for each caller, and what it would offer the gateway itself is nobody's.

use std::sync::Arc;

use vmcp_core::{BoxError, CredentialError, Generation, cause};

use super::failure::Failure;
use super::observe::Round;
use super::{Link, asks_for_credentials, handshake};
use crate::hub::Hub;
use crate::settings::Transport;

/// Knocks again and again, until nobody answers.
pub(super) async fn reach(hub: &Arc<Hub>, link: &Arc<Link>, round: &Round) -> Result<(), BoxError> {
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

/// Asks what everybody may know: which generation is spoken.
pub(super) async fn knock(hub: &Hub, link: &Arc<Link>) -> Result<(), BoxError> {
    let who = hub.introduction();
    match link.transport {
        Transport::Sse => {
            drop(handshake::open(link, who.get()).await?);
        }
        Transport::StreamableHttp => link.learn(handshake::probe(link, who.get()).await?.0),
    }
    Ok(())
}

/// Whether a failure comes of the gateway's having no credentials of its own: the backend is there, or
/// nothing speaks against it.
fn answers(error: &BoxError) -> bool {
    let unarmed = cause::<CredentialError>(error.as_ref()).is_some();
    let refused = matches!(cause::<Failure>(error.as_ref()), Some(Failure::Handshake { .. }));
    unarmed || refused || asks_for_credentials(error)
}
