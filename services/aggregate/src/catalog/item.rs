//! Items that one backend offers, kept as the bytes of its responses.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use hashbrown::HashSet;
use vmcp_core::ItemKind;
use vmcp_wire::{Entry, ItemError, ListResult, Span};

use super::{annotations, apps, params};

/// Kind of a listed item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Tools,
    Prompts,
    Resources,
    Templates,
}

/// Tool, prompt, resource or resource template.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item<'a> {
    page: &'a Page,
    entry: Entry,
}

/// Items of one kind in the backend's order, with the responses that contain them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Items(Arc<[Page]>);

/// Response to one list request.
#[derive(Debug)]
pub(crate) struct Page {
    listing: ListResult,
    /// `true` if an item may have header annotations, which are rare.
    annotated: bool,
    /// `true` if an item may have annotations.
    hinted: bool,
    /// `true` if an item may have a user interface.
    interfaces: bool,
}

/// All items that one backend offers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Offer {
    pub(crate) tools: Items,
    pub(crate) prompts: Items,
    pub(crate) resources: Items,
    pub(crate) templates: Items,
    pub(crate) instructions: Option<String>,
}

impl Kind {
    pub(crate) const ALL: [Self; 4] =
        [Self::Tools, Self::Prompts, Self::Resources, Self::Templates];

    /// Returns the list method of this kind.
    pub(crate) fn method(self) -> &'static str {
        match self {
            Self::Tools => "tools/list",
            Self::Prompts => "prompts/list",
            Self::Resources => "resources/list",
            Self::Templates => "resources/templates/list",
        }
    }

    /// Returns the member of the result that contains the list.
    pub(crate) fn member(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::Resources => "resources",
            Self::Templates => "resourceTemplates",
        }
    }

    /// Returns the server capability that declares this kind.
    pub(crate) fn capability(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::Resources | Self::Templates => "resources",
        }
    }

    /// Returns the kind's counterpart in policies.
    pub(crate) fn of_item(self) -> ItemKind {
        match self {
            Self::Tools => ItemKind::Tool,
            Self::Prompts => ItemKind::Prompt,
            Self::Resources => ItemKind::Resource,
            Self::Templates => ItemKind::ResourceTemplate,
        }
    }
}

impl<'a> Item<'a> {
    /// Returns the key of the item: `name`, `uri` or `uriTemplate`.
    pub(crate) fn key(self) -> Cow<'a, str> {
        self.entry.key.read(self.page.listing.text())
    }

    /// Returns `true` if the item's key equals `key`.
    pub(crate) fn is(self, key: &str) -> bool {
        self.entry.key.is(self.page.listing.text(), key)
    }

    /// Returns the definition.
    pub(crate) fn raw(self) -> &'a [u8] {
        self.entry.item.of(self.page.listing.text())
    }

    /// Returns the definition as a shared buffer that outlives the item.
    pub(crate) fn definition(self) -> Bytes {
        self.entry.item.slice(self.page.listing.text())
    }

    /// Returns the span of the key's literal in the definition.
    pub(crate) fn at(self) -> Span {
        let (item, key) = (self.entry.item, self.entry.key.span);
        Span { start: key.start - item.start, end: key.end - item.start }
    }

    /// Returns the literal of the key.
    pub(crate) fn literal(self) -> Bytes {
        self.entry.key.span.slice(self.page.listing.text())
    }

    /// Returns `true` if the item may have header annotations.
    pub(crate) fn annotated(self) -> bool {
        self.page.annotated
    }

    /// Returns `true` if the item may have annotations.
    pub(crate) fn hinted(self) -> bool {
        self.page.hinted
    }

    /// Returns `true` if the item may have a user interface.
    pub(crate) fn may_have_interface(self) -> bool {
        self.page.interfaces
    }
}

impl Items {
    /// Collects the items of these pages. The first of several items with the same key is kept.
    pub(crate) fn new(mut pages: Vec<ListResult>) -> Self {
        let texts: Vec<Bytes> = pages.iter().map(|page| page.text().clone()).collect();
        let count = pages.iter().map(|page| page.entries().len()).sum();
        let mut seen = HashSet::with_capacity(count);
        for (page, text) in pages.iter_mut().zip(&texts) {
            page.retain(|entry| seen.insert(entry.key.read(text)));
        }
        let pages = pages.into_iter().map(|listing| {
            let annotated = params::annotated(listing.text());
            let hinted = annotations::hinted(listing.text());
            let interfaces = apps::has_interfaces(listing.text());
            Page { listing, annotated, hinted, interfaces }
        });
        Self(pages.collect())
    }

