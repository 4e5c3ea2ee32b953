//! Integers of Go: decimal, `0x`, `0o`, `0b` and octal with a leading zero, with `_` between digits.

use super::Number;

/// Returns the value of an integer, or [`Number::Overflow`] if only an unsigned one can hold it.
pub(super) fn parse_integer(text: &str) -> Option<Number> {
    let (is_negative, unsigned) = split_sign(text);
    let (base, digits) = split_base(unsigned);
    if !are_underscores_valid(unsigned) {
        return None;
    }
    let digits = digits.replace('_', "");
    // `from_str_radix` accepts a sign of its own.
    if !digits.chars().all(|digit| digit.is_digit(base)) {
        return None;
    }
    let magnitude = u64::from_str_radix(&digits, base).ok()?;
    let value =
        if is_negative { 0_i64.checked_sub_unsigned(magnitude) } else { magnitude.try_into().ok() };
    match value {
        Some(value) => Some(Number::Integer(value)),
        None if text.starts_with(['+', '-']) => None,
        None => Some(Number::Overflow),
    }
}

pub(super) fn split_sign(text: &str) -> (bool, &str) {
    match text.strip_prefix('-') {
        Some(unsigned) => (true, unsigned),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    }
}

fn split_base(unsigned: &str) -> (u32, &str) {
    let lower = unsigned.get(..2).map(str::to_ascii_lowercase);
    match lower.as_deref() {
        Some("0x") => (16, &unsigned[2..]),
        Some("0o") => (8, &unsigned[2..]),
        Some("0b") => (2, &unsigned[2..]),
        Some(_) if unsigned.starts_with('0') => (8, &unsigned[1..]),
        _ => (10, unsigned),
    }
}

/// Returns whether each underscore is between digits, or between the base and a digit.
pub(super) fn are_underscores_valid(unsigned: &str) -> bool {
    let (base, digits) = split_base(unsigned);
    // The base counts as a digit.
    let mut previous = if base == 10 { '.' } else { '0' };
    for character in digits.chars() {
        let current = match character {
            '_' if previous == '0' => '_',
            '_' => return false,
            digit if digit.is_ascii_digit() || base == 16 && digit.is_ascii_hexdigit() => '0',
            _ if previous == '_' => return false,
            _ => '.',
        };
        previous = current;
    }
    previous != '_'
}
