//! Findings about a definition and its tools.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use vmcp_compose::{Severity, ToolInfo, Workflow};
use vmcp_core::ToolAnnotations;

use crate::support::{compile, repeatable, workflow};

/// Tools with an input and an output schema.
fn tools(input: Value, output: Value) -> BTreeMap<String, ToolInfo> {
    let info = ToolInfo {
        input_schema: Some(Arc::new(input)),
        output_schema: Some(Arc::new(output)),
        ..ToolInfo::default()
    };
    BTreeMap::from([("w.t".to_owned(), info)])
}

fn any_tool() -> BTreeMap<String, ToolInfo> {
    BTreeMap::from([("w.t".to_owned(), ToolInfo::default())])
}

#[track_caller]
fn assert_findings(
    workflow: &Workflow,
    tools: &BTreeMap<String, ToolInfo>,
    expected: &[(Severity, &str)],
) {
    let findings = workflow.check(tools);
    let found: Vec<_> = findings
        .iter()
        .map(|finding| (finding.severity, format!("{}: {}", finding.path, finding.message)))
        .collect();
    let expected: Vec<_> = expected
        .iter()
        .map(|(severity, text)| (*severity, format!("compositeTools[0].{text}")))
        .collect();
    assert_eq!(found, expected);
}

#[test]
fn unknown_tools_are_errors() {
    let workflow = workflow(json!([
        {"id": "a", "tool": "w.gone"},
        {"id": "b", "type": "forEach", "collection": "[]", "step": {"tool": "w.none"}},
    ]));
    let expected = [
        (Severity::Error, "steps[0].tool: no backend has the tool \"w.gone\""),
        (Severity::Error, "steps[1].step.tool: no backend has the tool \"w.none\""),
    ];
    assert_findings(&workflow, &any_tool(), &expected);
}

#[test]
fn arguments_fit_the_input_schema() {
    let tools = tools(
        json!({
            "type": "object", "additionalProperties": false, "required": ["query", "limit"],
            "properties": {
                "query": {"type": "string"}, "limit": {"type": "integer", "maximum": 10},
                "tags": {"type": "array"}, "flag": {"type": "boolean"},
            },
        }),
        json!({}),
    );
    let workflow = workflow(json!([{"id": "a", "tool": "w.t", "arguments": {
        "limit": 11, "tags": "{{json .params}}", "flag": "yes", "qurey": "x",
    }}]));
    let expected = [
        (Severity::Error, "steps[0].arguments.query: w.t requires the argument \"query\""),
        (
            Severity::Error,
            "steps[0].arguments.limit: does not fit the tool's input: the value is greater than the maximum of 10",
        ),
        (Severity::Error, "steps[0].arguments.tags: is text, but the tool expects array"),
        (
            Severity::Error,
            "steps[0].arguments.flag: does not fit the tool's input: the value is not of type \"boolean\"",
        ),
        (
            Severity::Error,
            "steps[0].arguments.qurey: w.t has no argument \"qurey\" (did you mean query?)",
        ),
    ];
    let mut found = workflow.check(&tools);
    found.sort_by_key(|finding| {
        expected.iter().position(|(_, text)| {
            format!("compositeTools[0].{text}") == format!("{}: {}", finding.path, finding.message)
        })
    });
    let found: Vec<_> = found.iter().map(|f| format!("{}: {}", f.path, f.message)).collect();
    assert_eq!(found, expected.map(|(_, text)| format!("compositeTools[0].{text}")));
}

#[test]
fn fitting_arguments_have_no_findings() {
    let tools = tools(
        json!({"type": "object", "required": ["n"], "properties": {
            "n": {"type": "integer"}, "b": {"type": "boolean"}, "r": {"$ref": "#/$defs/x"},
        }}),
        json!({}),
    );
    let workflow = workflow(json!([{"id": "a", "tool": "w.t", "arguments": {
        "n": "5", "b": "{{eq .workflow.step_count 1}}", "r": {}, "other": 1,
    }}]));
    assert_findings(&workflow, &tools, &[]);
}

