//! Content and size of records.

use crate::{MAX_RECORD_BYTES, MAX_SUBSCRIPTIONS, SessionRecord};

/// Enters what a record lacks, as far as it fits. Subscriptions are entered `with_subscriptions` only.
pub(super) fn enter(record: &mut SessionRecord, own: &SessionRecord, with_subscriptions: bool) {
    let fits = |record: &SessionRecord| size(record) <= MAX_RECORD_BYTES;
    if record.level.is_none() {
        let level = own.level.clone();
        let changed = SessionRecord { level, ..record.clone() };
        if fits(&changed) {
            *record = changed;
        }
    }
    for (name, entry) in &own.backend_sessions {
        let place = record.backend_sessions.binary_search_by(|(known, _)| known.cmp(name));
        let Err(index) = place else { continue };
        record.backend_sessions.insert(index, (name.clone(), entry.clone()));
        if !fits(record) {
            record.backend_sessions.remove(index);
        }
    }
    for subscription in own.subscriptions.iter().filter(|_| with_subscriptions) {
        let Err(index) = record.subscriptions.binary_search(subscription) else { continue };
        let known = record.subscriptions.iter().filter(|(name, _)| *name == subscription.0);
        if known.count() >= MAX_SUBSCRIPTIONS {
            continue;
        }
        record.subscriptions.insert(index, subscription.clone());
        if !fits(record) {
            record.subscriptions.remove(index);
        }
    }
}

/// Returns the size of a record: names, URIs and values.
pub(super) fn size(record: &SessionRecord) -> usize {
    let SessionRecord { level, backend_sessions, subscriptions } = record;
    let entries = backend_sessions.iter().map(|(name, entry)| name.len() + entry.value.len());
    let subscriptions = subscriptions.iter().map(|(name, uri)| name.len() + uri.len());
    level.as_ref().map_or(0, |level| level.len()) + entries.chain(subscriptions).sum::<usize>()
}
