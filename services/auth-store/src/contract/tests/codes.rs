use super::fixtures::{
    HOUR, MINUTE, client, client_id, digest, grant, grant_id, insert_code, insert_grant,
    insert_session, run_concurrently, seed, session, token, verifier,
};
use crate::contract::TestEnv;
use crate::{
    Digest, GrantInsertOutcome, Limits, RedeemOutcome, Revocation, RotationOutcome, Store,
    StoreError,
};

/// Redeems a code for a client with a verifier.
async fn take(store: &dyn Store, code: &Digest, client: &str, text: &str) -> RedeemOutcome {
    store.redeem_code(code, &client_id(client), &verifier(text)).await.unwrap().outcome
}

pub async fn concurrent_redemptions_yield_the_code_once(fresh: impl AsyncFn(Limits) -> TestEnv) {
    let TestEnv { store, replica, clock } = fresh(Limits::default()).await;
    let code = insert_code(&*store, 1, &clock).await;
    let answers = run_concurrently(100, |number| {
        let store = if number % 2 == 0 { store.clone() } else { replica.clone() };
        async move { take(&*store, &code, "client", "verifier").await }
    });
    let answers = answers.await;
    let fresh = answers.iter().filter(|taken| matches!(taken, RedeemOutcome::Redeemed(_))).count();
    let redeeming = answers.iter().filter(|taken| **taken == RedeemOutcome::InProgress).count();
    assert_eq!((fresh, redeeming), (1, 99));
    assert_eq!(store.start_grant(&code, &grant(1, &clock)).await, Ok(GrantInsertOutcome::Inserted));
    assert_eq!(store.session(&session(1)).await.unwrap().unwrap().grant, Some(grant_id(1)));
}

pub async fn redemption_returns_the_presenting_client(fresh: impl AsyncFn(Limits) -> TestEnv) {
    let TestEnv { store, clock, .. } = fresh(Limits::default()).await;
    store.register(&client("client")).await.unwrap();
    let code = insert_code(&*store, 1, &clock).await;
    let answer =
        store.redeem_code(&code, &client_id("client"), &verifier("verifier")).await.unwrap();
    assert_eq!(answer.client, Some(client("client")));
    let unknown = digest("no code");
    let answer = store.redeem_code(&unknown, &client_id("client"), &verifier("v")).await.unwrap();
    assert_eq!((answer.outcome, answer.client), (RedeemOutcome::Unknown, Some(client("client"))));
    let answer = store.redeem_code(&unknown, &client_id("stranger"), &verifier("v")).await.unwrap();
    assert_eq!((answer.outcome, answer.client), (RedeemOutcome::Unknown, None));
}

pub async fn same_redeemer_may_repeat_without_revocation(fresh: impl AsyncFn(Limits) -> TestEnv) {
    let TestEnv { store, clock, .. } = fresh(Limits::default()).await;
    let code = insert_code(&*store, 1, &clock).await;
    assert_eq!(
        take(&*store, &code, "client", "verifier").await,
        RedeemOutcome::Redeemed(Box::new(seed(1)))
    );
    assert_eq!(take(&*store, &code, "client", "verifier").await, RedeemOutcome::InProgress);
    assert_eq!(store.start_grant(&code, &grant(1, &clock)).await, Ok(GrantInsertOutcome::Inserted));
}

pub async fn replay_by_other_client_stops_redemption(fresh: impl AsyncFn(Limits) -> TestEnv) {
    replay_stops_redemption(fresh, "thief", "verifier").await;
}

pub async fn replay_with_other_verifier_stops_redemption(fresh: impl AsyncFn(Limits) -> TestEnv) {
    replay_stops_redemption(fresh, "client", "guess").await;
}

async fn replay_stops_redemption(fresh: impl AsyncFn(Limits) -> TestEnv, client: &str, text: &str) {
    let TestEnv { store, replica, clock } = fresh(Limits::default()).await;
    let code = insert_code(&*store, 1, &clock).await;
    assert!(matches!(take(&*store, &code, "client", "verifier").await, RedeemOutcome::Redeemed(_)));
    let at = clock.now().into();
    let revocation = Revocation { grant: None, session: session(1), at };
    assert_eq!(take(&*replica, &code, client, text).await, RedeemOutcome::Replayed(revocation));
    assert_eq!(store.start_grant(&code, &grant(1, &clock)).await, Ok(GrantInsertOutcome::Rejected));
    let answer = store.grant(&grant_id(1), &client_id("client")).await.unwrap();
    assert_eq!(answer.grant, None);
    assert_eq!(store.session(&session(1)).await, Ok(None));
}

