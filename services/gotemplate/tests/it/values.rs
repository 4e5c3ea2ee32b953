//! Values of the caller, and properties of templates.

use serde_json::json;
use vmcp_gotemplate::{Limits, Template, Value};

fn render(source: &str, root: &Value<'_>) -> String {
    Template::parse(source).unwrap().render(root, &Limits::default()).unwrap()
}

#[test]
fn values_of_all_kinds_render() {
    let document = json!({"n": 3, "list": [1]});
    let object = document.as_object().unwrap();
    let root = Value::from(vec![
        ("json", Value::from(&document)),
        ("object", Value::from(object)),
        ("integer", Value::from(3)),
        ("boolean", Value::from(true)),
        ("text", Value::from("a")),
        ("owned", Value::from("b".to_owned())),
    ]);
    let source = "{{.json.n}} {{.object.list}} {{eq .integer 3}} {{.boolean}} {{.text}}{{.owned}}";
    assert_eq!(render(source, &root), "3 [1] true true ab");
    assert_eq!(
        render("{{json .}}", &root),
        r#"{"boolean":true,"integer":3,"json":{"list":[1],"n":3},"object":{"list":[1],"n":3},"owned":"b","text":"a"}"#
    );
    assert_eq!(render("{{.}}{{.x}}", &Value::Json(&json!(null))), "<no value><no value>");
    assert_eq!(render("{{.}}", &Value::from("x")), "x");
}

#[test]
fn whole_numbers_print_as_integers() {
    for (number, text) in [
        (json!(1_000_000), "1000000"),
        (json!(1_700_000_000_000_i64), "1700000000000"),
        (json!(9_007_199_254_740_991_i64), "9007199254740991"),
        (json!(9_007_199_254_740_993_i64), "9007199254740993"),
        (json!(i64::MIN), "-9223372036854775808"),
        (json!(u64::MAX), "18446744073709551615"),
        (json!(9_007_199_254_740_992.0), "9.007199254740992e+15"),
        (json!(1e20), "1e+20"),
        (json!(-1e15), "-1000000000000000"),
        (json!(1.5e6), "1500000"),
        (json!(1_234_567.5), "1.2345675e+06"),
        (json!(1e-5), "1e-05"),
    ] {
        assert_eq!(render("{{.}}", &Value::Json(&number)), text);
    }
}

#[test]
fn long_integers_keep_their_digits() {
    let document =
        json!({"id": 9_007_199_254_740_993_u64, "next": 9_007_199_254_740_994_u64, "f": 1.5});
    let root = Value::Json(&document);
    for (source, text) in [
        ("{{json .}}", r#"{"f":1.5,"id":9007199254740993,"next":9007199254740994}"#),
        ("{{print .id}} {{printf \"%v %5v\" .id .f}}", "9007199254740993 9007199254740993   1.5"),
        ("{{with fromJson \"[-9007199254740993]\"}}{{.}}{{end}}", "[-9007199254740993]"),
        ("{{eq .id .next}} {{lt .id .next}} {{gt .id .f}}", "false true true"),
        ("{{if .id}}yes{{end}} {{printf \"%.0f %T\" .id .id}}", "yes 9007199254740992 float64"),
    ] {
        assert_eq!(render(source, &root), text, "{source}");
    }
    let error = Template::parse("{{eq .id 3}}").unwrap().render(&root, &Limits::default());
    assert!(error.unwrap_err().message().contains("write 3.0 instead of 3"));
}

#[test]
fn literal_is_text_without_actions() {
    let literal = |source: &str| Template::parse(source).unwrap().literal().map(str::to_owned);
    assert_eq!(literal("plain").as_deref(), Some("plain"));
    assert_eq!(literal("").as_deref(), Some(""));
    assert_eq!(literal("{{/* comment */ -}} a").as_deref(), Some("a"));
    assert_eq!(literal("{{define \"x\"}}b{{end}}a").as_deref(), Some("a"));
    assert_eq!(literal("{{\"a\"}}"), None);
    assert_eq!(literal("a{{.x}}"), None);
}

#[test]
fn template_is_shared_between_threads() {
    fn assert_shared<T: Clone + Send + Sync + 'static>(_: &T) {}
    assert_shared(&Template::parse("{{.x}}").unwrap());
}
