//! Decisions of policies, from the caller's view.

mod abuse;
mod backends;
mod caching;
mod explain;
mod model;
mod provider;

use serde_json::{Value, json};
use vmcp_core::{Hints, ItemKind};

use super::*;

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

pub(super) fn admission(cedar: &Arc<Cedar>, identity: &Identity) -> Admission {
    match cedar.permissions(identity, 1) {
        PermissionsFuture::Ready(admission) => admission,
        PermissionsFuture::Pending(_) => panic!("no provider is asked"),
    }
}

pub(super) fn tool(name: &str) -> Item<'_> {
    Item { kind: ItemKind::Tool, name, hints: Hints::default(), backend: None }
}

pub(super) fn call(cedar: &Arc<Cedar>, who: &Identity, name: &str, arguments: &str) -> Verdict {
    admission(cedar, who).admit(&tool(name), Some(arguments.as_bytes()))
}

#[test]
fn policy_on_one_tool_shows_only_it() {
    let cedar = cedar(&[
        r#"permit(principal, action == Action::"call_tool", resource == Tool::"weather");"#,
    ]);
    assert_eq!(call(&cedar, &alice(), "weather", "{}"), Verdict::Permitted);
    assert_eq!(call(&cedar, &alice(), "secrets", "{}"), Verdict::Hidden);
    let admission = admission(&cedar, &alice());
    assert!(admission.visible(&tool("weather")) && !admission.visible(&tool("secrets")));
    let prompt = Item { kind: ItemKind::Prompt, ..tool("weather") };
    assert!(!admission.visible(&prompt));
}

#[test]
fn groups_come_from_the_first_claim() {
    let cedar = cedar(&[
        r#"permit(principal in Group::"eng", action in [Action::"call_tool"], resource in MCP::"my-vmcp");"#,
    ]);
    for (claims, expected) in [
        (json!({"groups": ["ops", "eng"]}), Verdict::Permitted),
        (json!({"groups": "eng"}), Verdict::Permitted),
        (json!({"roles": ["eng"]}), Verdict::Permitted),
        (json!({"cognito:groups": ["eng"]}), Verdict::Permitted),
        (json!({"groups": [], "roles": ["eng"]}), Verdict::Hidden),
        (json!({"groups": {"eng": true}, "roles": ["eng"]}), Verdict::Permitted),
        (json!({"groups": ["engineering", 1, null]}), Verdict::Hidden),
        (json!({"group": ["eng"]}), Verdict::Hidden),
    ] {
        assert_eq!(call(&cedar, &user("alice", claims.clone()), "x", "{}"), expected, "{claims}");
    }
    assert_eq!(call(&cedar, &Identity::anonymous(), "x", "{}"), Verdict::Hidden);
}

#[test]
fn groups_have_configured_parents() {
    let entities = r#"[
        {"uid": {"type": "Group", "id": "eng"}, "attrs": {}, "parents": [{"type": "Group", "id": "staff"}]}
    ]"#;
    let policy = r#"permit(principal in Group::"staff", action, resource);"#;
    let cedar = with_entities(&[policy], entities);
    let verdict = call(&cedar, &user("alice", json!({"groups": ["eng"]})), "x", "{}");
    assert_eq!(verdict, Verdict::Permitted);
    assert_eq!(call(&cedar, &user("bob", json!({"groups": ["ops"]})), "x", "{}"), Verdict::Hidden);
}

#[test]
fn hints_come_from_the_server_only() {
    let cedar = cedar(&[
        r#"permit(principal, action == Action::"call_tool", resource) when { resource has readOnlyHint && resource.readOnlyHint };"#,
    ]);
    let admission = admission(&cedar, &alice());
    let reading = Hints { read_only: Some(true), ..Hints::default() };
    assert!(admission.visible(&Item { hints: reading, ..tool("x") }));
    let spoofed = r#"{"readOnlyHint":true,"annotations":{"readOnlyHint":true}}"#;
    assert_eq!(admission.admit(&tool("x"), Some(spoofed.as_bytes())), Verdict::Hidden);
    let writing = Hints { read_only: Some(false), ..Hints::default() };
    assert!(!admission.visible(&Item { hints: writing, ..tool("x") }));
}

