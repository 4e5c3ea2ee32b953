//! What all backends offer together: an immutable snapshot from which lists are served as bytes and
//! names are routed.

mod combine;
mod define;
mod item;
mod list;
mod params;
mod template;

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;

pub use self::combine::{Conflict, Hides};
pub(crate) use self::{
    combine::{Part, combine, contested, hidden_by, singular, wanted},
    define::literal as define_literal,
    item::{Item, Kind, Offer, items},
    list::List,
    params::{ParamHeader, add as add_headers, check as check_headers},
    template::matches,
};

/// Where a name leads. `L` is the handle of a backend.
#[derive(Clone, Debug)]
pub(crate) struct Route<L> {
    pub(crate) link: L,
    /// The backend's own name for it, as a JSON string literal.
    pub(crate) name: Bytes,
    /// Whether clients may see and use it; the rest is for composite tools.
    pub(crate) shown: bool,
    /// The arguments that travel in headers too (`x-mcp-header`, MCP 2026-07-28).
    pub(crate) headers: Arc<[ParamHeader]>,
}

/// A snapshot of everything on offer.
#[derive(Debug)]
pub(crate) struct Catalog<L> {
    pub(crate) tools: HashMap<Box<str>, Route<L>>,
    pub(crate) prompts: HashMap<Box<str>, Route<L>>,
    pub(crate) resources: HashMap<Box<str>, L>,
    /// In the order in which they are tried.
    pub(crate) templates: Vec<(Box<str>, L)>,
    pub(crate) lists: [List; 4],
    pub(crate) instructions: Option<String>,
    pub(crate) conflicts: Vec<Conflict>,
}

impl<L> Default for Catalog<L> {
    fn default() -> Self {
        Self {
            tools: HashMap::new(),
            prompts: HashMap::new(),
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
        let fits = |(template, _): &&(Box<str>, L)| &**template == uri || matches(template, uri);
        self.templates.iter().find(fits).map(|(_, link)| link.clone())
    }

    /// Which kinds of lists differ from those of an older snapshot.
    pub(crate) fn changes(&self, older: &Self) -> Vec<Kind> {
        Kind::ALL.into_iter().filter(|kind| self.list(*kind) != older.list(*kind)).collect()
    }
}
