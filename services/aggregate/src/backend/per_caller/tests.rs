use super::caller_table::{MAX_CALLERS, MAX_OF_IDENTITY};
use super::*;
use crate::catalog::Offer;

fn caller(number: usize) -> Identity {
    Identity::new("https://idp.test", &number.to_string())
}

/// Stores an offer as if it had been fetched.
fn fetched(
    owns: &PerCallerCatalogs,
    caller: &Identity,
    instructions: String,
) -> Arc<CallerCatalog> {
    let own = owns.of(caller);
    let offer = Offer { instructions: Some(instructions), ..Offer::default() };
    let content = owns.keep(Offers::same(offer));
    own.0.send_modify(|state| state.offer = Some(content));
    own
}

#[tokio::test(start_paused = true)]
async fn callers_are_bounded_and_who_was_here_lately_stays() {
    let owns = PerCallerCatalogs::new();
    for number in 0..2 * MAX_CALLERS {
        tokio::time::advance(Duration::from_micros(1)).await;
        fetched(&owns, &caller(number), "the same".to_owned());
        assert!(owns.count().0 <= MAX_CALLERS);
    }
    assert_eq!(owns.count().1, 1);
    assert_eq!(lock(&owns.callers).of(&caller(2 * MAX_CALLERS - 1)).count(), 1);
    assert_eq!(lock(&owns.callers).of(&caller(0)).count(), 0);
}

#[tokio::test(start_paused = true)]
async fn tokens_of_one_identity_take_no_others_place() {
    let owns = PerCallerCatalogs::new();
    fetched(&owns, &caller(0), "first".to_owned());
    let token = |number: usize| {
        let serde_json::Value::Object(claims) = serde_json::json!({"scope": number.to_string()})
        else {
            panic!("no object")
        };
        Identity::builder("https://idp.test", "1").claims(claims).build()
    };
    for number in 0..2 * MAX_CALLERS {
        tokio::time::advance(Duration::from_micros(1)).await;
        fetched(&owns, &token(number), number.to_string());
        assert!(owns.count().0 <= 1 + MAX_OF_IDENTITY);
    }
    assert!(lock(&owns.callers).of(&caller(0)).all(|(_, own)| own.last_good().is_some()));
    assert_eq!(lock(&owns.callers).of(&token(0)).count(), MAX_OF_IDENTITY);
    owns.changed(&caller(1));
    assert!(lock(&owns.callers).of(&caller(1)).all(|(_, own)| own.0.borrow().stale));
    assert!(lock(&owns.callers).of(&caller(0)).all(|(_, own)| !own.0.borrow().stale));
}

#[tokio::test(start_paused = true)]
async fn different_offers_are_bounded_in_bytes() {
    let owns = PerCallerCatalogs::new();
    for number in 0..100 {
        tokio::time::advance(Duration::from_micros(1)).await;
        fetched(&owns, &caller(number), format!("{number:0width$}", width = 1 << 15).repeat(32));
        assert!(!lock(&owns.contents).too_much());
    }
    assert_eq!(owns.count(), (64, 64));
}

#[tokio::test(start_paused = true)]
async fn what_nobody_uses_goes_and_what_expired_goes() {
    let owns = PerCallerCatalogs::new();
    let expires_at = std::time::SystemTime::now() + Duration::from_secs(100);
    let short = Identity::builder("https://idp.test", "short").expires_at(expires_at).build();
    fetched(&owns, &short, "a".to_owned());
    fetched(&owns, &caller(1), "b".to_owned());
    for (seconds, left) in [(90, 2), (20, 1), (480, 1), (20, 0)] {
        tokio::time::advance(Duration::from_secs(seconds)).await;
        owns.sweep();
        assert_eq!(owns.count(), (left, left), "after {seconds} s more");
    }
}

#[tokio::test(start_paused = true)]
async fn what_changes_while_it_is_fetched_is_fetched_once_more() {
    let owns = PerCallerCatalogs::new();
    let own = owns.of(&caller(1));
    assert!(matches!(own.step(true), NextStep::Fetch), "to look is not to fetch");
    assert!(matches!(own.step(false), NextStep::Fetch));
    assert!(matches!(own.step(false), NextStep::Wait(_)), "one fetches");
    owns.changed(&caller(1));
    let offer = owns.keep(Offers::same(Offer::default()));
    own.0.send_modify(|state| (state.offer, state.fetching) = (Some(offer), None));
    assert!(matches!(own.step(false), NextStep::Fetch));
    own.0.send_modify(|state| state.fetching = None);
    assert!(matches!(own.step(false), NextStep::Use(_)));
    tokio::time::advance(FRESHNESS_LIFETIME).await;
    assert!(matches!(own.step(true), NextStep::UseAndRefresh(_)));
    assert!(matches!(own.step(true), NextStep::Use(_)), "one refreshes");
}
