//! Durations in Go's notation, which Kubernetes resources use.

use std::{fmt, str::FromStr, time};

use crate::patterns;

/// Duration, written `500ms`, `30s`, `1m30s`, `168h`; never negative, at most 2^63-1 nanoseconds (292 years).
///
/// Prints in Go's format, which resources and files use: `1m30s`, `168h0m0s`, `1.5ms`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duration(time::Duration);

/// Error for text that is not a duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// The text has another format.
    #[error("not a duration: use a number with a unit, such as 500ms, 30s, 1m30s or 168h")]
    Format,
    /// The duration is too long.
    #[error("longer than 2562047h47m16.854775807s")]
    TooLong,
}

const UNITS: [(&str, u128); 7] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

// === impl Duration ===

impl Duration {
    /// Creates a duration of `seconds`.
    #[must_use]
    pub const fn from_secs(seconds: u32) -> Self {
        Self(time::Duration::from_secs(seconds as u64))
    }

    /// Returns the duration as the type of the standard library.
    #[must_use]
    pub const fn get(self) -> time::Duration {
        self.0
    }

    /// Returns `true` if the duration is zero.
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.0.is_zero()
    }
}

impl From<Duration> for time::Duration {
    fn from(duration: Duration) -> Self {
        duration.0
    }
}

impl FromStr for Duration {
    type Err = DurationError;

    fn from_str(text: &str) -> Result<Self, DurationError> {
        if text.is_empty() {
            return Err(DurationError::Format);
        }
        let mut rest = text;
        let mut total: u128 = 0;
        while !rest.is_empty() {
            let (nanos, after) = parse_component(rest)?;
            total = total.checked_add(nanos).ok_or(DurationError::TooLong)?;
            rest = after;
        }
        let nanos = i64::try_from(total).ok().and_then(|nanos| u64::try_from(nanos).ok());
        nanos.map(|nanos| Self(time::Duration::from_nanos(nanos))).ok_or(DurationError::TooLong)
    }
}

/// Parses a component such as `1.5h`, and returns its nanoseconds and the text after it. Fractions of a nanosecond are
/// cut off, as in Go.
fn parse_component(text: &str) -> Result<(u128, &str), DurationError> {
    let (whole, rest) = split_digits(text);
    if whole.is_empty() {
        return Err(DurationError::Format);
    }
    let (fraction, rest) = match rest.strip_prefix('.') {
        Some(rest) => split_digits(rest),
        None => ("", rest),
    };
    if fraction.is_empty() && text[whole.len()..].starts_with('.') {
        return Err(DurationError::Format);
    }
    let length = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
    let (unit, after) = rest.split_at(length);
    let scale = UNITS
        .iter()
        .find(|(name, _)| *name == unit)
        .map(|(_, scale)| *scale)
        .ok_or(DurationError::Format)?;
    let whole = whole.parse::<u64>().map_err(|_| DurationError::TooLong)?;
    // Eighteen digits are finer than a nanosecond of any unit and fit the product into 128 bits.
    let fraction = fraction.get(..18).unwrap_or(fraction);
    let divisor = fraction.bytes().fold(1, |power: u128, _| power * 10);
    let fraction = match fraction {
        "" => 0,
        digits => digits.parse::<u128>().expect("eighteen digits fit into 128 bits"),
    };
    let nanos = u128::from(whole) * scale + fraction * scale / divisor;
    Ok((nanos, after))
}

fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(text.bytes().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len()))
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.as_nanos();
        match nanos {
            0 => f.write_str("0s"),
            1..1_000 => write!(f, "{nanos}ns"),
            1_000..1_000_000 => write!(f, "{}µs", DecimalFraction { value: nanos, scale: 1_000 }),
            1_000_000..1_000_000_000 => {
                write!(f, "{}ms", DecimalFraction { value: nanos, scale: 1_000_000 })
            }
            _ => {
                let minutes = nanos / 60_000_000_000;
                if minutes >= 60 {
                    write!(f, "{}h", minutes / 60)?;
                }
                if minutes > 0 {
                    write!(f, "{}m", minutes % 60)?;
                }
                write!(
                    f,
                    "{}s",
                    DecimalFraction { value: nanos % 60_000_000_000, scale: 1_000_000_000 }
                )
            }
        }
    }
}

/// `value / scale`, exactly and without trailing zeros.
struct DecimalFraction {
    value: u128,
    scale: u128,
}

impl fmt::Display for DecimalFraction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.value / self.scale)?;
        let (mut rest, mut place) = (self.value % self.scale, self.scale / 10);
        if rest > 0 {
            f.write_str(".")?;
        }
        while rest > 0 && place > 0 {
            write!(f, "{}", rest / place)?;
            (rest, place) = (rest % place, place / 10);
        }
        Ok(())
    }
}

impl serde::Serialize for Duration {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl schemars::JsonSchema for Duration {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Duration".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "pattern": patterns::DURATION.regex })
    }
}

#[cfg(test)]
mod tests;
