//! Format strings.

use super::{Flags, Printer};
use crate::{datum::Datum, evaluation_error::EvaluationError, text_buffer::TextBuffer};

/// Maximum width and precision, as in Go.
const MAX_NUMBER: usize = 1_000_000;

/// Maximum distance of the bracket that closes an index. It bounds the work on a format without such brackets.
const MAX_INDEX_BYTES: usize = 1_000;

/// Prints arguments as a format string asks for. Errors in it are part of the text, as in Go: `%!d(string=x)`.
pub(crate) fn printf(
    output: &mut TextBuffer,
    format: &str,
    arguments: &[Datum<'_>],
) -> Result<(), EvaluationError> {
    let printer = Printer::new(output);
    let mut reader = FormatReader {
        format,
        at: 0,
        arguments,
        next: 0,
        is_reordered: false,
        is_valid_index: true,
        printer,
    };
    while reader.directive()? {}
    reader.extra_arguments()
}

/// Format string that is being printed.
struct FormatReader<'f, 'a, 'o> {
    format: &'f str,
    /// Offset of the next character.
    at: usize,
    arguments: &'f [Datum<'a>],
    /// Index of the next argument.
    next: usize,
    /// A directive selected its argument: `%[2]d`.
    is_reordered: bool,
    /// The arguments that the current directive selects exist.
    is_valid_index: bool,
    printer: Printer<'o>,
}

impl FormatReader<'_, '_, '_> {
    /// Prints the text up to the next directive, and that directive. Returns whether there was one.
    fn directive(&mut self) -> Result<bool, EvaluationError> {
        let rest = &self.format[self.at..];
        let Some(length) = rest.find('%') else {
            self.printer.output.push_str(rest)?;
            return Ok(false);
        };
        self.printer.output.push_str(&rest[..length])?;
        self.at += length + 1;
        self.is_valid_index = true;
        self.printer.flags = Flags::default();
        while self.peek().is_some_and(|flag| self.printer.flags.set(flag)) {
            self.at += 1;
        }
        let mut is_after_index = self.argument_index();
        if self.accept(b'*') {
            self.star_width()?;
            is_after_index = false;
        } else {
            self.printer.flags.width = self.number();
            if is_after_index && self.printer.flags.width.is_some() {
                self.is_valid_index = false;
            }
        }
        // A point at the end of the format is a verb.
        if self.at + 1 < self.format.len() && self.accept(b'.') {
            if is_after_index {
                self.is_valid_index = false;
            }
            is_after_index = self.argument_index();
            if self.accept(b'*') {
                self.star_precision()?;
                is_after_index = false;
            } else {
                self.printer.flags.precision = Some(self.number().unwrap_or(0));
            }
        }
        if !is_after_index {
            self.argument_index();
        }
        self.verb()
    }

    fn verb(&mut self) -> Result<bool, EvaluationError> {
        let Some(verb) = self.format[self.at..].chars().next() else {
            self.printer.output.push_str("%!(NOVERB)")?;
            return Ok(false);
        };
        self.at += verb.len_utf8();
        if verb == '%' {
            self.printer.output.push('%')?;
        } else if !self.is_valid_index {
            self.bad_directive(verb, "(BADINDEX)")?;
        } else if let Some(argument) = self.arguments.get(self.next) {
            self.next += 1;
            self.printer.flags = self.printer.flags.for_verb(verb);
            self.printer.argument(argument, verb)?;
        } else {
            self.bad_directive(verb, "(MISSING)")?;
        }
        Ok(true)
    }

    fn bad_directive(&mut self, verb: char, text: &str) -> Result<(), EvaluationError> {
        self.printer.output.push_str("%!")?;
        self.printer.output.push(verb)?;
        self.printer.output.push_str(text)
    }

    /// Prints the arguments without a directive.
    fn extra_arguments(&mut self) -> Result<(), EvaluationError> {
        let extra = self.arguments.get(self.next..).unwrap_or_default();
        if self.is_reordered || extra.is_empty() {
            return Ok(());
        }
        self.printer.flags = Flags::default();
        self.printer.output.push_str("%!(EXTRA ")?;
        for (index, argument) in extra.iter().enumerate() {
            if index > 0 {
                self.printer.output.push_str(", ")?;
            }
            self.printer.output.push_str(argument.type_name())?;
            if argument.is_present() {
                self.printer.output.push('=')?;
                self.printer.argument(argument, 'v')?;
            }
        }
        self.printer.output.push(')')
    }

    /// Selects the argument that an index in brackets names. Returns whether there is a well-formed index.
    fn argument_index(&mut self) -> bool {
        if self.peek() != Some(b'[') {
            return false;
        }
        self.is_reordered = true;
        let rest = &self.format[self.at..];
        let near = rest.bytes().take(MAX_INDEX_BYTES);
        let Some(close) = near.into_iter().position(|it| it == b']').filter(|_| rest.len() >= 3)
        else {
            self.at += 1;
            self.is_valid_index = false;
            return false;
        };
        self.at += close + 1;
        let digits = &rest[1..close];
        let is_number = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
        let number =
            digits.parse::<usize>().ok().filter(|number| is_number && *number <= 10 * MAX_NUMBER);
        match number.and_then(|number| number.checked_sub(1)) {
            Some(index) if index < self.arguments.len() => {
                self.next = index;
                true
            }
            _ => {
                self.is_valid_index = false;
                number.is_some()
            }
        }
    }

    /// Takes the width from an argument. A negative one aligns to the left.
    fn star_width(&mut self) -> Result<(), EvaluationError> {
        let width = self.integer_argument();
        self.printer.flags.width = width.map(i64::unsigned_abs).and_then(|it| it.try_into().ok());
        match width {
            None => self.printer.output.push_str("%!(BADWIDTH)")?,
            Some(width) if width < 0 => {
                self.printer.flags.is_left_aligned = true;
                self.printer.flags.has_zero = false;
            }
            Some(_) => {}
        }
        Ok(())
    }

    fn star_precision(&mut self) -> Result<(), EvaluationError> {
        let precision = self.integer_argument().and_then(|it| usize::try_from(it).ok());
        self.printer.flags.precision = precision;
        if precision.is_none() {
            self.printer.output.push_str("%!(BADPREC)")?;
        }
        Ok(())
    }

    /// Takes the next argument as a width or precision.
    fn integer_argument(&mut self) -> Option<i64> {
        let argument = self.arguments.get(self.next)?;
        self.next += 1;
        let number = match argument {
            Datum::Integer(number) => *number,
            Datum::Byte(number) => i64::from(*number),
            _ => return None,
        };
        let is_small = number.unsigned_abs() <= MAX_NUMBER as u64;
        is_small.then_some(number)
    }

    /// Consumes a number.
    fn number(&mut self) -> Option<usize> {
        let mut number = None;
        while let Some(digit) = self.peek().filter(u8::is_ascii_digit) {
            let value: usize = number.unwrap_or(0);
            if value > MAX_NUMBER {
                // As in Go, the rest of the format is lost.
                self.at = self.format.len();
                return None;
            }
            number = Some(value * 10 + usize::from(digit - b'0'));
            self.at += 1;
        }
        number
    }

    fn peek(&self) -> Option<u8> {
        self.format.as_bytes().get(self.at).copied()
    }

    fn accept(&mut self, character: u8) -> bool {
        let is_accepted = self.peek() == Some(character);
        self.at += usize::from(is_accepted);
        is_accepted
    }
}