    /// Returns the items that were left out because they are invalid, with their keys if they have one.
    pub(crate) fn faults(&self) -> impl Iterator<Item = (Option<Cow<'_, str>>, &ItemError)> {
        self.0.iter().flat_map(|Page { listing, .. }| {
            let named = |fault: &ItemError| fault.key.map(|key| key.read(listing.text()));
            listing.item_errors().iter().map(move |fault| (named(fault), fault))
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.0.iter().map(|page| page.listing.entries().len()).sum()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Item<'_>> {
        let of = |page| move |entry: &Entry| Item { page, entry: *entry };
        self.0.iter().flat_map(move |page| page.listing.entries().iter().map(of(page)))
    }

    /// Returns `true` if an item may have a user interface.
    pub(crate) fn may_have_interface(&self) -> bool {
        self.0.iter().any(|page| page.interfaces)
    }

    /// Returns `true` if both share the same pages. Equality of content is not enough, except that two empty lists always
    /// match.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.len() == 0 && other.len() == 0
    }

    /// Returns the size of the responses in bytes.
    pub(crate) fn size(&self) -> usize {
        self.0.iter().map(|page| page.listing.text().len()).sum()
    }

    /// Returns the response at this index.
    pub(crate) fn page(&self, number: usize) -> Option<&ListResult> {
        self.0.get(number).map(|page| &page.listing)
    }
}

impl PartialEq for Items {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().map(Item::raw).eq(other.iter().map(Item::raw))
    }
}

impl Eq for Items {}

impl Offer {
    pub(crate) fn of(&self, kind: Kind) -> &Items {
        match kind {
            Kind::Tools => &self.tools,
            Kind::Prompts => &self.prompts,
            Kind::Resources => &self.resources,
            Kind::Templates => &self.templates,
        }
    }

    pub(crate) fn set(&mut self, kind: Kind, items: Items) {
        *match kind {
            Kind::Tools => &mut self.tools,
            Kind::Prompts => &mut self.prompts,
            Kind::Resources => &mut self.resources,
            Kind::Templates => &mut self.templates,
        } = items;
    }

    /// Returns the same offer, with items that are equal in `other` shared with it.
    pub(crate) fn sharing(mut self, other: &Self) -> Self {
        for kind in Kind::ALL {
            if self.of(kind) == other.of(kind) {
                self.set(kind, other.of(kind).clone());
            }
        }
        self
    }

    /// Returns the size in bytes, including all responses.
    pub(crate) fn size(&self) -> usize {
        let instructions = self.instructions.as_ref().map_or(0, String::len);
        instructions + Kind::ALL.into_iter().map(|kind| self.of(kind).size()).sum::<usize>()
    }

    /// Returns the kinds of items that differ from those of an older offer.
    pub(crate) fn changes(&self, older: &Self) -> Vec<Kind> {
        Kind::ALL.into_iter().filter(|kind| self.of(*kind) != older.of(*kind)).collect()
    }

    /// Returns the number of items.
    pub(crate) fn len(&self) -> usize {
        Kind::ALL.into_iter().map(|kind| self.of(kind).len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use vmcp_wire::ItemRules;

    use super::*;

    impl Items {
        /// Creates items from their definitions.
        pub(crate) fn of(kind: Kind, definitions: &[&str]) -> Self {
            let (member, items) = (kind.member(), definitions.join(","));
            let answer = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"{member}":[{items}]}}}}"#);
            // Most tests only need the names.
            let key = match kind {
                Kind::Tools | Kind::Prompts => const { &ItemRules { key: "name", members: &[] } },
                Kind::Resources => const { &ItemRules { key: "uri", members: &[] } },
                Kind::Templates => const { &ItemRules { key: "uriTemplate", members: &[] } },
            };
            let listing = ListResult::read(&answer.into(), member, key, None);
            Self::new(vec![listing.unwrap().1])
        }
    }

    #[test]
    fn keeps_first_of_duplicate_items() {
        let items =
            Items::of(Kind::Tools, &[r#"{"name":"a"}"#, r#"{"x":1,"name":"\u0061"}"#, "{}"]);
        let found: Vec<_> = items.iter().map(|item| (item.key(), item.raw())).collect();
        assert_eq!(found, [("a".into(), &br#"{"name":"a"}"#[..])]);
    }
}
