//! What a request to a backend asks for.

use std::sync::Arc;

/// What a request asks its backend for. Whoever sends it knows, and puts this into the request's
/// extensions, so that nobody has to read the message again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    method: &'static str,
    name: Option<Arc<str>>,
}

impl Operation {
    /// The message's method.
    #[must_use]
    pub fn new(method: &'static str) -> Self {
        Self { method, name: None }
    }

    /// The tool or prompt that is asked for, as the backend knows it. It has to be one that exists:
    /// it becomes a label.
    #[must_use]
    pub fn named(mut self, name: impl Into<Arc<str>>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// The message's method.
    #[must_use]
    pub fn method(&self) -> &'static str {
        self.method
    }

    /// The tool or prompt.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }
}
