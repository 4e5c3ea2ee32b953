//! Aggregated catalog of all backends: an immutable snapshot that serves lists as bytes and routes names.

mod annotations;
mod apps;
mod catalog_id;
mod combine;
mod composites;
mod conflict_resolution;
mod definition;
mod item;
mod item_rules;
mod list;
mod offers;
mod params;
mod routes;
mod rules;
mod string_table;
mod template;
mod templates;
mod uri_items;

use std::collections::HashMap;
use std::sync::Arc;

use vmcp_core::{Generation, ToolAnnotations};

use self::apps::UiResource;
pub use self::rules::{Conflict, HideRule};
pub(crate) use self::{
    annotations::LazyAnnotations,
    apps::SCHEME as UI_SCHEME,
    catalog_id::{CatalogId, WeakCatalogId},
    combine::combine,
    composites::{COMPOSITE_TOOLS, Composite, Composites, split_workload},
    definition::literal as define_literal,
    item::{Item, Items, Kind, Offer},
    list::{List, Page, Selection},
    offers::{ByGeneration, Offers, each_item, other},
    params::{ParamHeader, add as add_headers, check as check_headers},
    routes::{Route, Routes},
    rules::{CatalogInput, contested, could_show, hidden_by, singular, wanted},
    templates::Templates,
};

/// Immutable catalog for clients of one protocol generation. Parts that are equal in both generations are shared.
#[derive(Debug)]
pub(crate) struct Catalog<L> {
    pub(crate) serial: CatalogId,
    pub(crate) tools: Arc<Routes<L>>,
    pub(crate) prompts: Arc<Routes<L>>,
    pub(crate) composites: Arc<Composites>,
    /// Backend by resource URI. `None` marks a resource that its backend lacks in this generation.
    pub(crate) resources: Arc<HashMap<Box<str>, Option<L>>>,
    pub(crate) templates: Arc<Templates<L>>,
    /// User interfaces of tools by the URI that clients know. They take precedence over resources and templates.
    pub(crate) interfaces: Arc<HashMap<Box<str>, UiResource<L>>>,
    /// Tool names that apps may call: each name used by a backend with user interfaces, mapped to the advertised names.
    pub(crate) originals: Arc<HashMap<Box<str>, Vec<Box<str>>>>,
    pub(crate) lists: [Arc<List>; 4],
    pub(crate) instructions: Option<String>,
    /// Name conflicts of both generations.
    pub(crate) conflicts: Arc<[Conflict]>,
    /// Backends that support a single generation, by name.
    only: Arc<HashMap<Box<str>, Generation>>,
}

/// Catalogs of both generations; both share one catalog if all backends offer the same to either.
#[derive(Debug)]
pub(crate) struct Catalogs<L>(ByGeneration<Arc<Catalog<L>>>);

impl<L: Clone> Catalogs<L> {
    pub(crate) fn of(&self, generation: Generation) -> &Arc<Catalog<L>> {
        self.0.of(generation)
    }

    pub(crate) fn conflicts(&self) -> &[Conflict] {
        &self.0.stateful.conflicts
    }

    /// Returns the approximate size in bytes.
    pub(crate) fn size(&self) -> usize {
        let ByGeneration { stateful, stateless } = &self.0;
        let own = stateless.lists.iter().zip(&stateful.lists);
        let own = own.filter(|(one, other)| !Arc::ptr_eq(one, other)).map(|(own, _)| own);
        // Each name is stored again for routing.
        2 * stateful.lists.iter().chain(own).map(|list| list.size()).sum::<usize>()
    }

    /// Returns the kinds of lists that differ from those of older snapshots.
    pub(crate) fn changes(&self, older: &Self) -> ByGeneration<Vec<Kind>> {
        let of = |generation| self.of(generation).changes(older.of(generation));
        ByGeneration { stateful: of(Generation::Stateful), stateless: of(Generation::Stateless) }
    }
}

impl<L: Clone> Catalog<L> {
    pub(crate) fn list(&self, kind: Kind) -> &List {
        &self.lists[kind as usize]
    }

    /// Returns the backend that serves a resource: the one that lists it, otherwise the one with the most specific matching
    /// template.
    pub(crate) fn resource(&self, uri: &str) -> Option<L> {
        if let Some(interface) = self.interfaces.get(uri) {
            return Some(interface.backend.clone());
        }
        match self.resources.get(uri) {
            Some(owner) => owner.clone(),
            None => self.templates.find(uri).cloned(),
        }
    }

    /// Equivalent to [`resource`](Self::resource), but takes the same time for known and unknown URIs.
    pub(crate) fn resource_evenly(&self, uri: &str) -> Option<L> {
        let by_template = self.templates.find_evenly(uri);
        match (self.interfaces.get(uri), self.resources.get(uri)) {
            (Some(interface), _) => Some(interface.backend.clone()),
            (None, Some(owner)) => owner.clone(),
            (None, None) => by_template.cloned(),
        }
    }

    /// Returns the backend of a listed item.
    pub(crate) fn owner(&self, kind: Kind, name: &str) -> Option<&L> {
        match kind {
            // A composite tool precedes a hidden tool of the same name.
            Kind::Tools if self.composites.offered.contains_key(name) => None,
            Kind::Tools => self.tools.get(name).map(|route| &route.backend),
            Kind::Prompts => self.prompts.get(name).map(|route| &route.backend),
            Kind::Resources => match self.interfaces.get(name) {
                Some(interface) => Some(&interface.backend),
                None => self.resources.get(name)?.as_ref(),
            },
            Kind::Templates => self.templates.owner(name),
        }
    }

    /// Returns the generation in which the gateway calls a backend for a client of this generation.
    pub(crate) fn spoken(&self, backend: &str, client: Generation) -> Generation {
        self.only.get(backend).copied().unwrap_or(client)
    }

    /// Returns the composite tool of this name, if it is listed.
    pub(crate) fn composite(&self, kind: Kind, name: &str) -> Option<&Composite> {
        (kind == Kind::Tools).then(|| self.composites.offered.get(name)).flatten()
    }

    /// Returns the composite tool of this name if it is configured, even if it is not listed.
    pub(crate) fn configured_composite(&self, name: &str) -> Option<&Composite> {
        let Composites { offered, withheld } = &*self.composites;
        offered.get(name).or_else(|| withheld.get(name))
    }

    /// Returns the backend's own URI of a user interface that clients know by another URI.
    pub(crate) fn own_uri(&self, uri: &str) -> Option<&str> {
        self.interfaces.get(uri)?.own.as_deref()
    }

    /// Returns `true` if the URI is the user interface of a tool.
    pub(crate) fn is_interface(&self, uri: &str) -> bool {
        self.interfaces.contains_key(uri)
    }

    /// Returns `true` if the URI is a listed template, verbatim.
    pub(crate) fn is_template(&self, uri: &str) -> bool {
        !self.resources.contains_key(uri)
            && !self.is_interface(uri)
            && self.templates.is_template(uri)
    }

    /// Returns the annotations that the server of a listed item declares.
    pub(crate) fn annotations(&self, kind: Kind, name: &str) -> ToolAnnotations {
        if let Some(composite) = self.composite(kind, name) {
            return composite.annotations;
        }
        let route = (kind == Kind::Tools).then(|| self.tools.get(name)).flatten();
        route.map_or_else(ToolAnnotations::default, |route| route.annotations.get())
    }

    /// Returns the kinds of lists that differ from those of an older snapshot.
    fn changes(&self, older: &Self) -> Vec<Kind> {
        Kind::ALL.into_iter().filter(|kind| self.list(*kind) != older.list(*kind)).collect()
    }
}
