//! Unreadable records, such as those of a newer version, beside readable ones.

use std::time::Duration;

use futures_util::StreamExt;
use vmcp_auth_store::contract::TestEnv;
use vmcp_auth_store::{
    Ciphertext, ClientId, Consent, Digest, Limits, ProviderIssuer, ProviderName, SessionHead,
    SessionId, Store, Timestamp, UpstreamTokenRecord, UserId,
};
use vmcp_tests::counterparts::{Redis, skipped};

use crate::fixtures::{standalone, world};

const LATER: &str = "9999999999999";
const DAY: Duration = Duration::from_hours(24);

/// Returns the prefix of all keys.
fn prefix(store: &dyn Store) -> String {
    let said = format!("{store:?}");
    said.split_once("prefix: \"").unwrap().1.split_once('"').unwrap().0.to_owned()
}

fn head(number: u8) -> SessionHead {
    SessionHead {
        id: SessionId::from_bytes([number; 16]),
        user: UserId::new("alice").unwrap(),
        client: ClientId::new("client").unwrap(),
    }
}

async fn session(store: &dyn Store, number: u8) {
    let row = UpstreamTokenRecord {
        version: 0,
        issuer: ProviderIssuer::new("https://github.example").unwrap(),
        sealed: Ciphertext::from_bytes(*b"tokens"),
        expires: None,
        scopes: vec![],
        written: Timestamp::default(),
    };
    let github = ProviderName::new("github").unwrap();
    store.put_upstream_token(&head(number), &github, &row, DAY).await.unwrap();
}

#[tokio::test]
async fn receives_revocations_beside_unreadable_entries() {
    if skipped() {
        return;
    }
    let server = Redis::start(&[]).await.unwrap();
    let TestEnv { store, replica, .. } = world(&standalone(server.port), Limits::default()).await;
    let list = format!("{}revoked", prefix(&*store));
    for member in ["", "of another version", "AAAAAAAAAAAAAAAAAAAAAA - x"] {
        server.cli(&["ZADD", &list, LATER, member]).await.unwrap();
    }
    session(&*store, 1).await;
    session(&*store, 2).await;
    store.end_session(&head(1).id).await.unwrap();
    let mut heard = replica.revocations().await.unwrap();
    assert_eq!(heard.next().await.unwrap().session, head(1).id);
    let channel = format!("{}revocations", prefix(&*store));
    server.cli(&["PUBLISH", &channel, "of another version"]).await.unwrap();
    store.end_session(&head(2).id).await.unwrap();
    assert_eq!(heard.next().await.unwrap().session, head(2).id);
}

#[tokio::test]
async fn lists_sessions_and_consents_beside_unreadable_entries() {
    if skipped() {
        return;
    }
    let server = Redis::start(&[]).await.unwrap();
    let TestEnv { store, clock, .. } = world(&standalone(server.port), Limits::default()).await;
    let prefix = prefix(&*store);
    session(&*store, 1).await;
    session(&*store, 2).await;
    let damaged = format!("{prefix}session:{}", head(2).id.to_text());
    server.cli(&["HSET", &damaged, "h", "of another version"]).await.unwrap();
    let sessions = store.sessions_of(&head(1).user).await.unwrap();
    assert_eq!(sessions.iter().map(|session| &session.head).collect::<Vec<_>>(), [&head(1)]);

    let (cookie, now) = (Digest::of("cookie"), std::time::SystemTime::into(clock.now()));
    let consent = Consent {
        client: head(1).client,
        redirect_uri: "https://app.example/".to_owned(),
        scopes: vec![],
        given: now,
        expires: now + DAY,
    };
    store.put_browser(&cookie, &head(1).user, Some(&consent), DAY).await.unwrap();
    let consents = format!("{prefix}consents:alice");
    server.cli(&["HSET", &consents, "other", &format!("1 {LATER} x")]).await.unwrap();
    assert_eq!(store.browser(&cookie).await.unwrap().unwrap().consents, [consent]);
}
