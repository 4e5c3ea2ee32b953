//! Decisions of policies, from the caller's view.

mod abuse;
mod backends;
mod caching;
mod explain;
mod model;
mod provider;

use serde_json::{Value, json};
use vmcp_core::{ItemKind, ToolAnnotations};

use super::*;
use crate::policy_error::PolicyError;

pub(super) const EVERYTHING: &str = "permit(principal, action, resource);";

pub(super) fn cedar(policies: &[&str]) -> Arc<Cedar> {
    with_entities(policies, "")
}

pub(super) fn with_entities(policies: &[&str], entities: &str) -> Arc<Cedar> {
    Arc::new(Cedar::new("my-vmcp", policies, entities).unwrap())
}

pub(super) fn user(subject: &str, claims: Value) -> Identity {
    let Value::Object(claims) = claims else { panic!("claims are an object") };
    Identity::builder("https://id.example.com", subject).claims(claims).build()
}

pub(super) fn alice() -> Identity {
    user("alice", json!({"email": "alice@example.com"}))
}

pub(super) fn permissions(cedar: &Arc<Cedar>, identity: &Identity) -> CallerPermissions {
    match cedar.permissions(identity, 1) {
        PermissionsFuture::Ready(permissions) => permissions,
        PermissionsFuture::Pending(_) => panic!("no provider is asked"),
    }
}

pub(super) fn tool(name: &str) -> Item<'_> {
    Item { kind: ItemKind::Tool, name, annotations: ToolAnnotations::default(), backend: None }
}

pub(super) fn call(cedar: &Arc<Cedar>, who: &Identity, name: &str, arguments: &str) -> Decision {
    permissions(cedar, who).authorize(&tool(name), Some(arguments.as_bytes()))
}

#[test]
fn policy_on_one_tool_hides_other_items() {
    let cedar = cedar(&[
        r#"permit(principal, action == Action::"call_tool", resource == Tool::"weather");"#,
    ]);
    assert_eq!(call(&cedar, &alice(), "weather", "{}"), Decision::Allow);
    assert_eq!(call(&cedar, &alice(), "secrets", "{}"), Decision::Hide);
    let permissions = permissions(&cedar, &alice());
    assert!(permissions.is_visible(&tool("weather")) && !permissions.is_visible(&tool("secrets")));
    let prompt = Item { kind: ItemKind::Prompt, ..tool("weather") };
    assert!(!permissions.is_visible(&prompt));
}

#[test]
fn groups_come_from_the_first_claim() {
    let cedar = cedar(&[
        r#"permit(principal in Group::"eng", action in [Action::"call_tool"], resource in MCP::"my-vmcp");"#,
    ]);
    for (claims, expected) in [
        (json!({"groups": ["ops", "eng"]}), Decision::Allow),
        (json!({"groups": "eng"}), Decision::Allow),
        (json!({"roles": ["eng"]}), Decision::Allow),
        (json!({"cognito:groups": ["eng"]}), Decision::Allow),
        (json!({"groups": [], "roles": ["eng"]}), Decision::Hide),
        (json!({"groups": {"eng": true}, "roles": ["eng"]}), Decision::Allow),
        (json!({"groups": ["engineering", 1, null]}), Decision::Hide),
        (json!({"group": ["eng"]}), Decision::Hide),
    ] {
        assert_eq!(call(&cedar, &user("alice", claims.clone()), "x", "{}"), expected, "{claims}");
    }
    assert_eq!(call(&cedar, &Identity::anonymous(), "x", "{}"), Decision::Hide);
}

#[test]
fn groups_have_configured_parents() {
    let entities = r#"[
        {"uid": {"type": "Group", "id": "eng"}, "attrs": {}, "parents": [{"type": "Group", "id": "staff"}]}
    ]"#;
    let policy = r#"permit(principal in Group::"staff", action, resource);"#;
    let cedar = with_entities(&[policy], entities);
    let decision = call(&cedar, &user("alice", json!({"groups": ["eng"]})), "x", "{}");
    assert_eq!(decision, Decision::Allow);
    assert_eq!(call(&cedar, &user("bob", json!({"groups": ["ops"]})), "x", "{}"), Decision::Hide);
}

