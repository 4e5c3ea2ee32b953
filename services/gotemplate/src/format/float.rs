//! Floating-point numbers: `%v`, `%g`, `%e`, `%f`, `%b`, `%x`.

use super::Printer;
use crate::datum::Whole;
use crate::evaluation_error::EvaluationError;

/// Whole numbers below this magnitude (2^53) print as integers.
const MAX_WHOLE: f64 = 9_007_199_254_740_992.0;

/// No `f64` has more digits than this before or after its point. Further ones are zeros.
const MAX_DIGITS: usize = 1100;

/// Significant decimal digits of a number, without trailing zeros. Zero has none.
struct Decimal {
    digits: String,
    /// Position of the decimal point, from the first digit.
    point: i32,
}

impl Printer<'_> {
    /// Prints a floating-point number, or `whole`, to which it is the nearest one. Returns whether the verb supports it.
    pub(super) fn float(
        &mut self,
        number: f64,
        whole: Option<Whole>,
        verb: char,
    ) -> Result<bool, EvaluationError> {
        let default_precision = match verb {
            'v' | 'g' | 'G' | 'b' | 'x' | 'X' => None,
            'e' | 'E' | 'f' | 'F' => Some(6),
            _ => return Ok(false),
        };
        let precision = self.flags.precision.or(default_precision);
        self.output.check_room(precision.unwrap_or(0))?;
        let mut digits = if !number.is_finite() {
            return self.infinite(number).map(|()| true);
        } else if let Some(whole) = whole.filter(|_| verb == 'v' && precision.is_none()) {
            // A departure from Go, which prints 9.007199254740992e+15.
            whole.digits()
        } else if verb == 'v' && precision.is_none() && is_whole(number) {
            // A departure from Go, which prints 1e+06.
            format!("{:.0}", number.abs())
        } else {
            magnitude(number.abs(), verb, precision)
        };
        if self.flags.has_prefix && verb != 'b' {
            digits = with_point(&digits, verb, precision);
        }
        let sign = match () {
            () if number.is_sign_negative() => "-",
            () if self.flags.has_plus => "+",
            () if self.flags.has_space => " ",
            () => "",
        };
        self.signed(sign, &digits)?;
        Ok(true)
    }

    /// Prints a sign, the padding if it consists of zeros, and digits.
    fn signed(&mut self, sign: &str, digits: &str) -> Result<(), EvaluationError> {
        let length = sign.len() + digits.len();
        let width = self.flags.width.unwrap_or(0);
        if self.flags.has_zero && !self.flags.is_left_aligned && width > length {
            self.output.push_str(sign)?;
            self.padding(width - length)?;
            return self.output.push_str(digits);
        }
        self.pad(&format!("{sign}{digits}"))
    }

    fn infinite(&mut self, number: f64) -> Result<(), EvaluationError> {
        let name = if number.is_nan() { "NaN" } else { "Inf" };
        let sign = match () {
            () if number < 0.0 => "-",
            () if self.flags.has_plus || number > 0.0 && !self.flags.has_space => "+",
            () if self.flags.has_space => " ",
            () => "",
        };
        self.pad_with_spaces(&format!("{sign}{name}"))
    }
}

/// Returns whether a number prints as an integer.
fn is_whole(number: f64) -> bool {
    number.fract() == 0.0 && number.abs() < MAX_WHOLE
}

/// Returns the digits of a number without its sign.
fn magnitude(number: f64, verb: char, precision: Option<usize>) -> String {
    match verb {
        'e' | 'E' => exponential(&decimal(number, precision.map(|it| it + 1)), precision, verb),
        'f' | 'F' => fixed(number, precision.unwrap_or(0)),
        'b' => binary(number),
        'x' | 'X' => hexadecimal(number, precision, verb),
        _ => general(number, verb, precision),
    }
}

/// Returns the shortest digits that identify the number, or as many as asked for.
fn decimal(number: f64, significant: Option<usize>) -> Decimal {
    let text = match significant {
        Some(count) => format!("{number:.*e}", count.clamp(1, MAX_DIGITS) - 1),
        None => shortest(number),
    };
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let digits = digits.replace('.', "");
    let digits = digits.trim_end_matches('0').to_owned();
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let point = if digits.is_empty() { 0 } else { exponent + 1 };
    Decimal { digits, point }
}

/// Returns the shortest digits that identify a number. Of two such texts at the same distance, Go prints the even one, and
/// Rust the greater one.
fn shortest(number: f64) -> String {
    // A number between two texts of fewer digits has one of its own.
    const MIN_TIE_DIGITS: usize = 15;
    let text = format!("{number:e}");
    let digits = text.bytes().take_while(|it| *it != b'e').filter(u8::is_ascii_digit).count();
    if digits < MIN_TIE_DIGITS {
        return text;
    }
    // Rounds half to even.
    let rounded = format!("{number:.*e}", digits - 1);
    let is_equal = rounded.parse::<f64>().is_ok_and(|it| it.to_bits() == number.to_bits());
    if is_equal { rounded } else { text }
}

/// Returns a number with an exponent, such as `1.5e+06`.
fn exponential(decimal: &Decimal, precision: Option<usize>, verb: char) -> String {
    let (first, rest) = decimal.digits.split_at_checked(1).unwrap_or(("0", ""));
    let precision = precision.unwrap_or(rest.len());
    let mut text = first.to_owned();
    if precision > 0 {
        text.push('.');
        text.push_str(rest);
        text.push_str(&"0".repeat(precision.saturating_sub(rest.len())));
    }
    let exponent = if decimal.digits.is_empty() { 0 } else { decimal.point - 1 };
    let sign = if exponent < 0 { '-' } else { '+' };
    let letter = if verb.is_ascii_uppercase() { 'E' } else { 'e' };
    format!("{text}{letter}{sign}{:02}", exponent.unsigned_abs())
}

