//! Conversion of JSON to Cedar values.

use cedar_policy::RestrictedExpression;
use serde_json::Value;
use vmcp_wire::parse_json_string;

/// Maximum depth of a claim; deeper values are dropped.
const MAX_DEPTH: usize = 10;

/// Value of an argument, as policies see it.
pub(crate) enum Argument {
    Scalar(RestrictedExpression),
    /// Object or array: policies see only its presence.
    Nested,
    Null,
    /// Number without a Cedar value.
    Unrepresentable,
}

/// Converts a claim; `None` if Cedar has no value for it: null, numbers out of range or precision,
/// and deeply nested values.
pub(crate) fn from_json(value: &Value) -> Option<RestrictedExpression> {
    at_depth(value, MAX_DEPTH)
}

fn at_depth(value: &Value, left: usize) -> Option<RestrictedExpression> {
    let deeper = left.checked_sub(1)?;
    match value {
        Value::Null => None,
        Value::Bool(value) => Some(RestrictedExpression::new_bool(*value)),
        Value::Number(value) => number(&value.to_string()),
        Value::String(value) => Some(RestrictedExpression::new_string(value.clone())),
        Value::Array(values) => {
            let values = values.iter().filter_map(|value| at_depth(value, deeper));
            Some(RestrictedExpression::new_set(values))
        }
        Value::Object(members) => {
            let members = members
                .iter()
                .filter_map(|(name, value)| Some((name.clone(), at_depth(value, deeper)?)));
            RestrictedExpression::new_record(members).ok()
        }
    }
}

/// Converts an argument from validated JSON.
pub(crate) fn from_raw(raw: &[u8]) -> Argument {
    match raw.first() {
        Some(b'{' | b'[') => Argument::Nested,
        Some(b'n') => Argument::Null,
        Some(b't') => Argument::Scalar(RestrictedExpression::new_bool(true)),
        Some(b'f') => Argument::Scalar(RestrictedExpression::new_bool(false)),
        Some(b'"') => match parse_json_string(raw) {
            Some(text) => Argument::Scalar(RestrictedExpression::new_string(text.into_owned())),
            None => Argument::Unrepresentable,
        },
        _ => match std::str::from_utf8(raw).ok().and_then(number) {
            Some(number) => Argument::Scalar(number),
            None => Argument::Unrepresentable,
        },
    }
}

/// Converts a JSON number exactly: integers within 64 bits to Long, others to decimal if four
/// decimal places suffice. Floating point is not used: 100.00000000000000001 would become 100.
fn number(text: &str) -> Option<RestrictedExpression> {
    const PLACES: i64 = 4;
    let (sign, text) = match text.strip_prefix('-') {
        Some(text) => (-1, text),
        None => (1, text),
    };
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = [whole, fraction].concat();
    let significant = digits.trim_start_matches('0');
    let short = significant.trim_end_matches('0');
    if short.is_empty() {
        return Some(RestrictedExpression::new_long(0));
    }
    if short.len() > 19 {
        return None;
    }
    let zeros = i64::try_from(significant.len() - short.len()).ok()?;
    let scale = i64::from(exponent) + zeros - i64::try_from(fraction.len()).ok()?;
    let shifted = |positions: i64| {
        let factor = 10_i128.checked_pow(u32::try_from(positions).ok().filter(|&at| at < 20)?)?;
        let value = short.parse::<i128>().ok()?.checked_mul(factor)?;
        i64::try_from(sign * value).ok()
    };
    if scale >= 0 {
        return shifted(scale).map(RestrictedExpression::new_long);
    }
    let tenths = shifted(scale + PLACES)?;
    let (whole, fraction) = (tenths.unsigned_abs() / 10_000, tenths.unsigned_abs() % 10_000);
    let sign = if tenths < 0 { "-" } else { "" };
    Some(RestrictedExpression::new_decimal(format!("{sign}{whole}.{fraction:04}")))
}

#[cfg(test)]
mod tests;
