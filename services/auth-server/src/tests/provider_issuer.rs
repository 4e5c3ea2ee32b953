//! Tests for a provider name that moves to another issuer: users and tokens of the old issuer stay separate.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use vmcp_core::{UpstreamError, UpstreamKind};

use crate::testing::{FakeProvider, RESOURCE, TestEnv, TokenPair, UserAgent};
use crate::{ProviderCheckError, Upstream};

/// Creates a server over the same store, whose providers have the same names but other issuers.
fn with_other_issuers(env: &TestEnv) -> (TestEnv, [Arc<FakeProvider>; 2]) {
    let at = |name| {
        FakeProvider::with_issuer(name, &format!("https://{name}.moved.example"), &env.clock)
    };
    let fakes = ["corp", "git"].map(at);
    let upstreams = fakes.iter().map(|fake| Arc::clone(fake) as Arc<dyn Upstream>).collect();
    (TestEnv::with_providers(env, upstreams), fakes)
}

fn subject(env: &TestEnv, issued: &TokenPair) -> String {
    env.server.verifier(RESOURCE).unwrap().verify(&issued.access).unwrap().subject
}

#[tokio::test]
async fn separates_users_of_issuers_with_one_name() {
    let env = TestEnv::new();
    let client = env.client().await;
    let before = subject(&env, &env.tokens(&client).await);
    assert_eq!(before, subject(&env, &env.tokens(&client).await));
    let (moved, _) = with_other_issuers(&env);
    let after = subject(&moved, &moved.tokens(&client).await);
    assert_ne!(before, after, "both are alice, of different issuers");
    assert_eq!(before, subject(&env, &env.tokens(&client).await));
}

#[tokio::test]
async fn withholds_token_from_other_issuer_with_same_name() {
    let env = TestEnv::new();
    let client = env.client().await;
    let issued = env.tokens(&client).await;
    let session = env.server.verifier(RESOURCE).unwrap().verify(&issued.access).unwrap().session;
    let (moved, fakes) = with_other_issuers(&env);
    env.clock.advance(Duration::from_hours(1));
    for provider in ["corp", "git"] {
        for kind in [UpstreamKind::Access, UpstreamKind::Id] {
            let tokens = moved.server.upstream_tokens(session);
            let outcome = tokens.token(provider, kind).await;
            assert!(matches!(outcome, Err(UpstreamError::NotLinked)), "{provider}: {outcome:?}");
        }
    }
    let asked = fakes.map(|fake| fake.refreshes.load(Ordering::SeqCst));
    assert_eq!(asked, [0, 0]);
    assert!(env.server.upstream_tokens(session).token("git", UpstreamKind::Access).await.is_ok());
}

#[tokio::test]
async fn carries_no_refresh_token_to_other_issuer() {
    let env = TestEnv::new();
    let client = env.client().await;
    env.tokens(&client).await;
    let (moved, fakes) = with_other_issuers(&env);
    // The first provider has the same user; the second one, which issues no refresh token, has another issuer.
    let corp = Arc::clone(&env.corp) as Arc<dyn Upstream>;
    let git = Arc::clone(&fakes[1]);
    git.set(|behavior| behavior.refresh_token = None);
    let partly = TestEnv::with_providers(&moved, vec![corp, git]);
    let issued = partly.tokens(&client).await;
    let session = partly.server.verifier(RESOURCE).unwrap().verify(&issued.access).unwrap().session;
    partly.clock.advance(Duration::from_hours(1));
    let outcome = partly.server.upstream_tokens(session).token("git", UpstreamKind::Access).await;
    assert!(matches!(outcome, Err(UpstreamError::NotLinked)), "{outcome:?}");
    assert_eq!(fakes[1].refreshes.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn redeems_no_code_at_other_issuer() {
    let env = TestEnv::new();
    let client = env.client().await;
    let mut browser = UserAgent::default();
    let corp = env.consent(&mut browser, &TestEnv::authorize(&client, &[])).await;
    let (moved, _) = with_other_issuers(&env);
    let back = browser.get(&moved, &TestEnv::provider_callback(&corp)).await;
    assert_eq!(back.error(), "access_denied");
}

#[tokio::test]
async fn rejects_other_issuer_under_known_name() {
    let env = TestEnv::new();
    let (moved, _) = with_other_issuers(&env);
    assert_eq!(moved.server.check_providers().await, Ok(()), "nothing is kept of it yet");
    let client = env.client().await;
    env.tokens(&client).await;
    assert_eq!(env.server.check_providers().await, Ok(()));
    let refused = moved.server.check_providers().await.unwrap_err();
    assert!(matches!(refused, ProviderCheckError::IssuerChanged { .. }), "{refused:?}");
    let words = refused.to_string();
    for part in ["https://corp.example", "https://corp.moved.example", "another name"] {
        assert!(words.contains(part), "{words}");
    }
}
