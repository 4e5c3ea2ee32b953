//! Cache entries by caller: identity and the other inputs of its credentials.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::time::Instant;
use vmcp_core::{Fingerprint, Identity};

use super::CallerCatalog;

/// Maximum number of callers.
pub(super) const MAX_CALLERS: usize = 4096;

/// Maximum number of entries with the same identity (sessions and tokens). Further entries replace that identity's oldest.
pub(super) const MAX_OF_IDENTITY: usize = 32;

/// Cache entries of all callers.
#[derive(Debug, Default)]
pub(super) struct CallerTable {
    by_identity: HashMap<Identity, Vec<(Fingerprint, Arc<CallerCatalog>)>>,
    count: usize,
}

impl CallerTable {
    /// Returns the entry of a caller; creates it if necessary, evicting others if the cache is full.
    pub(super) fn entry(&mut self, caller: &Identity) -> Arc<CallerCatalog> {
        let key = caller.credential_key();
        let known = self.of(caller).find(|(of, _)| *of == key);
        if let Some((_, entry)) = known {
            return Arc::clone(entry);
        }
        if self.count >= MAX_CALLERS {
            self.make_room();
        }
        let entry = Arc::new(CallerCatalog::new());
        let entries = self.by_identity.entry(caller.clone()).or_default();
        if entries.len() >= MAX_OF_IDENTITY {
            let used = entries.iter().map(|(_, entry)| entry.used()).enumerate();
            if let Some((oldest, _)) = used.min_by_key(|(_, used)| *used) {
                entries.swap_remove(oldest);
                self.count -= 1;
            }
        }
        entries.push((key, Arc::clone(&entry)));
        self.count += 1;
        entry
    }

    /// Returns the entries of one identity.
    pub(super) fn of(
        &self,
        caller: &Identity,
    ) -> impl Iterator<Item = &(Fingerprint, Arc<CallerCatalog>)> {
        self.by_identity.get(caller).into_iter().flatten()
    }

    /// Removes the least recently used entry with an offer. Returns `false` if there is none.
    pub(super) fn remove_oldest(&mut self) -> bool {
        let all = self.by_identity.iter().flat_map(|(caller, entries)| {
            let holding = entries.iter().filter(|(_, entry)| entry.last_good().is_some());
            holding.map(move |(key, entry)| (entry.used(), caller, *key))
        });
        let oldest = all.min_by_key(|(used, ..)| *used);
        let Some((caller, key)) = oldest.map(|(_, caller, key)| (caller.clone(), key)) else {
            return false;
        };
        if let Some(entries) = self.by_identity.get_mut(&caller) {
            entries.retain(|(of, _)| *of != key);
        }
        self.tidy();
        true
    }

    pub(super) fn retain(&mut self, keep: impl Fn(&CallerCatalog) -> bool) {
        for entries in self.by_identity.values_mut() {
            entries.retain(|(_, entry)| keep(entry));
        }
        self.tidy();
    }

    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// Evicts an eighth of the entries at once, because each search for the oldest visits all of them.
    fn make_room(&mut self) {
        let mut used: Vec<Instant> =
            self.by_identity.values().flatten().map(|(_, entry)| entry.used()).collect();
        let (_, last, _) = used.select_nth_unstable(MAX_CALLERS / 8);
        let last = *last;
        self.retain(|entry| entry.used() > last);
    }

    /// Removes identities without entries and updates the count.
    fn tidy(&mut self) {
        self.by_identity.retain(|_, entries| !entries.is_empty());
        self.count = self.by_identity.values().map(Vec::len).sum();
    }
}
