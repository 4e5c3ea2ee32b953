//! Keyed single flight: concurrent callers with the same key share one fetch.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::convert::Infallible;
use std::fmt;
use std::hash::Hash;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard};

use futures_util::future::{FutureExt, Shared};

/// Fetches in flight, by key: concurrent callers with the same key share one fetch.
///
/// Every waiting caller drives the fetch, so that a caller that gives up does not fail the others. The fetch is dropped with
/// its last caller. The number of callers bounds the number of fetches.
pub struct SingleFlight<K, T: Clone> {
    in_flight: Mutex<HashMap<K, SharedFetch<T>>>,
}

type SharedFetch<T> = Shared<Pin<Box<dyn Future<Output = T> + Send>>>;

/// Guard that removes a fetch that is complete or has no caller left.
struct FetchGuard<'a, K: Eq + Hash, T: Clone> {
    flights: &'a SingleFlight<K, T>,
    key: &'a K,
    fetch: SharedFetch<T>,
}

impl<K: Eq + Hash + Clone, T: Clone + Send + Sync + 'static> SingleFlight<K, T> {
    /// Creates a `SingleFlight` without fetches.
    #[must_use]
    pub fn new() -> Self {
        Self { in_flight: Mutex::default() }
    }

    /// Returns the outcome of the fetch for `key` that is in flight, or else of `fetch`, which is called immediately.
    /// Outcomes are not stored: `fetch` should put its outcome into a [`Cache`](crate::Cache) before it ends.
    pub async fn join<F>(&self, key: K, fetch: impl FnOnce() -> F) -> T
    where
        F: Future<Output = T> + Send + 'static,
    {
        let Ok(outcome) = self.try_join(key, || Ok::<_, Infallible>(fetch())).await;
        outcome
    }

    /// Returns the outcome of the fetch for `key` that is in flight, or else of `fetch`, which may decline to start one: only
    /// its own caller gets that error. `fetch` is called under a lock, so it must be quick.
    ///
    /// # Errors
    /// None is in flight, and `fetch` declined.
    pub async fn try_join<F, E>(&self, key: K, fetch: impl FnOnce() -> Result<F, E>) -> Result<T, E>
    where
        F: Future<Output = T> + Send + 'static,
    {
        let shared = match self.lock().entry(key.clone()) {
            Entry::Occupied(entry) => entry.get().clone(),
            Entry::Vacant(entry) => entry.insert(fetch()?.boxed().shared()).clone(),
        };
        let waiting = shared.clone();
        let _guard = FetchGuard { flights: self, key: &key, fetch: shared };
        Ok(waiting.await)
    }

    /// Returns the number of fetches in flight: a gauge.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Returns `true` if no fetch is in flight.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<K: Eq + Hash, T: Clone> SingleFlight<K, T> {
    fn lock(&self) -> MutexGuard<'_, HashMap<K, SharedFetch<T>>> {
        crate::lock(&self.in_flight)
    }
}

impl<K: Eq + Hash, T: Clone> Drop for FetchGuard<'_, K, T> {
    fn drop(&mut self) {
        let mut in_flight = self.flights.lock();
        let Some(current) = in_flight.get(self.key) else { return };
        // Two handles: the map's and this one's. No caller can join meanwhile: the lock is held.
        let is_last = self.fetch.strong_count() == Some(2);
        if current.ptr_eq(&self.fetch) && (is_last || self.fetch.peek().is_some()) {
            in_flight.remove(self.key);
        }
    }
}

impl<K: Eq + Hash + Clone, T: Clone + Send + Sync + 'static> Default for SingleFlight<K, T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K, T: Clone> fmt::Debug for SingleFlight<K, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SingleFlight").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn concurrent_callers_share_one_fetch() {
        let flights = Arc::new(SingleFlight::new());
        let fetched = Arc::new(AtomicUsize::new(0));
        let waiting: Vec<_> = (0..1000)
            .map(|_| {
                let (flights, fetched) = (Arc::clone(&flights), Arc::clone(&fetched));
                tokio::spawn(async move {
                    let fetch = || async move {
                        tokio::time::sleep(Duration::from_secs(1)).await;
                        fetched.fetch_add(1, Ordering::Relaxed)
                    };
                    flights.join("key", fetch).await
                })
            })
            .collect();
        for one in waiting {
            assert_eq!(one.await.unwrap(), 0);
        }
        assert_eq!((fetched.load(Ordering::Relaxed), flights.len()), (1, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn cancelled_caller_does_not_fail_the_others() {
        let flights = Arc::new(SingleFlight::<_, u8>::new());
        let slow = || async {
            tokio::time::sleep(Duration::from_secs(2)).await;
            7
        };
        let first = {
            let flights = Arc::clone(&flights);
            tokio::spawn(async move { flights.join("key", slow).await })
        };
        tokio::time::sleep(Duration::from_secs(1)).await;
        let second = {
            let flights = Arc::clone(&flights);
            tokio::spawn(async move { flights.join("key", || async { 8 }).await })
        };
        tokio::task::yield_now().await;
        first.abort();
        assert_eq!(second.await.unwrap(), 7);
        assert!(flights.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn declined_fetch_joins_one_in_flight() {
        let flights = Arc::new(SingleFlight::<_, u8>::new());
        let decline = || Err::<std::future::Ready<u8>, _>("declined");
        assert_eq!(flights.try_join("key", decline).await, Err("declined"));
        assert!(flights.is_empty());
        let slow = || async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            7
        };
        let (first, second) = tokio::join!(
            flights.try_join("key", || Ok::<_, &str>(slow())),
            flights.try_join("key", decline),
        );
        assert_eq!((first, second), (Ok(7), Ok(7)));
    }

    #[tokio::test(start_paused = true)]
    async fn drops_fetch_without_callers() {
        let flights = SingleFlight::<_, u8>::new();
        let never = flights.join("key", std::future::pending);
        assert!(tokio::time::timeout(Duration::from_secs(1), never).await.is_err());
        assert!(flights.is_empty());
    }
}
