use proptest::prelude::*;
use serde_json::json;

use super::{MAX_DEPTH, Node, NodeKind, ScalarValue, parse_json, parse_yaml, resolve};
use crate::ConfigErrors;

fn parse_error(text: &str) -> String {
    parse_yaml(text).unwrap_err().to_string()
}

fn json_of(text: &str) -> serde_json::Value {
    parse_yaml(text).unwrap().to_json()
}

#[test]
fn resolves_plain_scalars_by_core_schema() {
    for (text, expected) in [
        ("true", json!(true)),
        ("False", json!(false)),
        ("yes", json!("yes")),
        ("012", json!(12)),
        ("0o14", json!(12)),
        ("0x1F", json!(31)),
        ("-3", json!(-3)),
        ("1.10", json!(1.1)),
        (".5", json!(0.5)),
        ("5.", json!(5.0)),
        ("1e3", json!(1000.0)),
        ("~", json!(null)),
        ("null", json!(null)),
        ("2025-11-25", json!("2025-11-25")),
        ("1.2.3", json!("1.2.3")),
        ("1e", json!("1e")),
        (".", json!(".")),
        ("18446744073709551615", json!(18_446_744_073_709_551_615_u64)),
        ("\"012\"", json!("012")),
        ("'true'", json!("true")),
        ("!!str 012", json!("012")),
    ] {
        assert_eq!(json_of(&format!("k: {text}"))["k"], expected, "{text}");
    }
}

#[test]
fn infinities_are_not_json_numbers() {
    for text in [".inf", "-.Inf", ".nan", "1e999"] {
        assert_eq!(resolve(text), ScalarValue::NotFinite, "{text}");
    }
}

#[test]
fn records_line_of_each_key_and_value() {
    let root = parse_yaml("# first\na: 1\nb:\n  - x\n  - y\n").unwrap();
    assert_eq!(root.get("a").unwrap().line, Some(2));
    let NodeKind::List(items) = &root.get("b").unwrap().kind else { panic!("a list") };
    assert_eq!(items[1].line, Some(5));
}

#[test]
fn alias_repeats_anchored_value() {
    assert_eq!(
        json_of("a: &x {k: [1, two]}\nb: *x\n"),
        json!({"a": {"k": [1, "two"]}, "b": {"k": [1, "two"]}})
    );
}

#[test]
fn rejects_alias_within_its_own_value() {
    assert!(parse_error("a: &x [*x]\n").contains("an alias to a value that contains it"));
}

#[test]
fn rejects_aliases_that_multiply_small_document() {
    let mut lines = vec!["a0: &a0 [x, x, x, x, x, x, x, x, x, x]".to_owned()];
    for level in 1..12 {
        let below = format!("*a{}", level - 1);
        lines.push(format!("a{level}: &a{level} [{}]", vec![below; 10].join(", ")));
    }
    let text = lines.join("\n");
    assert!(parse_error(&text).contains("too many values"), "{}", parse_error(&text));
}

#[test]
fn rejects_large_value_with_many_aliases() {
    let items = vec!["x"; 1000].join(", ");
    let text = format!("a: &a [{items}]\nb: [{}]\n", vec!["*a"; 1000].join(", "));
    assert!(parse_error(&text).contains("too many values"), "{}", parse_error(&text));
    let text = format!("a: &a {}\nb: [{}]\n", "x".repeat(100_000), vec!["*a"; 100].join(", "));
    assert!(parse_error(&text).contains("too many values"), "{}", parse_error(&text));
}

#[test]
fn rejects_alias_beyond_depth_limit() {
    let half = MAX_DEPTH / 2;
    let open = "[".repeat(half);
    let close = "]".repeat(half);
    let text = format!("a: &x {open}1{close}\nb: {open}*x{close}\n");
    assert!(parse_error(&text).contains("nested too deeply"), "{}", parse_error(&text));
}

#[test]
fn rejects_document_beyond_depth_limit() {
    for deep in [MAX_DEPTH + 1, 100_000] {
        let text = format!("a: {}", "[".repeat(deep));
        assert!(parse_yaml(&text).is_err());
        let text = format!("{}1{}", "[".repeat(deep), "]".repeat(deep));
        assert!(parse_json(&text).is_err());
    }
    let block: Vec<_> = (0..=MAX_DEPTH).map(|depth| format!("{}a:", " ".repeat(depth))).collect();
    assert!(parse_yaml(&block.join("\n")).is_err());
}

#[test]
fn rejects_second_and_empty_documents() {
    assert!(parse_error("a: 1\n---\nb: 2\n").contains("line 2: found a second document"));
    assert!(parse_error("").contains("an empty document"));
    assert!(parse_error("# nothing\n").contains("an empty document"));
}

#[test]
fn rejects_tags_and_non_text_keys() {
    assert!(parse_error("a: !secret x\n").contains("the tag !secret"));
    assert!(parse_error("a: !!binary aGk=\n").contains("the tag !!binary"));
    assert!(parse_error("? [a]\n: 1\n").contains("a list or map as a key"));
    assert!(parse_error("{[a]: 1}\n").contains("a list or map as a key"));
}

#[test]
fn broken_text_is_reported_with_its_line() {
    assert!(parse_error("a: 1\nb: [1,\n").contains("invalid YAML"));
    assert!(
        parse_error("a: 1\n\tb: 2\n")
            .contains("found a tab; allowed: YAML 1.2 with spaces, not tabs, as indentation")
    );
    let broken = parse_json("{\n \"a\": 1,\n}").unwrap_err().to_string();
    assert!(broken.starts_with("line 3: found invalid JSON"), "{broken}");
}

#[test]
fn json_and_yaml_have_the_same_tree() {
    let text = r#"{"a": [1, 2.5, true, null, "x"], "b": {"c": "012"}}"#;
    let yaml = parse_yaml(text).unwrap();
    let json = parse_json(text).unwrap();
    assert_eq!(yaml.to_json(), json.to_json());
}

fn any_json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(|value| json!(value)),
        any::<i64>().prop_map(|value| json!(value)),
        (-1e9..1e9).prop_map(|value: f64| json!(value)),
        ".{0,12}".prop_map(|value| json!(value)),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(serde_json::Value::Array),
            prop::collection::btree_map("[a-z]{1,4}", inner, 0..5)
                .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn json_survives_the_tree(value in any_json()) {
        let node: Result<Node, ConfigErrors> = parse_json(&value.to_string());
        prop_assert_eq!(node.unwrap().to_json(), value);
    }

    #[test]
    fn no_text_panics(text in "[-a-c:&*!{}\\[\\]#|>'\" \n0-9.,?<]{0,60}") {
        let _ = parse_yaml(&text);
        let _ = parse_json(&text);
    }
}