/// Returns a number without an exponent.
fn fixed(number: f64, precision: usize) -> String {
    let mut text = format!("{number:.*}", precision.min(MAX_DIGITS));
    text.push_str(&"0".repeat(precision.saturating_sub(MAX_DIGITS)));
    text
}

/// Returns a number in the shorter form: with an exponent if it is below -4 or not below the precision.
fn general(number: f64, verb: char, precision: Option<usize>) -> String {
    let precision = precision.map(|it| it.max(1));
    let decimal = decimal(number, precision);
    let count = decimal.digits.len();
    let point = usize::try_from(decimal.point).unwrap_or(0);
    let limit = match precision {
        Some(precision) if precision > count && count >= point => count,
        Some(precision) => precision,
        // Go decides as for six digits if the precision is the shortest one.
        None => 6,
    };
    let exponent = decimal.point - 1;
    if exponent < -4 || exponent >= i32::try_from(limit).unwrap_or(i32::MAX) {
        return exponential(&decimal, Some(count.saturating_sub(1)), verb);
    }
    positional(&decimal)
}

fn positional(decimal: &Decimal) -> String {
    let Decimal { digits, point } = decimal;
    match usize::try_from(*point) {
        Ok(point) if point >= digits.len() => {
            let whole = format!("{digits}{}", "0".repeat(point - digits.len()));
            if whole.is_empty() { "0".to_owned() } else { whole }
        }
        Ok(point) if point > 0 => format!("{}.{}", &digits[..point], &digits[point..]),
        _ => {
            let zeros = "0".repeat(usize::try_from(-point).unwrap_or(0));
            format!("0.{zeros}{digits}")
        }
    }
}

/// Returns a number as its integral mantissa and an exponent of two.
fn binary(number: f64) -> String {
    let (mantissa, exponent) = parts(number);
    let sign = if exponent < 0 { "" } else { "+" };
    format!("{mantissa}p{sign}{exponent}")
}

/// Returns the integral mantissa of a number and its exponent of two.
fn parts(number: f64) -> (u64, i32) {
    const MANTISSA_BITS: u32 = 52;
    let bits = number.to_bits();
    let fraction = bits & ((1 << MANTISSA_BITS) - 1);
    let exponent = i32::try_from(bits >> MANTISSA_BITS & 0x7ff).unwrap_or(0);
    if exponent == 0 { (fraction, -1074) } else { (fraction | 1 << MANTISSA_BITS, exponent - 1075) }
}

/// Returns a number in hexadecimal with an exponent of two, such as `0x1.8p+01`.
fn hexadecimal(number: f64, precision: Option<usize>, verb: char) -> String {
    let (mut mantissa, mut exponent) = parts(number);
    if mantissa == 0 {
        exponent = 0;
    } else {
        // The leading one goes to bit 60, above 15 digits. A mantissa has 53 bits.
        let zeros = mantissa.leading_zeros();
        exponent += 63 - i32::try_from(zeros).unwrap_or(0);
        mantissa <<= zeros - 3;
    }
    if let Some(precision) = precision.filter(|it| *it < 15) {
        let shift = u32::try_from(precision * 4).unwrap_or(0);
        let extra = mantissa << shift & ((1 << 60) - 1);
        mantissa >>= 60 - shift;
        // Half to even.
        if extra | mantissa & 1 > 1 << 59 {
            mantissa += 1;
        }
        mantissa <<= 60 - shift;
        if mantissa & 1 << 61 != 0 {
            mantissa >>= 1;
            exponent += 1;
        }
    }
    let digits = format!("{:015x}", mantissa & ((1 << 60) - 1));
    let digits = match precision {
        Some(precision) if precision <= 15 => digits[..precision].to_owned(),
        Some(precision) => format!("{digits}{}", "0".repeat(precision - 15)),
        None => digits.trim_end_matches('0').to_owned(),
    };
    let point = if digits.is_empty() { "" } else { "." };
    let sign = if exponent < 0 { '-' } else { '+' };
    let text = format!("0x{}{point}{digits}p{sign}{:02}", mantissa >> 60, exponent.unsigned_abs());
    if verb == 'X' { text.to_ascii_uppercase() } else { text }
}

/// Returns digits with a decimal point, and with the trailing zeros that `%g` and `%x` drop: the flag `#`.
fn with_point(number: &str, verb: char, precision: Option<usize>) -> String {
    let is_hexadecimal = matches!(verb, 'x' | 'X');
    let tail_marks: &[char] = if is_hexadecimal { &['p', 'P'] } else { &['e', 'E'] };
    let (body, tail) = number.split_at(number.find(tail_marks).unwrap_or(number.len()));
    // Go restores zeros of `%x`, but not of `%X`.
    let wanted = if matches!(verb, 'v' | 'g' | 'G' | 'x') { precision.unwrap_or(6) } else { 0 };
    let digits = body.chars().filter(|it| *it != '.');
    let mut present = digits.skip_while(|it| *it == '0').count();
    let mut text = body.to_owned();
    if !body.contains('.') {
        present += usize::from(body == "0");
        text.push('.');
    }
    text.push_str(&"0".repeat(wanted.saturating_sub(present)));
    text.push_str(tail);
    text
}

/// Returns the shortest digits of a positive number with an exponent, as JSON text: `1e-7`, `1e+21`.
pub(crate) fn exponential_json(number: f64) -> String {
    let text = exponential(&decimal(number, None), None, 'e');
    text.replace("e-0", "e-")
}

/// Returns the shortest digits of a positive number without an exponent.
pub(crate) fn fixed_json(number: f64) -> String {
    positional(&decimal(number, None))
}
