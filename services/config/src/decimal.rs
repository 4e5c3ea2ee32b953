//! Decimal fractions as text: some tools change the numbers of a resource.

use std::{fmt, str::FromStr};

use crate::patterns;

/// Decimal number with its original text: `"0.5"`, `".05"`, `"1"`.
///
/// Unquoted numbers are rejected with the quoted form as a suggestion: the field of a resource is a string, and a
/// document must mean the same in both places.
#[derive(Clone, Debug, PartialEq)]
pub struct Decimal {
    text: String,
    value: f64,
}

/// Error for text that is not a decimal number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a decimal number: use digits and a point, such as 0.5")]
pub struct DecimalError;

impl Decimal {
    /// Returns the number.
    #[must_use]
    pub fn get(&self) -> f64 {
        self.value
    }

    /// Creates a default of the configuration, `hundredths` after the point.
    pub(crate) fn hundredths(whole: u8, hundredths: u8) -> Self {
        let text = format!("{whole}.{hundredths:02}");
        let text = text.strip_suffix('0').unwrap_or(&text).to_owned();
        Self { text, value: f64::from(whole) + f64::from(hundredths) / 100.0 }
    }
}

impl FromStr for Decimal {
    type Err = DecimalError;

    fn from_str(text: &str) -> Result<Self, DecimalError> {
        if !patterns::DECIMAL.matches(text) {
            return Err(DecimalError);
        }
        let value = text.parse().map_err(|_| DecimalError)?;
        Ok(Self { text: text.to_owned(), value })
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl serde::Serialize for Decimal {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl schemars::JsonSchema for Decimal {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Decimal".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "pattern": patterns::DECIMAL.regex })
    }
}

#[cfg(test)]
mod tests;