#[test]
fn printed_values_fit_the_input_schema() {
    let tools = tools(
        json!({"type": "object", "properties": {
            "i": {"type": "integer"}, "s": {"type": "string"}, "b": {"type": "boolean"},
            "t": {"type": "string"}, "u": {"type": "integer"},
        }}),
        json!({"type": "object", "properties": {
            "object": {"type": "object"}, "flag": {"type": "boolean"}, "text": {"type": "string"},
        }}),
    );
    let workflow = compile(json!({
        "name": "t",
        "parameters": {"type": "object", "required": ["list"], "properties": {"list": {"type": "array"}}},
        "steps": [
            {"id": "a", "tool": "w.t"},
            {"id": "b", "tool": "w.t", "dependsOn": ["a"], "arguments": {
                "i": "{{.steps.a.output.flag}}", "s": "{{.steps.a.output.object}}",
                "b": "{{ .params.list }}", "t": "{{json .params.list}}", "u": "{{.steps.a.output.text}}",
            }},
        ],
    }));
    let mut found: Vec<_> = workflow
        .check(&tools)
        .iter()
        .map(|finding| (finding.severity, format!("{}: {}", finding.path, finding.message)))
        .collect();
    found.sort_by(|one, other| one.1.cmp(&other.1));
    let expected = [
        (Severity::Error, "steps[1].arguments.b: prints array, but the tool expects boolean"),
        (Severity::Error, "steps[1].arguments.i: prints boolean, but the tool expects integer"),
        (Severity::Warning, "steps[1].arguments.s: prints object as Go does: use json for JSON"),
    ];
    assert_eq!(found, expected.map(|(s, text)| (s, format!("compositeTools[0].{text}"))));
}

#[test]
fn reads_fit_the_output_schema() {
    let tools = tools(
        json!({}),
        json!({"type": "object", "properties": {
            "title": {"type": "string"},
            "author": {"type": "object", "additionalProperties": false,
                "properties": {"name": {"type": "string"}}},
        }}),
    );
    let workflow = workflow(json!([
        {"id": "a", "tool": "w.t"},
        {"id": "b", "tool": "w.t", "dependsOn": ["a"], "arguments": {
            "ok": "{{.steps.a.output.author.name}}",
            "open": "{{.steps.a.output.titel}}",
            "closed": "{{.steps.a.output.author.nmae}}",
        }},
    ]));
    let expected = [
        (
            Severity::Error,
            "steps[1].arguments.closed: reads .steps.a.output.author.nmae, which the outputSchema of w.t \
             lacks (did you mean name?)",
        ),
        (
            Severity::Warning,
            "steps[1].arguments.open: reads .steps.a.output.titel, which the outputSchema of w.t lacks \
             (did you mean title?)",
        ),
    ];
    let mut found = workflow.check(&tools);
    found.sort_by(|one, other| one.path.cmp(&other.path));
    let found: Vec<_> =
        found.iter().map(|f| (f.severity, format!("{}: {}", f.path, f.message))).collect();
    assert_eq!(found, expected.map(|(s, text)| (s, format!("compositeTools[0].{text}"))));
}

#[test]
fn warns_of_retries_that_may_act_twice() {
    let retry = json!({"action": "retry", "retryCount": 1});
    let workflow = workflow(json!([
        {"id": "a", "tool": "w.t", "onError": retry},
        {"id": "b", "type": "forEach", "collection": "[]", "step": {"tool": "w.t", "onError": retry}},
    ]));
    let message = "onError.action: retries w.t, which is neither read-only nor idempotent: a retry may act twice";
    let (call, inner) = (format!("steps[0].{message}"), format!("steps[1].step.{message}"));
    let expected = [(Severity::Warning, call.as_str()), (Severity::Warning, inner.as_str())];
    assert_findings(&workflow, &any_tool(), &expected);
    assert_findings(&workflow, &BTreeMap::from([("w.t".to_owned(), repeatable())]), &[]);
    let idempotent = ToolInfo {
        annotations: ToolAnnotations { idempotent: Some(true), ..ToolAnnotations::default() },
        ..ToolInfo::default()
    };
    assert_findings(&workflow, &BTreeMap::from([("w.t".to_owned(), idempotent)]), &[]);
}

