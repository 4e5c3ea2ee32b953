//! Explanations of decisions.

use super::*;

#[test]
fn explanation_names_deciding_policies() {
    let cedar = cedar(&[
        r#"@id("all") permit(principal, action, resource);"#,
        r#"permit(principal, action == Action::"get_prompt", resource);"#,
        r#"@why("too much") forbid(principal, action, resource) when { context has arg_amount && context.arg_amount > 100 };"#,
    ]);
    let permitted = cedar.explain(&alice(), &tool("pay"), Some(br#"{"amount":1}"#));
    assert_eq!((permitted.visible, &permitted.decision), (true, &Decision::Allow));
    assert_eq!(permitted.deciding.len(), 1);
    assert_eq!(permitted.deciding[0].id, "policy0");
    assert_eq!(permitted.deciding[0].annotations, [("id".to_owned(), "all".to_owned())]);
    let denied = cedar.explain(&alice(), &tool("pay"), Some(br#"{"amount":101}"#));
    assert_eq!((denied.visible, denied.decision), (true, Decision::Deny));
    assert_eq!(denied.deciding[0].id, "policy2");
    assert!(denied.deciding[0].text.contains("context.arg_amount > 100"));
}

#[test]
fn explanation_lists_evaluation_errors() {
    let cedar = cedar(&[
        "permit(principal, action, resource) when { principal.claim_role == \"x\" };",
        "permit(principal, action, resource) when { context has arg_a };",
    ]);
    let denied = cedar.explain(&alice(), &tool("x"), None);
    assert_eq!((denied.visible, denied.decision), (false, Decision::Hide));
    assert!(denied.deciding.is_empty());
    assert!(denied.errors[0].contains("policy0") && denied.errors[0].contains("claim_role"));
    let twice = cedar.explain(&alice(), &tool("x"), Some(br#"{"a":1,"a":2}"#));
    assert_eq!(twice.errors.len(), 1);
}
