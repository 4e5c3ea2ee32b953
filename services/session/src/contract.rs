//! Tests that every implementation of [`SessionStorage`] has to pass. [`contract!`](crate::contract!) generates them from a
//! function that returns a [`TestStorage`].

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;

use crate::SessionStorage;

#[doc(hidden)]
#[macro_use]
pub mod tests;

/// Empty storage, seen by two replicas that hear each other.
#[derive(Clone, Debug)]
pub struct TestStorage {
    /// Storage.
    pub storage: Arc<dyn SessionStorage>,
    /// The same storage as another replica sees it.
    pub replica: Arc<dyn SessionStorage>,
    /// Function that lets time pass: it waits, or advances a paused clock.
    pub advance: fn(Duration) -> BoxFuture<'static, ()>,
    /// Time, in milliseconds since 1970.
    pub now: u64,
    /// Time to live of sessions in the replicas.
    pub ttl: Duration,
}
