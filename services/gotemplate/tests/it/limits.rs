//! Templates that loop, grow or recurse.

use serde_json::{Value as Json, json};
use vmcp_gotemplate::{Limits, RenderErrorKind, Template, Value};

/// Returns the kind of the error of rendering a template with the given data.
fn failure(source: &str, data: &Json, limits: &Limits) -> RenderErrorKind {
    let template = Template::parse(source).unwrap();
    let error = template.render(&Value::Json(data), limits).unwrap_err();
    assert!(error.kind().is_limit());
    error.kind()
}

fn default_failure(source: &str) -> RenderErrorKind {
    failure(source, &json!({"big": "x".repeat(1000)}), &Limits::default())
}

#[test]
fn loops_end_at_step_limit() {
    let templates = [
        "{{range 9223372036854775807}}{{end}}",
        "{{range 1000000}}{{range 1000000}}{{end}}{{end}}",
        "{{range 1000}}{{range 1000}}{{if true}}{{end}}{{end}}{{end}}",
        "{{define \"t\"}}{{range 9000000000}}{{template \"t\"}}{{end}}{{end}}{{range 900000000}}{{end}}",
        "{{range 999999}}{{eq $.big $.big}}{{end}}",
        "{{$x := printf \"%999999s\" \"\"}}{{$y := print $x}}{{range 9999}}{{eq $x $y}}{{end}}",
        "{{$x := printf \"%900000s\" \"\"}}{{range 99}}{{$y := printf $x}}{{end}}",
    ];
    for source in templates {
        let limits = Limits { max_steps: 200_000, ..Limits::default() };
        assert_eq!(
            failure(source, &json!({"big": "x"}), &limits),
            RenderErrorKind::StepLimit,
            "{source}"
        );
    }
}

#[test]
fn recursion_ends_at_depth_limit() {
    let templates = [
        "{{define \"t\"}}{{template \"t\" .}}{{end}}{{template \"t\" .}}",
        "{{define \"a\"}}{{template \"b\"}}{{end}}{{define \"b\"}}{{template \"a\"}}{{end}}{{template \"a\"}}",
        "{{template \"\" .}}",
        "{{define \"t\"}}{{range 2}}{{template \"t\"}}{{end}}{{end}}{{template \"t\"}}",
        "{{block \"t\" .}}{{template \"t\" .}}{{end}}",
    ];
    for source in templates {
        assert_eq!(default_failure(source), RenderErrorKind::DepthLimit, "{source}");
    }
}

#[test]
fn deep_bodies_in_recursion_fit_the_stack() {
    let conditions = "{{if true}}{{with 1}}{{range 1}}".repeat(33);
    let ends = "{{end}}".repeat(99);
    let source = format!(
        "{{{{define \"t\"}}}}{conditions}{{{{template \"t\"}}}}{ends}{{{{end}}}}{{{{template \"t\"}}}}"
    );
    assert_eq!(default_failure(&source), RenderErrorKind::DepthLimit);
    let parentheses = format!("{}1{}", "(print ".repeat(99), ")".repeat(99));
    let template = Template::parse(&format!("{{{{{parentheses}}}}}")).unwrap();
    assert_eq!(template.render(&Value::Integer(1), &Limits::default()).unwrap(), "1");
}

#[test]
fn actions_in_sequence_do_not_nest() {
    for body in
        ["{{template \"t\"}}", "{{print (\"x\")}}", "{{if true}}{{with \"x\"}}{{.}}{{end}}{{end}}"]
    {
        let source = format!("{{{{define \"t\"}}}}x{{{{end}}}}{{{{range 1000}}}}{body}{{{{end}}}}");
        let template = Template::parse(&source).unwrap();
        let output = template.render(&Value::Boolean(true), &Limits::default()).unwrap();
        assert_eq!(output, "x".repeat(1000), "{source}");
    }
}

#[test]
fn growing_texts_end_at_memory_limit() {
    let templates = [
        "{{$x := \"aaaaaaaa\"}}{{range 100}}{{$x = print $x $x}}{{end}}",
        "{{range 1000000}}{{$x := printf \"%1000d\" 1}}{{end}}",
        "{{range 100}}{{len (printf \"%999999d\" 1)}}{{end}}",
        "{{$x := \"\\x00\"}}{{range 100}}{{$x = quote $x}}{{end}}",
        "{{$x := json .}}{{range 99}}{{$x = json $x}}{{end}}",
        "{{$x := \"é\"}}{{range 99}}{{$x = urlquery $x}}{{end}}{{range 99}}{{$x = print $x $x}}{{end}}",
        "{{$x := printf \"%999999d\" 1}}{{range 99}}{{len (fromJson (print \"\\\"\" $x \"\\\"\"))}}{{end}}",
        "{{$x := printf \"%999999.999999f\" 1.0}}{{range 99}}{{$x = printf \"%999999x\" $x}}{{end}}",
    ];
    for source in templates {
        let limits = Limits { max_memory_bytes: 3_000_000, ..Limits::default() };
        let kind = failure(source, &json!("x"), &limits);
        assert_eq!(kind, RenderErrorKind::MemoryLimit, "{source}");
    }
}