#[test]
fn annotations_come_only_from_server() {
    let cedar = cedar(&[
        r#"permit(principal, action == Action::"call_tool", resource) when { resource has readOnlyHint && resource.readOnlyHint };"#,
    ]);
    let permissions = permissions(&cedar, &alice());
    let reading = ToolAnnotations { read_only: Some(true), ..ToolAnnotations::default() };
    assert!(permissions.is_visible(&Item { annotations: reading, ..tool("x") }));
    let spoofed = r#"{"readOnlyHint":true,"annotations":{"readOnlyHint":true}}"#;
    assert_eq!(permissions.authorize(&tool("x"), Some(spoofed.as_bytes())), Decision::Hide);
    let writing = ToolAnnotations { read_only: Some(false), ..ToolAnnotations::default() };
    assert!(!permissions.is_visible(&Item { annotations: writing, ..tool("x") }));
}

#[test]
fn forbid_overrides_permit() {
    let cedar = cedar(&[
        EVERYTHING,
        r#"forbid(principal, action, resource) unless { principal has claim_email && principal.claim_email like "*@example.com" };"#,
    ]);
    assert_eq!(call(&cedar, &alice(), "x", "{}"), Decision::Allow);
    let foreign = user("eve", json!({"email": "eve@example.org"}));
    assert_eq!(call(&cedar, &foreign, "x", "{}"), Decision::Hide);
    assert_eq!(call(&cedar, &user("x", json!({})), "x", "{}"), Decision::Hide);
}

