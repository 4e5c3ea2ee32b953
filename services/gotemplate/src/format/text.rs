//! Texts: `%s`, `%q`, `%x`.

use super::{
    Printer,
    quote::{can_backquote, quote, quote_ascii},
};
use crate::evaluation_error::EvaluationError;

impl Printer<'_> {
    pub(super) fn text(&mut self, text: &str, verb: char) -> Result<(), EvaluationError> {
        match verb {
            'x' | 'X' => self.hexadecimal(text.as_bytes(), verb == 'X'),
            'q' => self.quoted(text),
            'v' if self.flags.is_go_syntax => self.quoted(text),
            _ => {
                let text = self.truncated(text);
                self.pad(text)
            }
        }
    }

    fn truncated<'t>(&self, text: &'t str) -> &'t str {
        let Some(precision) = self.flags.precision else { return text };
        text.char_indices().nth(precision).map_or(text, |(end, _)| &text[..end])
    }

    fn quoted(&mut self, text: &str) -> Result<(), EvaluationError> {
        let text = self.truncated(text);
        self.output.check_room(text.len())?;
        if self.flags.has_prefix && can_backquote(text) {
            return self.pad(&format!("`{text}`"));
        }
        let quoted = if self.flags.has_plus { quote_ascii(text) } else { quote(text) };
        self.pad(&quoted)
    }

    /// Prints bytes in hexadecimal. The precision limits their number.
    fn hexadecimal(&mut self, bytes: &[u8], is_upper: bool) -> Result<(), EvaluationError> {
        let length = self.flags.precision.map_or(bytes.len(), |it| it.min(bytes.len()));
        self.output.check_room(length)?;
        if length == 0 {
            return self.padding(self.flags.width.unwrap_or(0));
        }
        let prefix = if is_upper { "0X" } else { "0x" };
        let mut encoded = String::with_capacity(2 * length);
        for (index, byte) in bytes[..length].iter().enumerate() {
            if index > 0 && self.flags.has_space {
                encoded.push(' ');
            }
            if self.flags.has_prefix && (index == 0 || self.flags.has_space) {
                encoded.push_str(prefix);
            }
            let digits = if is_upper { format!("{byte:02X}") } else { format!("{byte:02x}") };
            encoded.push_str(&digits);
        }
        self.pad(&encoded)
    }
}
