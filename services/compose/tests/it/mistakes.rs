//! Mistakes of a definition, reported at load.

use serde_json::{Value, json};
use vmcp_compose::Workflow;

use crate::support::{definition_of, mistakes};

/// Asserts that steps have one mistake, with this text.
#[track_caller]
fn assert_mistake(steps: Value, expected: &str) {
    let found = mistakes(json!({"name": "t", "steps": steps}));
    assert_eq!(found, [format!("compositeTools[0].{expected}")]);
}

/// Asserts that steps have no mistake.
#[track_caller]
fn assert_valid(steps: Value) {
    assert_eq!(mistakes(json!({"name": "t", "steps": steps})), Vec::<String>::new());
}

fn call(id: &str, more: Value) -> Value {
    let mut step = json!({"id": id, "tool": "w.t"});
    for (name, value) in crate::support::object(more) {
        step[name] = value;
    }
    step
}

fn loop_over(inner: Value) -> Value {
    json!({"id": "each", "type": "forEach", "collection": "[]", "step": inner})
}

#[test]
fn templates_must_parse() {
    let error = "found a template with an error at line 1, column";
    for (step, path) in [
        (call("a", json!({"arguments": {"x": "{{.params"}})), "arguments.x"),
        (call("a", json!({"condition": "{{if}}"})), "condition"),
        (
            json!({"id": "a", "type": "elicitation", "message": "{{", "schema": {"type": "object"}}),
            "message",
        ),
        (
            json!({"id": "a", "type": "forEach", "collection": "{{end}}", "step": {"tool": "w.t"}}),
            "collection",
        ),
        (
            loop_over(json!({"tool": "w.t", "arguments": {"my arg": "{{nope 1}}"}})),
            "step.arguments[\"my arg\"]",
        ),
    ] {
        let found = mistakes(json!({"name": "t", "steps": [step]}));
        assert_eq!(found.len(), 1, "{found:?}");
        let expected = format!("compositeTools[0].steps[0].{path}: {error}");
        assert!(found[0].starts_with(&expected), "{found:?}");
        assert!(found[0].ends_with("allowed: a template in Go's syntax"), "{found:?}");
    }
}

#[test]
fn all_mistakes_are_reported_at_once() {
    let found = mistakes(json!({
        "name": "t",
        "parameters": {"type": "object", "properties": {"n": {"type": "integer", "default": "x"}}},
        "steps": [
            {"id": "a", "tool": "w.t", "condition": "maybe", "arguments": {"x": "{{.step.a}}"}},
            {"id": "b", "tool": "w.t", "arguments": {"x": "{{.steps.a.output}}", "y": "{{.steps.c}}"}},
        ],
        "output": {"properties": {"o": {"type": "integer", "value": "{{.steps.a.result}}", "default": "x"}}},
    }));
    let paths: Vec<_> = found.iter().map(|line| line.split(": ").next().unwrap()).collect();
    let expected = [
        "parameters.properties.n.default",
        "steps[0].condition",
        "steps[0].arguments.x",
        "steps[1].arguments.x",
        "steps[1].arguments.y",
        "output.properties.o.value",
        "output.properties.o.default",
    ];
    assert_eq!(paths, expected.map(|path| format!("compositeTools[0].{path}")), "{found:#?}");
}

#[test]
fn template_reads_known_data_only() {
    for (template, expected) in [
        (
            "{{.param.x}}",
            "found a template that reads .param (line 1, column 3); \
             allowed: a read of .params, .steps or .workflow (did you mean params?)",
        ),
        (
            "a {{.steps.fnd.output.x}}",
            "found a template that reads step \"fnd\" (line 1, column 5); \
             allowed: the id of a step of this tool (did you mean find?)",
        ),
        (
            "{{.steps.find.outptu}}",
            "found a template that reads .steps.find.outptu (line 1, column 3); \
             allowed: one of status, output, content, error (did you mean output?)",
        ),
        (
            "{{.workflow.started}}",
            "found a template that reads .workflow.started (line 1, column 3); \
             allowed: one of id, start_time, status, duration_ms, step_count",
        ),
        (
            "{{.forEach.item}}",
            "found a template that reads .forEach (line 1, column 3); \
             allowed: .forEach only in step.arguments of a forEach",
        ),
    ] {
        let step = call("b", json!({"dependsOn": ["find"], "arguments": {"x": template}}));
        let steps = json!([call("find", json!({})), step]);
        assert_mistake(steps, &format!("steps[1].arguments.x: {expected}"));
    }
}

