//! Building of catalogs from the backends' offers.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;

use super::CatalogStore;
use crate::catalog::{ByGeneration, Conflict, Kind};
use crate::snapshot::MAX_INLINE_ITEMS;
use vmcp_core::lock;

/// Time to collect further changes before a catalog is built.
const GATHER_TIME: Duration = Duration::from_millis(5);

/// Requested and completed catalog builds.
#[derive(Debug, Default)]
pub(super) struct Rebuilds {
    /// Number of requests covered by the last catalog. Held while a catalog is built or replaced, so an older build cannot
    /// overwrite a newer one.
    stored: tokio::sync::Mutex<u64>,
    /// Number of requests so far. AcqRel: a build that reads the number sees the offers stored before each counted request.
    requested: AtomicU64,
    /// Time at which the collected changes are built into a catalog. It is shared, so one timer suffices.
    gathered: Mutex<Option<Instant>>,
}

impl Rebuilds {
    /// Prevents catalogs from being stored until the guard is dropped.
    pub(super) async fn hold(&self) -> impl Drop + use<'_> {
        self.stored.lock().await
    }

    /// Returns the end of the wait for further changes.
    fn gather(&self) -> Instant {
        let mut gathered = lock(&self.gathered);
        let now = Instant::now();
        let until = gathered.filter(|until| *until > now).unwrap_or(now + GATHER_TIME);
        *gathered = Some(until);
        until
    }
}

impl CatalogStore {
    /// Rebuilds the catalog from the current offers. `notify` receives the changes before any later build is stored.
    ///
    /// At a start or after an outage, new offers arrive in bursts. Collecting them saves the time and memory of catalogs that
    /// no client needs.
    pub(crate) async fn rebuild(&self, notify: impl FnOnce(&ByGeneration<Vec<Kind>>)) {
        let request = self.rebuilds.requested.fetch_add(1, Ordering::AcqRel) + 1;
        tokio::time::sleep_until(self.rebuilds.gather()).await;
        let mut stored = self.rebuilds.stored.lock().await;
        if *stored >= request {
            return;
        }
        let satisfied = self.rebuilds.requested.load(Ordering::Acquire);
        let snapshot = self.snapshot();
        let catalogs = if snapshot.items() <= MAX_INLINE_ITEMS {
            snapshot.combine(&[])
        } else {
            let making = Arc::clone(&snapshot);
            match tokio::task::spawn_blocking(move || making.combine(&[])).await {
                Ok(catalogs) => catalogs,
                Err(error) => return tracing::error!(%error, "failed to build the catalog"),
            }
        };
        let old = snapshot.catalogs();
        let changes = catalogs.changes(&old);
        warn_of_conflicts(catalogs.conflicts(), old.conflicts());
        snapshot.store(catalogs);
        self.changed.notify_one();
        // Set last: requests that are covered do not build another catalog.
        *stored = satisfied;
        notify(&changes);
    }
}

/// Logs conflicts that the last catalog did not have.
fn warn_of_conflicts(found: &[Conflict], known: &[Conflict]) {
    for conflict in found.iter().filter(|found| !known.contains(found)) {
        tracing::warn!(
            kind = conflict.kind,
            name = conflict.name,
            contenders = conflict.contenders.join(", "),
            "name conflict: {}",
            conflict.resolution
        );
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use bytes::Bytes;
    use http::{Request, Response};
    use http_body_util::Full;
    use vmcp_core::{Backend, Body, BoxError, Clock, Generation};

    use super::*;
    use crate::catalog::{Items, Offer, Offers};
    use crate::settings::{
        BackendService, BackendSettings, CredentialAdvice, PartialFailure, Rules, ServiceWrapper,
        Settings, Sharing, Transport,
    };

    fn store() -> Arc<CatalogStore> {
        let silent = tower::service_fn(|_: Request<Full<Bytes>>| {
            pending::<Result<Response<Body>, BoxError>>()
        });
        let backend = BackendSettings {
            backend: Backend::new("be"),
            uri: http::Uri::from_static("http://be.test/mcp"),
            transport: Transport::StreamableHttp,
            catalog: Sharing::Shared,
            service: BackendService::new(silent),
            wrapper: ServiceWrapper::default(),
            breaker: None,
            credential_advice: CredentialAdvice::default(),
            message_timeout: Duration::from_secs(1),
            fingerprint: 0,
            service_revision: 0,
        };
        let settings = Settings {
            name: String::new(),
            version: String::new(),
            backends: vec![backend],
            rules: Rules::default(),
            partial_failure: PartialFailure::BestEffort,
            checks: None,
            optimizer: None,
        };
        CatalogStore::new(settings, None, Clock::system()).0
    }

    fn offer(count: usize) -> Arc<Offers> {
        let tools: Vec<_> = (0..count).map(|n| format!(r#"{{"name":"t{n}"}}"#)).collect();
        let tools: Vec<_> = tools.iter().map(String::as_str).collect();
        let offer = Offer { tools: Items::of(Kind::Tools, &tools), ..Offer::default() };
        Arc::new(Offers::same(offer))
    }

    #[tokio::test]
    async fn concurrent_requests_build_one_catalog() {
        for count in [3, MAX_INLINE_ITEMS + 1] {
            let store = store();
            let snapshot = store.snapshot();
            snapshot.backends[0].offers.store(offer(count));
            let first = snapshot.catalog(Generation::Stateful).serial.refer();
            tokio::join!(store.rebuild(|_| {}), store.rebuild(|_| {}), store.rebuild(|_| {}));
            let catalog = snapshot.catalog(Generation::Stateful);
            let made = catalog.serial.refer();
            assert_ne!(made, first);
            assert_eq!(catalog.list(Kind::Tools).len(), count);
            assert_eq!(*store.rebuilds.stored.lock().await, 3);
            store.rebuild(|_| {}).await;
            assert_ne!(snapshot.catalog(Generation::Stateful).serial.refer(), made);
        }
    }
}
