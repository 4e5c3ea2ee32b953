//! Errors name their position and the remedy.

use serde_json::json;
use vmcp_gotemplate::{Limits, Template, Value};

fn parse_error(source: &str) -> String {
    Template::parse(source).unwrap_err().to_string()
}

fn render_error(source: &str) -> String {
    let data = json!({"params": {"n": 3, "list": [1], "none": null}, "s": "é"});
    let template = Template::parse(source).unwrap();
    template.render(&Value::Json(&data), &Limits::default()).unwrap_err().to_string()
}

#[test]
fn parse_errors_name_position_and_remedy() {
    let cases = [
        (
            "a\nbé{{if .x}}",
            "line 2, column 12: an if, range, with, define or block is not closed; add {{end}}",
        ),
        (
            "{{.steps.my-id}}",
            "line 1, column 12: \".my\" cannot continue with a hyphen; use index, such as {{index .steps \"my-id\"}}",
        ),
        ("{{ .x", "line 1, column 6: the action is not closed; add }}"),
        ("{{1 + 2}}", "line 1, column 5: \"+\" is not a number"),
        (
            "{{.a == 1}}",
            "line 1, column 6: a declaration has one variable on its left side, at the start of its action",
        ),
        (
            "{{.a > 1}}",
            "line 1, column 6: an action has no operators; use functions such as eq, lt, and, or, not",
        ),
        ("{{end}}", "line 1, column 3: {{end}} belongs to no action; remove it"),
        ("{{$x}}", "line 1, column 3: the variable $x is not declared here; write $x := first"),
        (
            "{{js .a}}",
            "line 1, column 3: the function js is not supported; use json, quote or urlquery",
        ),
        (
            "{{range 1}}{{else if .}}{{end}}",
            "line 1, column 19: else if belongs to if; write {{else}}{{if …}} and one more {{end}}",
        ),
        (
            "{{\"\\z\"}}",
            "line 1, column 3: the escape \\z does not exist; write \\\\ for a backslash",
        ),
    ];
    for (source, expected) in cases {
        assert_eq!(parse_error(source), expected, "{source}");
    }
    let unknown = parse_error("{{upper .a}}");
    assert!(unknown.contains("the function \"upper\" does not exist"), "{unknown}");
}

#[test]
fn render_errors_name_position_and_remedy() {
    let cases = [
        (
            "\n {{eq .params.n 3}}",
            "line 2, column 4: eq cannot compare a number of a JSON document with an integer; write 3.0 instead of 3",
        ),
        (
            "{{.params.none.x}}",
            "line 1, column 3: a null has no field \"x\"; test it before with if or with",
        ),
        (
            "{{print 1 .params.list.x}}",
            "line 1, column 11: a list has no field \"x\"; use range or index, such as index .list 0",
        ),
        (
            "é{{template \"x\"}}",
            "line 1, column 13: the template \"x\" is not defined; add a define",
        ),
        (
            "{{index .params.list 5}}",
            "line 1, column 3: the position 5 is out of range; there are 1 elements, counted from 0",
        ),
        (
            "{{range .params.n}}{{end}}",
            "line 1, column 9: range needs a list, a map or an integer, not a number",
        ),
        (
            "{{quote .params.n}}",
            "line 1, column 3: quote accepts text, not a number; use json for other values",
        ),
        (
            "{{slice .s 1}}",
            "line 1, column 3: slice cuts a character at byte 1 or 2; use printf \"%.5s\" for the first 5 characters",
        ),
        ("{{len}}", "line 1, column 3: len needs 1 argument, not 0"),
        ("{{index}}", "line 1, column 3: index needs at least 1 argument, not 0"),
        ("{{ne 1}}", "line 1, column 3: ne needs 2 arguments, not 1"),
        ("{{len 3}}", "line 1, column 3: len needs a map, list or text, not an integer"),
    ];
    for (source, expected) in cases {
        assert_eq!(render_error(source), expected, "{source}");
    }
}
