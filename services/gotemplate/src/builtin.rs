//! Functions of templates, on evaluated arguments.

mod compare;
mod element;
mod from_json;
mod json;

use crate::{
    budget::Budget,
    datum::{Datum, Text},
    evaluation_error::EvaluationError,
    format::{Printer, printf, quote},
    function::Function,
    text_buffer::TextBuffer,
};

/// Calls a function.
///
/// The caller checks the number of arguments.
pub(crate) fn call<'a>(
    function: Function,
    arguments: &[Datum<'a>],
    budget: &mut Budget,
) -> Result<Datum<'a>, EvaluationError> {
    let first = arguments.first().unwrap_or(&Datum::Absent);
    match function {
        Function::And | Function::Or => {
            let decides = |it: &&Datum<'_>| it.is_true() == (function == Function::Or);
            let value = arguments.iter().find(decides).or(arguments.last());
            Ok(value.cloned().unwrap_or(Datum::Absent))
        }
        Function::Eq | Function::Ne | Function::Lt | Function::Le | Function::Gt | Function::Ge => {
            compare::compare(function, first, arguments, budget).map(Datum::Boolean)
        }
        Function::FromJson => from_json::from_json(text(function, first)?, budget),
        Function::Index => element::index(first, &arguments[1..]),
        Function::Json => write(budget, |buffer| json::write(buffer, first, 0)),
        Function::Len => element::len(first),
        Function::Not => Ok(Datum::Boolean(!first.is_true())),
        Function::Print => write(budget, |buffer| print(buffer, arguments)),
        Function::Printf => {
            let format = text(function, first)?;
            budget.steps(format.len() / 16)?;
            write(budget, |buffer| printf(buffer, format, &arguments[1..]))
        }
        Function::Println => write(budget, |buffer| println(buffer, arguments)),
        Function::Quote => {
            let text = text(function, first)?;
            write(budget, |buffer| {
                buffer.check_room(text.len())?;
                buffer.push_str(&quote(text))
            })
        }
        Function::Slice => element::slice(first, &arguments[1..]),
        Function::Urlquery => {
            let Datum::Text(text) = write(budget, |buffer| print_present(buffer, arguments))?
            else {
                return Ok(Datum::Absent);
            };
            write(budget, |buffer| percent_encode(buffer, text.as_str()))
        }
    }
}

/// Writes the text that a function returns.
fn write<'a>(
    budget: &mut Budget,
    content: impl FnOnce(&mut TextBuffer) -> Result<(), EvaluationError>,
) -> Result<Datum<'a>, EvaluationError> {
    let mut buffer = budget.text_buffer();
    content(&mut buffer)?;
    let text = buffer.into_string();
    budget.memory(text.len())?;
    Ok(Datum::Text(Text::from(text)))
}

/// Returns the argument of a function that accepts text only.
fn text<'t>(function: Function, value: &'t Datum<'_>) -> Result<&'t str, EvaluationError> {
    match value {
        Datum::Text(text) => Ok(text.as_str()),
        other => {
            let (name, found) = (function.name(), other.description());
            let hint = match function {
                Function::Quote => "; use json for other values",
                Function::FromJson => "; other values need no parsing",
                _ => "",
            };
            Err(EvaluationError::new(format!("{name} accepts text, not {found}{hint}")))
        }
    }
}

/// Prints values with spaces between those that are not texts.
fn print(buffer: &mut TextBuffer, values: &[Datum<'_>]) -> Result<(), EvaluationError> {
    let mut was_text = true;
    for (index, value) in values.iter().enumerate() {
        let is_text = matches!(value, Datum::Text(_));
        if index > 0 && !is_text && !was_text {
            buffer.push(' ')?;
        }
        Printer::print(buffer, value)?;
        was_text = is_text;
    }
    Ok(())
}

/// Prints values with spaces between them and a line feed at their end.
fn println(buffer: &mut TextBuffer, values: &[Datum<'_>]) -> Result<(), EvaluationError> {
    for (index, value) in values.iter().enumerate() {
        if index > 0 {
            buffer.push(' ')?;
        }
        Printer::print(buffer, value)?;
    }
    buffer.push('\n')
}

/// Prints values as [`print`] does, but absent ones as an action prints them.
fn print_present(buffer: &mut TextBuffer, values: &[Datum<'_>]) -> Result<(), EvaluationError> {
    let shown: Vec<_> = values
        .iter()
        .map(|value| match value {
            Datum::Absent | Datum::Null => Datum::Text(Text::Borrowed("<no value>")),
            other => other.clone(),
        })
        .collect();
    print(buffer, &shown)
}

/// Encodes a text for the query of a URL.
fn percent_encode(buffer: &mut TextBuffer, text: &str) -> Result<(), EvaluationError> {
    for byte in text.bytes() {
        match byte {
            b' ' => buffer.push('+')?,
            b'-' | b'_' | b'.' | b'~' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => {
                buffer.push(char::from(byte))?;
            }
            other => {
                buffer.push('%')?;
                for digit in [other >> 4, other & 15] {
                    buffer.push(char::from(b"0123456789ABCDEF"[usize::from(digit)]))?;
                }
            }
        }
    }
    Ok(())
}