#[test]
fn forbid_overrides_permit() {
    let cedar = cedar(&[
        EVERYTHING,
        r#"forbid(principal, action, resource) unless { principal has claim_email && principal.claim_email like "*@example.com" };"#,
    ]);
    assert_eq!(call(&cedar, &alice(), "x", "{}"), Verdict::Permitted);
    let foreign = user("eve", json!({"email": "eve@example.org"}));
    assert_eq!(call(&cedar, &foreign, "x", "{}"), Verdict::Hidden);
    assert_eq!(call(&cedar, &user("x", json!({})), "x", "{}"), Verdict::Hidden);
}

#[test]
fn argument_policy_shows_tool_and_decides_calls() {
    let cedar = cedar(&[
        "permit(principal, action, resource) when { context has arg_amount && context.arg_amount <= 100 };",
    ]);
    assert!(admission(&cedar, &alice()).visible(&tool("pay")));
    for (arguments, expected) in [
        (r#"{"amount":100}"#, Verdict::Permitted),
        (r#"{"amount":1e2}"#, Verdict::Permitted),
        (r#"{"amount":101}"#, Verdict::Denied),
        (r#"{"amount":99.5}"#, Verdict::Denied),
        (r#"{"amount":"1"}"#, Verdict::Denied),
        (r#"{"amount":null}"#, Verdict::Denied),
        ("{}", Verdict::Denied),
    ] {
        assert_eq!(call(&cedar, &alice(), "pay", arguments), expected, "{arguments}");
    }
}

#[test]
fn decimals_compare_with_policy_decimals() {
    let cedar = cedar(&[
        r#"permit(principal, action, resource) when { context.arg_x == decimal("1.5") || context.arg_x.lessThan(decimal("-1.0")) };"#,
    ]);
    assert_eq!(call(&cedar, &alice(), "t", r#"{"x":1.50}"#), Verdict::Permitted);
    assert_eq!(call(&cedar, &alice(), "t", r#"{"x":-1.0001}"#), Verdict::Permitted);
    assert_eq!(call(&cedar, &alice(), "t", r#"{"x":1.5001}"#), Verdict::Denied);
}

#[test]
fn hides_items_that_no_argument_permits() {
    let cedar = cedar(&[
        r#"permit(principal, action, resource) when { principal.claim_role == "clerk" && context.arg_amount <= 100 };"#,
    ]);
    let clerk = user("c", json!({"role": "clerk"}));
    assert_eq!(call(&cedar, &clerk, "pay", r#"{"amount":1}"#), Verdict::Permitted);
    assert_eq!(call(&cedar, &clerk, "pay", r#"{"amount":200}"#), Verdict::Denied);
    let guest = user("g", json!({"role": "guest"}));
    assert_eq!(call(&cedar, &guest, "pay", r#"{"amount":1}"#), Verdict::Hidden);
    assert_eq!(call(&cedar, &alice(), "pay", r#"{"amount":1}"#), Verdict::Hidden);
}

#[test]
fn nested_arguments_have_presence_only() {
    let cedar = cedar(&[
        EVERYTHING,
        "forbid(principal, action, resource) when { context has arg_filter_present || resource has arg_filter };",
    ]);
    for (arguments, expected) in [
        ("{}", Verdict::Permitted),
        (r#"{"filter":{}}"#, Verdict::Denied),
        (r#"{"filter":[1]}"#, Verdict::Denied),
        (r#"{"filter":1}"#, Verdict::Denied),
        (r#"{"filter":null}"#, Verdict::Permitted),
    ] {
        assert_eq!(call(&cedar, &alice(), "x", arguments), expected, "{arguments}");
    }
}

#[test]
fn missing_attribute_denies() {
    let unguarded = r#"permit(principal, action, resource) when { principal.claim_role == "x" };"#;
    let cedar = cedar(&[EVERYTHING, unguarded]);
    assert_eq!(call(&cedar, &alice(), "x", "{}"), Verdict::Hidden);
    let with_role = user("alice", json!({"role": "y"}));
    assert_eq!(call(&cedar, &with_role, "x", "{}"), Verdict::Permitted);
}

#[test]
fn conditions_may_name_the_resource() {
    let cedar = cedar(&[
        EVERYTHING,
        r#"forbid(principal, action, resource) when { Tool::"x" has readOnlyHint && Tool::"x".readOnlyHint };"#,
    ]);
    let hints = Hints { read_only: Some(true), ..Hints::default() };
    let admission = admission(&cedar, &alice());
    assert!(!admission.visible(&Item { hints, ..tool("x") }));
    assert!(admission.visible(&Item { hints, ..tool("y") }));
}

#[test]
fn principal_in_tool_is_in_its_server() {
    let entities = r#"[{"uid": {"type": "Client", "id": "alice"}, "attrs": {}, "parents": [{"type": "Tool", "id": "x"}]}]"#;
    let forbid = r#"forbid(principal in MCP::"my-vmcp", action, resource);"#;
    let cedar = with_entities(&[EVERYTHING, forbid], entities);
    assert_eq!(call(&cedar, &alice(), "x", "{}"), Verdict::Hidden);
    assert_eq!(call(&cedar, &alice(), "y", "{}"), Verdict::Permitted);
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
    assert_eq!(call(&cedar, &alice(), "deploy", "{}"), Verdict::Permitted);
    let bob = user("bob", json!({"email": "alice@example.com", "groups": ["ops"]}));
    assert_eq!(call(&cedar, &bob, "deploy", "{}"), Verdict::Hidden);
}

#[test]
fn templates_count_as_resources() {
    let cedar = cedar(&[
        r#"permit(principal, action == Action::"read_resource", resource is Resource) when { resource.uri like "file://docs/*" };"#,
    ]);
    let admission = admission(&cedar, &alice());
    let visible = |kind, name| {
        admission.visible(&Item { kind, name, hints: Hints::default(), backend: None })
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
    let needed = Verdict::NeedsScopes(vec!["mcp:read".into(), "mcp:write".into()]);
    for (claims, tool, expected) in [
        (json!({"scope": "openid mcp:read"}), "write", needed.clone()),
        (json!({"scope": "mcp:read mcp:write"}), "write", Verdict::Permitted),
        (json!({"scp": ["mcp:write", "mcp:read"]}), "write", Verdict::Permitted),
        (json!({"scope": "mcp:read"}), "read", Verdict::Permitted),
        (json!({"scope": "mcp:reads"}), "read", Verdict::NeedsScopes(vec!["mcp:read".into()])),
        (json!({"groups": ["admin"]}), "write", Verdict::Permitted),
        (json!({"scope": "mcp:read"}), "other", Verdict::Hidden),
    ] {
        let who = user("alice", claims.clone());
        assert_eq!(call(&cedar, &who, tool, "{}"), expected, "{claims}");
        assert_eq!(
            admission(&cedar, &who).visible(&super::tests::tool(tool)),
            expected != Verdict::Hidden
        );
    }
}

#[test]
fn indistinguishable_callers_share_a_view() {
    let view = |cedar: &Arc<Cedar>, who: &Identity| admission(cedar, who).view();
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
    assert_ne!(later.view(), view(&by_mail, &token("a", 1)));
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
    assert_eq!(call(&cedar, &alice(), "y", "{}"), Verdict::Permitted);
    assert_eq!(call(&cedar, &alice(), "x", "{}"), Verdict::Hidden);
}
