//! `json`: values as JSON text, in the notation of Go's `encoding/json`.

use crate::{
    RenderErrorKind,
    datum::Datum,
    evaluation_error::EvaluationError,
    format::{MAX_DATA_DEPTH, exponential_json, fixed_json},
    text_buffer::TextBuffer,
};

/// Writes a value.
pub(super) fn write(
    buffer: &mut TextBuffer,
    value: &Datum<'_>,
    depth: usize,
) -> Result<(), EvaluationError> {
    if depth > MAX_DATA_DEPTH {
        let message = format!("the data are nested deeper than {MAX_DATA_DEPTH}; print a part");
        return Err(EvaluationError::of(RenderErrorKind::DepthLimit, message));
    }
    match value {
        Datum::Absent | Datum::Null => buffer.push_str("null"),
        Datum::Boolean(true) => buffer.push_str("true"),
        Datum::Boolean(false) => buffer.push_str("false"),
        Datum::Integer(number) => buffer.push_str(&number.to_string()),
        Datum::Byte(number) => buffer.push_str(&number.to_string()),
        Datum::Float(number) => write_float(buffer, *number),
        Datum::Whole(number) => buffer.push_str(&number.to_string()),
        Datum::Text(text) => write_text(buffer, text.as_str()),
        Datum::List(list) => {
            buffer.push('[')?;
            for (index, item) in list.iter().enumerate() {
                if index > 0 {
                    buffer.push(',')?;
                }
                write(buffer, &item, depth + 1)?;
            }
            buffer.push(']')
        }
        Datum::Map(map) => {
            buffer.push('{')?;
            for (index, (key, item)) in map.sorted().into_iter().enumerate() {
                if index > 0 {
                    buffer.push(',')?;
                }
                write_text(buffer, key.as_str())?;
                buffer.push(':')?;
                write(buffer, &item, depth + 1)?;
            }
            buffer.push('}')
        }
    }
}

/// Writes a number without an exponent from 1e-6 up to 1e21.
fn write_float(buffer: &mut TextBuffer, number: f64) -> Result<(), EvaluationError> {
    if !number.is_finite() {
        return Err(EvaluationError::new(
            "JSON has no infinite numbers; pass a number below 1.8e308",
        ));
    }
    let magnitude = number.abs();
    let is_exponential = magnitude != 0.0 && !(1e-6..1e21).contains(&magnitude);
    if number.is_sign_negative() {
        buffer.push('-')?;
    }
    let digits = if is_exponential { exponential_json(magnitude) } else { fixed_json(magnitude) };
    buffer.push_str(&digits)
}

/// Writes a text in quotes. Characters with a meaning in HTML or JavaScript are escaped.
fn write_text(buffer: &mut TextBuffer, text: &str) -> Result<(), EvaluationError> {
    buffer.push('"')?;
    let mut start = 0;
    for (at, character) in text.char_indices() {
        let short = match character {
            '"' => "\\\"",
            '\\' => "\\\\",
            '\x08' => "\\b",
            '\x0c' => "\\f",
            '\n' => "\\n",
            '\r' => "\\r",
            '\t' => "\\t",
            '\0'..='\x1f' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => "",
            _ => continue,
        };
        buffer.push_str(&text[start..at])?;
        start = at + character.len_utf8();
        if short.is_empty() {
            buffer.push_str(&format!("\\u{:04x}", u32::from(character)))?;
        } else {
            buffer.push_str(short)?;
        }
    }
    buffer.push_str(&text[start..])?;
    buffer.push('"')
}
