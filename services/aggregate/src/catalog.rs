//! What all backends offer together: an immutable snapshot from which lists are served as bytes and
//! names are routed.

mod apps;
mod combine;
mod define;
mod hints;
mod item;
mod item_rules;
mod list;
mod located;
mod offers;
mod params;
mod routes;
mod serial;
mod settle;
mod template;
mod templates;
mod texts;

use std::collections::HashMap;
use std::sync::Arc;

use vmcp_core::{Generation, Hints};

use self::apps::UiResource;
pub use self::combine::{Conflict, Hides};
pub(crate) use self::{
    apps::SCHEME as UI_SCHEME,
    combine::{Part, combine, contested, could_show, hidden_by, singular, wanted},
    define::literal as define_literal,
    hints::Told,
    item::{Item, Items, Kind, Offer},
    list::{List, Page, Selection},
    offers::{ByGeneration, Offers, each_item, other},
    params::{ParamHeader, add as add_headers, check as check_headers},
    routes::{Route, Routes},
    serial::{Serial, SerialRef},
    templates::Templates,
};

/// A snapshot of everything on offer to clients of one generation. What both generations are offered is kept once.
#[derive(Debug)]
pub(crate) struct Catalog<L> {
    pub(crate) serial: Serial,
    pub(crate) tools: Arc<Routes<L>>,
    pub(crate) prompts: Arc<Routes<L>>,
    /// By their URI. `None` is a resource that its backend lacks in this generation.
    pub(crate) resources: Arc<HashMap<Box<str>, Option<L>>>,
    pub(crate) templates: Arc<Templates<L>>,
    /// User interfaces of tools, by the URI that clients know. They go before resources and templates.
    pub(crate) interfaces: Arc<HashMap<Box<str>, UiResource<L>>>,
    /// What apps may call tools: the names that backends with user interfaces know, and those that clients know.
    pub(crate) originals: Arc<HashMap<Box<str>, Vec<Box<str>>>>,
    pub(crate) lists: [Arc<List>; 4],
    pub(crate) instructions: Option<String>,
    /// Those of both generations.
    pub(crate) conflicts: Arc<[Conflict]>,
    /// The backends that speak one generation only, by name.
    only: Arc<HashMap<Box<str>, Generation>>,
}

/// The catalogs of both generations: one and the same where no backend offers them something else.
#[derive(Debug)]
pub(crate) struct Catalogs<L>(ByGeneration<Arc<Catalog<L>>>);

impl<L: Clone> Catalogs<L> {
    pub(crate) fn of(&self, generation: Generation) -> &Arc<Catalog<L>> {
        self.0.of(generation)
    }

    pub(crate) fn conflicts(&self) -> &[Conflict] {
        &self.0.stateful.conflicts
    }

    /// About how many bytes they take.
    pub(crate) fn size(&self) -> usize {
        let ByGeneration { stateful, stateless } = &self.0;
        let own = stateless.lists.iter().zip(&stateful.lists);
        let own = own.filter(|(one, other)| !Arc::ptr_eq(one, other)).map(|(own, _)| own);
        // Names are there as often as in the lists again.
        2 * stateful.lists.iter().chain(own).map(|list| list.size()).sum::<usize>()
    }

    /// Which kinds of lists differ from those of older snapshots.
    pub(crate) fn changes(&self, older: &Self) -> ByGeneration<Vec<Kind>> {
        let of = |generation| self.of(generation).changes(older.of(generation));
        ByGeneration { stateful: of(Generation::Stateful), stateless: of(Generation::Stateless) }
    }
}

impl<L: Clone> Catalog<L> {
    pub(crate) fn list(&self, kind: Kind) -> &List {
        &self.lists[kind as usize]
    }

    /// The backend that answers for a resource: the one that lists it, else the one with the most specific template that
    /// fits.
    pub(crate) fn resource(&self, uri: &str) -> Option<L> {
        if let Some(interface) = self.interfaces.get(uri) {
            return Some(interface.link.clone());
        }
        match self.resources.get(uri) {
            Some(owner) => owner.clone(),
            None => self.templates.find(uri).cloned(),
        }
    }

    /// The same as [`resource`](Self::resource) in a time that does not tell whether there is one.
    pub(crate) fn resource_evenly(&self, uri: &str) -> Option<L> {
        let by_template = self.templates.find_evenly(uri);
        match (self.interfaces.get(uri), self.resources.get(uri)) {
            (Some(interface), _) => Some(interface.link.clone()),
            (None, Some(owner)) => owner.clone(),
            (None, None) => by_template.cloned(),
        }
    }

    /// The backend of a listed item.
    pub(crate) fn owner(&self, kind: Kind, name: &str) -> Option<&L> {
        match kind {
            Kind::Tools => self.tools.get(name).map(|route| &route.link),
            Kind::Prompts => self.prompts.get(name).map(|route| &route.link),
            Kind::Resources => match self.interfaces.get(name) {
                Some(interface) => Some(&interface.link),
                None => self.resources.get(name)?.as_ref(),
            },
            Kind::Templates => self.templates.owner(name),
        }
    }

    /// The generation in which a backend is spoken to for a client of this one.
    pub(crate) fn spoken(&self, backend: &str, client: Generation) -> Generation {
        self.only.get(backend).copied().unwrap_or(client)
    }

    /// The backend's own URI of a user interface that clients know by another one.
    pub(crate) fn own_uri(&self, uri: &str) -> Option<&str> {
        self.interfaces.get(uri)?.own.as_deref()
    }

    /// Whether it is the user interface of a tool.
    pub(crate) fn is_interface(&self, uri: &str) -> bool {
        self.interfaces.contains_key(uri)
    }

    /// Whether it is a template as it is listed.
    pub(crate) fn is_template(&self, uri: &str) -> bool {
        !self.resources.contains_key(uri)
            && !self.is_interface(uri)
            && self.templates.is_template(uri)
    }

    /// What the server of a listed item says that it does.
    pub(crate) fn hints(&self, kind: Kind, name: &str) -> Hints {
        let route = (kind == Kind::Tools).then(|| self.tools.get(name)).flatten();
        route.map(|route| route.hints.get()).unwrap_or_default()
    }

    /// Which kinds of lists differ from those of an older snapshot.
    fn changes(&self, older: &Self) -> Vec<Kind> {
        Kind::ALL.into_iter().filter(|kind| self.list(*kind) != older.list(*kind)).collect()
    }
}
