//! Lists: JSON arrays, and parts of them.

use std::{ops::Range, rc::Rc};

use serde_json::Value as Json;

use super::Datum;

/// List during a rendering: a part of an array.
#[derive(Debug, Clone)]
pub(crate) struct List<'a> {
    items: Items<'a>,
    part: Range<usize>,
    /// End up to which `slice` can extend the part, as an index of the array.
    capacity_end: usize,
}

#[derive(Debug, Clone)]
enum Items<'a> {
    Borrowed(&'a [Json]),
    Shared(Rc<[Datum<'a>]>),
}

impl<'a> List<'a> {
    pub(crate) fn borrowed(items: &'a [Json]) -> Self {
        Self { items: Items::Borrowed(items), part: 0..items.len(), capacity_end: items.len() }
    }

    pub(crate) fn shared(items: Vec<Datum<'a>>) -> Self {
        let length = items.len();
        Self { items: Items::Shared(items.into()), part: 0..length, capacity_end: length }
    }

    pub(crate) fn len(&self) -> usize {
        self.part.len()
    }

    /// Returns the number of items up to the end that `slice` can reach.
    pub(crate) fn capacity(&self) -> usize {
        self.capacity_end - self.part.start
    }

    pub(crate) fn get(&self, index: usize) -> Option<Datum<'a>> {
        if index >= self.len() {
            return None;
        }
        let index = self.part.start + index;
        match &self.items {
            Items::Borrowed(items) => items.get(index).map(Datum::from_json),
            Items::Shared(items) => items.get(index).cloned(),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Datum<'a>> {
        (0..self.len()).map_while(|index| self.get(index))
    }

    /// Returns a part of the list. The caller checks that `part` and `capacity` are within [`Self::capacity`].
    pub(crate) fn slice(&self, part: Range<usize>, capacity: usize) -> Self {
        let start = self.part.start;
        Self {
            items: self.items.clone(),
            part: start + part.start..start + part.end,
            capacity_end: start + capacity,
        }
    }
}
