//! Text of limited size.

use crate::{RenderErrorKind, evaluation_error::EvaluationError};

/// Text of limited size.
#[derive(Debug)]
pub(crate) struct TextBuffer {
    text: String,
    max_bytes: usize,
    /// Kind of the error for a longer text.
    limit: RenderErrorKind,
}

impl TextBuffer {
    pub(crate) fn new(max_bytes: usize, limit: RenderErrorKind) -> Self {
        Self { text: String::new(), max_bytes, limit }
    }

    pub(crate) fn push_str(&mut self, text: &str) -> Result<(), EvaluationError> {
        self.check_room(text.len())?;
        self.text.push_str(text);
        Ok(())
    }

    pub(crate) fn push(&mut self, character: char) -> Result<(), EvaluationError> {
        self.push_str(character.encode_utf8(&mut [0; 4]))
    }

    /// Appends an ASCII character several times.
    pub(crate) fn fill(&mut self, character: char, count: usize) -> Result<(), EvaluationError> {
        self.check_room(count)?;
        self.text.extend(std::iter::repeat_n(character, count));
        Ok(())
    }

    pub(crate) fn into_string(self) -> String {
        self.text
    }

    /// Checks that a number of bytes fits, before work of that size.
    pub(crate) fn check_room(&self, bytes: usize) -> Result<(), EvaluationError> {
        if bytes <= self.max_bytes - self.text.len() {
            return Ok(());
        }
        let max = self.max_bytes;
        let message = format!("the text exceeds {max} bytes; print less");
        Err(EvaluationError::of(self.limit, message))
    }
}
