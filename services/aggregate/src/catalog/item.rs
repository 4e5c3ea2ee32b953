//! What one backend offers, as the bytes it said it in.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use hashbrown::HashSet;
use vmcp_core::ItemKind;
use vmcp_wire::{Entry, ItemFault, Listing, Span};

use super::{apps, hints, params};

/// The four kinds of things that are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Tools,
    Prompts,
    Resources,
    Templates,
}

/// One tool, prompt, resource or template.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item<'a> {
    page: &'a Page,
    entry: Entry,
}

/// The items of one kind in the order in which the backend lists them, as the answers that they came in.
#[derive(Clone, Debug, Default)]
pub(crate) struct Items(Arc<[Page]>);

/// One answer to a list request.
#[derive(Debug)]
pub(crate) struct Page {
    listing: Listing,
    /// Whether there may be annotations of headers in it: nearly no tool has any.
    annotated: bool,
    /// Whether there may be hints in it of what tools do.
    hinted: bool,
    /// Whether there may be user interfaces in it.
    interfaces: bool,
}

/// Everything that one backend offers.
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

    /// The method that lists it.
    pub(crate) fn method(self) -> &'static str {
        match self {
            Self::Tools => "tools/list",
            Self::Prompts => "prompts/list",
            Self::Resources => "resources/list",
            Self::Templates => "resources/templates/list",
        }
    }

    /// The member of the result that holds the list.
    pub(crate) fn member(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::Resources => "resources",
            Self::Templates => "resourceTemplates",
        }
    }

    /// The capability that a server declares it with.
    pub(crate) fn capability(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::Resources | Self::Templates => "resources",
        }
    }

    /// What policies call it.
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
    /// What it is called by: `name`, `uri` or `uriTemplate`.
    pub(crate) fn key(self) -> Cow<'a, str> {
        self.entry.key.read(self.page.listing.text())
    }

    /// Whether it is called by exactly this.
    pub(crate) fn is(self, key: &str) -> bool {
        self.entry.key.is(self.page.listing.text(), key)
    }

    /// Its definition.
    pub(crate) fn raw(self) -> &'a [u8] {
        self.entry.item.of(self.page.listing.text())
    }

    /// Its definition, kept as long as somebody wants it.
    pub(crate) fn definition(self) -> Bytes {
        self.entry.item.slice(self.page.listing.text())
    }

    /// Where the literal of its key stands in the definition.
    pub(crate) fn at(self) -> Span {
        let (item, key) = (self.entry.item, self.entry.key.span);
        Span { start: key.start - item.start, end: key.end - item.start }
    }

    /// The literal of its key.
    pub(crate) fn literal(self) -> Bytes {
        self.entry.key.span.slice(self.page.listing.text())
    }

    /// Whether there may be annotations of headers in it.
    pub(crate) fn annotated(self) -> bool {
        self.page.annotated
    }

    /// Whether there may be hints in it of what it does.
    pub(crate) fn hinted(self) -> bool {
        self.page.hinted
    }

    /// Whether there may be a user interface in it.
    pub(crate) fn may_have_interface(self) -> bool {
        self.page.interfaces
    }
}

impl Items {
    /// The items on these pages. Of those with the same key the first one stays.
    pub(crate) fn new(mut pages: Vec<Listing>) -> Self {
        let texts: Vec<Bytes> = pages.iter().map(|page| page.text().clone()).collect();
        let count = pages.iter().map(|page| page.entries().len()).sum();
        let mut seen = HashSet::with_capacity(count);
        for (page, text) in pages.iter_mut().zip(&texts) {
            page.retain(|entry| seen.insert(entry.key.read(text)));
        }
        let pages = pages.into_iter().map(|listing| {
            let annotated = params::annotated(listing.text());
            let hinted = hints::hinted(listing.text());
            let interfaces = apps::has_interfaces(listing.text());
            Page { listing, annotated, hinted, interfaces }
        });
        Self(pages.collect())
    }

    /// Items that were left out because they break a rule, with the key of those that have one.
    pub(crate) fn faults(&self) -> impl Iterator<Item = (Option<Cow<'_, str>>, &ItemFault)> {
        self.0.iter().flat_map(|Page { listing, .. }| {
            let named = |fault: &ItemFault| fault.key.map(|key| key.read(listing.text()));
            listing.faults().iter().map(move |fault| (named(fault), fault))
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.0.iter().map(|page| page.listing.entries().len()).sum()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Item<'_>> {
        let of = |page| move |entry: &Entry| Item { page, entry: *entry };
        self.0.iter().flat_map(move |page| page.listing.entries().iter().map(of(page)))
    }

    /// Whether there may be user interfaces in them.
    pub(crate) fn may_have_interface(&self) -> bool {
        self.0.iter().any(|page| page.interfaces)
    }

    /// Whether these are the same items, not only equal ones. Where there are none, they always are.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.len() == 0 && other.len() == 0
    }

    /// How many bytes the answers take that they came in.
    pub(crate) fn size(&self) -> usize {
        self.0.iter().map(|page| page.listing.text().len()).sum()
    }

    /// The answer with this number.
    pub(crate) fn page(&self, number: usize) -> Option<&Listing> {
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

    /// The same offer, which keeps what is equal in `other` together with that.
    pub(crate) fn sharing(mut self, other: &Self) -> Self {
        for kind in Kind::ALL {
            if self.of(kind) == other.of(kind) {
                self.set(kind, other.of(kind).clone());
            }
        }
        self
    }

    /// How many bytes it takes, with all of the answers that it came in.
    pub(crate) fn size(&self) -> usize {
        let said = self.instructions.as_ref().map_or(0, String::len);
        said + Kind::ALL.into_iter().map(|kind| self.of(kind).size()).sum::<usize>()
    }

    /// Which kinds of items differ from those of an older one.
    pub(crate) fn changes(&self, older: &Self) -> Vec<Kind> {
        Kind::ALL.into_iter().filter(|kind| self.of(*kind) != older.of(*kind)).collect()
    }

    /// How many items there are.
    pub(crate) fn len(&self) -> usize {
        Kind::ALL.into_iter().map(|kind| self.of(kind).len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use vmcp_wire::ItemRules;

    use super::*;

    impl Items {
        /// Items by their definitions.
        pub(crate) fn of(kind: Kind, definitions: &[&str]) -> Self {
            let (member, items) = (kind.member(), definitions.join(","));
            let answer = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"{member}":[{items}]}}}}"#);
            // Most tests are about names alone.
            let key = match kind {
                Kind::Tools | Kind::Prompts => const { &ItemRules { key: "name", members: &[] } },
                Kind::Resources => const { &ItemRules { key: "uri", members: &[] } },
                Kind::Templates => const { &ItemRules { key: "uriTemplate", members: &[] } },
            };
            let listing = Listing::read(&answer.into(), member, key, None);
            Self::new(vec![listing.unwrap().1])
        }
    }

    #[test]
    fn an_item_that_comes_twice_is_taken_once() {
        let items =
            Items::of(Kind::Tools, &[r#"{"name":"a"}"#, r#"{"x":1,"name":"\u0061"}"#, "{}"]);
        let found: Vec<_> = items.iter().map(|item| (item.key(), item.raw())).collect();
        assert_eq!(found, [("a".into(), &br#"{"name":"a"}"#[..])]);
    }
}
