//! Building of catalogs from the backends' offers. Each catalog is built in its own task, so it is completed even if the
//! observer that requested it has ended.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;

use crate::catalog::Conflict;
use crate::gateway_state::{GatewayState, MAX_INLINE_ITEMS};
use crate::sync::lock;

/// Time to collect further changes before a catalog is built.
const GATHER_TIME: Duration = Duration::from_millis(5);

/// Requested and completed catalog builds.
#[derive(Debug, Default)]
pub(crate) struct Rebuilds {
    /// Number of requests covered by the last catalog. Held while a catalog is built or replaced, so an older build cannot
    /// overwrite a newer one.
    stored: tokio::sync::Mutex<u64>,
    /// Number of requests so far.
    requested: AtomicU64,
    /// Time at which the collected changes are built into a catalog. It is shared, so one timer suffices.
    gathered: Mutex<Option<Instant>>,
}

impl Rebuilds {
    /// Prevents catalogs from being stored until the guard is dropped.
    pub(crate) async fn hold(&self) -> impl Drop + use<'_> {
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

impl GatewayState {
    /// Rebuilds the catalog from the current offers and notifies clients of changes. Dropping the future does not stop the
    /// build.
    ///
    /// At a start or after an outage, new offers arrive in bursts. Collecting them saves the time and memory of catalogs that
    /// no client needs.
    pub(crate) async fn rebuild(self: &Arc<Self>) {
        let request = self.rebuilds.requested.fetch_add(1, Ordering::AcqRel) + 1;
        let until = self.rebuilds.gather();
        let gateway = Arc::clone(self);
        let rebuilding = tokio::spawn(async move {
            tokio::time::sleep_until(until).await;
            gateway.rebuild_for(request).await;
        });
        _ = rebuilding.await;
    }

    async fn rebuild_for(&self, request: u64) {
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
            let Ok(catalogs) = tokio::task::spawn_blocking(move || making.combine(&[])).await
            else {
                return;
            };
            catalogs
        };
        let old = snapshot.catalogs();
        let changes = catalogs.changes(&old);
        warn_of_conflicts(catalogs.conflicts(), old.conflicts());
        snapshot.store(catalogs);
        // Set last: requests that are covered do not build another catalog.
        *stored = satisfied;
        self.notify_clients(&changes);
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
    use std::pin::pin;

    use bytes::Bytes;
    use http::{Request, Response};
    use http_body_util::Full;
    use tokio::time::sleep;
    use vmcp_core::{Backend, Body, BoxError, Generation};

    use super::*;
    use crate::catalog::{Items, Kind, Offer, Offers};
    use crate::seal::Seal;
    use crate::settings::{
        Advice, BackendService, BackendSettings, Limits, PartialFailure, Rules, ServiceWrapper,
        Settings, Sharing, Transport,
    };

    fn gateway() -> Arc<GatewayState> {
        let silent = tower::service_fn(|_: Request<Full<Bytes>>| {
            pending::<Result<Response<Body>, BoxError>>()
        });
        let backend = BackendSettings {
            backend: Backend::new("be"),
            uri: http::Uri::from_static("http://be.test/mcp"),
            transport: Transport::StreamableHttp,
            catalog: Sharing::Shared,
            service: BackendService::new(silent),
            around: ServiceWrapper::default(),
            breaker: None,
            advice: Advice::default(),
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
        };
        GatewayState::new(
            settings,
            Limits::default(),
            Seal::new(&[[0; 32]], Duration::from_secs(1)),
        )
    }

    fn offer(count: usize) -> Arc<Offers> {
        let tools: Vec<_> = (0..count).map(|n| format!(r#"{{"name":"t{n}"}}"#)).collect();
        let tools: Vec<_> = tools.iter().map(String::as_str).collect();
        let offer = Offer { tools: Items::of(Kind::Tools, &tools), ..Offer::default() };
        Arc::new(Offers::same(offer))
    }

    #[tokio::test]
    async fn builds_catalog_after_observer_ends() {
        for (count, wait) in [(1, 0), (MAX_INLINE_ITEMS + 1, 0), (MAX_INLINE_ITEMS + 1, 6)] {
            let gateway = gateway();
            let snapshot = gateway.snapshot();
            snapshot.backends[0].offers.store(offer(count));
            let given_up =
                tokio::time::timeout(Duration::from_millis(wait), gateway.rebuild()).await;
            assert!(given_up.is_err() || count > MAX_INLINE_ITEMS, "{count} {wait}");
            let made = pin!(async {
                while snapshot.catalog(Generation::Stateful).list(Kind::Tools).len() != count {
                    sleep(Duration::from_millis(1)).await;
                }
            });
            assert!(tokio::time::timeout(Duration::from_secs(10), made).await.is_ok());
        }
    }

    #[tokio::test]
    async fn concurrent_requests_build_one_catalog() {
        let gateway = gateway();
        let snapshot = gateway.snapshot();
        snapshot.backends[0].offers.store(offer(3));
        let first = snapshot.catalog(Generation::Stateful).serial.refer();
        tokio::join!(gateway.rebuild(), gateway.rebuild(), gateway.rebuild());
        let made = snapshot.catalog(Generation::Stateful).serial.refer();
        assert_ne!(made, first);
        assert_eq!(*gateway.rebuilds.stored.lock().await, 3);
        gateway.rebuild().await;
        assert_ne!(snapshot.catalog(Generation::Stateful).serial.refer(), made);
    }
}
