use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::testing::object;

#[test]
fn path_descends_through_objects_and_arrays() {
    let answer = object(json!({"a": {"b": [{"c": 1}]}, "x.y": 2}));
    assert_eq!(Path::new("a.b.0.c").unwrap().find(&answer), Some(&json!(1)));
    for nowhere in ["a.b.1.c", "a.b.c", "a.b.0.c.d", "x.y", "z"] {
        assert_eq!(Path::new(nowhere).unwrap().find(&answer), None, "{nowhere}");
    }
}

#[test]
fn rejects_invalid_paths() {
    let long = "a".repeat(257);
    let deep = ["a"; 17].join(".");
    for path in ["", ".", "a..b", ".a", "a.", &long, &deep] {
        assert_eq!(Path::new(path), Err(SettingsError::Path), "{path}");
    }
}

#[test]
fn first_nonempty_field_counts() {
    let fields = FieldMapping::new(vec!["id", "user.id", "sub"], vec!["login"], vec![]).unwrap();
    let subject = |answer: Value| fields.subject(&object(answer));
    assert_eq!(subject(json!({"id": "a", "sub": "b"})).as_deref(), Some("a"));
    assert_eq!(subject(json!({"id": " ", "sub": "b"})).as_deref(), Some("b"));
    assert_eq!(subject(json!({"id": null, "user": {"id": 7}})).as_deref(), Some("#7"));
    assert_eq!(subject(json!({"user.id": "top", "user": {"id": 7}})).as_deref(), Some("top"));
    assert_eq!(subject(json!({"id": true, "sub": ["b"]})), None);
    assert_eq!(fields.email(&object(json!({"email": "a@example.com"}))), None);
}

#[test]
fn mapping_requires_a_subject() {
    let none: [&str; 0] = [];
    assert_eq!(FieldMapping::new(none, none, none), Err(SettingsError::NoSubject));
    assert_eq!(FieldMapping::new(vec![""], vec![], vec![]), Err(SettingsError::Path));
}

#[test]
fn exact_numbers_become_digits() {
    let of = |json: &str| text(&serde_json::from_str(json).unwrap());
    for (number, digits) in [
        ("583231", "583231"),
        ("-1", "-1"),
        ("18446744073709551615", "18446744073709551615"),
        ("1e3", "1000"),
        ("12.0", "12"),
    ] {
        assert_eq!(of(number).as_deref(), Some(digits), "{number}");
    }
    for rounded in ["18446744073709551616", "9007199254740993.0", "1.5", "1e300"] {
        assert_eq!(of(rounded), None, "{rounded}");
    }
}

#[test]
fn rejects_reserved_headers() {
    for name in ["Authorization", "host", "Content-Length", "Cookie", "a b", ""] {
        assert_eq!(Headers::new([(name, "x")]).unwrap_err(), SettingsError::Header, "{name}");
    }
    assert_eq!(Headers::new([("X-A", "a\r\nb")]).unwrap_err(), SettingsError::Header);
    assert_eq!(Headers::new([("X-A", "1"), ("x-a", "2")]).unwrap_err(), SettingsError::Header);
    let headers = Headers::new([("X-Api-Key", "s3cr3t")]).unwrap();
    assert_eq!(format!("{headers:?}"), r#"{"x-api-key"}"#);
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        "[a-c.0-9]{0,3}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::hash_map("[a-c.0-2]{1,2}", inner, 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn answers() -> impl Strategy<Value = Map<String, Value>> {
    prop::collection::hash_map("[a-c.0-2]{1,2}", json_value(), 0..4)
        .prop_map(|members| members.into_iter().collect())
}

proptest! {
    #[test]
    fn path_matches_json_pointer(
        answer in answers(),
        // `01` is an array index here, but not in a JSON pointer.
        names in prop::collection::vec("0|[a-c1-2][a-c0-2]?", 1..6),
    ) {
        let found = Path::new(&names.join(".")).unwrap();
        let pointer = format!("/{}", names.join("/"));
        let whole = Value::Object(answer.clone());
        prop_assert_eq!(found.find(&answer), whole.pointer(&pointer));
    }

    #[test]
    fn accepts_or_rejects_any_path(
        path in ".{0,300}",
        answer in answers(),
    ) {
        if let Ok(path) = Path::new(&path) {
            let _ = path.find(&answer);
        }
    }

    #[test]
    fn distinct_numbers_are_distinct_subjects(a in any::<f64>(), b in any::<u64>()) {
        let (a, b) = (Value::from(a), Value::from(b));
        if let (Some(one), Some(other)) = (text(&a), text(&b)) {
            prop_assert_eq!(one == other, a.as_f64() == b.as_f64());
        }
    }

    #[test]
    fn subject_is_never_empty(answer in answers()) {
        let fields = FieldMapping::new(vec!["a", "b.c", "c"], vec![], vec![]).unwrap();
        if let Some(subject) = fields.subject(&answer) {
            prop_assert!(!subject.is_empty());
        }
    }
}