#[test]
fn warns_of_templates_that_are_not_replaced() {
    let workflow = workflow(json!([{"id": "a", "tool": "w.t", "arguments": {
        "o": {"list": ["x", "{{.params.x}}"]},
    }}]));
    let expected = "steps[0].arguments.o: o.list[1] is sent as it is: only text on the first level of \
                    arguments is a template";
    assert_findings(&workflow, &any_tool(), &[(Severity::Warning, expected)]);
}

#[test]
fn warns_of_undeclared_parameters() {
    let workflow = compile(json!({
        "name": "t",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
        "steps": [{"id": "a", "tool": "w.t", "arguments": {"x": "{{.params.citi}}{{.vars.x}}"}}],
    }));
    let expected = [
        (
            Severity::Warning,
            "steps[0].arguments.x: reads .params.citi, which parameters do not declare: clients do not \
             know of it (did you mean city?)",
        ),
        (Severity::Warning, "steps[0].arguments.x: reads .vars, which is always empty"),
    ];
    assert_findings(&workflow, &any_tool(), &expected);
}

#[test]
fn warns_of_optional_parameters_without_default() {
    let workflow = compile(json!({
        "name": "t",
        "parameters": {"type": "object", "required": ["id"], "properties": {
            "id": {"type": "string"}, "n": {"type": "integer"}, "kind": {"type": "string", "default": "x"},
        }},
        "steps": [{"id": "a", "tool": "w.t", "arguments": {
            "bare": "{{ .params.n -}}", "inside": "{{.params.id}} of {{.params.kind}}: {{.params.n}}",
            "tested": "{{if .params.n}}{{.params.n}}{{end}}", "piped": "{{json .params.n}}",
        }}],
        "output": {"properties": {"n": {"type": "integer", "value": "{{.params.n}}", "default": 0}}},
    }));
    let message = "prints .params.n, which is optional and has no default: without it, the text is \
                   \"<no value>\"; require it, set a default, or test it with if";
    let bare = format!("steps[0].arguments.bare: {message}");
    let inside = format!("steps[0].arguments.inside: {message}");
    let expected = [(Severity::Warning, bare.as_str()), (Severity::Warning, inside.as_str())];
    assert_findings(&workflow, &any_tool(), &expected);
}

#[test]
fn warns_of_timeouts_without_effect() {
    let workflow = compile(json!({"name": "t", "timeout": "1h", "steps": [
        {"id": "a", "tool": "w.t", "timeout": "2h"},
        {"id": "b", "type": "elicitation", "message": "m", "schema": {"type": "object"}, "timeout": "11m"},
        {"id": "c", "tool": "w.t", "timeout": "1h"},
    ]}));
    let expected = [
        (Severity::Warning, "steps[0].timeout: is longer than the timeout of the workflow: 3600s"),
        (Severity::Warning, "steps[1].timeout: is longer than a question waits: 600s"),
    ];
    assert_findings(&workflow, &any_tool(), &expected);
}

#[test]
fn warns_of_steps_that_never_run() {
    let workflow = workflow(json!([{"id": "a", "tool": "w.t", "condition": "false"}]));
    let expected = "steps[0].condition: is always false: the step never runs";
    assert_findings(&workflow, &any_tool(), &[(Severity::Warning, expected)]);
}

