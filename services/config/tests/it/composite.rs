//! `compositeTools`.

use vmcp_config::{
    CompositeTool,
    composite::{ElicitationAction, OnError, StepKind},
};

use crate::support::{assert_error, errors, file};

fn tool(rest: &str) -> String {
    format!("compositeTools:\n  - name: t\n{rest}")
}

fn steps(list: &str) -> String {
    tool(&format!("    steps: [{list}]\n"))
}

fn read(list: &str) -> CompositeTool {
    file(&steps(list)).composite_tools.remove(0)
}

const PATH: &str = "compositeTools[0]";

#[test]
fn composite_tool_has_unique_name_and_step() {
    assert_error(
        "compositeTools: [{steps: [{id: a, tool: w.t}]}]\n",
        "compositeTools[0].name",
        "required",
    );
    assert_error(&tool("    steps: []\n"), "compositeTools[0].steps", "at least 1");
    assert_error(&tool(""), "compositeTools[0].steps", "required");
    assert_error(
        "compositeTools: [{name: t, steps: [{id: a, tool: w.t}]}, {name: t, steps: [{id: a, tool: w.t}]}]\n",
        "compositeTools[1].name",
        "the duplicate value \"t\"",
    );
    assert_eq!(read("{id: a, tool: w.t}").description, None);
}

#[test]
fn limits_tool_to_hundred_steps() {
    let list: Vec<_> = (0..101).map(|n| format!("{{id: s{n}, tool: w.t}}")).collect();
    assert_eq!(read(&list[..100].join(", ")).steps.len(), 100);
    assert_error(&steps(&list.join(", ")), &format!("{PATH}.steps"), "at most 100");
}

#[test]
fn step_without_type_calls_tool() {
    let StepKind::Tool { tool, arguments } =
        &read("{id: a, tool: w.t, arguments: {n: 1}}").steps[0].kind
    else {
        panic!("a tool")
    };
    assert_eq!((tool.as_str(), arguments["n"].as_i64()), ("w.t", Some(1)));
    assert_error(&steps("{id: a}"), &format!("{PATH}.steps[0].tool"), "required with");
    assert_error(
        &steps("{id: a, tool: w.t, message: m}"),
        &format!("{PATH}.steps[0].message"),
        "only with type: elicitation",
    );
    assert_error(
        &steps("{id: a, tool: '-x'}"),
        &format!("{PATH}.steps[0].tool"),
        "workload.tool_name",
    );
    assert_error(
        &steps("{id: a, tool: w.t, type: foreach}"),
        &format!("{PATH}.steps[0].type"),
        "did you mean forEach?",
    );
}

#[test]
fn elicitation_requires_message_and_schema() {
    let kind = &read("{id: a, type: elicitation, message: m, schema: {type: object}, onCancel: {action: continue}}").steps[0].kind;
    let StepKind::Elicitation { on_decline, on_cancel, .. } = kind else { panic!("a question") };
    assert_eq!((*on_decline, *on_cancel), (ElicitationAction::Abort, ElicitationAction::Continue));
    let list = errors(&steps("{id: a, type: elicitation}"));
    assert_eq!(list.len(), 2, "{list:#?}");
    assert_error(
        &steps("{id: a, type: elicitation, message: m, schema: {}, onDecline: {action: retry}}"),
        &format!("{PATH}.steps[0].onDecline.action"),
        "skip_remaining, abort or continue",
    );
}

#[test]
fn for_each_has_defaults_and_limits() {
    let kind = &read("{id: a, type: forEach, collection: c, step: {tool: w.t}}").steps[0].kind;
    let StepKind::ForEach { item_var, max_iterations, max_parallel, .. } = kind else {
        panic!("a loop")
    };
    assert_eq!((item_var.as_str(), *max_iterations, *max_parallel), ("item", 100, 10));
    let path = format!("{PATH}.steps[0]");
    let with = |fields: &str| {
        steps(&format!("{{id: a, type: forEach, collection: c, step: {{tool: w.t}}, {fields}}}"))
    };
    assert_error(&with("maxIterations: 1001"), &format!("{path}.maxIterations"), "from 1 to 1000");
    assert_error(&with("maxParallel: 0"), &format!("{path}.maxParallel"), "from 1 to 50");
    assert_error(&with("itemVar: a-b"), &format!("{path}.itemVar"), "a variable name");
    assert_error(
        &with("itemVar: index"),
        &format!("{path}.itemVar"),
        "index is the number of the item",
    );
    let list = errors(&steps("{id: a, type: forEach}"));
    assert_eq!(list.len(), 2, "{list:#?}");
}

#[test]
fn for_each_step_calls_a_tool_only() {
    let inner = |fields: &str| {
        steps(&format!("{{id: a, type: forEach, collection: c, step: {{{fields}}}}}"))
    };
    let path = format!("{PATH}.steps[0].step");
    assert_error(&inner("tool: w.t, type: elicitation"), &format!("{path}.type"), "allowed: tool");
    for (field, value) in [
        ("condition", "'true'"),
        ("timeout", "1s"),
        ("defaultResults", "{}"),
        ("dependsOn", "[b]"),
        ("collection", "c"),
    ] {
        let fields = format!("tool: w.t, {field}: {value}");
        assert_error(&inner(&fields), &format!("{path}.{field}"), "an unknown key");
    }
    assert_error(&inner("id: b"), &format!("{path}.tool"), "required");
    assert_error(&inner("tool: ' '"), &format!("{path}.tool"), "workload.tool_name");
}

