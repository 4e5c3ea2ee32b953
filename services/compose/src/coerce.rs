//! Conversion of rendered text to the types of schemas.

use serde_json::{Number, Value};
use vmcp_config::composite::OutputType;

/// Text that a template prints for an absent value.
pub(crate) const NO_VALUE: &str = "<no value>";

/// Numbers from here on are not exact as floating-point numbers.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// Converts text to `kind`. `None` if the text is not of that type.
pub(crate) fn text(text: &str, kind: OutputType) -> Option<Value> {
    match kind {
        OutputType::String => Some(text.into()),
        OutputType::Integer => integer(text),
        OutputType::Number => number(text),
        OutputType::Boolean => boolean(text).map(Value::Bool),
        OutputType::Object => parse_json(text).filter(Value::is_object),
        OutputType::Array => parse_json(text).filter(Value::is_array),
    }
}

/// Converts a configured default to `kind`. Fractions of an integer are cut off.
pub(crate) fn default(value: &Value, kind: OutputType) -> Option<Value> {
    match (kind, value) {
        (OutputType::String, Value::String(_))
        | (OutputType::Number, Value::Number(_))
        | (OutputType::Boolean, Value::Bool(_))
        | (OutputType::Object, Value::Object(_))
        | (OutputType::Array, Value::Array(_)) => Some(value.clone()),
        (OutputType::String, Value::Null) => None,
        (OutputType::String, value) => Some(value.to_string().into()),
        (OutputType::Integer, Value::Number(number)) => truncate(number),
        (OutputType::Boolean, Value::Number(number)) => match number.as_i64() {
            Some(0) => Some(Value::Bool(false)),
            Some(1) => Some(Value::Bool(true)),
            _ => None,
        },
        (kind, Value::String(value)) => text(value, kind),
        _ => None,
    }
}

fn truncate(number: &Number) -> Option<Value> {
    if number.is_i64() || number.is_u64() {
        return Some(Value::Number(number.clone()));
    }
    let whole = number.as_f64()?.trunc();
    #[allow(clippy::cast_possible_truncation)] // The range was checked.
    (whole.abs() < EXACT).then(|| Value::from(whole as i64))
}

/// Reads a boolean as Go's `strconv.ParseBool`.
fn boolean(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
        _ => None,
    }
}

/// Reads a whole number of up to 64 bits, with or without a sign.
fn integer(text: &str) -> Option<Value> {
    text.parse::<i64>().map(Value::from).or_else(|_| text.parse::<u64>().map(Value::from)).ok()
}

/// Reads a finite number; whole ones stay whole.
fn number(text: &str) -> Option<Value> {
    if let Some(whole) = integer(text) {
        return Some(whole);
    }
    let is_plain = text.bytes().all(|b| b.is_ascii_digit() || b"+-.eE".contains(&b));
    text.parse::<f64>().ok().filter(|_| is_plain).and_then(Number::from_f64).map(Value::Number)
}

fn parse_json(text: &str) -> Option<Value> {
    serde_json::from_str(text).ok()
}

/// Converts the text of an argument to the type that the schema of the tool's input names for it. Text that does not fit stays,
/// and the tool rejects it. Text never becomes an object or array.
pub(crate) fn argument(current: String, schema: Option<&Value>) -> Value {
    let kind = match schema.and_then(|schema| schema.get("type")).and_then(Value::as_str) {
        Some("integer") => OutputType::Integer,
        Some("number") => OutputType::Number,
        Some("boolean") => OutputType::Boolean,
        _ => return current.into(),
    };
    text(&current, kind).unwrap_or_else(|| current.into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn text_converts_as_in_go() {
        for (given, kind, expected) in [
            ("7", OutputType::Integer, Some(json!(7))),
            ("+7", OutputType::Integer, Some(json!(7))),
            ("-9223372036854775808", OutputType::Integer, Some(json!(i64::MIN))),
            ("18446744073709551615", OutputType::Integer, Some(json!(u64::MAX))),
            ("18446744073709551616", OutputType::Integer, None),
            ("18446744073709551615", OutputType::Number, Some(json!(u64::MAX))),
            ("1.0", OutputType::Integer, None),
            (" 7", OutputType::Integer, None),
            ("7", OutputType::Number, Some(json!(7))),
            ("1.5e3", OutputType::Number, Some(json!(1500.0))),
            ("NaN", OutputType::Number, None),
            ("inf", OutputType::Number, None),
            ("1e999", OutputType::Number, None),
            ("t", OutputType::Boolean, Some(json!(true))),
            ("F", OutputType::Boolean, Some(json!(false))),
            ("yes", OutputType::Boolean, None),
            ("{}", OutputType::Object, Some(json!({}))),
            ("[]", OutputType::Object, None),
            ("[1]", OutputType::Array, Some(json!([1]))),
            ("[1", OutputType::Array, None),
            ("", OutputType::String, Some(json!(""))),
        ] {
            assert_eq!(text(given, kind), expected, "{given} as {kind}");
        }
    }

    #[test]
    fn defaults_convert_to_their_types() {
        for (given, kind, expected) in [
            (json!(5), OutputType::String, Some(json!("5"))),
            (json!(null), OutputType::String, None),
            (json!(1.9), OutputType::Integer, Some(json!(1))),
            (json!(-1.9), OutputType::Integer, Some(json!(-1))),
            (json!(1e300), OutputType::Integer, None),
            (json!("12"), OutputType::Integer, Some(json!(12))),
            (json!(true), OutputType::Integer, None),
            (json!(1), OutputType::Boolean, Some(json!(true))),
            (json!(0), OutputType::Boolean, Some(json!(false))),
            (json!(2), OutputType::Boolean, None),
            (json!("{\"a\":1}"), OutputType::Object, Some(json!({"a": 1}))),
            (json!([1]), OutputType::Object, None),
        ] {
            assert_eq!(default(&given, kind), expected, "{given} as {kind}");
        }
    }
}
