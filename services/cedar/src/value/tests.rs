use cedar_policy::{Context, EvalResult};
use proptest::prelude::*;
use serde_json::{Map, json};

use super::*;

fn in_context(value: RestrictedExpression) -> EvalResult {
    Context::from_pairs([("x".to_owned(), value)]).unwrap().get("x").unwrap()
}

fn claim(value: &Value) -> Option<String> {
    from_json(value).map(|value| in_context(value).to_string())
}

fn argument(raw: &str) -> Option<String> {
    match from_raw(raw.as_bytes()) {
        Argument::Scalar(value) => Some(in_context(value).to_string()),
        Argument::Nested | Argument::Null | Argument::Unrepresentable => None,
    }
}

#[test]
fn whole_numbers_are_long_in_any_notation() {
    for (raw, expected) in [
        ("1", "1"),
        ("1.0", "1"),
        ("1e3", "1000"),
        ("1.5E+1", "15"),
        ("-0", "0"),
        ("0.000e99", "0"),
        ("100e-2", "1"),
        ("9223372036854775807", "9223372036854775807"),
        ("-9223372036854775808", "-9223372036854775808"),
    ] {
        assert_eq!(argument(raw).as_deref(), Some(expected), "{raw}");
    }
    assert_eq!(claim(&json!(5)).as_deref(), Some("5"));
    assert_eq!(claim(&json!(5.0)).as_deref(), Some("5"));
}

#[test]
fn other_numbers_are_decimal_with_four_places() {
    for (raw, expected) in [
        ("1.5", "1.5000"),
        ("-0.0001", "-0.0001"),
        ("12345e-4", "1.2345"),
        ("922337203685477.5807", "922337203685477.5807"),
        ("-922337203685477.5807", "-922337203685477.5807"),
    ] {
        assert_eq!(argument(raw), Some(format!("decimal(\"{expected}\")")), "{raw}");
    }
}

#[test]
fn numbers_out_of_range_have_no_value() {
    for raw in [
        "9223372036854775808",
        "1e400",
        "-1e19",
        "1e99999999999999999999",
        "0.00001",
        "100.00000000000000001",
        "922337203685477.5808",
        "123456789012345678901234567890",
    ] {
        assert_eq!(argument(raw), None, "{raw}");
    }
    assert_eq!(claim(&json!(0.1 + 0.2)), None);
}

#[test]
fn drops_deeply_nested_values() {
    let nested = (0..50).fold(json!(1), |inner, _| json!({ "a": inner, "b": true }));
    let value = in_context(from_json(&nested).unwrap());
    assert_eq!(value.to_string().matches("true").count(), MAX_DEPTH - 1);
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".*".prop_map(Value::from),
    ];
    leaf.prop_recursive(8, 64, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::hash_map(".*", inner, 0..6)
                .prop_map(|members| Value::from(members.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

proptest! {
    #[test]
    fn any_claim_yields_a_valid_context(value in any_json(), key in ".*") {
        if let Some(value) = from_json(&value) {
            let made = Context::from_pairs([(format!("claim_{key}"), value)]);
            prop_assert!(made.is_ok());
        }
    }

    #[test]
    fn any_argument_yields_a_valid_context(value in any_json()) {
        if let Argument::Scalar(value) = from_raw(value.to_string().as_bytes()) {
            prop_assert!(Context::from_pairs([("arg_x".to_owned(), value)]).is_ok());
        }
    }

    #[test]
    fn any_number_yields_a_valid_context(text in "-?(0|[1-9][0-9]{0,25})(\\.[0-9]{1,25})?([eE][+-]?[0-9]{1,12})?") {
        if let Some(value) = number(&text) {
            let value = in_context(value).to_string();
            // Approximately equal to the nearest floating point number.
            let plain: String =
                value.chars().filter(|c| c.is_ascii_digit() || matches!(c, '.' | '-')).collect();
            let (exact, near) = (plain.parse::<f64>().unwrap(), text.parse::<f64>().unwrap());
            prop_assert!((exact - near).abs() <= near.abs() * 1e-9, "{text}: {value}");
        }
    }
}
