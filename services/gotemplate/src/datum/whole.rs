//! Whole numbers of JSON documents that a `float64` does not hold.

use std::{cmp::Ordering, fmt};

use serde_json::Number;

/// Whole number from 2^53 up to 64 bits, with all its digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Whole {
    magnitude: u64,
    is_negative: bool,
}

impl Whole {
    /// Below, each whole number is exact as a `float64`.
    const MIN: u64 = 1 << 53;

    /// Returns the number, unless a `float64` holds it or it has a fraction or more than 64 bits.
    pub(crate) fn of(number: &Number) -> Option<Self> {
        number.as_u64().map_or_else(|| Self::signed(number.as_i64()?), Self::unsigned)
    }

    pub(crate) fn unsigned(magnitude: u64) -> Option<Self> {
        (magnitude >= Self::MIN).then_some(Self { magnitude, is_negative: false })
    }

    pub(crate) fn signed(value: i64) -> Option<Self> {
        let magnitude = value.unsigned_abs();
        (magnitude >= Self::MIN).then_some(Self { magnitude, is_negative: value < 0 })
    }

    /// Returns the digits, without a sign.
    pub(crate) fn digits(self) -> String {
        self.magnitude.to_string()
    }

    /// Returns the nearest `float64`.
    #[expect(clippy::cast_precision_loss, reason = "the nearest number is asked for")]
    pub(crate) fn to_f64(self) -> f64 {
        if self.is_negative { -(self.magnitude as f64) } else { self.magnitude as f64 }
    }

    fn value(self) -> i128 {
        if self.is_negative { -i128::from(self.magnitude) } else { i128::from(self.magnitude) }
    }
}

impl fmt::Display for Whole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value().fmt(f)
    }
}

impl PartialOrd for Whole {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Whole {
    fn cmp(&self, other: &Self) -> Ordering {
        self.value().cmp(&other.value())
    }
}
