//! Gauges of entries in bounded in-memory caches and tables, by kind.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

type Gauge = Arc<dyn Fn() -> Option<usize> + Send + Sync>;

/// Collection of gauges. Gauges hold weak references, so they keep no cache alive.
#[derive(Clone, Default)]
pub(crate) struct MemoryGauges(Vec<(&'static str, Gauge)>);

impl MemoryGauges {
    /// Adds a gauge, which counts until it returns `None`.
    pub(crate) fn add(
        &mut self,
        kind: &'static str,
        gauge: impl Fn() -> Option<usize> + Send + Sync + 'static,
    ) {
        self.0.push((kind, Arc::new(gauge)));
    }

    /// Adds the gauges of `more` and removes those whose cache was dropped.
    pub(crate) fn merge(&mut self, more: Self) {
        self.0.retain(|(_, gauge)| gauge().is_some());
        self.0.extend(more.0);
    }

    /// Returns the number of entries by kind.
    pub(crate) fn counts(&self) -> BTreeMap<&'static str, usize> {
        let mut counts = BTreeMap::new();
        for (kind, gauge) in &self.0 {
            *counts.entry(*kind).or_default() += gauge().unwrap_or_default();
        }
        counts
    }
}

impl fmt::Debug for MemoryGauges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.counts()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropped_sources_no_longer_count() {
        let (first, second) = (Arc::new(1), Arc::new(10));
        let gauge = |count: &Arc<usize>| {
            let count = Arc::downgrade(count);
            move || count.upgrade().map(|count| *count)
        };
        let mut gauges = MemoryGauges::default();
        gauges.add("a", gauge(&first));
        gauges.add("b", gauge(&first));
        let mut newer = MemoryGauges::default();
        newer.add("a", gauge(&second));
        gauges.merge(newer);
        assert_eq!(gauges.counts(), BTreeMap::from([("a", 11), ("b", 1)]));
        drop(first);
        assert_eq!(gauges.counts(), BTreeMap::from([("a", 10), ("b", 0)]));
        gauges.merge(MemoryGauges::default());
        assert_eq!((gauges.0.len(), gauges.counts()), (1, BTreeMap::from([("a", 10)])));
    }
}