#[test]
fn template_reads_dependencies_only() {
    let read = json!({"arguments": {"x": "{{.steps.a.output.x}}"}});
    assert_mistake(
        json!([call("a", json!({})), call("b", read.clone())]),
        "steps[1].arguments.x: found a template that reads step \"a\" (line 1, column 3); \
         allowed: steps that are done before; add \"a\" to dependsOn of step \"b\"",
    );
    assert_mistake(
        json!([call("a", read.clone())]),
        "steps[0].arguments.x: found a template that reads step \"a\" (line 1, column 3); \
         allowed: another step: a step cannot read its own result",
    );
    let mut last = read;
    last["dependsOn"] = json!(["b"]);
    let steps = |last| json!([call("a", json!({})), call("b", json!({"dependsOn": ["a"]})), last]);
    assert_valid(steps(call("c", last)));
}

#[test]
fn reads_are_found_in_all_actions() {
    for template in [
        "{{$.steps.a.output.x}}",
        "{{index .steps \"a\" \"output\"}}",
        "{{with .steps}}{{.a.output}}{{end}}",
        "{{if .params.x}}{{else}}{{json .steps.a}}{{end}}",
        "{{range $i, $e := .steps.a.output.list}}{{$i}}{{end}}",
        "{{define \"x\"}}{{.steps.a.output}}{{end}}{{template \"x\" .}}",
        "{{printf \"%v\" (json .steps.a.output)}}",
        "{{$s := .steps}}{{$s.a.output}}",
    ] {
        let step = call("b", json!({"arguments": {"x": template}}));
        let found = mistakes(json!({"name": "t", "steps": [call("a", json!({})), step]}));
        assert!(
            found.len() == 1 && found[0].contains("add \"a\" to dependsOn"),
            "{template}: {found:?}"
        );
    }
}

#[test]
fn read_of_skippable_step_needs_default_results() {
    let read = json!({"dependsOn": ["a"], "arguments": {"x": "{{.steps.a.output.x}}"}});
    let steps = |first: Value| json!([call("a", first), call("b", read.clone())]);
    let expected = "found no value; allowed: a value: compositeTools[0].steps[1].arguments.x reads it, \
                    and step \"a\" may be skipped or fail";
    for may_skip in
        [json!({"condition": "{{.params.go}}"}), json!({"onError": {"action": "continue"}})]
    {
        assert_mistake(steps(may_skip.clone()), &format!("steps[0].defaultResults.x: {expected}"));
        let mut other = may_skip.clone();
        other["defaultResults"] = json!({"y": 1});
        assert_mistake(steps(other), &format!("steps[0].defaultResults.x: {expected}"));
        let mut with_default = may_skip;
        with_default["defaultResults"] = json!({"x": null});
        assert_valid(steps(with_default));
    }
    let retried = json!({"onError": {"action": "retry", "retryCount": 1}});
    assert_valid(steps(retried));
}

#[test]
fn every_setting_is_scanned_for_default_results() {
    let first = call("a", json!({"condition": "{{.params.go}}"}));
    let read = "{{.steps.a.output.x}}";
    for (step, path) in [
        (call("b", json!({"condition": read})), "condition"),
        (
            json!({"id": "b", "type": "elicitation", "message": read, "schema": {"type": "object"}}),
            "message",
        ),
        (
            json!({"id": "b", "type": "forEach", "collection": read, "step": {"tool": "w.t"}}),
            "collection",
        ),
        (
            json!({"id": "b", "type": "forEach", "collection": "[]",
                "step": {"tool": "w.t", "arguments": {"x": read}}}),
            "step.arguments.x",
        ),
    ] {
        let mut step = step;
        step["dependsOn"] = json!(["a"]);
        let found = mistakes(json!({"name": "t", "steps": [first, step]}));
        assert!(found[0].contains(&format!("steps[1].{path} reads it")), "{found:?}");
    }
    let output = json!({"properties": {"o": {"type": "string", "value": read}}});
    let found = mistakes(json!({"name": "t", "steps": [first], "output": output}));
    assert!(found[0].contains("output.properties.o.value reads it"), "{found:?}");
}

#[test]
fn read_of_whole_output_needs_default_results() {
    let steps = |template: &str| {
        let step = call("b", json!({"dependsOn": ["a"], "arguments": {"x": template}}));
        json!([call("a", json!({"condition": "{{.params.go}}"})), step])
    };
    assert_mistake(
        steps("{{json .steps.a.output}}"),
        "steps[0].defaultResults: found no value; allowed: an object: \
         compositeTools[0].steps[1].arguments.x reads it, and step \"a\" may be skipped or fail",
    );
    assert_valid(steps("{{if .steps.a.output}}yes{{end}}"));
    assert_valid(steps("{{.steps.a.status}}"));
}

