//! Padding to the width of a directive.

use super::Printer;
use crate::evaluation_error::EvaluationError;

impl Printer<'_> {
    /// Prints a text, padded to the width.
    pub(super) fn pad(&mut self, text: &str) -> Result<(), EvaluationError> {
        let Some(width) = self.flags.width.filter(|width| *width > 0) else {
            return self.output.push_str(text);
        };
        let missing = width.saturating_sub(text.chars().count());
        if self.flags.is_left_aligned {
            self.output.push_str(text)?;
            self.padding(missing)
        } else {
            self.padding(missing)?;
            self.output.push_str(text)
        }
    }

    /// Prints a text, padded with spaces even if the directive asks for zeros.
    pub(super) fn pad_with_spaces(&mut self, text: &str) -> Result<(), EvaluationError> {
        let has_zero = std::mem::take(&mut self.flags.has_zero);
        let printed = self.pad(text);
        self.flags.has_zero = has_zero;
        printed
    }

    pub(super) fn padding(&mut self, count: usize) -> Result<(), EvaluationError> {
        let is_zero = self.flags.has_zero && !self.flags.is_left_aligned;
        self.output.fill(if is_zero { '0' } else { ' ' }, count)
    }
}
