//! Routes from advertised names to backends.

use std::hash::BuildHasher;
use std::sync::Arc;

use bytes::Bytes;
use hashbrown::{DefaultHashBuilder, HashTable};

use super::ParamHeader;
use super::annotations::LazyAnnotations;
use super::string_table::StringTable;

/// Route of one name. `L` is the handle of a backend.
#[derive(Clone, Debug)]
pub(crate) struct Route<L> {
    pub(crate) backend: L,
    /// The backend's own name of the item, as a JSON string literal.
    pub(crate) name: Bytes,
    /// `true` if clients may see and use the item; otherwise only composite tools may.
    pub(crate) shown: bool,
    /// Annotations declared by the server, with overrides applied.
    pub(crate) annotations: LazyAnnotations,
    /// `true` if the tool has a user interface.
    pub(crate) interface: bool,
    /// Arguments that are repeated in headers (`x-mcp-header`, MCP 2026-07-28).
    pub(crate) headers: Arc<[ParamHeader]>,
}

/// Routes by name. Each catalog builds its own table, so construction is optimized as well as lookup.
#[derive(Debug)]
pub(crate) struct Routes<L> {
    names: StringTable,
    targets: Vec<Route<L>>,
    /// Indices of names and targets, by the hash of the name.
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
            names: StringTable::with_capacity(count),
            targets: Vec::with_capacity(count),
            table: HashTable::with_capacity(count),
            hasher: DefaultHashBuilder::default(),
        }
    }

    /// Returns the route of a name.
    pub(crate) fn get(&self, name: &str) -> Option<&Route<L>> {
        let same = |number: &u32| self.names.get(*number as usize) == name;
        let number = self.table.find(self.hasher.hash_one(name), same)?;
        self.targets.get(*number as usize)
    }

    /// Adds the route of a name that has none yet.
    pub(crate) fn add(&mut self, name: &str, route: Route<L>) {
        let number = u32::try_from(self.targets.len());
        let number = number.expect("limited offers have far fewer items");
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
    fn each_name_has_own_route() {
        let mut routes = Routes::default();
        for number in 0..100_usize {
            let name = Bytes::from(format!("\"{number}\""));
            let (annotations, headers) = (LazyAnnotations::default(), Arc::default());
            let route = Route {
                backend: number,
                name,
                shown: true,
                annotations,
                interface: false,
                headers,
            };
            routes.add(&format!("be_{number}"), route);
        }
        assert_eq!(routes.get("be_0").map(|route| route.backend), Some(0));
        assert_eq!(routes.get("be_99").map(|route| route.backend), Some(99));
        assert!(routes.get("be_100").is_none());
        assert!(Routes::<u8>::default().get("").is_none());
        let names = routes.iter().map(|(name, route)| name == format!("be_{}", route.backend));
        assert_eq!(names.filter(|right| *right).count(), 100);
    }
}
