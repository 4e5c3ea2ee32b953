//! Offers of one backend to clients of each generation.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use vmcp_core::Generation;

use super::{Item, Kind, Offer};

/// One value for each protocol generation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ByGeneration<T> {
    pub(crate) stateful: T,
    pub(crate) stateless: T,
}

/// Offers of one backend; `None` is not known yet. A single-generation backend offers the same to clients of both.
#[derive(Clone, Debug, Default)]
pub(crate) struct Offers {
    by_generation: ByGeneration<Option<Arc<Offer>>>,
    /// Generation of a backend that supports a single one.
    only: Option<Generation>,
}

impl<T> ByGeneration<T> {
    pub(crate) fn of(&self, generation: Generation) -> &T {
        match generation {
            Generation::Stateful => &self.stateful,
            Generation::Stateless => &self.stateless,
        }
    }

    pub(crate) fn set(&mut self, generation: Generation, value: T) {
        match generation {
            Generation::Stateful => self.stateful = value,
            Generation::Stateless => self.stateless = value,
        }
    }

    pub(crate) fn map<U>(self, mut each: impl FnMut(T) -> U) -> ByGeneration<U> {
        ByGeneration { stateful: each(self.stateful), stateless: each(self.stateless) }
    }

    pub(crate) fn both(value: T) -> Self
    where
        T: Clone,
    {
        Self { stateful: value.clone(), stateless: value }
    }
}

impl PartialEq for Offers {
    fn eq(&self, other: &Self) -> bool {
        let Self { by_generation: ByGeneration { stateful, stateless }, only } = self;
        // Parts shared by both generations are compared once.
        *only == other.only
            && *stateful == other.by_generation.stateful
            && (self.is_same() && other.is_same() || *stateless == other.by_generation.stateless)
    }
}

impl Eq for Offers {}

/// Returns the opposite generation.
pub(crate) fn other(generation: Generation) -> Generation {
    match generation {
        Generation::Stateful => Generation::Stateless,
        Generation::Stateless => Generation::Stateful,
    }
}

impl Offers {
    /// Creates the offers of a backend that offers the same to clients of both generations.
    pub(crate) fn same(offer: Offer) -> Self {
        Self { by_generation: ByGeneration::both(Some(Arc::new(offer))), only: None }
    }

    /// Creates the offers of a backend that supports a single generation.
    pub(crate) fn only(generation: Generation, offer: Offer) -> Self {
        Self { only: Some(generation), ..Self::same(offer) }
    }

    /// Returns the offers with one generation replaced. Parts that are equal in both are shared.
    pub(crate) fn with(&self, generation: Generation, offer: Offer) -> Self {
        let offer = match self.of(other(generation)) {
            Some(other) if **other == offer => Arc::clone(other),
            Some(other) => Arc::new(offer.sharing(other)),
            None => Arc::new(offer),
        };
        let mut by_generation = self.by_generation.clone();
        by_generation.set(generation, Some(offer));
        Self { by_generation, only: None }
    }

    pub(crate) fn of(&self, generation: Generation) -> Option<&Arc<Offer>> {
        self.by_generation.of(generation).as_ref()
    }

    /// Returns the generation of a backend that supports a single one.
    pub(crate) fn only_generation(&self) -> Option<Generation> {
        self.only
    }

    /// Returns the offers to advertise, with `none` for an unknown one; `None` if both are unknown.
    pub(crate) fn known<'a>(&'a self, none: &'a Offer) -> Option<ByGeneration<&'a Offer>> {
        let ByGeneration { stateful, stateless } = &self.by_generation;
        self.is_known().then(|| ByGeneration {
            stateful: stateful.as_deref().unwrap_or(none),
            stateless: stateless.as_deref().unwrap_or(none),
        })
    }

    /// Returns `true` if at least one offer is known.
    pub(crate) fn is_known(&self) -> bool {
        self.by_generation.stateful.is_some() || self.by_generation.stateless.is_some()
    }

