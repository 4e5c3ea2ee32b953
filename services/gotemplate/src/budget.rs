//! Steps and memory that a rendering may still use.

use crate::{Limits, RenderErrorKind, evaluation_error::EvaluationError, text_buffer::TextBuffer};

/// Remaining steps and memory of a rendering.
#[derive(Debug)]
pub(crate) struct Budget {
    limits: Limits,
    steps: u64,
    memory_bytes: usize,
}

impl Budget {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self { limits: *limits, steps: limits.max_steps, memory_bytes: limits.max_memory_bytes }
    }

    /// Takes one step.
    pub(crate) fn step(&mut self) -> Result<(), EvaluationError> {
        self.steps(1)
    }

    /// Takes as many steps as a work on `amount` elements costs.
    pub(crate) fn steps(&mut self, amount: usize) -> Result<(), EvaluationError> {
        let rest = u64::try_from(amount).ok().and_then(|amount| self.steps.checked_sub(amount));
        self.steps = rest.ok_or_else(|| {
            let max = self.limits.max_steps;
            let message =
                format!("the template takes more than {max} steps; iterate over fewer elements");
            EvaluationError::of(RenderErrorKind::StepLimit, message)
        })?;
        Ok(())
    }

    /// Returns a buffer for the text that a function returns.
    pub(crate) fn text_buffer(&self) -> TextBuffer {
        TextBuffer::new(self.memory_bytes, RenderErrorKind::MemoryLimit)
    }

    /// Counts the memory of a function's result.
    pub(crate) fn memory(&mut self, bytes: usize) -> Result<(), EvaluationError> {
        let rest = self.memory_bytes.checked_sub(bytes);
        self.memory_bytes = rest.ok_or_else(|| {
            let max = self.limits.max_memory_bytes;
            let message = format!("results of functions need more than {max} bytes; shorten them");
            EvaluationError::of(RenderErrorKind::MemoryLimit, message)
        })?;
        Ok(())
    }

    pub(crate) fn max_depth(&self) -> usize {
        self.limits.max_depth
    }
}
