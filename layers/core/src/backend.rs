//! Which backend a request goes to.

use std::fmt;
use std::sync::Arc;

/// The name of a backend, in the extensions of every request that goes out to it.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Backend(Arc<str>);

impl Backend {
    /// Creates the backend that the configuration calls `name`.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self(name.into())
    }

    /// Its name in the configuration.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
