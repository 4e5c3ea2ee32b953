use super::caller_table::{MAX_CALLERS, MAX_OF_IDENTITY};
use super::*;
use crate::catalog::Offer;

fn caller(number: usize) -> Identity {
    Identity::new("https://idp.test", &number.to_string())
}

/// Stores an offer as if it had been fetched.
fn fetched(
    catalogs: &PerCallerCatalogs,
    caller: &Identity,
    instructions: String,
) -> Arc<CallerCatalog> {
    let entry = catalogs.of(caller);
    let offer = Offer { instructions: Some(instructions), ..Offer::default() };
    let content = catalogs.keep(Offers::same(offer));
    entry.0.send_modify(|state| state.offer = Some(content));
    entry
}

#[tokio::test(start_paused = true)]
async fn evicts_least_recent_caller_at_limit() {
    let catalogs = PerCallerCatalogs::new();
    for number in 0..2 * MAX_CALLERS {
        tokio::time::advance(Duration::from_micros(1)).await;
        fetched(&catalogs, &caller(number), "the same".to_owned());
        assert!(catalogs.count().0 <= MAX_CALLERS);
    }
    assert_eq!(catalogs.count().1, 1);
    assert_eq!(lock(&catalogs.callers).of(&caller(2 * MAX_CALLERS - 1)).count(), 1);
    assert_eq!(lock(&catalogs.callers).of(&caller(0)).count(), 0);
}

#[tokio::test(start_paused = true)]
async fn tokens_of_one_identity_evict_no_other_caller() {
    let catalogs = PerCallerCatalogs::new();
    fetched(&catalogs, &caller(0), "first".to_owned());
    let token = |number: usize| {
        let serde_json::Value::Object(claims) = serde_json::json!({"scope": number.to_string()})
        else {
            panic!("no object")
        };
        Identity::builder("https://idp.test", "1").claims(claims).build()
    };
    for number in 0..2 * MAX_CALLERS {
        tokio::time::advance(Duration::from_micros(1)).await;
        fetched(&catalogs, &token(number), number.to_string());
        assert!(catalogs.count().0 <= 1 + MAX_OF_IDENTITY);
    }
    assert!(lock(&catalogs.callers).of(&caller(0)).all(|(_, entry)| entry.last_good().is_some()));
    assert_eq!(lock(&catalogs.callers).of(&token(0)).count(), MAX_OF_IDENTITY);
    catalogs.changed(&caller(1));
    assert!(lock(&catalogs.callers).of(&caller(1)).all(|(_, entry)| entry.0.borrow().stale));
    assert!(lock(&catalogs.callers).of(&caller(0)).all(|(_, entry)| !entry.0.borrow().stale));
}

#[tokio::test(start_paused = true)]
async fn limits_bytes_of_different_offers() {
    let catalogs = PerCallerCatalogs::new();
    for number in 0..100 {
        tokio::time::advance(Duration::from_micros(1)).await;
        fetched(
            &catalogs,
            &caller(number),
            format!("{number:0width$}", width = 1 << 15).repeat(32),
        );
        assert!(!lock(&catalogs.contents).too_much());
    }
    assert_eq!(catalogs.count(), (64, 64));
}

#[tokio::test(start_paused = true)]
async fn sweeps_idle_and_expired_callers() {
    let catalogs = PerCallerCatalogs::new();
    let expires_at = std::time::SystemTime::now() + Duration::from_secs(100);
    let short = Identity::builder("https://idp.test", "short").expires_at(expires_at).build();
    fetched(&catalogs, &short, "a".to_owned());
    fetched(&catalogs, &caller(1), "b".to_owned());
    for (seconds, left) in [(90, 2), (20, 1), (480, 1), (20, 0)] {
        tokio::time::advance(Duration::from_secs(seconds)).await;
        catalogs.sweep();
        assert_eq!(catalogs.count(), (left, left), "after {seconds} s more");
    }
}

#[tokio::test(start_paused = true)]
async fn refetches_catalog_changed_during_fetch() {
    let catalogs = PerCallerCatalogs::new();
    let entry = catalogs.of(&caller(1));
    assert!(matches!(entry.step(true), NextStep::Fetch), "to look is not to fetch");
    assert!(matches!(entry.step(false), NextStep::Fetch));
    assert!(matches!(entry.step(false), NextStep::Wait(_)), "one fetches");
    catalogs.changed(&caller(1));
    let offer = catalogs.keep(Offers::same(Offer::default()));
    entry.0.send_modify(|state| (state.offer, state.fetching) = (Some(offer), None));
    assert!(matches!(entry.step(false), NextStep::Fetch));
    entry.0.send_modify(|state| state.fetching = None);
    assert!(matches!(entry.step(false), NextStep::Use(_)));
    tokio::time::advance(FRESHNESS_LIFETIME).await;
    assert!(matches!(entry.step(true), NextStep::UseAndRefresh(_)));
    assert!(matches!(entry.step(true), NextStep::Use(_)), "one refreshes");
}