#[test]
fn question_that_continues_needs_default_content() {
    let steps = |more: Value, read: &str| {
        let mut ask = json!({"id": "a", "type": "elicitation", "message": "m",
            "schema": {"type": "object"}});
        for (name, value) in crate::support::object(more) {
            ask[name] = value;
        }
        json!([ask, call("b", json!({"dependsOn": ["a"], "arguments": {"x": read}}))])
    };
    let content = "{{.steps.a.output.content.n}}";
    for setting in ["onDecline", "onCancel"] {
        let more = json!({(setting): {"action": "continue"}});
        let expected = "steps[0].defaultResults.content: found no value; allowed: a value: \
            compositeTools[0].steps[1].arguments.x reads it, and the user may decline or cancel the question \
            of step \"a\"";
        assert_mistake(steps(more.clone(), content), expected);
        assert_valid(steps(more.clone(), "{{.steps.a.output.action}}{{json .steps.a.output}}"));
        let mut other = more;
        other["defaultResults"] = json!({"n": 1});
        assert_mistake(steps(other.clone(), content), expected);
        other["defaultResults"] = json!({"content": {"n": 1}});
        assert_valid(steps(other, content));
        assert_valid(steps(json!({(setting): {"action": "skip_remaining"}}), content));
    }
}

#[test]
fn default_results_are_an_object() {
    assert_mistake(
        json!([call("a", json!({"defaultResults": "x"}))]),
        "steps[0].defaultResults: found \"x\"; allowed: an object, as each output is one",
    );
}

#[test]
fn outputs_of_questions_and_loops_are_known() {
    let ask =
        json!({"id": "a", "type": "elicitation", "message": "m", "schema": {"type": "object"}});
    let read = |field: &str| {
        let template = format!("{{{{.steps.a.output.{field}}}}}");
        call("b", json!({"dependsOn": ["a"], "arguments": {"x": template}}))
    };
    assert_valid(json!([ask, read("content.name")]));
    assert_mistake(
        json!([ask, read("contents")]),
        "steps[1].arguments.x: found a template that reads .steps.a.output.contents; \
         allowed: one of action, content, skipped (did you mean content?)",
    );
    let each = json!({"id": "a", "type": "forEach", "collection": "[]", "step": {"tool": "w.t"}});
    assert_valid(json!([each, read("iterations")]));
    assert_mistake(
        json!([each, read("results")]),
        "steps[1].arguments.x: found a template that reads .steps.a.output.results; \
         allowed: one of iterations, count, completed, failed",
    );
}

#[test]
fn condition_without_template_is_true_or_false() {
    assert_mistake(
        json!([call("a", json!({"condition": "yes"}))]),
        "steps[0].condition: found \"yes\"; allowed: a template whose text is true or false",
    );
    assert_valid(json!([call("a", json!({"condition": "true"}))]));
}

#[test]
fn only_calls_are_retried() {
    let retry = json!({"action": "retry", "retryCount": 1});
    let mut each = loop_over(json!({"tool": "w.t"}));
    each["onError"] = retry.clone();
    assert_mistake(
        json!([each]),
        "steps[0].onError.action: found retry of a forEach; put onError into its step; \
         allowed: abort or continue; only a call is retried",
    );
    let ask = json!({"id": "a", "type": "elicitation", "message": "m", "schema": {"type": "object"},
        "onError": retry});
    assert_mistake(
        json!([ask]),
        "steps[0].onError.action: found retry of a question; \
         allowed: abort or continue; only a call is retried",
    );
    assert_valid(json!([loop_over(json!({"tool": "w.t", "onError": retry}))]));
}

#[test]
fn inner_step_does_not_continue_after_failure() {
    assert_mistake(
        json!([loop_over(json!({"tool": "w.t", "onError": {"action": "continue"}}))]),
        "steps[0].step.onError.action: found continue; allowed: abort or retry; \
         onError of the forEach step itself continues after failures",
    );
}

#[test]
fn inner_arguments_read_item_and_index_only() {
    let inner = |read: &str| loop_over(json!({"tool": "w.t", "arguments": {"x": read}}));
    assert_valid(json!([inner("{{.forEach.item}} {{.forEach.index}}")]));
    assert_mistake(
        json!([inner("{{.forEach.itm}}")]),
        "steps[0].step.arguments.x: found a template that reads .forEach.itm (line 1, column 3); \
         allowed: one of item, index (did you mean item?)",
    );
}

