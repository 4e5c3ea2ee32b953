//! Slicing, caching and the parts about arguments against Cedar alone, over all policies.

use cedar_policy::Decision;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use super::*;

const POLICIES: [&str; 22] = [
    r#"forbid(principal, action, resource) when { Tool::"x" has readOnlyHint && Tool::"x".readOnlyHint };"#,
    r#"forbid(principal in MCP::"my-vmcp", action, resource);"#,
    "permit(principal, action, resource) when { principal has likes && principal.likes has readOnlyHint };",
    "permit(principal, action, resource) when { principal has claim_n && [1, 2].contains(principal.claim_n) };",
    r#"permit(principal, action == Action::"call_tool", resource) when { action.operation == "call_tool" && principal.claim_n > 1 };"#,
    r#"forbid(principal, action, resource) unless { principal in Group::"top" || Tool::"x".tier == 2 };"#,
    "permit(principal, action, resource);",
    r#"permit(principal == Client::"a", action, resource);"#,
    r#"permit(principal in Group::"top", action == Action::"call_tool", resource);"#,
    r#"permit(principal is Client in Group::"g", action in [Action::"get_prompt", Action::"call_tool"], resource is Tool);"#,
    r#"permit(principal, action in Action::"harmless", resource == Prompt::"x");"#,
    r#"permit(principal, action, resource == Tool::"x") when { principal.claim_n > 1 };"#,
    r#"permit(principal, action, resource in Toolset::"s") when { context has claim_n && context.arg_k == context.claim_n };"#,
    r#"permit(principal, action, resource in MCP::"my-vmcp") when { principal has claim_n && context has arg_k && context.arg_k <= 3 };"#,
    "permit(principal, action, resource) unless { context.arg_k > 1 || principal has claim_n };",
    "permit(principal, action, resource) when { if context has arg_k then context.arg_k == 1 else principal has claim_n };",
    r#"forbid(principal, action, resource == Tool::"y");"#,
    r#"forbid(principal in Group::"g", action, resource) when { context has arg_k && context.arg_k == 2 };"#,
    "forbid(principal, action, resource) when { resource has arg_k_present };",
    r#"forbid(principal, action, resource is Resource) unless { resource.uri like "x*" };"#,
    "forbid(principal, action, resource) when { resource has readOnlyHint && !resource.readOnlyHint };",
    "forbid(principal, action, resource) when { principal has claim_n && principal.claim_n.contains(3) };",
];

const ENTITIES: &str = r#"[
    {"uid": {"type": "Client", "id": "b"}, "attrs": {"likes": {"__entity": {"type": "Tool", "id": "y"}}}, "parents": [{"type": "Tool", "id": "x"}]},
    {"uid": {"type": "Group", "id": "g"}, "attrs": {}, "parents": [{"type": "Group", "id": "top"}]},
    {"uid": {"type": "Tool", "id": "x"}, "attrs": {"tier": 1}, "parents": [{"type": "Toolset", "id": "s"}]},
    {"uid": {"type": "Action", "id": "get_prompt"}, "attrs": {}, "parents": [{"type": "Action", "id": "harmless"}]}
]"#;

#[derive(Clone, Debug)]
struct Asked {
    who: Identity,
    kind: ItemKind,
    name: &'static str,
    hints: Hints,
    arguments: &'static str,
}

fn asked() -> impl Strategy<Value = Asked> {
    let claims = select(vec![
        json!({}),
        json!({"n": 1}),
        json!({"n": 2, "groups": ["g"]}),
        json!({"n": "2", "groups": "top"}),
        json!({"n": [3], "roles": ["g", "h"]}),
        json!({"n": 1.5}),
    ]);
    let who = prop_oneof![
        Just(Identity::anonymous()),
        (select(vec!["a", "b"]), claims).prop_map(|(name, claims)| user(name, claims)),
    ];
    let kinds = [ItemKind::Tool, ItemKind::Prompt, ItemKind::Resource, ItemKind::ResourceTemplate];
    let hint = prop_oneof![Just(None), any::<bool>().prop_map(Some)];
    let arguments = select(vec![
        "{}",
        r#"{"k":1}"#,
        r#"{"k":2}"#,
        r#"{"k":7}"#,
        r#"{"k":"2"}"#,
        r#"{"k":[1]}"#,
        r#"{"k":1.5}"#,
        r#"{"k":null,"other":1}"#,
    ]);
    (who, select(kinds.to_vec()), select(vec!["x", "y", "xyz"]), hint, arguments).prop_map(
        |(who, kind, name, read_only, arguments)| {
            let hints = Hints { read_only, ..Hints::default() };
            Asked { who, kind, name, hints, arguments }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn decisions_are_those_of_cedar_over_all_policies(
        policies in subsequence(POLICIES.to_vec(), 1..6),
        asked in prop::collection::vec(asked(), 1..24),
        configured in any::<bool>(),
    ) {
        let cedar = with_entities(&policies, if configured { ENTITIES } else { "[]" });
        for Asked { who, kind, name, hints, arguments } in asked {
            let item = Item { kind, name, hints };
            let admission = admission(&cedar, &who);
            let (visible, verdict) = (admission.visible(&item), admission.admit(&item, Some(arguments.as_bytes())));
            // In the plainest way: one request, all policies, nothing remembered.
            let subject = Subject::of(&who);
            let view = View::new(ViewKey([0; 16]), subject, &cedar);
            let read = Arguments::read(Some(arguments.as_bytes()), &cedar.wanted).unwrap();
            let (request, entities) = view.request(&cedar, &item, &read).unwrap();
            let response = Authorizer::new().is_authorized(&request, &cedar.all, &entities);
            let clean = response.diagnostics().errors().next().is_none();
            let expected = clean && response.decision() == Decision::Allow;
            prop_assert_eq!(verdict == Verdict::Permitted, expected, "{:?} {:?}", &item, arguments);
            prop_assert!(visible || !expected, "permitted but not shown: {:?}", &item);
            prop_assert_eq!(verdict == Verdict::Hidden, !visible);
        }
    }

    #[test]
    fn one_view_key_is_one_view(
        policies in subsequence(POLICIES.to_vec(), 1..6),
        asked in prop::collection::vec(asked(), 2..24),
    ) {
        let cedar = with_entities(&policies, ENTITIES);
        for (one, other) in asked.iter().zip(&asked[1..]) {
            let (one, other) = (&one.who, &other.who);
            if admission(&cedar, one).view() != admission(&cedar, other).view() {
                continue;
            }
            for Asked { kind, name, hints, .. } in &asked {
                let item = Item { kind: *kind, name, hints: *hints };
                let fresh = |who| {
                    // Each by its own facts, unshared.
                    let view = View::new(ViewKey([0; 16]), Subject::of(who), &cedar);
                    view.decide(&cedar, &item, Question::Possible).permitted
                };
                prop_assert_eq!(fresh(one), fresh(other));
            }
        }
    }
}
