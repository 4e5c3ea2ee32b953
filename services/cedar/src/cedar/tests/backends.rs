//! Policies that read the backend of an item.

use vmcp_core::{Generation, ItemBackend};

use super::*;

const KINDS: [ItemKind; 4] =
    [ItemKind::Tool, ItemKind::Prompt, ItemKind::Resource, ItemKind::ResourceTemplate];

fn of(kind: ItemKind, backend: &str, generation: Generation) -> Item<'_> {
    let backend = Some(ItemBackend { name: backend, generation });
    Item { kind, backend, ..tool("x") }
}

fn verdicts(cedar: &Arc<Cedar>, item: &Item<'_>) -> (bool, Decision) {
    let permissions = permissions(cedar, &alice());
    (permissions.is_visible(item), permissions.authorize(item, Some(b"{}")))
}

const SHOWN: (bool, Decision) = (true, Decision::Allow);
const HIDDEN: (bool, Decision) = (false, Decision::Hide);

#[test]
fn permits_items_of_one_backend() {
    let cedar =
        cedar(&[r#"permit(principal, action, resource) when { resource.backend == "github" };"#]);
    for kind in KINDS {
        for _ in 0..2 {
            let of = |backend| verdicts(&cedar, &of(kind, backend, Generation::Stateful));
            assert_eq!((of("github"), of("gitlab")), (SHOWN, HIDDEN), "{kind:?}");
        }
    }
}

#[test]
fn decides_by_generation_of_backend() {
    let cedar = cedar(&[
        EVERYTHING,
        r#"forbid(principal, action, resource) unless { resource.generation == "2026-07-28" };"#,
        r#"forbid(principal, action, resource is Prompt) when { ["2026-07-28"].contains(resource.generation) };"#,
    ]);
    for kind in KINDS {
        let newer = if kind == ItemKind::Prompt { HIDDEN } else { SHOWN };
        assert_eq!(verdicts(&cedar, &of(kind, "a", Generation::Stateless)), newer);
        assert_eq!(verdicts(&cedar, &of(kind, "a", Generation::Stateful)), HIDDEN);
    }
}

#[test]
fn arguments_and_backend_decide_together() {
    let cedar = cedar(&[
        EVERYTHING,
        r#"forbid(principal, action, resource) when { resource.backend == "pay" && context has arg_n && context.arg_n > 5 };"#,
    ]);
    let permissions = permissions(&cedar, &alice());
    let decision = |backend, arguments: &str| {
        let item = of(ItemKind::Tool, backend, Generation::Stateful);
        permissions.authorize(&item, Some(arguments.as_bytes()))
    };
    for _ in 0..2 {
        assert_eq!(decision("pay", r#"{"n":6}"#), Decision::Deny);
        assert_eq!(decision("pay", r#"{"n":5}"#), Decision::Allow);
        assert_eq!(decision("other", r#"{"n":6}"#), Decision::Allow);
    }
}

#[test]
fn denies_items_without_backend_unless_guarded() {
    let unguarded = r#"forbid(principal, action, resource) unless { resource.backend == "a" };"#;
    let guarded = r#"forbid(principal, action, resource) when { resource has backend && resource.backend != "a" };"#;
    for (policy, expected) in [(unguarded, HIDDEN), (guarded, SHOWN)] {
        let cedar = cedar(&[EVERYTHING, policy]);
        for kind in KINDS {
            assert_eq!(verdicts(&cedar, &Item { kind, ..tool("x") }), expected, "{policy}");
        }
        let a = of(ItemKind::Tool, "a", Generation::Stateful);
        assert_eq!(verdicts(&cedar, &a), SHOWN);
    }
}

#[test]
fn configured_entities_cannot_set_the_backend() {
    let entities =
        r#"[{"uid": {"type": "Tool", "id": "x"}, "attrs": {"backend": "a"}, "parents": []}]"#;
    let policy = r#"permit(principal, action, resource) when { resource.backend == "a" };"#;
    let cedar = with_entities(&[policy], entities);
    assert_eq!(verdicts(&cedar, &of(ItemKind::Tool, "b", Generation::Stateful)), HIDDEN);
}

#[test]
fn backend_matters_only_if_policies_name_it() {
    let reads = |policy: &str| permissions(&cedar(&[policy]), &alice()).reads_backend();
    assert!(!reads(EVERYTHING));
    assert!(!reads(r#"permit(principal, action, resource == Tool::"backend");"#));
    for policy in [
        r"permit(principal, action, resource) when { resource has backend };",
        r#"permit(principal, action, resource) when { {it: resource}.it.generation == "x" };"#,
    ] {
        assert!(reads(policy), "{policy}");
    }
    // Without such a policy, all backends share one decision.
    let cedar = cedar(&[EVERYTHING]);
    for backend in ["a", "b"] {
        assert_eq!(verdicts(&cedar, &of(ItemKind::Tool, backend, Generation::Stateful)), SHOWN);
    }
    assert_eq!(cedar.decisions.len(), 1);
}
