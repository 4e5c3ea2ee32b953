use proptest::prelude::*;

use super::{Decimal, DecimalError};
use crate::patterns;

#[test]
fn keeps_text_and_value() {
    for (text, value) in [("0.5", 0.5), (".05", 0.05), ("1", 1.0), ("1.10", 1.1), ("007", 7.0)] {
        let decimal: Decimal = text.parse().unwrap();
        assert_eq!(decimal.to_string(), text);
        assert!((decimal.get() - value).abs() < f64::EPSILON, "{text}");
    }
}

#[test]
fn rejects_text_outside_pattern() {
    for text in ["", ".", "1.", "-1", "+1", "1e3", "0,5", " 1", "inf", "nan", "0x1"] {
        assert_eq!(text.parse::<Decimal>(), Err(DecimalError), "{text:?}");
    }
}

#[test]
fn defaults_are_spelt_as_documented() {
    assert_eq!(Decimal::hundredths(0, 50).to_string(), "0.5");
    assert_eq!(Decimal::hundredths(0, 5).to_string(), "0.05");
    assert_eq!(Decimal::hundredths(1, 0).to_string(), "1.0");
}

proptest! {
    #[test]
    fn accepts_exactly_text_of_pattern(text in "[0-9]{0,3}\\.?[0-9]{0,3}[-+eE]?") {
        prop_assert_eq!(text.parse::<Decimal>().is_ok(), patterns::DECIMAL.matches(&text));
    }

    #[test]
    fn no_text_panics_and_no_number_is_negative(text in ".*") {
        if let Ok(decimal) = text.parse::<Decimal>() {
            prop_assert!(decimal.get() >= 0.0);
        }
    }
}