pub async fn replay_after_grant_revokes_the_grant(fresh: impl AsyncFn(Limits) -> TestEnv) {
    let TestEnv { store, replica, clock } = fresh(Limits::default()).await;
    insert_grant(&*store, 1, &clock).await;
    insert_grant(&*store, 2, &clock).await;
    let code = digest("code 1");
    let at = clock.now().into();
    let revocation = Revocation { grant: Some(grant_id(1)), session: session(1), at };
    // A replay by the client that redeemed the code revokes the grant as well.
    let replayed = take(&*replica, &code, "client", "verifier").await;
    assert_eq!(replayed, RedeemOutcome::Replayed(revocation.clone()));
    assert_eq!(store.session(&session(1)).await, Ok(None));
    let rotation = store.rotate(&grant_id(1), &token(0), &digest("token 1")).await.unwrap();
    assert_eq!(rotation, RotationOutcome::NotFound);
    clock.advance(MINUTE);
    let again = take(&*store, &code, "client", "verifier").await;
    assert_eq!(again, RedeemOutcome::Replayed(revocation));
    // The other grant is not affected.
    assert!(store.session(&session(2)).await.unwrap().is_some());
}

pub async fn invalidated_code_ends_its_session(fresh: impl AsyncFn(Limits) -> TestEnv) {
    let TestEnv { store, clock, .. } = fresh(Limits::default()).await;
    let code = insert_code(&*store, 1, &clock).await;
    assert!(matches!(take(&*store, &code, "client", "wrong").await, RedeemOutcome::Redeemed(_)));
    store.invalidate_code(&code).await.unwrap();
    assert_eq!(store.session(&session(1)).await, Ok(None));
    assert_eq!(store.start_grant(&code, &grant(1, &clock)).await, Ok(GrantInsertOutcome::Rejected));
    assert!(matches!(take(&*store, &code, "client", "verifier").await, RedeemOutcome::Replayed(_)));
    store.invalidate_code(&digest("no code")).await.unwrap();
}

pub async fn unredeemed_code_starts_no_grant(fresh: impl AsyncFn(Limits) -> TestEnv) {
    let TestEnv { store, clock, .. } = fresh(Limits::default()).await;
    let code = insert_code(&*store, 1, &clock).await;
    assert_eq!(store.start_grant(&code, &grant(1, &clock)).await, Ok(GrantInsertOutcome::Rejected));
    let unknown = digest("no code");
    assert_eq!(
        store.start_grant(&unknown, &grant(1, &clock)).await,
        Ok(GrantInsertOutcome::Rejected)
    );
    assert!(matches!(take(&*store, &code, "client", "verifier").await, RedeemOutcome::Redeemed(_)));
    assert_eq!(store.start_grant(&code, &grant(1, &clock)).await, Ok(GrantInsertOutcome::Inserted));
    // Repeating after a lost response is idempotent; another grant is not of this code.
    assert_eq!(store.start_grant(&code, &grant(1, &clock)).await, Ok(GrantInsertOutcome::Inserted));
    let mut another = grant(1, &clock);
    another.id = grant_id(2);
    assert_eq!(store.start_grant(&code, &another).await, Ok(GrantInsertOutcome::Rejected));
    store.revoke(&grant_id(1)).await.unwrap().unwrap();
    assert_eq!(store.start_grant(&code, &grant(1, &clock)).await, Ok(GrantInsertOutcome::Rejected));
}

pub async fn rejects_grant_of_other_session(fresh: impl AsyncFn(Limits) -> TestEnv) {
    let TestEnv { store, clock, .. } = fresh(Limits::default()).await;
    let code = insert_code(&*store, 1, &clock).await;
    insert_session(&*store, 2, &clock).await;
    assert!(matches!(take(&*store, &code, "client", "verifier").await, RedeemOutcome::Redeemed(_)));
    assert_eq!(store.start_grant(&code, &grant(2, &clock)).await, Ok(GrantInsertOutcome::Rejected));
    assert_eq!(store.session(&session(2)).await.unwrap().unwrap().grant, None);
}

pub async fn session_end_during_redemption_prevents_grant(fresh: impl AsyncFn(Limits) -> TestEnv) {
    let TestEnv { store, replica, clock } = fresh(Limits::default()).await;
    let code = insert_code(&*store, 1, &clock).await;
    assert!(matches!(take(&*store, &code, "client", "verifier").await, RedeemOutcome::Redeemed(_)));
    assert!(replica.end_session(&session(1)).await.unwrap().is_some());
    assert_eq!(store.start_grant(&code, &grant(1, &clock)).await, Ok(GrantInsertOutcome::Rejected));
    let answer = store.grant(&grant_id(1), &client_id("client")).await.unwrap();
    assert_eq!(answer.grant, None);
}

