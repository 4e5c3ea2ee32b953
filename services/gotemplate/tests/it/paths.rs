//! Paths of the root data that templates read.

use vmcp_gotemplate::{Access, Limits, Path, Segment, Template, Value};

use crate::{arbitrary::covered, vectors};

/// Returns the paths of a template as text, in the order of the template. `?` marks conditions.
fn paths(source: &str) -> Vec<String> {
    let template = Template::parse(source).unwrap();
    template.paths().iter().map(shown).collect()
}

fn shown(path: &Path) -> String {
    let segments: Vec<_> = path
        .segments()
        .iter()
        .map(|segment| match segment {
            Segment::Key(key) => key.clone(),
            Segment::Index(index) => index.to_string(),
            Segment::Any => "*".to_owned(),
        })
        .collect();
    let mark = if path.access() == Access::Condition { "?" } else { "" };
    format!("{}{mark}", segments.join("."))
}

#[test]
fn fields_and_index_are_paths() {
    assert_eq!(paths("{{.steps.a.output.x}}"), ["steps.a.output.x"]);
    assert_eq!(paths("{{$.steps.a}}"), ["steps.a"]);
    assert_eq!(paths("{{index .steps \"my-id\" \"output\"}}"), ["steps.my-id.output"]);
    assert_eq!(paths("{{(index .steps \"my-id\").output.list}}"), ["steps.my-id.output.list"]);
    assert_eq!(paths("{{index .a.list 2 \"x\"}}"), ["a.list.2.x"]);
    assert_eq!(paths("{{.a | json | print .b}}"), ["a", "b"]);
    assert_eq!(paths("{{json .}}"), [""]);
    assert_eq!(paths("text {{\"text\"}} {{1}}"), Vec::<String>::new());
}

#[test]
fn unknown_keys_are_dynamic() {
    let template = Template::parse("{{index .steps .params.x}}").unwrap();
    let dynamic: Vec<_> =
        template.paths().iter().map(|path| (shown(path), path.is_dynamic())).collect();
    assert_eq!(dynamic, [("steps.*".to_owned(), true), ("params.x".to_owned(), false)]);
    assert_eq!(paths("{{$id := \"a\"}}{{index .steps $id}}"), ["steps.*"]);
    assert_eq!(paths("{{index .steps (or \"a\" \"b\")}}"), ["steps.*"]);
    assert_eq!(paths("{{index .steps (or .id \"b\")}}"), ["steps.*", "id"]);
    assert_eq!(paths("{{index .steps (\"a\")}}"), ["steps.a"]);
    assert_eq!(paths("{{index .steps (print \"a\")}}"), ["steps.*"]);
    assert_eq!(paths("{{range .l}}{{.x}}{{end}}"), ["l", "l.*.x"]);
}

#[test]
fn dot_of_with_and_range_is_resolved() {
    assert_eq!(
        paths("{{with .steps.a}}{{.output.x}}{{$.b}}{{else}}{{.c}}{{end}}"),
        ["steps.a?", "steps.a.output.x", "b", "c"]
    );
    assert_eq!(
        paths("{{range $i, $e := .l}}{{$e.x}}{{.y}}{{else}}{{.z}}{{end}}"),
        ["l", "l.*.x", "l.*.y", "z"]
    );
    assert_eq!(paths("{{with $s := .steps}}{{$s.a.output}}{{end}}"), ["steps?", "steps.a.output"]);
    assert_eq!(
        paths("{{if .a}}{{.b}}{{else if .c}}{{.d}}{{else}}{{.e}}{{end}}"),
        ["a?", "b", "c?", "d", "e"]
    );
    assert_eq!(paths("{{with or .a .b}}{{.c}}{{end}}"), ["a?", "b?", "a.c", "b.c"]);
}

#[test]
fn conditions_are_paths() {
    assert_eq!(paths("{{if not .a}}{{end}}"), ["a?"]);
    assert_eq!(paths("{{if and .a (or .b .c)}}{{end}}"), ["a?", "b?", "c?"]);
    assert_eq!(paths("{{if eq .a .b}}{{end}}"), ["a", "b"]);
    // Too many alternatives count as whole reads.
    let alternatives: Vec<_> = (10..50).map(|index| format!("a{index}")).collect();
    assert_eq!(paths(&format!("{{{{(or .{}).x}}}}", alternatives.join(" ."))), alternatives);
}

#[test]
fn bodies_of_called_templates_count() {
    assert_eq!(
        paths("{{define \"t\"}}{{.x}}{{$.y}}{{end}}{{template \"t\" .a}}{{template \"t\" $}}"),
        ["a.x", "x", "a.y", "y"]
    );
    assert_eq!(paths("{{define \"t\"}}{{.x}}{{end}}"), Vec::<String>::new());
    assert_eq!(paths("{{block \"t\" .a}}{{.x}}{{end}}"), ["a.x"]);
    assert_eq!(
        paths(
            "{{define \"t\"}}{{.v}}{{range .c}}{{template \"t\" .}}{{end}}{{end}}{{template \"t\" .r}}"
        ),
        ["r.c.*.v", "r.v", "r.c", "r.c.*.c", "r.c.*?", "r.c.*.c.*"]
    );
}

#[test]
fn kept_values_count_as_conditions() {
    assert_eq!(paths("{{$s := .steps}}{{$s.a}}"), ["steps.a"]);
    assert_eq!(paths("{{$o := .steps.a}}{{$o.x}}"), ["steps.a?", "steps.a.x"]);
    assert_eq!(paths("{{.a.b | print.c}}"), ["a.b?"]);
    assert_eq!(paths("{{$unused := .steps.a.x}}"), ["steps.a.x?"]);
    assert_eq!(paths("{{template \"t\" .a.b}}{{define \"t\"}}{{end}}"), ["a.b?"]);
}

#[test]
fn assigned_variables_count_as_whole_reads() {
    assert_eq!(paths("{{$x := .a}}{{range .l}}{{$x.n}}{{$x = .}}{{end}}"), ["l", "a.n", "l.*"]);
    assert_eq!(paths("{{$ = .a}}{{$.b}}"), ["a", "a.b", "b"]);
    assert_eq!(paths("{{$x := .a}}{{if .c}}{{$x = .b}}{{end}}{{$x.n}}"), ["c?", "b", "a.n", "b.n"]);
}

#[test]
fn paths_name_line_and_column() {
    let template = Template::parse("é {{.a}}\n  {{ print .b .c }}").unwrap();
    let positions: Vec<_> =
        template.paths().iter().map(|path| (shown(path), path.line(), path.column())).collect();
    assert_eq!(
        positions,
        [("a".to_owned(), 1, 5), ("b".to_owned(), 2, 12), ("c".to_owned(), 2, 15)]
    );
}

#[test]
fn data_outside_of_paths_are_never_read() {
    let vectors = vectors::load();
    for source in vectors::templates(&vectors) {
        let Ok(template) = Template::parse(source) else { continue };
        let data = covered(&vectors["data"], &template);
        let reduced = template.render(&vectors::root(&data, &vectors), &Limits::default());
        let root: Value<'_> = vectors::root(&vectors["data"], &vectors);
        let complete = template.render(&root, &Limits::default());
        assert_eq!(reduced, complete, "{source} reads more than {:?}", paths(source));
    }
}
