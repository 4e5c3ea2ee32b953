//! Tests that every implementation of [`Store`] has to pass. [`contract!`](crate::contract!)
//! generates them from a function that maps [`Limits`](crate::Limits) to a [`TestEnv`].

use std::sync::Arc;

use vmcp_core::Clock;

use crate::Store;

#[doc(hidden)]
#[macro_use]
pub mod tests;

/// Empty store, seen by two replicas, and its clock.
#[derive(Clone, Debug)]
pub struct TestEnv {
    /// Store.
    pub store: Arc<dyn Store>,
    /// The same store as another replica sees it.
    pub replica: Arc<dyn Store>,
    /// Manual clock of both.
    pub clock: Clock,
}
