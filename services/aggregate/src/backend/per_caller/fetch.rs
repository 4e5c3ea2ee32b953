//! Fetching of offers with a caller's credentials.

use std::sync::Arc;

use futures_util::future::try_join;
use vmcp_core::{BoxError, Caller, Generation, RequestContext};

use crate::backend::fetch::{self, Budget, CatalogSource};
use crate::backend::handshake::{self, ClientInfo};
use crate::backend::{BackendHandle, SupportedModes};
use crate::call::is_mode_mismatch;
use crate::catalog::{Offer, Offers};
use crate::gateway_state::GatewayState;

/// Fetches the offer of a caller. `before` is the previous offer.
pub(super) async fn fetch(
    hub: &GatewayState,
    link: &Arc<BackendHandle>,
    caller: &Caller,
    cause: Option<&RequestContext>,
    before: Option<&Offers>,
) -> Result<Offers, BoxError> {
    let _seat = match &link.own {
        Some(owns) => Some(owns.fetch_permits.acquire().await?),
        None => None,
    };
    let (none, myself) = (Offer::default(), hub.introduction());
    let before = |generation| {
        let known = before.and_then(|before| before.of(generation));
        known.map_or(&none, |offer| &**offer)
    };
    let who = myself.on_behalf_of(caller).caused_by(cause);
    let mut found = None;
    if link.speaks().is_none_or(|speaks| speaks != SupportedModes::Stateful) {
        let (speaks, discovered) = handshake::probe(link, who).await?;
        link.learn(speaks);
        found = discovered;
    }
    let budget = Budget::beside(0);
    let stateless = async {
        let speaker = CatalogSource::Stateless(found.as_ref(), who);
        fetch::offer(link, speaker, before(Generation::Stateless), &budget).await
    };
    let stateful = stateful(link, who, before(Generation::Stateful), &budget);
    match link.speaks() {
        Some(SupportedModes::Stateless) => {
            Ok(Offers::only(Generation::Stateless, stateless.await?))
        }
        Some(SupportedModes::Stateful) | None => {
            Ok(Offers::only(Generation::Stateful, stateful.await?))
        }
        Some(SupportedModes::Both) => {
            let (stateful, stateless) = try_join(stateful, stateless).await?;
            Ok(Offers::same(stateful).with(Generation::Stateless, stateless))
        }
    }
}

async fn stateful(
    link: &Arc<BackendHandle>,
    who: ClientInfo<'_>,
    before: &Offer,
    budget: &Budget,
) -> Result<Offer, BoxError> {
    let (closing, welcome) = match handshake::open(link, who).await {
        Ok(opened) => opened,
        Err(error) => {
            // The backend may have changed its generation; the next fetch probes it.
            if is_mode_mismatch(&error) {
                link.unlearn();
            }
            return Err(error);
        }
    };
    let speaker = CatalogSource::Stateful(closing.live(), &welcome, who.cause);
    fetch::offer(link, speaker, before, budget).await
}
