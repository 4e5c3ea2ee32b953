mod tree;

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn read(text: &str) -> Result<Claims, ClaimsError> {
    Claims::parse(text.to_owned())
}

/// Texts that are JSON or nearly so, with few names, so that some stand twice.
fn texts() -> impl Strategy<Value = String> {
    let scalar = prop_oneof![
        any::<u64>().prop_map(|number| number.to_string()),
        any::<i64>().prop_map(|number| number.to_string()),
        any::<f64>().prop_map(|number| number.to_string()),
        "-?(0|[1-9][0-9]{0,24})(\\.[0-9]{1,24})?([eE][+-]?[0-9]{1,3})?",
        "[0-9.eE+-]{1,6}",
        Just("1.7976931348623158e308".to_owned()),
        Just("17976931348623159000e289".to_owned()),
        Just("true".to_owned()),
        Just("null".to_owned()),
        any::<String>().prop_map(|text| json!(text).to_string()),
        "\"(\\\\u[0-9a-fd]{4}|\\\\[\"\\\\/bfnrt]|[ -~é😀]){0,4}\"",
    ];
    let name = || prop_oneof!["\"[ab]\"", "\"\\\\u006[12]\"", "\"[a-z]{0,3}\""];
    let value = scalar.prop_recursive(4, 24, 5, move |inner| {
        let member = (name(), inner.clone()).prop_map(|(name, value)| format!("{name} : {value}"));
        prop_oneof![
            prop::collection::vec(inner, 0..5).prop_map(|items| format!("[{}]", items.join(" ,"))),
            prop::collection::vec(member, 0..5).prop_map(|all| format!("{{ {}}}", all.join(","))),
        ]
    });
    let member = (prop_oneof!["\"[a-z]{1,2}\"", "\"\\\\u006[12]\""], value);
    prop::collection::vec(member.prop_map(|(name, value)| format!("{name}:{value}")), 0..6)
        .prop_map(|members| format!(" {{{} }} ", members.join(",\n")))
}

proptest! {
    #[test]
    fn agrees_with_serde_tree(text in texts()) {
        tree::check(&text);
    }

    #[test]
    fn agrees_with_serde_tree_on_any_text(text in any::<String>()) {
        tree::check(&text);
        tree::check(&format!("{{\"a\":{text}}}"));
    }
}

#[test]
fn rejects_duplicates_at_any_depth() {
    for twice in [r#"{"a":1,"a":1}"#, r#"{"a":{"b":[{"c":1,"d":2,"\u0063":3}]}}"#] {
        assert_eq!(read(twice), Err(ClaimsError::Malformed), "{twice}");
    }
    assert!(read(r#"{"a":{"b":1},"c":{"b":1}}"#).is_ok());
}

#[test]
fn rejects_other_values_than_one_object() {
    for other in ["", "[]", "1", "{}{}", "{", "{\"a\":1e400}", "{\"a\":\"\u{1}\"}", "\u{feff}{}"] {
        assert_eq!(read(other), Err(ClaimsError::Malformed), "{other}");
    }
    let long = format!("{{\"a\":[{}]}}", "9".repeat(400));
    assert_eq!(read(&long), Err(ClaimsError::Malformed));
    let deep = ["{\"a\":".repeat(200), "1".into(), "}".repeat(200)].concat();
    assert_eq!(read(&deep), Err(ClaimsError::Malformed));
}

#[test]
fn reads_claims_at_maximum_depth() {
    let depth = vmcp_wire::MAX_DEPTH - 1;
    let claims = read(&format!("{{\"a\":{}1{}}}", "[".repeat(depth), "]".repeat(depth))).unwrap();
    let mut value = &claims.object()["a"];
    for _ in 0..depth {
        value = &value[0];
    }
    assert_eq!(value, 1);
}

#[test]
fn rejects_too_many_members_at_any_depth() {
    let members = |count| {
        let list: Vec<_> = (0..count).map(|name| format!("\"{name}\":0")).collect();
        format!("{{\"nested\":{{{}}}}}", list.join(","))
    };
    assert!(read(&members(MAX_CLAIMS - 1)).is_ok());
    assert_eq!(read(&members(MAX_CLAIMS)), Err(ClaimsError::TooMany));
}

#[test]
fn preserves_number_precision() {
    let claims =
        read(r#"{"a":18446744073709551615,"b":-9223372036854775808,"c":0.30000000000000004}"#);
    let claims = claims.unwrap();
    let value = |name| claims.get(name).unwrap().value();
    assert_eq!((value("a").as_u64(), value("b").as_i64()), (Some(u64::MAX), Some(i64::MIN)));
    assert_eq!(value("c").as_f64(), Some(0.300_000_000_000_000_04));
}

#[test]
fn debug_form_has_names_only() {
    let printed = format!("{:?}", read(r#"{"email":"canary"}"#).unwrap());
    assert_eq!(printed, r#"{"email"}"#);
}
