//! Caches: content, keys and lifetime.

use super::*;

const BY_MAIL: &str = r#"permit(principal, action, resource) when { principal has claim_email && principal.claim_email like "*@example.com" };"#;

fn token(jti: u64) -> Identity {
    user("alice", json!({"email": "alice@example.com", "jti": jti, "iat": jti}))
}

#[test]
fn equal_claims_share_decisions() {
    let cedar = cedar(&[BY_MAIL]);
    for jti in 0..50 {
        assert_eq!(call(&cedar, &token(jti), "x", "{}"), Decision::Allow);
    }
    assert_eq!((cedar.views.len(), cedar.decisions.len()), (1, 1));
    let changed = user("alice", json!({"email": "alice@example.org"}));
    assert_eq!(call(&cedar, &changed, "x", "{}"), Decision::Hide);
    assert_eq!((cedar.views.len(), cedar.decisions.len()), (2, 2));
}

#[test]
fn repeated_token_is_not_inspected_again() {
    let cedar = cedar(&[BY_MAIL]);
    let who = token(1);
    assert_eq!(call(&cedar, &who, "x", "{}"), Decision::Allow);
    // The view is no longer cached.
    cedar.views.clear();
    assert_eq!(call(&cedar, &who.clone(), "x", "{}"), Decision::Allow);
    assert_eq!(cedar.views.len(), 0);
    assert_eq!(call(&cedar, &token(2), "x", "{}"), Decision::Allow);
    assert_eq!(cedar.views.len(), 1);
}

#[test]
fn identity_cache_is_separate_per_policies() {
    let who = token(1);
    let (open, closed) =
        (cedar(&[EVERYTHING]), cedar(&[r#"permit(principal, action, resource == Tool::"y");"#]));
    for _ in 0..2 {
        assert_eq!(call(&open, &who, "x", "{}"), Decision::Allow);
        assert_eq!(call(&closed, &who, "x", "{}"), Decision::Hide);
    }
    let view = |epoch| match open.permissions(&who, epoch) {
        PermissionsFuture::Ready(permissions) => permissions.visibility_key(),
        PermissionsFuture::Pending(_) => panic!("no provider is asked"),
    };
    assert_eq!(view(1), view(1));
    assert_ne!(view(1), view(2));
}

#[test]
fn tokens_of_one_caller_have_own_scopes() {
    let cedar = cedar(&[r#"@scopes("write") permit(principal, action, resource);"#]);
    let (without, with) = (user("alice", json!({})), user("alice", json!({"scope": "read write"})));
    for _ in 0..2 {
        let needed = Decision::InsufficientScope(vec!["write".into()]);
        assert_eq!(call(&cedar, &without, "x", "{}"), needed);
        assert_eq!(call(&cedar, &with, "x", "{}"), Decision::Allow);
    }
    assert_eq!(cedar.decisions.len(), 1);
}

#[test]
fn identity_cache_does_not_leak() {
    let cedar = cedar(&[EVERYTHING]);
    for jti in 0..50 {
        _ = permissions(&cedar, &token(jti));
    }
    // Only this reference; none is left in an identity.
    assert_eq!(Arc::strong_count(&cedar), 1);
}

#[test]
fn repeated_call_evaluates_arguments_only() {
    let cedar = cedar(&[
        EVERYTHING,
        "forbid(principal, action, resource) when { context has arg_n && context.arg_n > 10 };",
        r#"@scopes("much") permit(principal, action, resource) when { context.arg_n > 5 };"#,
    ]);
    for (n, expected) in (0..20).map(|n| (n, if n > 10 { Decision::Deny } else { Decision::Allow }))
    {
        let who = token(n);
        assert_eq!(call(&cedar, &who, "x", &format!(r#"{{"n":{n}}}"#)), expected, "{n}");
    }
    assert_eq!((cedar.decisions.len(), cedar.open.len()), (1, 1));
    assert_eq!(call(&cedar, &token(1), "y", r#"{"n":1}"#), Decision::Allow);
    assert_eq!((cedar.decisions.len(), cedar.open.len()), (2, 2));
}

#[test]
fn many_entities_shrink_the_caches() {
    let one =
        |n| json!({"uid": {"type": "Group", "id": format!("g{n}")}, "attrs": {}, "parents": []});
    let entities = json!((0..16_384).map(one).collect::<Vec<_>>()).to_string();
    let cedar = with_entities(&[BY_MAIL], &entities);
    for n in 0..200 {
        let who = user("alice", json!({"email": format!("{n}@example.com")}));
        _ = permissions(&cedar, &who);
    }
    assert!(cedar.views.len() <= 64, "{}", cedar.views.len());
}
