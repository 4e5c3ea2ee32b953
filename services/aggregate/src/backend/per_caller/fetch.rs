//! Fetching of offers with a caller's credentials.

use std::sync::Arc;

use futures_util::future::try_join;
use vmcp_core::{BoxError, Caller, Generation, RequestContext};

use crate::backend::context::BackendContext;
use crate::backend::error::is_mode_mismatch;
use crate::backend::fetch::{self, Budget, CatalogSource};
use crate::backend::handshake::{self, ClientInfo};
use crate::backend::{BackendHandle, SupportedModes};
use crate::catalog::{Offer, Offers};

/// Fetches the offer of a caller. `before` is the previous offer.
pub(super) async fn fetch(
    context: &BackendContext,
    backend: &Arc<BackendHandle>,
    caller: &Caller,
    cause: Option<&RequestContext>,
    before: Option<&Offers>,
) -> Result<Offers, BoxError> {
    let _seat = match &backend.per_caller {
        Some(catalogs) => Some(catalogs.fetch_permits.acquire().await?),
        None => None,
    };
    let (none, myself) = (Offer::default(), context.client_info());
    let before = |generation| {
        let known = before.and_then(|before| before.of(generation));
        known.map_or(&none, |offer| &**offer)
    };
    let client_info = myself.on_behalf_of(caller).caused_by(cause);
    let mut found = None;
    if backend.modes().is_none_or(|modes| modes != SupportedModes::Stateful) {
        let (modes, discovered) = handshake::probe(backend, client_info).await?;
        backend.set_modes(modes);
        found = discovered;
    }
    let budget = Budget::beside(0);
    let stateless = async {
        let source = CatalogSource::Stateless(found.as_ref(), client_info);
        fetch::offer(backend, source, before(Generation::Stateless), &budget).await
    };
    let stateful = stateful(backend, client_info, before(Generation::Stateful), &budget);
    match backend.modes() {
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
    backend: &Arc<BackendHandle>,
    client_info: ClientInfo<'_>,
    before: &Offer,
    budget: &Budget,
) -> Result<Offer, BoxError> {
    let (closing, welcome) = match handshake::open(backend, client_info).await {
        Ok(opened) => opened,
        Err(error) => {
            // The backend may have changed its generation; the next fetch probes it.
            if is_mode_mismatch(&error) {
                backend.clear_modes();
            }
            return Err(error);
        }
    };
    let source = CatalogSource::Stateful(closing.backend_session(), &welcome, client_info.cause);
    fetch::offer(backend, source, before, budget).await
}
