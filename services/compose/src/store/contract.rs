//! Tests that every implementation of [`WorkflowStore`] has to pass. [`contract!`](crate::contract!) generates them from an
//! asynchronous function that maps [`StoreLimits`](crate::StoreLimits) to a [`TestStore`].

use std::sync::Arc;

use vmcp_core::Clock;

use crate::WorkflowStore;

#[doc(hidden)]
#[macro_use]
pub mod tests;

/// Empty store, seen by two replicas, and its clock.
#[derive(Clone, Debug)]
pub struct TestStore {
    /// Store.
    pub store: Arc<dyn WorkflowStore>,
    /// The same store as another replica sees it.
    pub replica: Arc<dyn WorkflowStore>,
    /// Manual clock of both.
    pub clock: Clock,
}