#[test]
fn schemas_must_be_json_schemas() {
    let ask = |schema: Value| json!([{"id": "a", "type": "elicitation", "message": "m", "schema": schema}]);
    for schema in [json!({"type": "objekt"}), json!({"$ref": "https://example.com/schema.json"})] {
        let found = mistakes(json!({"name": "t", "steps": ask(schema.clone())}));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            found[0].starts_with("compositeTools[0].steps[0].schema: found not a JSON Schema"),
            "{found:?}"
        );
        let mut parameters = schema;
        parameters["type"] = "object".into();
        parameters["properties"] = json!({"x": {"type": 5}});
        let found = mistakes(
            json!({"name": "t", "parameters": parameters, "steps": [call("a", json!({}))]}),
        );
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            found[0].starts_with("compositeTools[0].parameters: found not a JSON Schema"),
            "{found:?}"
        );
    }
    let large = json!({"type": "object", "description": "x".repeat(100 * 1024)});
    let found = mistakes(json!({"name": "t", "steps": ask(large)}));
    assert!(found[0].ends_with("bytes of JSON; allowed: at most 102400 bytes"), "{found:?}");
    let deep = (0..10).fold(json!({}), |schema, _| json!({ "not": schema }));
    assert_mistake(
        ask(deep),
        "steps[0].schema: found 11 levels of nesting; allowed: at most 10 levels",
    );
}

#[test]
fn closed_parameters_are_the_only_ones() {
    let found = mistakes(json!({
        "name": "t",
        "parameters": {"type": "object", "additionalProperties": false,
            "properties": {"city": {"type": "string"}}},
        "steps": [call("a", json!({"arguments": {"x": "{{.params.citi}}"}}))],
    }));
    let expected = "compositeTools[0].steps[0].arguments.x: found a template that reads .params.citi; \
                    allowed: a property of parameters, which has no others (did you mean city?)";
    assert_eq!(found, [expected]);
}

#[test]
fn defaults_fit_their_types() {
    let found = mistakes(json!({
        "name": "t",
        "parameters": {"type": "object", "properties": {
            "n": {"type": "integer", "default": "x"}, "m": {"type": "integer", "default": 1},
        }},
        "steps": [call("a", json!({}))],
        "output": {"properties": {"o": {"type": "integer", "value": "x", "default": [1]}}},
    }));
    let expected = [
        "compositeTools[0].parameters.properties.n.default: found the value is not of type \"integer\"; \
         allowed: a default of the property's own type",
        "compositeTools[0].output.properties.o.default: found [1]; allowed: a value of type integer",
    ];
    assert_eq!(found, expected);
}

#[test]
fn cycle_is_reported_with_its_path() {
    let mut tool = definition_of(json!({"name": "t", "steps": [
        call("a", json!({})),
        call("b", json!({"dependsOn": ["a"]})),
        call("c", json!({"dependsOn": ["b"]})),
        call("d", json!({"dependsOn": ["c"], "arguments": {"x": "{{.steps.a.output.x}}"}})),
    ]}));
    tool.steps[0].depends_on = vec!["c".to_owned()];
    let errors = Workflow::compile(&tool, "compositeTools[0]").unwrap_err();
    assert_eq!(errors.len(), 1);
    assert_eq!(
        errors[0].to_string(),
        "compositeTools[0].steps[0].dependsOn: found a cycle of dependsOn: a -> c -> b -> a; \
         allowed: dependsOn without cycles"
    );
}

#[test]
fn definition_made_by_hand_is_checked_too() {
    let valid =
        definition_of(json!({"name": "t", "steps": [call("a", json!({})), call("b", json!({}))]}));
    let errors = |change: fn(&mut vmcp_config::CompositeTool)| {
        let mut tool = valid.clone();
        change(&mut tool);
        Workflow::compile(&tool, "x").unwrap_err()[0].to_string()
    };
    assert_eq!(
        errors(|tool| tool.steps.clear()),
        "x.steps: found 0 steps; allowed: from 1 to 100 steps"
    );
    assert_eq!(
        errors(|tool| tool.steps[1].id = "a".to_owned()),
        "x.steps[1].id: found the duplicate value \"a\"; allowed: a unique id"
    );
    assert_eq!(
        errors(|tool| tool.steps[1].depends_on = vec!["A".to_owned()]),
        "x.steps[1].dependsOn: found \"A\"; allowed: the id of a step of this tool (did you mean a?)"
    );
    assert_eq!(
        errors(|tool| tool.parameters = Some(serde_json::Map::new())),
        "x.parameters.type: found no value; allowed: object"
    );
}
