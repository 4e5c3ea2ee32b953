//! Tests for a provider name that moves to another issuer: users and tokens of the old issuer stay separate.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use vmcp_core::{UpstreamError, UpstreamKind};

use crate::testing::{Browser, Fake, Got, RESOURCE, World};
use crate::{ProviderFault, Upstream};

/// Creates a server over the same store, whose providers have the same names but other issuers.
fn moved(world: &World) -> (World, [Arc<Fake>; 2]) {
    let at = |name| Fake::of(name, &format!("https://{name}.elsewhere.example"), &world.clock);
    let fakes = ["corp", "git"].map(at);
    let upstreams = fakes.iter().map(|fake| Arc::clone(fake) as Arc<dyn Upstream>).collect();
    (World::behind(world, upstreams), fakes)
}

fn subject(world: &World, got: &Got) -> String {
    world.server.verifier(RESOURCE).unwrap().verify(&got.access).unwrap().subject
}

#[tokio::test]
async fn separates_people_of_issuers_with_one_name() {
    let world = World::new();
    let client = world.client().await;
    let before = subject(&world, &world.tokens(&client).await);
    assert_eq!(before, subject(&world, &world.tokens(&client).await));
    let (elsewhere, _) = moved(&world);
    let after = subject(&elsewhere, &elsewhere.tokens(&client).await);
    assert_ne!(before, after, "both are alice, of different issuers");
    assert_eq!(before, subject(&world, &world.tokens(&client).await));
}

#[tokio::test]
async fn sends_no_token_to_other_issuer_of_same_name() {
    let world = World::new();
    let client = world.client().await;
    let got = world.tokens(&client).await;
    let session = world.server.verifier(RESOURCE).unwrap().verify(&got.access).unwrap().session;
    let (elsewhere, fakes) = moved(&world);
    world.clock.advance(Duration::from_secs(3600));
    for provider in ["corp", "git"] {
        for kind in [UpstreamKind::Access, UpstreamKind::Id] {
            let tokens = elsewhere.server.tokens(session);
            let outcome = tokens.token(provider, kind).await;
            assert!(matches!(outcome, Err(UpstreamError::NotLinked)), "{provider}: {outcome:?}");
        }
    }
    let asked = fakes.map(|fake| fake.refreshes.load(Ordering::SeqCst));
    assert_eq!(asked, [0, 0]);
    assert!(world.server.tokens(session).token("git", UpstreamKind::Access).await.is_ok());
}

#[tokio::test]
async fn carries_no_refresh_token_to_other_issuer() {
    let world = World::new();
    let client = world.client().await;
    world.tokens(&client).await;
    let (elsewhere, fakes) = moved(&world);
    // The first provider has the same user; the second one, which issues no refresh token, has another issuer.
    let corp = Arc::clone(&world.corp) as Arc<dyn Upstream>;
    let git = Arc::clone(&fakes[1]);
    git.set(|script| script.refresh_token = None);
    let partly = World::behind(&elsewhere, vec![corp, git]);
    let got = partly.tokens(&client).await;
    let session = partly.server.verifier(RESOURCE).unwrap().verify(&got.access).unwrap().session;
    partly.clock.advance(Duration::from_secs(3600));
    let outcome = partly.server.tokens(session).token("git", UpstreamKind::Access).await;
    assert!(matches!(outcome, Err(UpstreamError::NotLinked)), "{outcome:?}");
    assert_eq!(fakes[1].refreshes.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn redeems_no_code_at_other_issuer() {
    let world = World::new();
    let client = world.client().await;
    let mut browser = Browser::default();
    let corp = world.consent(&mut browser, &World::authorize(&client, &[])).await;
    let (elsewhere, _) = moved(&world);
    let back = browser.get(&elsewhere, &World::at_provider(&corp)).await;
    assert_eq!(back.error(), "access_denied");
}

#[tokio::test]
async fn refuses_other_issuer_under_known_name() {
    let world = World::new();
    let (elsewhere, _) = moved(&world);
    assert_eq!(elsewhere.server.check_providers().await, Ok(()), "nothing is kept of it yet");
    let client = world.client().await;
    world.tokens(&client).await;
    assert_eq!(world.server.check_providers().await, Ok(()));
    let refused = elsewhere.server.check_providers().await.unwrap_err();
    assert!(matches!(refused, ProviderFault::Changed { .. }), "{refused:?}");
    let words = refused.to_string();
    for part in ["https://corp.example", "https://corp.elsewhere.example", "another name"] {
        assert!(words.contains(part), "{words}");
    }
}
