//! Asking a backend in the name of a caller.

use std::sync::Arc;

use vmcp_core::{BoxError, Caller, Generation, Trail};

use crate::backend::fetch::{self, Speaker};
use crate::backend::handshake::{self, Introduction};
use crate::backend::{Link, Speaks};
use crate::call::doubtful;
use crate::catalog::Offer;
use crate::hub::Hub;

/// Asks a backend in the name of a caller what it offers. `before` is what it offered last.
pub(super) async fn fetch(
    hub: &Hub,
    link: &Arc<Link>,
    caller: &Caller,
    cause: Option<&Trail>,
    before: Option<&Offer>,
) -> Result<Offer, BoxError> {
    let _seat = match &link.own {
        Some(owns) => Some(owns.seats.acquire().await?),
        None => None,
    };
    let (none, myself) = (Offer::default(), hub.introduction());
    let (before, who) = (before.unwrap_or(&none), myself.on_behalf_of(caller).caused_by(cause));
    let mut found = None;
    if link.speaks().is_none_or(|speaks| speaks == Speaks::Stateless) {
        let (speaks, discovered) = handshake::probe(link, who).await?;
        link.learn(speaks);
        found = discovered;
    }
    match link.speaks().map(|speaks| speaks.with(Generation::Stateful)) {
        Some(Generation::Stateless) => {
            fetch::offer(link, Speaker::Stateless(found.as_ref(), who), before).await
        }
        Some(Generation::Stateful) | None => stateful(link, who, before).await,
    }
}

async fn stateful(
    link: &Arc<Link>,
    who: Introduction<'_>,
    before: &Offer,
) -> Result<Offer, BoxError> {
    let (closing, welcome) = match handshake::open(link, who).await {
        Ok(opened) => opened,
        Err(error) => {
            // It may speak something else by now: the next one asks.
            if doubtful(&error) {
                link.unlearn();
            }
            return Err(error);
        }
    };
    fetch::offer(link, Speaker::Stateful(closing.live(), &welcome, who.cause), before).await
}