#[test]
fn argument_policy_shows_tool_and_decides_calls() {
    let cedar = cedar(&[
        "permit(principal, action, resource) when { context has arg_amount && context.arg_amount <= 100 };",
    ]);
    assert!(permissions(&cedar, &alice()).is_visible(&tool("pay")));
    for (arguments, expected) in [
        (r#"{"amount":100}"#, Decision::Allow),
        (r#"{"amount":1e2}"#, Decision::Allow),
        (r#"{"amount":101}"#, Decision::Deny),
        (r#"{"amount":99.5}"#, Decision::Deny),
        (r#"{"amount":"1"}"#, Decision::Deny),
        (r#"{"amount":null}"#, Decision::Deny),
        ("{}", Decision::Deny),
    ] {
        assert_eq!(call(&cedar, &alice(), "pay", arguments), expected, "{arguments}");
    }
}

#[test]
fn decimals_compare_with_policy_decimals() {
    let cedar = cedar(&[
        r#"permit(principal, action, resource) when { context.arg_x == decimal("1.5") || context.arg_x.lessThan(decimal("-1.0")) };"#,
    ]);
    assert_eq!(call(&cedar, &alice(), "t", r#"{"x":1.50}"#), Decision::Allow);
    assert_eq!(call(&cedar, &alice(), "t", r#"{"x":-1.0001}"#), Decision::Allow);
    assert_eq!(call(&cedar, &alice(), "t", r#"{"x":1.5001}"#), Decision::Deny);
}

#[test]
fn hides_items_that_no_argument_permits() {
    let cedar = cedar(&[
        r#"permit(principal, action, resource) when { principal.claim_role == "clerk" && context.arg_amount <= 100 };"#,
    ]);
    let clerk = user("c", json!({"role": "clerk"}));
    assert_eq!(call(&cedar, &clerk, "pay", r#"{"amount":1}"#), Decision::Allow);
    assert_eq!(call(&cedar, &clerk, "pay", r#"{"amount":200}"#), Decision::Deny);
    let guest = user("g", json!({"role": "guest"}));
    assert_eq!(call(&cedar, &guest, "pay", r#"{"amount":1}"#), Decision::Hide);
    assert_eq!(call(&cedar, &alice(), "pay", r#"{"amount":1}"#), Decision::Hide);
}

#[test]
fn nested_arguments_have_presence_only() {
    let cedar = cedar(&[
        EVERYTHING,
        "forbid(principal, action, resource) when { context has arg_filter_present || resource has arg_filter };",
    ]);
    for (arguments, expected) in [
        ("{}", Decision::Allow),
        (r#"{"filter":{}}"#, Decision::Deny),
        (r#"{"filter":[1]}"#, Decision::Deny),
        (r#"{"filter":1}"#, Decision::Deny),
        (r#"{"filter":null}"#, Decision::Allow),
    ] {
        assert_eq!(call(&cedar, &alice(), "x", arguments), expected, "{arguments}");
    }
}

#[test]
fn missing_attribute_denies() {
    let unguarded = r#"permit(principal, action, resource) when { principal.claim_role == "x" };"#;
    let cedar = cedar(&[EVERYTHING, unguarded]);
    assert_eq!(call(&cedar, &alice(), "x", "{}"), Decision::Hide);
    let with_role = user("alice", json!({"role": "y"}));
    assert_eq!(call(&cedar, &with_role, "x", "{}"), Decision::Allow);
}

#[test]
fn conditions_may_name_the_resource() {
    let cedar = cedar(&[
        EVERYTHING,
        r#"forbid(principal, action, resource) when { Tool::"x" has readOnlyHint && Tool::"x".readOnlyHint };"#,
    ]);
    let annotations = ToolAnnotations { read_only: Some(true), ..ToolAnnotations::default() };
    let permissions = permissions(&cedar, &alice());
    assert!(!permissions.is_visible(&Item { annotations, ..tool("x") }));
    assert!(permissions.is_visible(&Item { annotations, ..tool("y") }));
}

#[test]
fn principal_in_tool_is_in_its_server() {
    let entities = r#"[{"uid": {"type": "Client", "id": "alice"}, "attrs": {}, "parents": [{"type": "Tool", "id": "x"}]}]"#;
    let forbid = r#"forbid(principal in MCP::"my-vmcp", action, resource);"#;
    let cedar = with_entities(&[EVERYTHING, forbid], entities);
    assert_eq!(call(&cedar, &alice(), "x", "{}"), Decision::Hide);
    assert_eq!(call(&cedar, &alice(), "y", "{}"), Decision::Allow);
}

#[test]
fn request_attributes_override_configured_ones() {
    let entities = r#"[
        {"uid": {"type": "Tool", "id": "deploy"}, "attrs": {"tier": 3, "name": "spoofed"},
         "parents": [{"type": "Toolset", "id": "release"}], "tags": {"team": "core"}},
        {"uid": {"type": "Client", "id": "alice"}, "attrs": {"level": 5, "claim_email": "x"}, "parents": [{"type": "Group", "id": "ops"}]}
    ]"#;
    let policy = r#"permit(principal in Group::"ops", action, resource in Toolset::"release")
        when { resource.tier <= principal.level && resource.name == "deploy" && resource.getTag("team") == "core"
               && resource in MCP::"my-vmcp" && principal.claim_email == "alice@example.com" };"#;
    let cedar = with_entities(&[policy], entities);
    assert_eq!(call(&cedar, &alice(), "deploy", "{}"), Decision::Allow);
    let bob = user("bob", json!({"email": "alice@example.com", "groups": ["ops"]}));
    assert_eq!(call(&cedar, &bob, "deploy", "{}"), Decision::Hide);
}

#[test]
fn templates_count_as_resources() {
    let cedar = cedar(&[
        r#"permit(principal, action == Action::"read_resource", resource is Resource) when { resource.uri like "file://docs/*" };"#,
    ]);
    let permissions = permissions(&cedar, &alice());
    let visible = |kind, name| {
        permissions.is_visible(&Item {
            kind,
            name,
            annotations: ToolAnnotations::default(),
            backend: None,
        })
    };
    assert!(visible(ItemKind::Resource, "file://docs/a"));
    assert!(visible(ItemKind::ResourceTemplate, "file://docs/{name}"));
    assert!(!visible(ItemKind::ResourceTemplate, "file://{name}"));
    assert!(!visible(ItemKind::Tool, "file://docs/a"));
}

#[test]
fn reports_all_missing_scopes() {
    let cedar = cedar(&[
        r#"@scopes("mcp:read mcp:write") permit(principal, action, resource == Tool::"write");"#,
        r#"@scopes("mcp:read") permit(principal, action, resource == Tool::"read");"#,
        r#"permit(principal in Group::"admin", action, resource);"#,
    ]);
    let needed = Decision::InsufficientScope(vec!["mcp:read".into(), "mcp:write".into()]);
    for (claims, tool, expected) in [
        (json!({"scope": "openid mcp:read"}), "write", needed.clone()),
        (json!({"scope": "mcp:read mcp:write"}), "write", Decision::Allow),
        (json!({"scp": ["mcp:write", "mcp:read"]}), "write", Decision::Allow),
        (json!({"scope": "mcp:read"}), "read", Decision::Allow),
        (
            json!({"scope": "mcp:reads"}),
            "read",
            Decision::InsufficientScope(vec!["mcp:read".into()]),
        ),
        (json!({"groups": ["admin"]}), "write", Decision::Allow),
        (json!({"scope": "mcp:read"}), "other", Decision::Hide),
    ] {
        let who = user("alice", claims.clone());
        assert_eq!(call(&cedar, &who, tool, "{}"), expected, "{claims}");
        assert_eq!(
            permissions(&cedar, &who).is_visible(&super::tests::tool(tool)),
            expected != Decision::Hide
        );
    }
}

#[test]
fn indistinguishable_callers_share_a_view() {
    let view = |cedar: &Arc<Cedar>, who: &Identity| permissions(cedar, who).visibility_key();
    let by_mail = cedar(&[
        r#"permit(principal, action, resource) when { principal.claim_email like "*@example.com" };"#,
    ]);
    let token =
        |subject: &str, jti: u64| user(subject, json!({"email": "a@example.com", "jti": jti}));
    assert_eq!(view(&by_mail, &token("a", 1)), view(&by_mail, &token("b", 2)));
    assert_ne!(view(&by_mail, &token("a", 1)), view(&by_mail, &alice()));
    for policy in [
        r#"permit(principal == Client::"a", action, resource);"#,
        r#"permit(principal in Client::"a", action, resource);"#,
        r#"permit(principal, action, resource) when { principal == Client::"a" };"#,
        r#"permit(principal, action, resource) when { Client::"a".claim_email == "a@example.com" };"#,
        "permit(principal, action, resource) when { principal in resource.owners };",
    ] {
        let by_name = cedar(&[policy]);
        assert_ne!(view(&by_name, &token("a", 1)), view(&by_name, &token("b", 1)), "{policy}");
    }
    let by_group = cedar(&[
        r#"permit(principal, action, resource) when { principal in [Group::"x", Group::"y"] };"#,
    ]);
    assert_eq!(view(&by_group, &token("a", 1)), view(&by_group, &token("b", 1)));
    let grouped = user("a", json!({"groups": ["x"]}));
    assert_ne!(view(&by_group, &token("a", 1)), view(&by_group, &grouped));
    let PermissionsFuture::Ready(later) = by_mail.permissions(&token("a", 1), 2) else { panic!() };
    assert_ne!(later.visibility_key(), view(&by_mail, &token("a", 1)));
}

#[test]
fn reports_all_errors_with_positions() {
    let policies = [
        EVERYTHING,
        "permit(principal, action,\n  resource) when { principal.x = 1 };",
        "",
        "permit(principal == ?principal, action, resource);",
        r#"@scopes("a") forbid(principal, action, resource);"#,
        r#"@scopes("a\"b") permit(principal, action, resource);"#,
    ];
    let errors = Cedar::new("s", &policies, "{").unwrap_err();
    let positions = errors.errors().iter().map(|error| match error {
        PolicyError::Policy { index, line, .. } => (Some(*index), *line),
        PolicyError::Entities { .. } | PolicyError::NoPolicies => (None, None),
    });
    let positions: Vec<_> = positions.collect();
    let expected = [
        (Some(1), Some(2)),
        (Some(2), None),
        (Some(3), None),
        (Some(4), None),
        (Some(5), None),
        (None, None),
    ];
    assert_eq!(positions, expected, "{errors}");
    let text = errors.to_string();
    assert!(text.contains("policies[1], line 2: ") && text.contains("entitiesJson: "), "{text}");
    let odd = r#"[{"uid": {"type": "Action", "id": "call_tool"}, "attrs": {}, "parents": [{"type": "Tool", "id": "x"}]}]"#;
    assert!(Cedar::new("s", &[EVERYTHING], odd).is_err());
    let nameless = Cedar::new("s", &[EVERYTHING], "[{}]").unwrap_err().to_string();
    assert!(nameless.contains("uid"), "{nameless}");
    let none = Cedar::new::<&str>("s", &[], "").unwrap_err();
    assert_eq!(none.errors(), [PolicyError::NoPolicies]);
}

#[test]
fn text_may_have_several_policies() {
    let both =
        r#"permit(principal, action, resource); forbid(principal, action, resource == Tool::"x");"#;
    let cedar = cedar(&[both]);
    assert_eq!(call(&cedar, &alice(), "y", "{}"), Decision::Allow);
    assert_eq!(call(&cedar, &alice(), "x", "{}"), Decision::Hide);
}
