//! Claims of an upstream provider's token.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use vmcp_core::{UpstreamError, UpstreamFuture, UpstreamKind, UpstreamToken, UpstreamTokens};

use super::*;

const BY_MAIL: &str = r#"permit(principal == Client::"up", action, resource) when { principal.claim_email like "*@example.com" };"#;

/// Tokens of one user at the provider `github`.
struct Tokens {
    access: Mutex<Result<String, UpstreamError>>,
    id: Result<String, UpstreamError>,
    asked: AtomicUsize,
}

impl UpstreamTokens for Tokens {
    fn token<'a>(&'a self, provider: &'a str, kind: UpstreamKind) -> UpstreamFuture<'a> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let value = match kind {
            _ if provider != "github" => Err(UpstreamError::NotLinked),
            UpstreamKind::Access => self.access.lock().unwrap().clone(),
            UpstreamKind::Id => self.id.clone(),
        };
        Box::pin(async move {
            value.map(|value| UpstreamToken { value: value.into(), expires_at: None })
        })
    }
}

fn jwt(claims: &Value) -> String {
    format!("e30.{}.c2ln", BASE64_URL_SAFE_NO_PAD.encode(claims.to_string()))
}

fn tokens(access: Result<String, UpstreamError>, id: Result<String, UpstreamError>) -> Arc<Tokens> {
    Arc::new(Tokens { access: Mutex::new(access), id, asked: AtomicUsize::new(0) })
}

async fn asked(tokens: &Arc<Tokens>, cedar: &Arc<Cedar>) -> Result<Decision, vmcp_core::Rejection> {
    // The claims of the gateway's own token would suffice.
    let claims = json!({"email": "a@example.com"}).as_object().cloned().unwrap();
    let identity = Identity::builder("i", "up").claims(claims).upstream(tokens.clone()).build();
    match cedar.permissions(&identity, 1) {
        PermissionsFuture::Ready(_) => panic!("the provider's token is to be fetched"),
        PermissionsFuture::Pending(later) => Ok(later.await?.authorize(&tool("x"), None)),
    }
}

fn upstream(policy: &str) -> Arc<Cedar> {
    let cedar = Cedar::new("s", &[policy], "").unwrap();
    Arc::new(cedar.primary_upstream_provider("github"))
}

#[tokio::test]
async fn uses_claims_of_the_provider_only() {
    let cedar = upstream(BY_MAIL);
    let good = jwt(&json!({"sub": "up", "email": "b@example.com"}));
    assert_eq!(
        asked(&tokens(Ok(good), Err(UpstreamError::NotLinked)), &cedar).await,
        Ok(Decision::Allow)
    );
    for access in [
        jwt(&json!({"sub": "other", "email": "b@example.com"})),
        jwt(&json!({"sub": "up", "email": "b@example.org"})),
        jwt(&json!({"email": "b@example.com"})),
        jwt(&json!({"sub": 7, "email": "b@example.com"})),
        jwt(&json!(["up"])),
        "gho_opaque".to_owned(),
        "a.b.c".to_owned(),
        format!("{}.x", jwt(&json!({"sub": "up", "email": "b@example.com"}))),
        jwt(&json!({"sub": "up", "email": "b@example.com", "pad": "x".repeat(70_000)})),
    ] {
        let tokens = tokens(Ok(access.clone()), Err(UpstreamError::NotLinked));
        assert_eq!(asked(&tokens, &cedar).await, Ok(Decision::Hide), "{access:.80}");
    }
}

#[tokio::test]
async fn token_without_subject_denies_everything() {
    let cedar = upstream(EVERYTHING);
    let access = |claims: Value| tokens(Ok(jwt(&claims)), Err(UpstreamError::NotLinked));
    assert_eq!(asked(&access(json!({"sub": "x"})), &cedar).await, Ok(Decision::Allow));
    for nameless in [json!({}), json!({"sub": ""}), json!({"sub": 7}), json!({"sub": null})] {
        assert_eq!(asked(&access(nameless), &cedar).await, Ok(Decision::Hide));
    }
}

#[tokio::test]
async fn id_token_adds_name_and_email_only() {
    let access = || Ok(jwt(&json!({"sub": "up"})));
    let id = || Ok(jwt(&json!({"sub": "up", "email": "b@example.com", "role": "x"})));
    assert_eq!(asked(&tokens(access(), id()), &upstream(BY_MAIL)).await, Ok(Decision::Allow));
    let by_role =
        upstream("permit(principal, action, resource) when { principal has claim_role };");
    assert_eq!(asked(&tokens(access(), id()), &by_role).await, Ok(Decision::Hide));
    let said = Ok(jwt(&json!({"sub": "up", "email": "b@example.org"})));
    assert_eq!(asked(&tokens(said, id()), &upstream(BY_MAIL)).await, Ok(Decision::Hide));
}

#[tokio::test]
async fn unresponsive_provider_is_unavailable() {
    let cedar = upstream(BY_MAIL);
    let down = tokens(Err(UpstreamError::Unavailable), Err(UpstreamError::Unavailable));
    assert_eq!(asked(&down, &cedar).await.unwrap_err().status(), 503);
    let never = tokens(Err(UpstreamError::NotLinked), Err(UpstreamError::NotLinked));
    assert_eq!(asked(&never, &cedar).await, Ok(Decision::Hide));
}

#[tokio::test]
async fn token_is_parsed_once() {
    let cedar = upstream(BY_MAIL);
    let id = Ok(jwt(&json!({"email": "b@example.com"})));
    let tokens = tokens(Ok(jwt(&json!({"sub": "up"}))), id);
    for _ in 0..3 {
        assert_eq!(asked(&tokens, &cedar).await, Ok(Decision::Allow));
    }
    // The access token is requested each time, the ID token once.
    assert_eq!(tokens.asked.load(Ordering::Relaxed), 4);
    *tokens.access.lock().unwrap() = Ok(jwt(&json!({"sub": "other"})));
    assert_eq!(asked(&tokens, &cedar).await, Ok(Decision::Hide));
}

#[tokio::test]
async fn missing_tokens_deny_everything() {
    let cedar = upstream(EVERYTHING);
    for who in [Identity::anonymous(), alice()] {
        let PermissionsFuture::Pending(later) = cedar.permissions(&who, 1) else {
            panic!("at once")
        };
        assert_eq!(later.await.unwrap().authorize(&tool("x"), None), Decision::Hide);
    }
}
