//! `aggregation`.

use vmcp_config::{Aggregation, ConflictResolution, ToolAnnotations};

use crate::support::{assert_error, file};

fn resolution(text: &str) -> ConflictResolution {
    file(&format!("aggregation: {text}\n")).aggregation.conflict_resolution
}

fn tools(text: &str) -> String {
    format!("aggregation: {{tools: [{text}]}}\n")
}

#[test]
fn section_is_optional_and_prefixes_by_default() {
    assert_eq!(file("").aggregation, Aggregation::default());
    for text in ["{}", "{conflictResolution: prefix}", "{conflictResolutionConfig: {}}"] {
        let ConflictResolution::Prefix { format } = resolution(text) else {
            panic!("prefix: {text}")
        };
        assert_eq!(format.prefix("github"), "github_");
    }
}

#[test]
fn prefix_replaces_workload_placeholders_only() {
    for (format, prefix) in
        [("{workload}.", "a."), ("x-", "x-"), ("{workload}/{workload}_", "a/a_")]
    {
        let text = format!("{{conflictResolutionConfig: {{prefixFormat: '{format}'}}}}");
        let ConflictResolution::Prefix { format } = resolution(&text) else { panic!("prefix") };
        assert_eq!(format.prefix("a"), prefix);
    }
    for bad in ["{tool}_", "{workload", "workload}", "{}", "{{workload}}", "{Workload}_", "a b"] {
        assert_error(
            &format!("aggregation: {{conflictResolutionConfig: {{prefixFormat: '{bad}'}}}}\n"),
            "aggregation.conflictResolutionConfig.prefixFormat",
            "and no other one",
        );
    }
}

#[test]
fn priority_requires_order_without_duplicates() {
    let text = "{conflictResolution: priority, conflictResolutionConfig: {prefixFormat: '{workload}_', priorityOrder: [b, a]}}";
    assert_eq!(
        resolution(text),
        ConflictResolution::Priority { order: vec!["b".into(), "a".into()] }
    );
    let path = "aggregation.conflictResolutionConfig.priorityOrder";
    assert_error("aggregation: {conflictResolution: priority}\n", path, "at least one");
    for (order, words) in [("[]", "at least one"), ("[a, a]", "each backend once")] {
        let text = format!(
            "aggregation: {{conflictResolution: priority, conflictResolutionConfig: {{priorityOrder: {order}}}}}\n"
        );
        assert_error(&text, path, words);
    }
    let text = "aggregation: {conflictResolution: priority, conflictResolutionConfig: {priorityOrder: [a, '']}}\n";
    assert_error(text, &format!("{path}[1]"), "non-empty");
}

#[test]
fn rejects_settings_of_other_strategies() {
    assert_error(
        "aggregation: {conflictResolutionConfig: {priorityOrder: [a]}}\n",
        "aggregation.conflictResolutionConfig.priorityOrder",
        "only with conflictResolution: priority",
    );
    assert_error(
        "aggregation: {conflictResolution: priority, conflictResolutionConfig: {priorityOrder: [a], prefixFormat: x}}\n",
        "aggregation.conflictResolutionConfig.prefixFormat",
        "only with conflictResolution: prefix",
    );
}

#[test]
fn manual_mode_requires_entry_for_some_backend() {
    assert_eq!(
        resolution("{conflictResolution: manual, tools: [{workload: a}]}"),
        ConflictResolution::Manual
    );
    assert_error(
        "aggregation: {conflictResolution: manual}\n",
        "aggregation.tools",
        "at least one entry",
    );
}

#[test]
fn there_is_no_other_strategy() {
    assert_error(
        "aggregation: {conflictResolution: random}\n",
        "aggregation.conflictResolution",
        "prefix, priority or manual",
    );
}

#[test]
fn each_backend_has_one_entry_with_a_name() {
    assert_error(
        &tools("{workload: a}, {workload: a}"),
        "aggregation.tools[1].workload",
        "the duplicate value",
    );
    assert_error(&tools("{workload: ''}"), "aggregation.tools[0].workload", "non-empty");
    assert_error(&tools("{filter: [a]}"), "aggregation.tools[0].workload", "required");
}

#[test]
fn tools_are_hidden_filtered_and_overridden_as_written() {
    let text = "aggregation:\n  excludeAllTools: true\n  tools:\n    - {workload: a, excludeAll: true, filter: [x, y]}\n";
    let aggregation = file(text).aggregation;
    assert!(aggregation.exclude_all_tools && aggregation.tools[0].exclude_all);
    assert_eq!(aggregation.tools[0].filter, ["x", "y"]);
    let defaults = &file(&tools("{workload: a}")).aggregation.tools[0];
    assert!(!defaults.exclude_all && defaults.filter.is_empty() && defaults.overrides.is_empty());
}

#[test]
fn override_requires_name_description_or_annotations() {
    for (text, good) in [
        ("{name: x}", true),
        ("{description: x}", true),
        ("{annotations: {readOnlyHint: true}}", true),
        ("{annotations: {}}", true),
    ] {
        let file = file(&tools(&format!("{{workload: a, overrides: {{t: {text}}}}}")));
        assert_eq!(file.aggregation.tools[0].overrides.contains_key("t"), good);
    }
    assert_error(
        &tools("{workload: a, overrides: {t: {}}}"),
        "aggregation.tools[0].overrides.t",
        "at least one of them",
    );
    assert_error(
        &tools("{workload: a, overrides: {t: {name: ''}}}"),
        "aggregation.tools[0].overrides.t",
        "at least one of them",
    );
}

#[test]
fn annotations_have_the_five_names_of_the_protocol() {
    let text = "{title: T, readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: false}";
    let file = file(&tools(&format!("{{workload: a, overrides: {{t: {{annotations: {text}}}}}}}")));
    let annotations = file.aggregation.tools[0].overrides["t"].annotations.clone().unwrap();
    let expected = ToolAnnotations {
        title: Some("T".into()),
        read_only_hint: Some(true),
        destructive_hint: Some(false),
        idempotent_hint: Some(true),
        open_world_hint: Some(false),
    };
    assert_eq!(annotations, expected);
    assert_error(
        &tools("{workload: a, overrides: {t: {annotations: {readOnly: true}}}}"),
        "aggregation.tools[0].overrides.t.annotations.readOnly",
        "an unknown key",
    );
}
