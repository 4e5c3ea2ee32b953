//! Keyed single flight: of many that want the same thing at once, one fetches it.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::convert::Infallible;
use std::fmt;
use std::hash::Hash;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures_util::future::{FutureExt, Shared};

/// Fetches under way, by key: concurrent callers with the same key share one fetch.
///
/// Every waiting caller drives the fetch, so that a caller that gives up does not fail the others. The fetch is dropped with
/// its last caller. The number of callers bounds the number of fetches.
pub struct Flights<K, T: Clone> {
    under_way: Mutex<HashMap<K, Flight<T>>>,
}

type Flight<T> = Shared<Pin<Box<dyn Future<Output = T> + Send>>>;

/// Guard that removes a fetch that is complete or has no caller left.
struct Leaving<'a, K: Eq + Hash, T: Clone> {
    flights: &'a Flights<K, T>,
    key: &'a K,
    flight: Flight<T>,
}

impl<K: Eq + Hash + Clone, T: Clone + Send + Sync + 'static> Flights<K, T> {
    /// Nothing under way.
    #[must_use]
    pub fn new() -> Self {
        Self { under_way: Mutex::default() }
    }

    /// The outcome of the fetch for `key` that is under way, or else of `fetch`, which is called at
    /// once. Outcomes are not kept: that is a [`Cache`](crate::Cache)'s part, and `fetch` should
    /// put it there before it ends.
    pub async fn join<F>(&self, key: K, fetch: impl FnOnce() -> F) -> T
    where
        F: Future<Output = T> + Send + 'static,
    {
        let Ok(outcome) = self.try_join(key, || Ok::<_, Infallible>(fetch())).await;
        outcome
    }

    /// The outcome of the fetch for `key` that is under way, or else of `fetch`, which may decline to begin one:
    /// only the caller that asked for it learns of that. `fetch` is called under a lock, so it must be quick.
    ///
    /// # Errors
    /// None is under way, and `fetch` declined.
    pub async fn try_join<F, E>(&self, key: K, fetch: impl FnOnce() -> Result<F, E>) -> Result<T, E>
    where
        F: Future<Output = T> + Send + 'static,
    {
        let flight = match self.lock().entry(key.clone()) {
            Entry::Occupied(flight) => flight.get().clone(),
            Entry::Vacant(place) => place.insert(fetch()?.boxed().shared()).clone(),
        };
        let waiting = flight.clone();
        let _leaving = Leaving { flights: self, key: &key, flight };
        Ok(waiting.await)
    }

    /// Returns the number of fetches under way: a gauge.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Returns `true` if no fetch is under way.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<K: Eq + Hash, T: Clone> Flights<K, T> {
    fn lock(&self) -> MutexGuard<'_, HashMap<K, Flight<T>>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Eq + Hash, T: Clone> Drop for Leaving<'_, K, T> {
    fn drop(&mut self) {
        let mut under_way = self.flights.lock();
        let Some(flight) = under_way.get(self.key) else { return };
        // Two handles: the map's and this one's. No caller can join meanwhile: the lock is held.
        let alone = self.flight.strong_count() == Some(2);
        if flight.ptr_eq(&self.flight) && (alone || self.flight.peek().is_some()) {
            under_way.remove(self.key);
        }
    }
}

impl<K: Eq + Hash + Clone, T: Clone + Send + Sync + 'static> Default for Flights<K, T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K, T: Clone> fmt::Debug for Flights<K, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Flights").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_thousand_that_want_the_same_cause_one_fetch() {
        let flights = Arc::new(Flights::new());
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
    async fn who_gives_up_does_not_fail_the_others() {
        let flights = Arc::new(Flights::<_, u8>::new());
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
    async fn declined_fetch_joins_one_under_way() {
        let flights = Arc::new(Flights::<_, u8>::new());
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
    async fn a_fetch_that_nobody_waits_for_is_dropped() {
        let flights = Flights::<_, u8>::new();
        let never = flights.join("key", std::future::pending);
        assert!(tokio::time::timeout(Duration::from_secs(1), never).await.is_err());
        assert!(flights.is_empty());
    }
}
