//! Records of versions that did not store the issuers of providers.

use vmcp_auth_store::contract::TestEnv;
use vmcp_auth_store::{
    Limits, Profile, ProviderIssuer, ProviderName, SessionId, Subject, SubjectName, UserId,
};
use vmcp_tests::counterparts::{Redis, skipped};

use crate::fixtures::{standalone, world};

const LATER: &str = "9999999999999";

fn subject(issuer: &str) -> Subject {
    Subject {
        provider: ProviderName::new("corp").unwrap(),
        issuer: ProviderIssuer::new(issuer).unwrap(),
        name: SubjectName::new("1").unwrap(),
    }
}

/// Returns a store with a user and a session with an upstream token.
async fn old(server: &Redis) -> TestEnv {
    let world = world(&standalone(server.port), Limits::default()).await;
    let said = format!("{:?}", world.store);
    let prefix = said.split_once("prefix: \"").unwrap().1.split_once('"').unwrap().0;
    let key = |name: &str| format!("{prefix}{name}");
    let session = SessionId::from_bytes([1; 16]).to_text();
    let head = format!(r#"{{"id":"{session}","user":"alice","client":"c"}}"#);
    let row = r#"1 1 {"version":0,"sealed":"AAAA","expires":null,"scopes":[],"written":1}"#;
    let (person, login) = (key("user:alice"), key(&format!("session:{session}")));
    for words in [
        vec!["HSET", &*key("subject:4:corp:1:1:"), "u", "alice"],
        vec!["HSET", &*person, "x", LATER, "c", "1", "p", r#"{"name":null,"email":null}"#],
        vec!["ZADD", &*key("users"), LATER, "alice"],
        vec!["HSET", &*login, "x", LATER, "u", "alice", "h", &*head, "s", "1", "v", "1"],
        vec!["HSET", &*login, "r:corp", row],
        vec!["ZADD", &*key("sessions"), LATER, &*session],
    ] {
        server.cli(&words).await.unwrap();
    }
    world
}

#[tokio::test]
async fn migrates_users_to_issuers_of_first_start() {
    if skipped() {
        return;
    }
    let server = Redis::start(&[]).await.unwrap();
    let TestEnv { store, replica, .. } = old(&server).await;
    let [own, other] = ["https://corp.example", "https://other.example"].map(subject);
    let (alice, profile) = (UserId::new("alice").unwrap(), Profile::default());
    let anybody = |number: u8| UserId::new(format!("new {number}")).unwrap();
    let of = |subject: &Subject| [(subject.provider.clone(), subject.issuer.clone())];
    assert_eq!(store.conflicting_issuers(&of(&own)).await, Ok(vec![]));
    // From now on the name and its users belong to that issuer.
    assert_eq!(replica.conflicting_issuers(&of(&other)).await, Ok(of(&own).to_vec()));
    assert_eq!(replica.upsert_user(&other, &anybody(1), &profile).await, Ok(anybody(1)));
    assert_eq!(store.upsert_user(&own, &anybody(2), &profile).await, Ok(alice.clone()));
    assert_eq!(replica.upsert_user(&own, &anybody(3), &profile).await, Ok(alice));
}

#[tokio::test]
async fn ignores_rows_with_unknown_issuer() {
    if skipped() {
        return;
    }
    let server = Redis::start(&[]).await.unwrap();
    let TestEnv { store, .. } = old(&server).await;
    let session = store.session(&SessionId::from_bytes([1; 16])).await.unwrap().unwrap();
    assert!(session.rows.is_empty(), "{session:?}");
}
