//! Properties of arbitrary templates and values.

use proptest::prelude::*;
use serde_json::{Value as Json, json};
use vmcp_gotemplate::{Limits, Template, Value};

use crate::arbitrary::check;

fn render(source: &str, data: &Json) -> String {
    Template::parse(source).unwrap().render(&Value::Json(data), &Limits::default()).unwrap()
}

/// Parts of templates, from which many valid and many invalid ones emerge.
fn part() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "{{",
        "}}",
        "{{- ",
        " -}}",
        "{{.a}}",
        "{{end}}",
        "{{else}}",
        "{{if .a}}",
        "{{range .a}}",
        "{{with .b}}",
        "{{range $i, $e := .a}}",
        "{{$x := .b}}",
        "{{$x}}",
        "{{break}}",
        "{{continue}}",
        "{{define \"t\"}}",
        "{{template \"t\" .}}",
        "{{block \"u\" .b}}",
        "print ",
        "printf \"%5.2v|%d\" ",
        "index ",
        "slice ",
        "json ",
        "fromJson .doc",
        "(",
        ")",
        "|",
        ".a ",
        ".b.c ",
        "$ ",
        "1 ",
        "2.5 ",
        "\"x\" ",
        "nil ",
        "text",
        " ",
        "/*",
        "*/",
        "eq ",
        "and ",
        "or ",
        "len ",
        "{{range 3}}",
        "$x ",
        ":=",
        "=",
        ",",
        "é",
        "'a'",
        "`r`",
        "-",
    ])
}

fn value() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        any::<f64>().prop_filter("finite", |it| it.is_finite()).prop_map(Json::from),
        any::<i32>().prop_map(Json::from),
        any::<String>().prop_map(Json::from),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Json::from),
            prop::collection::btree_map(any::<String>(), inner, 0..6)
                .prop_map(|map| Json::Object(map.into_iter().collect())),
        ]
    })
}

/// Returns a value with all numbers as floating-point numbers, as templates see them.
fn with_floats(value: Json) -> Json {
    match value {
        Json::Number(number) => json!(number.as_f64().unwrap()),
        Json::Array(items) => items.into_iter().map(with_floats).collect(),
        Json::Object(map) => {
            map.into_iter().map(|(key, value)| (key, with_floats(value))).collect()
        }
        other => other,
    }
}

proptest! {
    #[test]
    fn any_text_is_safe(source in any::<String>()) {
        check(&source);
    }

    #[test]
    fn any_parts_are_safe(parts in prop::collection::vec(part(), 0..30)) {
        check(&parts.concat());
    }

    #[test]
    fn json_parses_to_same_value(value in value()) {
        let value = with_floats(value);
        let text = render("{{json .}}", &value);
        prop_assert_eq!(with_floats(serde_json::from_str(&text).unwrap()), value.clone());
        prop_assert_eq!(render("{{json (fromJson (json .))}}", &value), text);
    }

    #[test]
    fn numbers_print_with_all_digits(number in any::<f64>().prop_filter("finite", |it| it.is_finite())) {
        let data = json!(number);
        for source in ["{{.}}", "{{printf \"%g\" .}}", "{{printf \"%.17e\" .}}", "{{printf \"%.1080f\" .}}", "{{json .}}"] {
            prop_assert_eq!(render(source, &data).parse::<f64>().unwrap().to_bits(), number.to_bits());
        }
    }

    #[test]
    fn whole_numbers_print_like_integers(number in -((1_i64 << 53) - 1)..1 << 53) {
        prop_assert_eq!(render("{{.}}", &json!(number)), number.to_string());
    }

    #[test]
    fn quoted_text_is_literal_of_same_text(text in any::<String>()) {
        for source in ["{{quote .}}", "{{printf \"%+q\" .}}"] {
            let literal = render(source, &json!(text));
            prop_assert_eq!(render(&format!("{{{{{literal}}}}}"), &json!(null)), text.clone());
        }
    }
}
