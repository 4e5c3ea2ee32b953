//! Required scopes.

use vmcp_core::{Claim, Claims};

/// Scopes that concern the login at the identity provider only. Access tokens need not contain them.
const LOGIN_SCOPES: [&str; 4] = ["openid", "profile", "email", "offline_access"];

/// Returns the scopes that a token must have.
pub(crate) fn enforced_scopes(scopes: impl IntoIterator<Item = impl AsRef<str>>) -> Vec<Box<str>> {
    scopes
        .into_iter()
        .filter(|scope| !LOGIN_SCOPES.contains(&scope.as_ref()))
        .map(|scope| scope.as_ref().into())
        .collect()
}

/// Returns `true` if the claims grant `scope`. The claim `scope` is a space-separated list (RFC 9068 section 2.2.3),
/// `scp` an array or such a list.
pub(crate) fn grants_scope(claims: Option<&Claims>, scope: &str) -> bool {
    let listed = |list: &str| list.split(' ').any(|one| one == scope);
    let granted = |claim: Claim<'_>| match claim.text() {
        Some(list) => listed(&list),
        None => claim.items().any(|item| item.text().as_deref() == Some(scope)),
    };
    let Some(claims) = claims else { return false };
    claims.get("scope").or_else(|| claims.get("scp")).is_some_and(granted)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn reads_scopes_in_each_usual_form() {
        for (claims, granted) in [
            (json!({"scope": "a mcp:call b"}), true),
            (json!({"scp": ["a", "mcp:call"]}), true),
            (json!({"scp": "mcp:call"}), true),
            (json!({"scope": "mcp:call:all"}), false),
            (json!({"scope": "mcp"}), false),
            (json!({"scp": ["a mcp:call"]}), false),
            (json!({"scope": 5}), false),
            (json!({}), false),
        ] {
            let Value::Object(map) = claims.clone() else { continue };
            assert_eq!(grants_scope(Some(&map.into()), "mcp:call"), granted, "{claims}");
        }
        assert!(!grants_scope(None, "mcp:call"));
    }

    #[test]
    fn scopes_of_the_login_are_not_enforced() {
        let scopes = enforced_scopes(["openid", "mcp:call", "profile", "email", "offline_access"]);
        assert_eq!(scopes, [Box::from("mcp:call")]);
    }
}
