use proptest::prelude::*;

use super::{Duration, DurationError};
use crate::patterns;

fn nanos(text: &str) -> Result<u128, DurationError> {
    text.parse::<Duration>().map(|duration| duration.get().as_nanos())
}

#[test]
fn parses_go_durations() {
    for (text, expected) in [
        ("0s", 0),
        ("5s", 5_000_000_000),
        ("1m", 60_000_000_000),
        ("168h", 604_800_000_000_000),
        ("1.5h", 5_400_000_000_000),
        ("1h30m", 5_400_000_000_000),
        ("100ms", 100_000_000),
        ("1µs", 1_000),
        ("1us", 1_000),
        ("7ns", 7),
        ("1s1s", 2_000_000_000),
        ("0.3333333333333333333h", 1_199_999_999_999),
        ("1.9ns", 1),
    ] {
        assert_eq!(nanos(text), Ok(expected), "{text}");
    }
}

#[test]
fn rejects_text_outside_pattern() {
    for text in [
        "", "5", "s", "-5s", "+5s", "5 s", "1.s", ".5s", "1d", "5S", "1h 30m", "5s ", "1_0s", "٣s",
        "1μs",
    ] {
        assert_eq!(nanos(text), Err(DurationError::Format), "{text:?}");
        assert!(!patterns::DURATION.matches(text), "{text:?}");
    }
}

#[test]
fn rejects_durations_beyond_the_maximum() {
    assert_eq!(nanos("9223372036854775807ns"), Ok(9_223_372_036_854_775_807));
    for text in [
        "9223372036854775808ns",
        "2562048h",
        "99999999999999999999999h",
        "9223372036854775807ns1ns",
    ] {
        assert_eq!(nanos(text), Err(DurationError::TooLong), "{text}");
    }
}

#[test]
fn prints_durations_like_go() {
    for (text, printed) in [
        ("0h", "0s"),
        ("90s", "1m30s"),
        ("1.5h", "1h30m0s"),
        ("168h", "168h0m0s"),
        ("1500us", "1.5ms"),
        ("1500ns", "1.5µs"),
        ("999ns", "999ns"),
        ("1.000000001s", "1.000000001s"),
        ("60m1ns", "1h0m0.000000001s"),
    ] {
        let duration: Duration = text.parse().unwrap();
        assert_eq!(duration.to_string(), printed, "{text}");
    }
}

proptest! {
    #[test]
    fn printed_duration_parses_to_itself(nanos in 0..=i64::MAX as u64) {
        let duration = Duration(std::time::Duration::from_nanos(nanos));
        let printed = duration.to_string();
        prop_assert!(patterns::DURATION.matches(&printed), "{}", printed);
        prop_assert_eq!(printed.parse(), Ok(duration));
    }

    #[test]
    fn accepts_exactly_pattern_within_range(text in "[0-9]{0,3}(\\.[0-9]{0,3})?(ns|us|µs|ms|s|m|h|d| )?([0-9]{1,3}(s|m))?") {
        prop_assert_eq!(text.parse::<Duration>().is_ok(), patterns::DURATION.matches(&text));
    }

    #[test]
    fn parts_add_up(hours in 0..1000u64, minutes in 0..1000u64, millis in 0..100_000u64) {
        let text = format!("{hours}h{minutes}m{millis}ms");
        let expected = u128::from(hours * 3_600_000 + minutes * 60_000 + millis) * 1_000_000;
        prop_assert_eq!(nanos(&text), Ok(expected));
    }

    #[test]
    fn no_text_panics(text in ".*") {
        let _ = text.parse::<Duration>();
    }
}