#[test]
fn output_ends_at_its_limit() {
    let limits = Limits { max_output_bytes: 10, ..Limits::default() };
    let data = json!({"s": "0123456789", "l": [1, 2, 3, 4, 5, 6]});
    for source in [
        "01234567890",
        "{{.s}}{{.s}}",
        "{{.s}}x",
        "{{range 11}}x{{end}}",
        "{{.l}}",
        "{{printf \"%11d\" 1}}",
    ] {
        assert_eq!(failure(source, &data, &limits), RenderErrorKind::OutputLimit, "{source}");
    }
    let template = Template::parse("{{.s}}").unwrap();
    assert_eq!(template.render(&Value::Json(&data), &limits).unwrap(), "0123456789");
    assert_eq!(default_failure("{{range 100000}}{{$.big}}{{end}}"), RenderErrorKind::OutputLimit);
}

#[test]
fn deep_data_are_refused() {
    let mut data = json!(1);
    for _ in 0..300 {
        data = json!([data]);
    }
    for source in ["{{.}}", "{{json .}}", "{{print .}}", "{{printf \"%d\" .}}"] {
        assert_eq!(failure(source, &data, &Limits::default()), RenderErrorKind::DepthLimit);
    }
    let template = Template::parse("{{fromJson .}}").unwrap();
    let parse = |depth: usize| {
        let text = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        template.render(&Value::from(text), &Limits::default()).map_err(|error| error.kind())
    };
    assert!(parse(127).is_ok());
    assert_eq!(parse(128), Err(RenderErrorKind::Evaluation));
    assert_eq!(parse(10_000), Err(RenderErrorKind::Evaluation));
}

#[test]
fn deep_templates_are_refused() {
    let count = 10_000;
    let sources = [
        format!("{{{{{}1{}}}}}", "(".repeat(count), ")".repeat(count)),
        format!("{{{{{}", "(".repeat(count)),
        "{{if .}}".repeat(count) + &"{{end}}".repeat(count),
        "{{range .}}".repeat(count),
        "{{with .}}{{else}}".repeat(count),
        "{{block \"x\" .}}".repeat(count),
    ];
    let many = Template::parse(&"{{$x := 1}}".repeat(1001)).unwrap_err();
    assert!(many.message().contains("more than 1000 variables"), "{many}");
    for source in sources {
        let error = Template::parse(&source).unwrap_err();
        assert!(error.message().contains("deeper than 100"), "{error}");
    }
}

#[test]
fn long_templates_are_accepted() {
    let count = 2_000;
    let chain = "{{else if .}}x".repeat(count);
    let template =
        Template::parse(&format!("{{{{if .}}}}a{chain}{{{{else}}}}z{{{{end}}}}")).unwrap();
    assert_eq!(template.render(&Value::Boolean(false), &Limits::default()).unwrap(), "z");
    let pipeline = format!("{{{{1{}}}}}", " | print".repeat(count));
    let template = Template::parse(&pipeline).unwrap();
    assert_eq!(template.render(&Value::Boolean(false), &Limits::default()).unwrap(), "1");
    let fields = format!("{{{{{}}}}}", ".a".repeat(count));
    let template = Template::parse(&fields).unwrap();
    assert_eq!(
        template.render(&Value::Json(&json!({})), &Limits::default()).unwrap(),
        "<no value>"
    );
    let error = Template::parse(&" ".repeat(1024 * 1024 + 1)).unwrap_err();
    assert!(error.message().contains("1 MiB"), "{error}");
}

#[test]
fn path_analysis_is_bounded() {
    let definitions = (0..64).map(|index| {
        let call = format!("{{{{template \"t{}\"", index + 1);
        format!("{{{{define \"t{index}\"}}}}{call} .a}}}}{call} .b}}}}{{{{end}}}}")
    });
    let doubling: String = definitions.chain(["{{template \"t0\" .}}".to_owned()]).collect();
    let template = Template::parse(&doubling).unwrap();
    assert_eq!(template.paths().len(), 1);
    assert!(
        template.paths()[0].segments().is_empty(),
        "the template counts as one that reads everything"
    );
    let calls = (0..10_000).map(|index| {
        let next = index + 1;
        format!("{{{{define \"{index}\"}}}}{{{{template \"{next}\" .a}}}}{{{{end}}}}")
    });
    let chain = calls.collect::<Vec<_>>().concat();
    let template = Template::parse(&format!("{chain}{{{{template \"0\" .}}}}")).unwrap();
    assert!(template.paths()[0].segments().is_empty());
    let growing = format!("{{{{$x := .}}}}{}{{{{$x}}}}", "{{$x := $x.a}}".repeat(900));
    let growing = Template::parse(&growing).unwrap();
    assert_eq!(growing.paths().iter().map(|path| path.segments().len()).max(), Some(64));
    let count = |number: usize| {
        let reads = (0..number).map(|index| format!("{{{{.x{index}{}}}}}", ".a".repeat(48)));
        Template::parse(&reads.collect::<Vec<_>>().concat()).unwrap().paths().len()
    };
    assert_eq!((count(1_900), count(2_100)), (1_900, 1));
    let arguments = |count: usize| {
        let source = format!("{{{{print{}}}}}{{{{if true}}}}{{{{end}}}}", " 1".repeat(count));
        Template::parse(&source).unwrap().paths().len()
    };
    assert_eq!((arguments(150_000), arguments(210_000)), (0, 1));
    let siblings = Template::parse(&"{{if .a}}{{.b}}{{end}}".repeat(500)).unwrap();
    assert_eq!(siblings.paths().len(), 1_000);
    let unions = format!("{{{{$x := .}}}}{}{{{{$x}}}}", "{{$x := or $x.a $x.b}}".repeat(900));
    assert!(!Template::parse(&unions).unwrap().paths().is_empty());
}
