//! What every implementation of [`Store`] has to hold, as tests that it runs against itself.
//! [`contract!`](crate::contract!) takes a function from [`Limits`](crate::Limits) to a [`TestEnv`], and makes them tests.

use std::sync::Arc;

use vmcp_core::Clock;

use crate::Store;

#[doc(hidden)]
#[macro_use]
pub mod tests;

/// An empty store, seen by two replicas, and the clock that it expires by.
#[derive(Clone, Debug)]
pub struct TestEnv {
    /// The store.
    pub store: Arc<dyn Store>,
    /// The same one, as another replica sees it.
    pub replica: Arc<dyn Store>,
    /// A manual clock that both go by.
    pub clock: Clock,
}
