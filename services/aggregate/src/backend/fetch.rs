//! Fetching of a backend's lists.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use vmcp_core::{BoxError, Generation, RequestContext, cause_ref};
use vmcp_wire::{ListResult, find, parse_json_string};

use super::BackendHandle;
use super::error::{BackendError, CatalogLimitError};
use super::handshake::{self, BackendSession, ClientInfo};
use super::request::{post, with_operation};
use super::rpc::send_request_parsed;
use crate::catalog::define_literal;
use crate::catalog::{Items, Kind, Offer};

/// Maximum number of pages over all of a backend's lists. Each page costs a request.
const MAX_PAGES: usize = 1000;

/// Maximum number of items of one list.
const MAX_ITEMS: usize = 100_000;

/// Maximum size of a backend's lists in bytes, over all pages, kinds and generations.
const MAX_OFFER: usize = 32 << 20;

/// Remaining budget of one fetch of a backend's lists.
#[derive(Debug)]
pub(crate) struct Budget {
    bytes: AtomicUsize,
    pages: AtomicUsize,
}

impl Budget {
    /// Creates the budget of a backend for which `kept` bytes are already in use.
    pub(crate) fn beside(kept: usize) -> Self {
        let bytes = AtomicUsize::new(MAX_OFFER.saturating_sub(kept));
        Self { bytes, pages: AtomicUsize::new(MAX_PAGES) }
    }

    /// Takes one page from the budget, before it is requested.
    fn take_page(&self) -> Result<(), CatalogLimitError> {
        take(&self.pages, 1).ok_or(CatalogLimitError::Pages { limit: MAX_PAGES })
    }

    fn take_bytes(&self, page: &ListResult) -> Result<(), CatalogLimitError> {
        take(&self.bytes, page.text().len()).ok_or(CatalogLimitError::Bytes { limit: MAX_OFFER })
    }
}

fn take(left: &AtomicUsize, size: usize) -> Option<()> {
    // Relaxed: the counter does not guard other memory.
    let taken =
        left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(size));
    taken.ok().map(drop)
}

/// Protocol context of list requests.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CatalogSource<'a> {
    /// Session, handshake result, and the client request that caused the fetch, if any.
    Stateful(&'a BackendSession, &'a Bytes, Option<&'a RequestContext>),
    /// Result of `server/discover`, if there was one.
    Stateless(Option<&'a Bytes>, ClientInfo<'a>),
}

impl CatalogSource<'_> {
    /// Returns the generation of the list requests.
    pub(crate) fn generation(&self) -> Generation {
        match self {
            Self::Stateful(..) => Generation::Stateful,
            Self::Stateless(..) => Generation::Stateless,
        }
    }

    fn offers(&self, kind: Kind) -> bool {
        match self {
            Self::Stateless(None, _) => true,
            Self::Stateful(_, found, _) | Self::Stateless(Some(found), _) => {
                handshake::offers(found, kind.capability())
            }
        }
    }

    fn instructions(&self) -> Option<String> {
        let result = match self {
            Self::Stateful(_, welcome, _) => *welcome,
            Self::Stateless(found, _) => (*found)?,
        };
        find(result, "instructions").and_then(parse_json_string).map(Cow::into_owned)
    }

    fn request(
        &self,
        backend: &BackendHandle,
        kind: Kind,
        cursor: Option<&str>,
    ) -> (Request<Full<Bytes>>, String) {
        let cursor =
            cursor.map(|cursor| String::from_utf8_lossy(&define_literal(cursor)).into_owned());
        match self {
            Self::Stateful(backend_session, _, cause) => {
                let id = backend.request_id();
                let params = cursor
                    .map_or_else(|| "{}".to_owned(), |cursor| format!("{{\"cursor\":{cursor}}}"));
                let method = kind.method();
                let message = format!(
                    r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#
                );
                let request =
                    backend_session.sign(post(backend, &backend_session.caller(), message.into()));
                (with_operation(request, method, *cause), id)
            }
            Self::Stateless(_, client_info) => {
                let members =
                    cursor.map_or_else(String::new, |cursor| format!("\"cursor\":{cursor},"));
                handshake::request(backend, kind.method(), &members, *client_info)
            }
        }
    }
}

/// Fetches all lists of the backend. `before` is the previous offer.
pub(crate) async fn offer(
    backend: &BackendHandle,
    source: CatalogSource<'_>,
    before: &Offer,
    budget: &Budget,
) -> Result<Offer, BoxError> {
    let mut offer = Offer { instructions: source.instructions(), ..Offer::default() };
    for kind in Kind::ALL {
        offer.set(kind, list(backend, source, (kind, before.of(kind)), budget).await?);
    }
    Ok(offer)
}

/// Fetches all pages of one list. A backend without the capability has an empty list. `before` is only used for comparison.
pub(crate) async fn list(
    backend: &BackendHandle,
    source: CatalogSource<'_>,
    (kind, before): (Kind, &Items),
    budget: &Budget,
) -> Result<Items, BoxError> {
    if !source.offers(kind) {
        return Ok(Items::default());
    }
    let mut pages = Vec::new();
    let mut count = 0;
    let mut cursors = HashSet::new();
    let mut cursor: Option<String> = None;
    loop {
        budget.take_page().map_err(BackendError::from)?;
        let (request, id) = source.request(backend, kind, cursor.as_deref());
        let known = before.page(pages.len());
        let read = |text: &Bytes| ListResult::read(text, kind.member(), kind.rules(), known);
        let page = match send_request_parsed(backend, request, &id, read).await {
            Ok((_, page)) => page,
            Err(error) => match cause_ref::<BackendError>(error.as_ref()) {
                Some(BackendError::Rpc { code: -32601, .. }) => return Ok(Items::new(pages)),
                _ => return Err(error),
            },
        };
        budget.take_bytes(&page).map_err(BackendError::from)?;
        count += page.entries().len();
        cursor = page.next_cursor().map(Cow::into_owned);
        pages.push(page);
        let Some(next) = &cursor else { return Ok(Items::new(pages)) };
        if count >= MAX_ITEMS {
            return Err(BackendError::from(CatalogLimitError::Items { limit: MAX_ITEMS }).into());
        }
        if !cursors.insert(next.clone()) {
            return Err(BackendError::from(CatalogLimitError::RepeatedCursor).into());
        }
    }
}