#[test]
fn failing_step_aborts_by_default() {
    assert_eq!(read("{id: a, tool: w.t}").steps[0].on_error, OnError::Abort);
    assert_eq!(
        read("{id: a, tool: w.t, onError: {action: continue}}").steps[0].on_error,
        OnError::Continue
    );
    let retry = read("{id: a, tool: w.t, onError: {action: retry, retryCount: 2, retryDelay: 1s}}");
    assert!(matches!(retry.steps[0].on_error, OnError::Retry { count: 2, delay: Some(_) }));
    let path = format!("{PATH}.steps[0].onError");
    assert_error(
        &steps("{id: a, tool: w.t, onError: {action: retry}}"),
        &format!("{path}.retryCount"),
        "required with",
    );
    assert_error(
        &steps("{id: a, tool: w.t, onError: {action: retry, retryCount: 0}}"),
        &format!("{path}.retryCount"),
        "from 1 to 10",
    );
    assert_error(
        &steps("{id: a, tool: w.t, onError: {retryDelay: 1s}}"),
        &format!("{path}.retryDelay"),
        "only with action: retry",
    );
}

#[test]
fn requires_unique_step_ids_and_known_dependencies() {
    assert_error(
        &steps("{id: a, tool: w.t}, {id: a, tool: w.t}"),
        &format!("{PATH}.steps[1].id"),
        "the duplicate value \"a\"",
    );
    assert_error(&steps("{id: '', tool: w.t}"), &format!("{PATH}.steps[0].id"), "non-empty");
    assert_error(
        &steps("{id: first, tool: w.t}, {id: b, tool: w.t, dependsOn: [frist]}"),
        &format!("{PATH}.steps[1].dependsOn"),
        "did you mean first?",
    );
}

#[test]
fn rejects_cyclic_dependencies() {
    read(
        "{id: a, tool: w.t}, {id: b, tool: w.t, dependsOn: [a]}, {id: c, tool: w.t, dependsOn: [a, b]}",
    );
    for (list, first, cycle) in [
        ("{id: a, tool: w.t, dependsOn: [a]}", 0, "a -> a"),
        (
            "{id: a, tool: w.t, dependsOn: [b]}, {id: b, tool: w.t, dependsOn: [a]}",
            0,
            "a -> b -> a",
        ),
        (
            "{id: d, tool: w.t, dependsOn: [a]}, {id: a, tool: w.t, dependsOn: [b]}, \
             {id: b, tool: w.t, dependsOn: [c]}, {id: c, tool: w.t, dependsOn: [a]}",
            1,
            "a -> b -> c -> a",
        ),
    ] {
        assert_error(
            &steps(list),
            &format!("{PATH}.steps[{first}].dependsOn"),
            &format!("a cycle of dependsOn: {cycle}; allowed"),
        );
    }
}

#[test]
fn parameters_describe_an_object() {
    let with =
        |text: &str| tool(&format!("    parameters: {text}\n    steps: [{{id: a, tool: w.t}}]\n"));
    file(&with("{type: object, properties: {a: {type: string}}}"));
    assert_error(
        &with("{type: array}"),
        &format!("{PATH}.parameters.type"),
        "found \"array\"; allowed: object",
    );
    assert_error(&with("{}"), &format!("{PATH}.parameters.type"), "found no value");
    assert_error(&with("[]"), &format!("{PATH}.parameters"), "a map");
}

#[test]
fn no_timeout_is_zero() {
    assert_error(
        &tool("    timeout: 0s\n    steps: [{id: a, tool: w.t}]\n"),
        &format!("{PATH}.timeout"),
        "a duration of more than 0s",
    );
    assert_error(
        &steps("{id: a, tool: w.t, timeout: 0s}"),
        &format!("{PATH}.steps[0].timeout"),
        "a duration of more than 0s",
    );
}

#[test]
fn output_property_has_value_or_properties() {
    let with =
        |text: &str| tool(&format!("    steps: [{{id: a, tool: w.t}}]\n    output: {text}\n"));
    let path = format!("{PATH}.output");
    file(&with("{properties: {a: {type: string, value: x}}, required: [a]}"));
    assert_error(&with("{properties: {}}"), &format!("{path}.properties"), "at least 1");
    assert_error(
        &with("{properties: {a: {type: string, value: x}}, required: [b]}"),
        &format!("{path}.required"),
        "the name of a property",
    );
    assert_error(
        &with("{properties: {a: {type: text, value: x}}}"),
        &format!("{path}.properties.a.type"),
        "string, integer",
    );
    assert_error(
        &with("{properties: {a: {type: string}}}"),
        &format!("{path}.properties.a"),
        "exactly one of them",
    );
    assert_error(
        &with("{properties: {a: {type: string, properties: {b: {type: string, value: x}}}}}"),
        &format!("{path}.properties.a.properties"),
        "only with type: object",
    );
}

#[test]
fn output_is_nested_at_most_ten_deep() {
    let nest = |depth: usize| {
        let mut text = "{type: string, value: x}".to_owned();
        for _ in 1..depth {
            text = format!("{{type: object, properties: {{a: {text}}}}}");
        }
        tool(&format!(
            "    steps: [{{id: a, tool: w.t}}]\n    output: {{properties: {{a: {text}}}}}\n"
        ))
    };
    file(&nest(10));
    assert_error(&nest(11), &format!("{PATH}.output"), "at most 10");
}
