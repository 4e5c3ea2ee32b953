//! Errors during a rendering, before their position is known.

use crate::RenderErrorKind;

/// Error during a rendering.
#[derive(Debug)]
pub(crate) struct EvaluationError {
    pub(crate) kind: RenderErrorKind,
    pub(crate) message: String,
    /// Byte offset of the innermost operand.
    pub(crate) at: Option<usize>,
}

impl EvaluationError {
    /// Creates an error of the template or its data.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self::of(RenderErrorKind::Evaluation, message)
    }

    pub(crate) fn of(kind: RenderErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), at: None }
    }

    /// Adds the position, unless an inner one is known.
    pub(crate) fn at(mut self, at: usize) -> Self {
        self.at.get_or_insert(at);
        self
    }
}
