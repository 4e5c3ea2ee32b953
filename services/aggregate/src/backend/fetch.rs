//! Reads what a backend offers.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use vmcp_core::{BoxError, Generation, Trail, cause};
use vmcp_wire::{Listing, find, unquote};

use super::Link;
use super::ask::ask_for;
use super::failure::{Failure, OfferError};
use super::handshake::{self, Introduction, Live};
use super::request::{asking, post};
use crate::catalog::define_literal;
use crate::catalog::{Items, Kind, Offer};

/// The most pages of a backend's lists, over all kinds. Each costs a request.
const MAX_PAGES: usize = 1000;

/// The most items that are kept of one list.
const MAX_ITEMS: usize = 100_000;

/// The most bytes that a backend's lists take, over all pages, kinds and generations.
const MAX_OFFER: usize = 32 << 20;

/// Remaining budget of one fetch of a backend's lists.
#[derive(Debug)]
pub(crate) struct Budget {
    bytes: AtomicUsize,
    pages: AtomicUsize,
}

impl Budget {
    /// The budget of a backend of which `kept` bytes stay.
    pub(crate) fn beside(kept: usize) -> Self {
        let bytes = AtomicUsize::new(MAX_OFFER.saturating_sub(kept));
        Self { bytes, pages: AtomicUsize::new(MAX_PAGES) }
    }

    /// Takes one page, before it is asked for.
    fn take_page(&self) -> Result<(), OfferError> {
        take(&self.pages, 1).ok_or(OfferError::Pages { limit: MAX_PAGES })
    }

    fn take_bytes(&self, page: &Listing) -> Result<(), OfferError> {
        take(&self.bytes, page.text().len()).ok_or(OfferError::Bytes { limit: MAX_OFFER })
    }
}

fn take(left: &AtomicUsize, size: usize) -> Option<()> {
    // Relaxed: the number guards no other memory.
    let taken =
        left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(size));
    taken.ok().map(drop)
}

/// How the lists are asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Speaker<'a> {
    /// With the result of the handshake, and the request of a client that it is for.
    Stateful(&'a Live, &'a Bytes, Option<&'a Trail>),
    /// With the result of `server/discover`, if there was one.
    Stateless(Option<&'a Bytes>, Introduction<'a>),
}

impl Speaker<'_> {
    /// The generation in which they are asked for.
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
        let said = match self {
            Self::Stateful(_, welcome, _) => *welcome,
            Self::Stateless(found, _) => (*found)?,
        };
        find(said, "instructions").and_then(unquote).map(Cow::into_owned)
    }

    fn request(
        &self,
        link: &Link,
        kind: Kind,
        cursor: Option<&str>,
    ) -> (Request<Full<Bytes>>, String) {
        let cursor =
            cursor.map(|cursor| String::from_utf8_lossy(&define_literal(cursor)).into_owned());
        match self {
            Self::Stateful(live, _, cause) => {
                let id = format!("\"vmcp:{}\"", link.serial());
                let params = cursor
                    .map_or_else(|| "{}".to_owned(), |cursor| format!("{{\"cursor\":{cursor}}}"));
                let method = kind.method();
                let message = format!(
                    r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#
                );
                let request = live.sign(post(link, &live.caller(), message.into()));
                (asking(request, method, *cause), id)
            }
            Self::Stateless(_, who) => {
                let members =
                    cursor.map_or_else(String::new, |cursor| format!("\"cursor\":{cursor},"));
                handshake::request(link, kind.method(), &members, *who)
            }
        }
    }
}

/// Everything that the backend offers. `before` is what it offered when it was asked last.
pub(crate) async fn offer(
    link: &Link,
    speaker: Speaker<'_>,
    before: &Offer,
    budget: &Budget,
) -> Result<Offer, BoxError> {
    let mut offer = Offer { instructions: speaker.instructions(), ..Offer::default() };
    for kind in Kind::ALL {
        offer.set(kind, list(link, speaker, (kind, before.of(kind)), budget).await?);
    }
    Ok(offer)
}

/// One list, all pages of it. A backend without it has an empty one. What was there `before` is
/// only compared.
pub(crate) async fn list(
    link: &Link,
    speaker: Speaker<'_>,
    (kind, before): (Kind, &Items),
    budget: &Budget,
) -> Result<Items, BoxError> {
    if !speaker.offers(kind) {
        return Ok(Items::default());
    }
    let mut pages = Vec::new();
    let mut count = 0;
    let mut cursors = HashSet::new();
    let mut cursor: Option<String> = None;
    loop {
        budget.take_page().map_err(Failure::from)?;
        let (request, id) = speaker.request(link, kind, cursor.as_deref());
        let known = before.page(pages.len());
        let read = |text: &Bytes| Listing::read(text, kind.member(), kind.rules(), known);
        let page = match ask_for(link, request, &id, read).await {
            Ok((_, page)) => page,
            Err(error) => match cause::<Failure>(error.as_ref()) {
                Some(Failure::Rpc { code: -32601, .. }) => return Ok(Items::new(pages)),
                _ => return Err(error),
            },
        };
        budget.take_bytes(&page).map_err(Failure::from)?;
        count += page.entries().len();
        cursor = page.next_cursor().map(Cow::into_owned);
        pages.push(page);
        let Some(next) = &cursor else { return Ok(Items::new(pages)) };
        if count >= MAX_ITEMS {
            return Err(Failure::from(OfferError::Items { limit: MAX_ITEMS }).into());
        }
        if !cursors.insert(next.clone()) {
            return Err(Failure::from(OfferError::RepeatedCursor).into());
        }
    }
}
