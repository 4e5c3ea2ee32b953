//! Lists as single callers see them: made once for everybody who sees the same, and kept.

use std::sync::{Arc, Mutex};

use tokio::task::spawn_blocking;
use vmcp_core::{Admission, Flights, Generation, Item, ViewKey};

use crate::catalog::{Kind, List, Page, Selection, SerialRef};
use crate::hub::Everything;
use crate::kept::Kept;
use crate::session::lock;

/// The most views that are kept, of all catalogs, kinds and callers.
const MOST: usize = 8192;

/// The most bytes of lists that are kept; a list that several views have in common counts once.
const MOST_BYTES: usize = 64 << 20;

/// The most items that are judged beside requests: it takes less than a millisecond.
const FEW: usize = 32;

/// See the module.
#[derive(Debug)]
pub(crate) struct Views {
    kept: Mutex<Kept<Key, Content, Option<List>>>,
    flights: Flights<Key, Option<View>>,
}

/// What somebody sees of one kind: some of it, or all that there is.
#[derive(Clone, Debug)]
pub(crate) struct View(Arc<Option<List>>);

/// With the generation of the client, where policies read that of backends.
type Key = (SerialRef, Kind, ViewKey, Option<Generation>);
type Content = (SerialRef, Kind, Selection);

impl Views {
    pub(crate) fn new() -> Self {
        Self { kept: Mutex::new(Kept::new(MOST, MOST_BYTES)), flights: Flights::new() }
    }

    /// What the caller with `admission` sees of one kind. `None` if the policies failed to say so.
    pub(crate) async fn of(
        self: &Arc<Self>,
        catalog: &Arc<Everything>,
        kind: Kind,
        admission: &Admission,
        client: Generation,
    ) -> Option<View> {
        let read = admission.reads_backend().then_some(client);
        let key = (catalog.serial.refer(), kind, admission.view(), read);
        if let Some(known) = lock(&self.kept).get(&key) {
            return Some(View(known));
        }
        let making = {
            let (views, catalog, admission) =
                (Arc::clone(self), Arc::clone(catalog), admission.clone());
            let key = key.clone();
            move || views.make(key, &catalog, &admission)
        };
        if catalog.list(kind).len() <= FEW {
            return Some(making());
        }
        self.flights.join(key, || async move { spawn_blocking(making).await.ok() }).await
    }

    fn make(&self, key: Key, catalog: &Everything, admission: &Admission) -> View {
        let (serial, kind, _, read) = &key;
        let list = catalog.list(*kind);
        let selection = list.select(|name| {
            let hints = catalog.hints(*kind, name);
            let backend = read.and_then(|client| catalog.backend_of(*kind, name, client));
            admission.visible(&Item { kind: kind.of_item(), name, hints, backend })
        });
        let content = (serial.clone(), *kind, selection);
        let known = lock(&self.kept).content(&content);
        let (_, _, selection) = &content;
        let made =
            known.unwrap_or_else(|| Arc::new((!selection.whole).then(|| list.only(selection))));
        let bytes = made.as_ref().as_ref().map_or(0, List::size) + selection.size();
        View(lock(&self.kept).insert(key, content, made, bytes))
    }

    pub(crate) fn len(&self) -> usize {
        lock(&self.kept).len()
    }

    /// Lets go of what belongs to catalogs that are no longer there.
    pub(crate) fn sweep(&self) {
        lock(&self.kept).retain(|(serial, ..)| serial.is_alive());
    }
}

impl View {
    /// A page of what is seen of `whole`, the list of everybody.
    pub(crate) fn page(&self, whole: &List, kind: Kind, cursor: Option<&str>) -> Option<Page> {
        self.0.as_ref().as_ref().unwrap_or(whole).page(kind, cursor)
    }
}

#[cfg(test)]
mod tests;
