use std::sync::Arc;
use std::time::{Duration, SystemTime};

use vmcp_core::Clock;

use crate::contract::TestEnv;
use crate::{
    Ciphertext, ClientId, Counts, Digest, Limits, LockOwner, Login, LoginPurpose, MemoryStore,
    Profile, ProviderIssuer, ProviderName, SessionHead, SessionId, Stage, Store,
    UpstreamTokenRecord, UserId,
};

async fn fresh(limits: Limits) -> TestEnv {
    let clock = Clock::manual(SystemTime::UNIX_EPOCH + Duration::from_hours(500_000));
    let store = Arc::new(MemoryStore::new(limits, clock.clone()));
    TestEnv { store: store.clone(), replica: store, clock }
}

contract!(fresh);

#[tokio::test]
async fn expired_records_leave_no_index_entries() {
    let TestEnv { store: _, clock, .. } = fresh(Limits::default()).await;
    let memory = MemoryStore::new(Limits::default(), clock.clone());
    let (key, login) = (Digest::of("state"), relink(&clock));
    for number in 0..100_u8 {
        let user = UserId::new(format!("user {number}")).unwrap();
        let client = ClientId::new(format!("client {number}")).unwrap();
        let head = SessionHead { id: SessionId::from_bytes([number; 16]), user, client };
        memory
            .put_upstream_token(&head, &provider(), &row(&clock), Duration::from_mins(1))
            .await
            .unwrap();
        let owner = LockOwner::from_bytes([number; 16]);
        memory
            .lock_upstream_token(&head.id, &provider(), &owner, Duration::from_mins(1))
            .await
            .unwrap();
    }
    memory.put_login(&key, &login, Duration::from_mins(1)).await.unwrap();
    clock.advance(Duration::from_mins(1));
    assert_eq!(memory.counts().await, Ok(Counts::default()));
    let state = memory.state.lock().unwrap();
    assert_eq!((state.sessions_of.len(), state.logins_of.len(), state.locks.len()), (0, 0, 0));
}

fn provider() -> ProviderName {
    ProviderName::new("github").unwrap()
}

fn relink(clock: &Clock) -> Login {
    Login {
        aim: LoginPurpose::Relink,
        session: SessionId::from_bytes([1; 16]),
        browser: Digest::of("cookie"),
        stage: Stage::AwaitConsent { csrf: Digest::of("csrf") },
        user: None,
        profile: Profile::default(),
        authenticated: None,
        created: clock.now().into(),
        origin: Some(Digest::of("192.0.2.1")),
    }
}

fn row(clock: &Clock) -> UpstreamTokenRecord {
    let written = clock.now().into();
    let issuer = ProviderIssuer::new("https://github.example").unwrap();
    UpstreamTokenRecord {
        version: 0,
        issuer,
        sealed: Ciphertext::from_bytes([]),
        expires: None,
        scopes: vec![],
        written,
    }
}
