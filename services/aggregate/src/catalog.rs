//! What all backends offer together: an immutable snapshot from which lists are served as bytes and
//! names are routed.

mod combine;
mod define;
mod hints;
mod item;
mod list;
mod params;
mod routes;
mod serial;
mod settle;
mod template;
mod texts;

use std::collections::HashMap;

use vmcp_core::Hints;

pub use self::combine::{Conflict, Hides};
use self::template::matches;
pub(crate) use self::{
    combine::{Part, combine, contested, could_show, hidden_by, singular, wanted},
    define::literal as define_literal,
    hints::Told,
    item::{Item, Items, Kind, Offer},
    list::{List, Page, Selection},
    params::{ParamHeader, add as add_headers, check as check_headers},
    routes::{Route, Routes},
    serial::{Serial, SerialRef},
};

/// A snapshot of everything on offer.
#[derive(Debug)]
pub(crate) struct Catalog<L> {
    pub(crate) serial: Serial,
    pub(crate) tools: Routes<L>,
    pub(crate) prompts: Routes<L>,
    pub(crate) resources: HashMap<Box<str>, L>,
    /// Those of each backend, in the order in which they are tried.
    pub(crate) templates: Vec<(L, Vec<Box<str>>)>,
    pub(crate) lists: [List; 4],
    pub(crate) instructions: Option<String>,
    pub(crate) conflicts: Vec<Conflict>,
}

impl<L> Default for Catalog<L> {
    fn default() -> Self {
        Self {
            serial: Serial::new(),
            tools: Routes::default(),
            prompts: Routes::default(),
            resources: HashMap::new(),
            templates: Vec::new(),
            lists: Default::default(),
            instructions: None,
            conflicts: Vec::new(),
        }
    }
}

impl<L: Clone> Catalog<L> {
    pub(crate) fn list(&self, kind: Kind) -> &List {
        &self.lists[kind as usize]
    }

    /// Who answers for a resource: whoever lists it, else whoever has a template that fits.
    pub(crate) fn resource(&self, uri: &str) -> Option<L> {
        if let Some(link) = self.resources.get(uri) {
            return Some(link.clone());
        }
        let fits = |templates: &[Box<str>]| {
            // Each backend has its own, so that none takes them from another one.
            let mut steps = template::MAX_STEPS;
            templates
                .iter()
                .any(|template| **template == *uri || matches(template, uri, &mut steps))
        };
        self.templates.iter().find(|(_, templates)| fits(templates)).map(|(link, _)| link.clone())
    }

    /// Whether it is a template as it is listed.
    pub(crate) fn is_template(&self, uri: &str) -> bool {
        !self.resources.contains_key(uri)
            && self.templates.iter().flat_map(|(_, all)| all).any(|template| **template == *uri)
    }

    /// What the server of a listed item says that it does.
    pub(crate) fn hints(&self, kind: Kind, name: &str) -> Hints {
        let route = (kind == Kind::Tools).then(|| self.tools.get(name)).flatten();
        route.map(|route| route.hints.get()).unwrap_or_default()
    }

    /// About how many bytes it takes.
    pub(crate) fn size(&self) -> usize {
        // Names are there as often as in the lists again.
        2 * self.lists.iter().map(List::size).sum::<usize>()
    }

    /// Which kinds of lists differ from those of an older snapshot.
    pub(crate) fn changes(&self, older: &Self) -> Vec<Kind> {
        Kind::ALL.into_iter().filter(|kind| self.list(*kind) != older.list(*kind)).collect()
    }
}
