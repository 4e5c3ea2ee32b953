//! What comes unasked on long streams is admitted message by message: the policies, and what they say of
//! the caller, may be others than when the stream was opened.

use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use vmcp_core::{Admission, Generation, Hints, Identity, Item, ItemBackend, ItemKind, Verdict};
use vmcp_wire::{Envelope, Key, scan};

use crate::backend::Link;
use crate::catalog::{ByGeneration, Kind};
use crate::hub::Hub;

/// What callers may hear of now, for whoever has policies that can change while streams are open.
///
/// A closure from an identity to its admission; `None` where that cannot be had at once, which leaves it at
/// what was admitted when the stream was opened.
#[derive(Clone)]
pub struct Admissions(Arc<Ask>);

type Ask = dyn Fn(&Identity) -> Option<Admission> + Send + Sync;

/// The current ones.
#[derive(Debug, Default)]
pub(crate) struct Hearing(ArcSwapOption<Admissions>);

impl Admissions {
    /// What `ask` says.
    #[must_use]
    pub fn new(ask: impl Fn(&Identity) -> Option<Admission> + Send + Sync + 'static) -> Self {
        Self(Arc::new(ask))
    }
}

impl Hub {
    /// From now on these are asked. Everybody may see something else.
    pub(crate) fn admit_by(&self, admissions: Option<Admissions>) {
        self.hearing.0.store(admissions.map(Arc::new));
        self.tell(&ByGeneration::both(Kind::ALL.to_vec()));
    }

    /// Whether a caller may hear of tasks of a backend's tool, by the name that clients know it by.
    pub(crate) fn may_follow(&self, caller: &Identity, link: &Link, tool: &str) -> bool {
        let asked = self.hearing.0.load();
        let Some(admission) = asked.as_ref().and_then(|asked| (asked.0)(caller)) else {
            return true;
        };
        let snapshot = self.snapshot();
        let generation = Generation::Stateless;
        let hints = snapshot.look().of(generation).hints(Kind::Tools, tool);
        let backend = Some(ItemBackend { name: link.name(), generation });
        admission.visible(&Item { kind: ItemKind::Tool, name: tool, hints, backend })
    }

    /// Whether a caller may hear of an update (`notifications/resources/updated`) that a backend told in this generation.
    pub(crate) fn may_hear(
        &self,
        caller: &Identity,
        link: &Link,
        generation: Generation,
        update: &Bytes,
    ) -> bool {
        let Ok(Envelope::Notification { params, .. }) = scan(update) else { return false };
        let Some(uri) = params.text(update, Key::Uri) else { return false };
        let (kind, name) = (ItemKind::Resource, uri.read(update));
        // A backend says nothing of what another one answers for.
        let owner = self.snapshot().catalog(generation).resource(&name);
        if owner.is_some_and(|owner| owner.name() != link.name()) {
            return false;
        }
        let asked = self.hearing.0.load();
        let Some(admission) = asked.as_ref().and_then(|asked| (asked.0)(caller)) else {
            return true;
        };
        let backend = Some(ItemBackend { name: link.name(), generation });
        let item = Item { kind, name: &name, hints: Hints::default(), backend };
        admission.admit(&item, None) == Verdict::Permitted
    }
}

impl fmt::Debug for Admissions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Admissions")
    }
}
