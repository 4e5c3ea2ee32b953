//! User interfaces of tools (MCP Apps, `io.modelcontextprotocol/ui`). A `ui://` resource named by a tool always belongs to the
//! tool's backend, and an app calls tools of its backend by the backend's own names.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write;

use vmcp_wire::{Span, Splice, elements, find, find_span, parse_json_string};

use super::rules::{hides, singular, wanted};
use super::{CatalogInput, Conflict, Item, Kind, each_item};
use crate::settings::Rules;

/// The URI scheme of user interfaces.
pub(crate) const SCHEME: &str = "ui://";

/// Prefix of the URIs that the gateway assigns when several backends use the same URI.
const GIVEN: &str = "ui://vmcp/";

/// Legacy member of `_meta` that names a tool's resource; superseded by `ui`.
const FLAT: &str = "ui/resourceUri";

/// Maximum length of a user interface's URI, in bytes.
const MAX_URI: usize = 2048;

/// User interface metadata of a tool.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ToolUi {
    /// Resource that renders the tool's results.
    pub(super) resource: Option<String>,
    /// `true` if apps may call the tool.
    pub(super) for_apps: bool,
}

/// User interface of a backend, found by the URI that clients know.
#[derive(Clone, Debug)]
pub(crate) struct UiResource<L> {
    pub(crate) backend: L,
    /// The backend's own URI, if clients know another one.
    pub(crate) own: Option<Box<str>>,
}

/// User interfaces of all backends.
#[derive(Debug, Default)]
pub(super) struct ToolInterfaces {
    /// Part and its own URI, if different, by the URI that clients know.
    owners: BTreeMap<Box<str>, (usize, Option<Box<str>>)>,
    /// URI that clients know, if different, by part and the part's own URI.
    aliases: HashMap<(usize, Box<str>), Box<str>>,
    /// Parts that have tools with a user interface.
    parts: BTreeSet<usize>,
}

/// URI under which a backend's resource is advertised.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum UriAssignment<'a> {
    Unchanged,
    /// The resource is advertised under this URI.
    Alias(&'a str),
    /// The resource is not advertised: a tool of this part names the same URI.
    TakenBy(usize),
}

/// Returns `true` if a page of a list may contain user interfaces.
pub(super) fn has_interfaces(page: &[u8]) -> bool {
    // The second needle covers names written with escape sequences.
    [&b"\"ui"[..], b"\\u"].iter().any(|sign| memchr::memmem::find(page, sign).is_some())
}

impl ToolUi {
    /// Reads the user interface metadata of a tool; `None` if it has none.
    pub(super) fn of(item: Item<'_>) -> Option<Self> {
        if !item.may_have_interface() {
            return None;
        }
        let meta = find(item.raw(), "_meta")?;
        let (ui, flat) = (find(meta, "ui").filter(|ui| ui.starts_with(b"{")), find(meta, FLAT));
        if ui.is_none() && flat.is_none() {
            return None;
        }
        let resource =
            ui.and_then(|ui| find(ui, "resourceUri")).or(flat).and_then(parse_json_string);
        let resource = resource.filter(|uri| uri.starts_with(SCHEME) && uri.len() <= MAX_URI);
        let for_apps = match ui.and_then(|ui| find(ui, "visibility")) {
            None => true,
            Some(visible) => elements(visible).filter_map(parse_json_string).any(|by| by == "app"),
        };
        Some(Self { resource: resource.map(Into::into), for_apps })
    }
}