    /// Returns `true` if both generations have the same offer.
    fn is_same(&self) -> bool {
        match (&self.by_generation.stateful, &self.by_generation.stateless) {
            (Some(stateful), Some(stateless)) => Arc::ptr_eq(stateful, stateless),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        }
    }

    /// Iterates over the distinct offers.
    pub(crate) fn each(&self) -> impl Iterator<Item = &Offer> {
        let stateless = self.by_generation.stateless.as_deref().filter(|_| !self.is_same());
        self.by_generation.stateful.as_deref().into_iter().chain(stateless)
    }

    /// Returns the kinds of items that differ from those of older offers.
    pub(crate) fn changes(&self, older: &Self) -> ByGeneration<Vec<Kind>> {
        let none = Offer::default();
        let of = |generation| {
            let offer = |offers: &Self| offers.of(generation).map(Arc::clone);
            let (now, before) = (offer(self), offer(older));
            now.as_deref().unwrap_or(&none).changes(before.as_deref().unwrap_or(&none))
        };
        ByGeneration { stateful: of(Generation::Stateful), stateless: of(Generation::Stateless) }
    }

    /// Returns the number of items.
    pub(crate) fn len(&self) -> usize {
        self.each().map(Offer::len).sum()
    }

    /// Returns the size in bytes.
    pub(crate) fn size(&self) -> usize {
        self.each().map(Offer::size).sum()
    }
}

/// Calls `each` for the items of one kind, pairing items with the same key in both generations: first in the order of the
/// stateful generation, then the items that only the stateless generation has.
pub(crate) fn each_item<'a>(
    offers: ByGeneration<&'a Offer>,
    kind: Kind,
    mut each: impl FnMut(Cow<'a, str>, ByGeneration<Option<Item<'a>>>),
) {
    let ByGeneration { stateful, stateless } = offers.map(|offer| offer.of(kind));
    if stateful.is(stateless) {
        stateful.iter().for_each(|item| each(item.key(), ByGeneration::both(Some(item))));
        return;
    }
    let mut others: HashMap<_, _> = stateless.iter().map(|item| (item.key(), item)).collect();
    for item in stateful.iter() {
        let key = item.key();
        let stateless = others.remove(&key);
        each(key, ByGeneration { stateful: Some(item), stateless });
    }
    for item in stateless.iter() {
        let key = item.key();
        if others.contains_key(&key) {
            each(key, ByGeneration { stateful: None, stateless: Some(item) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(instructions: &str) -> Offer {
        Offer { instructions: Some(instructions.to_owned()), ..Offer::default() }
    }

    #[test]
    fn offers_are_equal_if_both_generations_are() {
        let same = Offers::same(offer("a"));
        assert_eq!(same, Offers::same(offer("a")));
        assert_ne!(same, Offers::same(offer("b")));
        assert_ne!(same, same.with(Generation::Stateless, offer("b")));
        assert_ne!(same, same.with(Generation::Stateful, offer("b")));
        assert_ne!(same, Offers::default());
        let half = Offers::default().with(Generation::Stateful, offer("a"));
        assert_ne!(same, half);
        assert_eq!(same, half.with(Generation::Stateless, offer("a")));
        let only = Offers::only(Generation::Stateful, offer("a"));
        assert_ne!(only, same, "it is spoken to in another generation");
        assert_ne!(only, Offers::only(Generation::Stateless, offer("a")));
        assert_eq!(only.with(Generation::Stateless, offer("a")), same);
    }

    #[test]
    fn stores_equal_offers_once() {
        let one = Offers::default().with(Generation::Stateful, offer("a"));
        let both = one.with(Generation::Stateless, offer("a"));
        assert_eq!((one.each().count(), both.each().count()), (1, 1));
        assert_eq!(both.with(Generation::Stateless, offer("b")).each().count(), 2);
    }
}
