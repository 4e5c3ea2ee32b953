//! Where names lead.

use std::hash::BuildHasher;
use std::sync::Arc;

use bytes::Bytes;
use hashbrown::{DefaultHashBuilder, HashTable};

use super::ParamHeader;
use super::hints::Told;
use super::texts::Texts;

/// Where a name leads. `L` is the handle of a backend.
#[derive(Clone, Debug)]
pub(crate) struct Route<L> {
    pub(crate) link: L,
    /// The backend's own name for it, as a JSON string literal.
    pub(crate) name: Bytes,
    /// Whether clients may see and use it; the rest is for composite tools.
    pub(crate) shown: bool,
    /// What its server says that it does, with what is overridden.
    pub(crate) hints: Told,
    /// Whether the tool has a user interface.
    pub(crate) interface: bool,
    /// The arguments that travel in headers too (`x-mcp-header`, MCP 2026-07-28).
    pub(crate) headers: Arc<[ParamHeader]>,
}

/// Routes by name. Made anew with each catalog, so it is built for being filled fast as well.
#[derive(Debug)]
pub(crate) struct Routes<L> {
    names: Texts,
    targets: Vec<Route<L>>,
    /// The numbers of names and targets, by the names' hashes.
    table: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

impl<L> Default for Routes<L> {
    fn default() -> Self {
        Self::with_capacity(0)
    }
}

impl<L> Routes<L> {
    pub(crate) fn with_capacity(count: usize) -> Self {
        Self {
            names: Texts::with_capacity(count),
            targets: Vec::with_capacity(count),
            table: HashTable::with_capacity(count),
            hasher: DefaultHashBuilder::default(),
        }
    }

    /// The route of a name.
    pub(crate) fn get(&self, name: &str) -> Option<&Route<L>> {
        let same = |number: &u32| self.names.get(*number as usize) == name;
        let number = self.table.find(self.hasher.hash_one(name), same)?;
        self.targets.get(*number as usize)
    }

    /// Adds a route for a name that has none yet.
    pub(crate) fn add(&mut self, name: &str, route: Route<L>) {
        let number = u32::try_from(self.targets.len()).unwrap_or(u32::MAX);
        self.names.push(name, "");
        self.targets.push(route);
        let (names, hasher) = (&self.names, &self.hasher);
        let hash = |number: &u32| hasher.hash_one(names.get(*number as usize));
        self.table.insert_unique(hasher.hash_one(name), number, hash);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Route<L>)> {
        self.names.iter().zip(&self.targets)
    }

    pub(crate) fn shrink_to_fit(&mut self) {
        self.names.shrink_to_fit();
        self.targets.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_leads_to_its_own_route() {
        let mut routes = Routes::default();
        for number in 0..100_usize {
            let name = Bytes::from(format!("\"{number}\""));
            let (hints, headers) = (Told::default(), Arc::default());
            let route = Route { link: number, name, shown: true, hints, interface: false, headers };
            routes.add(&format!("be_{number}"), route);
        }
        assert_eq!(routes.get("be_0").map(|route| route.link), Some(0));
        assert_eq!(routes.get("be_99").map(|route| route.link), Some(99));
        assert!(routes.get("be_100").is_none());
        assert!(Routes::<u8>::default().get("").is_none());
        let names = routes.iter().map(|(name, route)| name == format!("be_{}", route.link));
        assert_eq!(names.filter(|right| *right).count(), 100);
    }
}
