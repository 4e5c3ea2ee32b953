//! Interning of offers: callers with equal offers share one copy.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use crate::catalog::{Kind, Offers};

/// Maximum size of one backend's distinct offers, in bytes.
const MAX_OFFER_BYTES: usize = 64 << 20;

/// Offer that several callers may share.
#[derive(Debug)]
pub(crate) struct InternedOffers {
    /// Process-wide unique number; equal numbers identify the same offer.
    pub(crate) serial: u64,
    pub(crate) offers: Offers,
    bytes: usize,
}

/// Interned offers of one backend.
#[derive(Debug, Default)]
pub(super) struct OfferInterner {
    /// Each offer lives as long as a caller or a catalog uses it; dangling entries are pruned.
    by_hash: HashMap<u64, Vec<Weak<InternedOffers>>>,
    hasher: RandomState,
}

impl OfferInterner {
    /// Returns the existing equal offer, otherwise stores this one.
    pub(super) fn intern(&mut self, offers: Offers) -> Arc<InternedOffers> {
        // Relaxed: only the uniqueness of the numbers counts.
        static SERIAL: AtomicU64 = AtomicU64::new(1);
        let same = self.by_hash.entry(digest(&self.hasher, &offers)).or_default();
        same.retain(|content| content.strong_count() > 0);
        let mut known = same.iter().filter_map(Weak::upgrade);
        if let Some(known) = known.find(|content| content.offers == offers) {
            return known;
        }
        let (serial, bytes) = (SERIAL.fetch_add(1, Ordering::Relaxed), offers.size());
        let content = Arc::new(InternedOffers { serial, offers, bytes });
        same.push(Arc::downgrade(&content));
        content
    }

    /// Returns `true` if the offers exceed the size limit.
    pub(super) fn too_much(&self) -> bool {
        let alive = self.by_hash.values().flatten().filter_map(Weak::upgrade);
        alive.map(|content| content.bytes).sum::<usize>() > MAX_OFFER_BYTES
    }

    pub(super) fn prune(&mut self) {
        self.by_hash.retain(|_, same| {
            same.retain(|content| content.strong_count() > 0);
            !same.is_empty()
        });
    }

    pub(super) fn len(&self) -> usize {
        self.by_hash.values().map(Vec::len).sum()
    }
}

fn digest(hasher: &RandomState, offers: &Offers) -> u64 {
    let mut state = hasher.build_hasher();
    for offer in offers.each() {
        for kind in Kind::ALL {
            offer.of(kind).len().hash(&mut state);
            offer.of(kind).iter().for_each(|item| item.raw().hash(&mut state));
        }
        offer.instructions.hash(&mut state);
    }
    state.finish()
}