pub async fn rejects_code_of_ended_session(fresh: impl AsyncFn(Limits) -> TestEnv) {
    let TestEnv { store, clock, .. } = fresh(Limits::default()).await;
    insert_session(&*store, 1, &clock).await;
    store.end_session(&session(1)).await.unwrap();
    let code = digest("code 1");
    assert_eq!(store.put_code(&code, &seed(1), MINUTE).await, Ok(false));
    assert_eq!(take(&*store, &code, "client", "verifier").await, RedeemOutcome::Unknown);
}

pub async fn redeemed_code_outlives_expired_code(fresh: impl AsyncFn(Limits) -> TestEnv) {
    let TestEnv { store, clock, .. } = fresh(Limits::default()).await;
    let (left, redeemed) =
        (insert_code(&*store, 1, &clock).await, insert_code(&*store, 2, &clock).await);
    clock.advance(MINUTE * 9);
    assert!(matches!(
        take(&*store, &redeemed, "client", "verifier").await,
        RedeemOutcome::Redeemed(_)
    ));
    assert_eq!(
        store.start_grant(&redeemed, &grant(2, &clock)).await,
        Ok(GrantInsertOutcome::Inserted)
    );
    clock.advance(MINUTE);
    assert_eq!(take(&*store, &left, "client", "verifier").await, RedeemOutcome::Unknown);
    assert_eq!(store.session(&session(1)).await, Ok(None));
    clock.advance(MINUTE * 28);
    assert!(matches!(
        take(&*store, &redeemed, "client", "verifier").await,
        RedeemOutcome::Replayed(_)
    ));
    clock.advance(MINUTE);
    assert_eq!(take(&*store, &redeemed, "client", "verifier").await, RedeemOutcome::Unknown);
}

pub async fn revokes_grant_without_refresh_tokens(fresh: impl AsyncFn(Limits) -> TestEnv) {
    let TestEnv { store, clock, .. } = fresh(Limits::default()).await;
    let code = insert_code(&*store, 1, &clock).await;
    assert!(matches!(take(&*store, &code, "client", "verifier").await, RedeemOutcome::Redeemed(_)));
    let mut grant = grant(1, &clock);
    grant.refresh = None;
    grant.ends = (clock.now() + HOUR).into();
    assert_eq!(store.start_grant(&code, &grant).await, Ok(GrantInsertOutcome::Inserted));
    let answer = store.grant(&grant_id(1), &client_id("client")).await.unwrap();
    assert_eq!(answer.grant, Some(grant));
    let rotation = store.rotate(&grant_id(1), &token(0), &digest("token 1")).await.unwrap();
    assert_eq!(rotation, RotationOutcome::NotFound);
    assert!(store.revoke(&grant_id(1)).await.unwrap().is_some());
    assert_eq!(store.session(&session(1)).await, Ok(None));
    assert_eq!(store.revoke(&grant_id(1)).await, Ok(None));
}

pub async fn limits_codes_and_grants(fresh: impl AsyncFn(Limits) -> TestEnv) {
    let TestEnv { store, clock, .. } =
        fresh(Limits { codes: 2, grants: 1, ..Limits::default() }).await;
    let (first, second) =
        (insert_code(&*store, 1, &clock).await, insert_code(&*store, 2, &clock).await);
    insert_session(&*store, 3, &clock).await;
    let full = Err(StoreError::Full { what: "codes" });
    assert_eq!(store.put_code(&digest("code 3"), &seed(3), MINUTE).await, full);
    for code in [&first, &second] {
        assert!(matches!(
            take(&*store, code, "client", "verifier").await,
            RedeemOutcome::Redeemed(_)
        ));
    }
    assert_eq!(
        store.start_grant(&first, &grant(1, &clock)).await,
        Ok(GrantInsertOutcome::Inserted)
    );
    let full = Err(StoreError::Full { what: "grants" });
    assert_eq!(store.start_grant(&second, &grant(2, &clock)).await, full);
    store.revoke(&grant_id(1)).await.unwrap().unwrap();
    assert_eq!(
        store.start_grant(&second, &grant(2, &clock)).await,
        Ok(GrantInsertOutcome::Inserted)
    );
}
