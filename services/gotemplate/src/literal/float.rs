//! Floating-point numbers of Go: decimal and hexadecimal.

use super::integer::{are_underscores_valid, split_sign};

/// Returns the value of a floating-point number within the range of `f64`.
pub(super) fn parse_float(text: &str) -> Option<f64> {
    let (is_negative, unsigned) = split_sign(text);
    let digits = unsigned.replace('_', "");
    if digits.len() != unsigned.len() && !are_underscores_valid(unsigned) {
        return None;
    }
    let lower = digits.to_ascii_lowercase();
    let value = match lower.strip_prefix("0x") {
        Some(digits) => parse_hexadecimal(digits)?,
        // Rust accepts names of special values too.
        None if lower.chars().all(|it| it.is_ascii_digit() || ".e+-".contains(it)) => {
            lower.parse().ok()?
        }
        None => return None,
    };
    let value: f64 = if is_negative { -value } else { value };
    value.is_finite().then_some(value)
}

/// Returns the value of hexadecimal digits with an exponent of two, such as `1.8p-3`.
fn parse_hexadecimal(text: &str) -> Option<f64> {
    // More digits than a `f64` holds only round.
    const MAX_DIGITS: usize = 15;
    let (digits, exponent) = text.split_once('p')?;
    let exponent: i32 = exponent.parse().ok()?;
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let mut mantissa = 0_u64;
    let mut dropped = 0_i32;
    let mut count = 0;
    for digit in whole.chars().chain(fraction.chars()) {
        let digit = digit.to_digit(16)?;
        if count < MAX_DIGITS {
            mantissa = mantissa << 4 | u64::from(digit);
            count += usize::from(mantissa > 0);
        } else {
            dropped += 1;
            mantissa |= u64::from(digit > 0);
        }
    }
    let fraction = i32::try_from(fraction.len()).ok()?;
    let exponent = exponent.checked_add(4 * (dropped - fraction))?.clamp(-2200, 2200);
    // In two steps, because 2^exponent alone may be out of range.
    #[expect(clippy::cast_precision_loss, reason = "rounds as the last digits require")]
    let value = mantissa as f64;
    Some(value * 2_f64.powi(exponent / 2) * 2_f64.powi(exponent - exponent / 2))
}