#[test]
fn warns_of_output_that_a_user_may_skip() {
    let definition = |more: Value| {
        let mut after = json!({"id": "after", "tool": "w.t", "dependsOn": ["ask"]});
        for (name, value) in crate::support::object(more) {
            after[name] = value;
        }
        compile(json!({
            "name": "t",
            "steps": [
                {"id": "before", "tool": "w.t"},
                {"id": "ask", "type": "elicitation", "message": "m", "schema": {"type": "object"},
                 "dependsOn": ["before"], "onDecline": {"action": "skip_remaining"}},
                after,
            ],
            "output": {"properties": {
                "b": {"type": "string", "value": "{{.steps.before.output.x}}"},
                "a": {"type": "string", "value": "{{.steps.after.output.x}}"},
            }},
        }))
    };
    let expected = "output.properties.a.value: reads step \"after\", which skip_remaining may skip: give \
                    the step defaultResults or the property a default";
    assert_findings(&definition(json!({})), &any_tool(), &[(Severity::Warning, expected)]);
    assert_findings(&definition(json!({"defaultResults": {"x": ""}})), &any_tool(), &[]);
}

#[test]
fn annotations_follow_from_called_tools() {
    let annotations = |read_only, destructive, open_world| ToolInfo {
        annotations: ToolAnnotations { read_only, destructive, idempotent: Some(true), open_world },
        ..ToolInfo::default()
    };
    let tools = BTreeMap::from([
        ("w.read".to_owned(), annotations(Some(true), None, Some(false))),
        ("w.write".to_owned(), annotations(Some(false), Some(false), Some(false))),
        ("w.silent".to_owned(), annotations(None, None, None)),
    ]);
    let of = |names: &[&str]| {
        let steps: Vec<_> = names.iter().map(|tool| json!({"id": tool, "tool": tool})).collect();
        workflow(steps.into()).annotations(&tools).map(|found| {
            assert_eq!(found.idempotent, None);
            (found.read_only.unwrap(), found.destructive.unwrap(), found.open_world.unwrap())
        })
    };
    assert_eq!(of(&["w.read"]), Some((true, false, false)));
    assert_eq!(of(&["w.read", "w.write"]), Some((false, false, false)));
    assert_eq!(of(&["w.read", "w.silent"]), Some((false, true, true)));
    assert_eq!(of(&["w.read", "w.gone"]), Some((false, true, true)));
    let ask = workflow(
        json!([{"id": "a", "type": "elicitation", "message": "m", "schema": {"type": "object"}}]),
    );
    assert_eq!(ask.annotations(&tools), None);
}

#[test]
fn describes_steps_and_critical_path() {
    let workflow = workflow(json!([
        {"id": "a", "tool": "w.t"},
        {"id": "b", "type": "elicitation", "message": "m", "schema": {"type": "object"}, "dependsOn": ["a"]},
        {"id": "c", "type": "forEach", "collection": "[]", "step": {"tool": "w.u"}},
        {"id": "d", "tool": "w.t", "dependsOn": ["b", "c"]},
    ]));
    let steps: Vec<_> = workflow.steps().map(|step| (step.id, step.kind, step.tool)).collect();
    let expected = [
        ("a", "tool", Some("w.t")),
        ("b", "elicitation", None),
        ("c", "forEach", Some("w.u")),
        ("d", "tool", Some("w.t")),
    ];
    assert_eq!(steps, expected);
    assert_eq!(workflow.tools().collect::<Vec<_>>(), ["w.t", "w.u"]);
    assert_eq!(workflow.order(), [0, 1, 2, 3]);
    assert_eq!(workflow.dependencies(3).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(workflow.critical_path(|_| 1), [0, 1, 3]);
    assert_eq!(workflow.critical_path(|step| if step == 2 { 9 } else { 1 }), [2, 3]);
}

#[test]
fn definition_hash_covers_every_setting() {
    let of = |description: &str, order: bool| {
        let arguments = if order { json!({"x": 1, "y": 2}) } else { json!({"y": 2, "x": 1}) };
        let steps = json!([{"id": "a", "tool": "w.t", "arguments": arguments}]);
        compile(json!({"name": "t", "description": description, "steps": steps})).definition()
    };
    assert_eq!(of("d", true), of("d", false));
    assert_ne!(of("d", true), of("e", true));
}