impl ToolInterfaces {
    /// Collects the user interfaces of tools that clients may see. If tools of several backends name the same URI, the first
    /// backend in configuration order keeps it.
    pub(super) fn of<L>(
        parts: &[CatalogInput<'_, L>],
        rules: &Rules,
        conflicts: &mut Vec<Conflict>,
    ) -> Self {
        let mut found = Self::default();
        let mut named: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (index, part) in parts.iter().enumerate() {
            let offers = [part.offers.stateful, part.offers.stateless];
            if !offers.iter().any(|offer| offer.tools.may_have_interface()) {
                continue;
            }
            let workload = rules.workloads.get(part.name);
            each_item(part.offers, Kind::Tools, |own, items| {
                let name = wanted(rules, part.name, Kind::Tools, &own);
                if hides(rules, workload, Kind::Tools, name).is_some() {
                    return;
                }
                let items = [items.stateful, items.stateless];
                for ui in items.into_iter().flatten().filter_map(ToolUi::of) {
                    let Some(uri) = ui.resource else { continue };
                    found.parts.insert(index);
                    let owners = named.entry(uri).or_default();
                    if owners.last() != Some(&index) {
                        owners.push(index);
                    }
                }
            });
        }
        for (uri, owners) in named {
            found.enter(parts, &uri, &owners, conflicts);
        }
        found
    }

    fn enter<L>(
        &mut self,
        parts: &[CatalogInput<'_, L>],
        uri: &str,
        owners: &[usize],
        conflicts: &mut Vec<Conflict>,
    ) {
        let is_given = uri.starts_with(GIVEN);
        for (place, &part) in owners.iter().enumerate() {
            if place == 0 && !is_given {
                self.owners.insert(uri.into(), (part, None));
                continue;
            }
            let alias: Box<str> = alias(parts[part].name, uri).into();
            self.owners.insert(alias.clone(), (part, Some(uri.into())));
            self.aliases.insert((part, uri.into()), alias);
        }
        let contenders: Vec<_> = owners.iter().map(|part| parts[*part].name.to_owned()).collect();
        let given = alias("<backend>", uri).replace("%3Cbackend%3E", "<backend>");
        let resolution = match &contenders[..] {
            _ if is_given => format!("offered as {given}: the gateway gives such URIs itself"),
            [first, _, ..] => format!("{first} has it; others are offered as {given}"),
            _ => return,
        };
        let (kind, name) = (singular(Kind::Resources), uri.to_owned());
        conflicts.push(Conflict { kind, name, contenders, resolution });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.owners.is_empty()
    }

    /// Returns `true` if the tool has a user interface.
    pub(super) fn has(&self, item: Item<'_>) -> bool {
        !self.is_empty() && ToolUi::of(item).is_some_and(|ui| ui.resource.is_some())
    }

    /// Returns the URI by which clients know a tool's user interface, if it differs from the tool's own.
    pub(super) fn alias(&self, part: usize, item: Item<'_>) -> Option<&str> {
        if self.aliases.is_empty() {
            return None;
        }
        let uri = ToolUi::of(item)?.resource?;
        self.aliases.get(&(part, uri.into())).map(|alias| &**alias)
    }

    /// Returns the URI under which a part's resource is advertised.
    pub(super) fn offered(&self, part: usize, uri: &str) -> UriAssignment<'_> {
        if !uri.starts_with(SCHEME) || self.is_empty() {
            return UriAssignment::Unchanged;
        }
        if let Some(alias) = self.aliases.get(&(part, uri.into())) {
            return UriAssignment::Alias(alias);
        }
        match self.owners.get(uri) {
            Some((owner, None)) if *owner == part => UriAssignment::Unchanged,
            Some((owner, _)) => UriAssignment::TakenBy(*owner),
            None => UriAssignment::Unchanged,
        }
    }

    /// Records the backend's own name of a tool, by which apps of that backend call it.
    pub(super) fn enter_original(
        &self,
        originals: &mut HashMap<Box<str>, Vec<Box<str>>>,
        (part, item): (usize, Item<'_>),
        name: &str,
    ) {
        let original = !item.is(name) && self.parts.contains(&part);
        if original && ToolUi::of(item).is_none_or(|ui| ui.for_apps) {
            originals.entry(item.key().into()).or_default().push(name.into());
        }
    }

    /// Returns the routes of all user interfaces by the URI that clients know.
    pub(super) fn routes<L: Clone>(
        &self,
        parts: &[CatalogInput<'_, L>],
    ) -> HashMap<Box<str>, UiResource<L>> {
        let owners = self.owners.iter();
        let routes = owners.map(|(uri, (part, own))| {
            let backend = parts[*part].backend.clone();
            (uri.clone(), UiResource { backend, own: own.clone() })
        });
        routes.collect()
    }
}

/// Replaces the URI of a tool's user interface in each member that may name it. `tool` is the span of the definition.
pub(super) fn set_resource(splice: &mut Splice<'_>, raw: &[u8], tool: Span, uri: &[u8]) {
    let Some(meta) = find_span(raw, tool, "_meta") else { return };
    for (object, member) in [(find_span(raw, meta, "ui"), "resourceUri"), (Some(meta), FLAT)] {
        if let Some(object) = object.filter(|object| find_span(raw, *object, member).is_some()) {
            splice.set_member(object, member, uri);
        }
    }
}

/// Returns the URI that the gateway assigns to a backend's user interface. It is the same on each replica.
fn alias(backend: &str, uri: &str) -> String {
    let mut alias = GIVEN.to_owned();
    for byte in backend.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                alias.push(byte.into());
            }
            _ => write!(alias, "%{byte:02X}").expect("writing to a string does not fail"),
        }
    }
    alias.push('/');
    alias.push_str(uri.strip_prefix(SCHEME).unwrap_or(uri));
    alias
}

#[cfg(test)]
mod tests;
