use std::time::SystemTime;

use vmcp_auth_store::{Limits, MemoryStore};
use vmcp_upstream::AuthMethod;

use super::*;

fn ring(byte: u8) -> HmacKeyRing {
    HmacKeyRing::new(&[vec![byte; 32].into()]).unwrap()
}

fn key(provider: &str) -> RegistrationKey {
    RegistrationKey {
        issuer_id: "https://id.example".into(),
        issuer: "https://id.example".into(),
        provider: provider.into(),
        redirect_uri: "https://mcp.example/oauth/callback".into(),
        scopes: "digest".into(),
    }
}

fn client(id: &str, expires_at: Option<SystemTime>) -> Registration {
    Registration {
        client_id: id.into(),
        secret: Some("s3cr3t".into()),
        method: AuthMethod::Basic,
        expires_at,
    }
}

fn memory_registrations() -> (Arc<dyn Store>, Clock, StoredRegistrations) {
    let clock = Clock::manual(SystemTime::UNIX_EPOCH + Duration::from_hours(495_900));
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new(Limits::default(), clock.clone()));
    let registrations = StoredRegistrations::new(Arc::clone(&store), &ring(7), clock.clone());
    (store, clock, registrations)
}

async fn name(registrations: &StoredRegistrations, provider: &str) -> Option<String> {
    let found = registrations.get(&key(provider)).await.unwrap();
    found.map(|found| found.client_id.into_string())
}

#[tokio::test]
async fn concurrent_registrations_share_first_one() {
    let (_, _, registrations) = memory_registrations();
    let key = key("git");
    let first = registrations.put(&key, &client("one", None), None).await.unwrap();
    let second = registrations.put(&key, &client("two", None), None).await.unwrap();
    assert_eq!((&*first.client_id, &*second.client_id), ("one", "one"));
    assert_eq!(second.secret.unwrap().expose_secret(), "s3cr3t");
    assert_eq!(name(&registrations, "git").await.as_deref(), Some("one"));
    assert_eq!(name(&registrations, "corp").await, None);
}

#[tokio::test]
async fn replaces_registration_unknown_to_provider_once() {
    let (_, _, registrations) = memory_registrations();
    let key = key("git");
    registrations.put(&key, &client("one", None), None).await.unwrap();
    let put = |id: &'static str| {
        let (registrations, key) = (registrations.clone(), key.clone());
        async move {
            let put = registrations.put(&key, &client(id, None), Some("one")).await;
            put.unwrap().client_id.into_string()
        }
    };
    assert_eq!(put("two").await, "two");
    // A second replica finds the registration invalid a moment later.
    assert_eq!(put("three").await, "two");
    assert_eq!(name(&registrations, "git").await.as_deref(), Some("two"));
}

#[tokio::test]
async fn lifetime_beyond_all_dates_is_clamped() {
    let (store, clock, registrations) = memory_registrations();
    let never = SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 60);
    registrations.put(&key("git"), &client("one", Some(never)), None).await.unwrap();
    assert_eq!(name(&registrations, "git").await.as_deref(), Some("one"));
    clock.advance(MAX_RETENTION);
    assert_eq!(store.counts().await.unwrap().registrations, 0);
}

#[tokio::test]
async fn replaces_unusable_registration() {
    let (store, clock, registrations) = memory_registrations();
    let soon = clock.now() + Duration::from_mins(1);
    registrations.put(&key("git"), &client("one", Some(soon)), None).await.unwrap();
    clock.advance(Duration::from_secs(61));
    assert_eq!(name(&registrations, "git").await, None);
    let put = registrations.put(&key("git"), &client("two", None), None).await.unwrap();
    assert_eq!(&*put.client_id, "two");

    // A ring with other secrets cannot decrypt the registration.
    let other = StoredRegistrations::new(store, &ring(8), clock);
    assert_eq!(name(&other, "git").await, None);
    let put = other.put(&key("git"), &client("three", None), None).await.unwrap();
    assert_eq!(&*put.client_id, "three");
}
