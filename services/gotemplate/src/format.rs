//! Printing of values as Go's `fmt` prints them: `%v` and the other verbs.

mod directive;
mod float;
mod integer;
mod pad;
mod printf;
mod quote;
mod text;

pub(crate) use self::{
    directive::Flags,
    float::{exponential_json, fixed_json},
    printf::printf,
    quote::quote,
};
use crate::{
    RenderErrorKind,
    datum::{Datum, List, Map},
    evaluation_error::EvaluationError,
    text_buffer::TextBuffer,
};

/// Maximum nesting of printed data. It bounds the recursion.
pub(crate) const MAX_DATA_DEPTH: usize = 256;

/// Printer of values with the flags of one directive.
#[derive(Debug)]
pub(crate) struct Printer<'o> {
    output: &'o mut TextBuffer,
    flags: Flags,
}

impl<'o> Printer<'o> {
    pub(crate) fn new(output: &'o mut TextBuffer) -> Self {
        Self { output, flags: Flags::default() }
    }

    /// Prints a value by default, as `print` and an action do.
    pub(crate) fn print(output: &mut TextBuffer, value: &Datum<'_>) -> Result<(), EvaluationError> {
        Printer::new(output).argument(value, 'v')
    }

    /// Prints an argument of a function.
    fn argument(&mut self, value: &Datum<'_>, verb: char) -> Result<(), EvaluationError> {
        match verb {
            'T' | 'v' if !value.is_present() => self.pad(value.type_name()),
            'T' => self.text(value.type_name(), 's'),
            // Of a map or list, Go prints the address.
            'p' => self.bad_verb(value, verb),
            _ if !value.is_present() => self.bad_verb(value, verb),
            _ => self.value(value, verb, 0),
        }
    }

    fn value(
        &mut self,
        value: &Datum<'_>,
        verb: char,
        depth: usize,
    ) -> Result<(), EvaluationError> {
        if depth > MAX_DATA_DEPTH {
            let message = format!("the data are nested deeper than {MAX_DATA_DEPTH}; print a part");
            return Err(EvaluationError::of(RenderErrorKind::DepthLimit, message));
        }
        match value {
            Datum::Absent | Datum::Null if self.flags.is_go_syntax => {
                self.output.push_str("interface {}(nil)")
            }
            Datum::Absent | Datum::Null => self.output.push_str("<nil>"),
            _ if verb == 'w' => self.bad_verb(value, verb),
            Datum::Boolean(truth) => match verb {
                't' | 'v' => self.pad(if *truth { "true" } else { "false" }),
                _ => self.bad_verb(value, verb),
            },
            Datum::Integer(number) => {
                let is_handled = self.integer(number.unsigned_abs(), *number < 0, verb)?;
                if is_handled { Ok(()) } else { self.bad_verb(value, verb) }
            }
            Datum::Byte(number) => {
                let is_handled = self.byte(*number, verb)?;
                if is_handled { Ok(()) } else { self.bad_verb(value, verb) }
            }
            Datum::Float(number) => {
                let is_handled = self.float(*number, None, verb)?;
                if is_handled { Ok(()) } else { self.bad_verb(value, verb) }
            }
            Datum::Whole(number) => {
                let is_handled = self.float(number.to_f64(), Some(*number), verb)?;
                if is_handled { Ok(()) } else { self.bad_verb(value, verb) }
            }
            Datum::Text(text) => match verb {
                'v' | 's' | 'x' | 'X' | 'q' => self.text(text.as_str(), verb),
                _ => self.bad_verb(value, verb),
            },
            Datum::List(list) => self.list(list, verb, depth),
            Datum::Map(map) => self.map(map, verb, depth),
        }
    }

    fn list(&mut self, list: &List<'_>, verb: char, depth: usize) -> Result<(), EvaluationError> {
        let (open, separator, close) =
            if self.flags.is_go_syntax { ("[]interface {}{", ", ", "}") } else { ("[", " ", "]") };
        self.output.push_str(open)?;
        for (index, item) in list.iter().enumerate() {
            if index > 0 {
                self.output.push_str(separator)?;
            }
            self.value(&item, verb, depth + 1)?;
        }
        self.output.push_str(close)
    }

    fn map(&mut self, map: &Map<'_>, verb: char, depth: usize) -> Result<(), EvaluationError> {
        let (open, separator, close) = if self.flags.is_go_syntax {
            ("map[string]interface {}{", ", ", "}")
        } else {
            ("map[", " ", "]")
        };
        self.output.push_str(open)?;
        for (index, (key, item)) in map.sorted().into_iter().enumerate() {
            if index > 0 {
                self.output.push_str(separator)?;
            }
            self.value(&Datum::Text(key), verb, depth + 1)?;
            self.output.push(':')?;
            self.value(&item, verb, depth + 1)?;
        }
        self.output.push_str(close)
    }

    /// Prints a value whose type the verb does not support.
    fn bad_verb(&mut self, value: &Datum<'_>, verb: char) -> Result<(), EvaluationError> {
        self.output.push_str("%!")?;
        self.output.push(verb)?;
        self.output.push('(')?;
        self.output.push_str(value.type_name())?;
        if value.is_present() {
            self.output.push('=')?;
            self.value(value, 'v', 0)?;
        }
        self.output.push(')')
    }
}
