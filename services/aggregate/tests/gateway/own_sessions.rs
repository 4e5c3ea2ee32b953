//! Backends with different offers for each session of a user, depending on its linked accounts and its token.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;
use vmcp_aggregate::Gateway;
use vmcp_aggregate::settings::PartialFailure;
use vmcp_core::{
    Fingerprint, Generation, Identity, LinksFuture, UpstreamError, UpstreamFuture, UpstreamKind,
    UpstreamTokens,
};

use crate::fake::{Behavior, Client, FakeBackend, Sessions, with};

const BOTH: [Generation; 2] = [Generation::Stateful, Generation::Stateless];

/// Session and its linked accounts; `None` while they are unknown.
struct Session(&'static str, Arc<Mutex<Option<&'static str>>>);

impl UpstreamTokens for Session {
    fn token<'a>(&'a self, _: &'a str, _: UpstreamKind) -> UpstreamFuture<'a> {
        Box::pin(std::future::ready(Err(UpstreamError::NotLinked)))
    }

    fn session(&self) -> Option<Fingerprint> {
        Some(Fingerprint::of(self.0))
    }

    fn links(&self) -> LinksFuture<'_> {
        Box::pin(std::future::ready(self.1.lock().unwrap().map(Fingerprint::of)))
    }
}

fn tools(names: &[&str]) -> Value {
    json!({"tools": names.iter().map(|name| json!({"name": name})).collect::<Vec<_>>()})
}

/// Creates a backend with a different offer for each token of Alice.
fn own(generation: Generation) -> Arc<FakeBackend> {
    FakeBackend::new("own", generation)
        .offer("alice#1", tools(&["red"]))
        .offer("alice#2", tools(&["blue"]))
}

async fn gateway(own: &Arc<FakeBackend>) -> Gateway {
    let all = FakeBackend::new("all", Generation::Stateless).offer("*", tools(&["open"]));
    with(vec![all.settings(), own.per_caller()], PartialFailure::BestEffort).await
}

async fn alice(
    gateway: &Gateway,
    generation: Generation,
    token: &str,
    claims: Value,
    session: Option<Session>,
) -> Client {
    let Value::Object(claims) = claims else { panic!("no object") };
    let identity = Identity::builder("https://idp.test", "alice").claims(claims);
    let identity = identity.token(token.into());
    let identity = match session {
        Some(session) => identity.upstream(Arc::new(session)),
        None => identity,
    };
    let mut client = Client::new(gateway, generation, "alice").await;
    client.identity = identity.build();
    client
}

async fn assert_separate_catalogs(one: &Client, other: &Client) {
    for _ in 0..2 {
        assert_eq!(one.names("tools/list").await, ["all_open", "own_red"]);
        assert_eq!(other.names("tools/list").await, ["all_open", "own_blue"]);
        assert_eq!(one.call("own_red").await.as_deref(), Some("own:alice#1"));
        assert_eq!(other.call("own_red").await, None);
        assert_eq!(other.call("own_blue").await.as_deref(), Some("own:alice#2"));
    }
}

#[tokio::test(start_paused = true)]
async fn sessions_of_one_user_have_own_catalogs() {
    for (backend, client) in BOTH.into_iter().flat_map(|be| BOTH.map(|client| (be, client))) {
        let own = own(backend);
        *own.sessions.lock().unwrap() = Some(Sessions::default());
        let gateway = gateway(&own).await;
        let session = |name| Some(Session(name, Arc::new(Mutex::new(Some("git")))));
        let one = alice(&gateway, client, "1", json!({}), session("one")).await;
        let other = alice(&gateway, client, "2", json!({}), session("other")).await;
        assert_separate_catalogs(&one, &other).await;
        if backend == Generation::Stateful {
            let openers = own.sessions.lock().unwrap().as_ref().unwrap().openers.clone();
            let by = |token: &str| openers.iter().filter(|opener| *opener == token).count();
            assert!(by("alice#1") >= 2 && by("alice#2") >= 2, "no session is shared: {openers:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn scopes_of_a_token_have_their_own_catalog() {
    for (backend, client) in BOTH.into_iter().flat_map(|be| BOTH.map(|client| (be, client))) {
        let own = own(backend);
        let gateway = gateway(&own).await;
        let one = alice(&gateway, client, "1", json!({"scope": "read"}), None).await;
        let other = alice(&gateway, client, "2", json!({"scope": "read write"}), None).await;
        assert_separate_catalogs(&one, &other).await;
    }
}

#[tokio::test(start_paused = true)]
async fn refreshed_token_keeps_its_catalog() {
    let own = own(Generation::Stateless);
    let gateway = gateway(&own).await;
    for number in 0..3 {
        let claims = json!({"scope": "read", "iat": number, "exp": number + 1, "jti": number});
        let alice = alice(&gateway, Generation::Stateless, "1", claims, None).await;
        assert_eq!(alice.names("tools/list").await, ["all_open", "own_red"]);
    }
    assert_eq!(own.times("tools/list", "alice#1"), 1);
    assert_eq!(gateway.cache_sizes().caller_offers, 1);
}

#[tokio::test(start_paused = true)]
async fn link_or_unlink_changes_catalog() {
    for (backend, client) in BOTH.into_iter().flat_map(|be| BOTH.map(|client| (be, client))) {
        let own = own(backend);
        let gateway = gateway(&own).await;
        let links = Arc::new(Mutex::new(Some("git")));
        let session = Some(Session("one", Arc::clone(&links)));
        let alice = alice(&gateway, client, "1", json!({}), session).await;
        let listed = async |expected: &[&str]| {
            assert_eq!(alice.names("tools/list").await, [&["all_open"], expected].concat());
        };
        listed(&["own_red"]).await;
        own.offers.lock().unwrap().insert("alice#1".to_owned(), tools(&["green"]));
        listed(&["own_red"]).await;
        *links.lock().unwrap() = Some("git, mail");
        listed(&["own_green"]).await;
        // Unknown links do not change the offer.
        *links.lock().unwrap() = None;
        listed(&["own_green"]).await;
        // Neither the previous offer nor a fetch in flight is shown while the backend is slow.
        *own.behavior.lock().unwrap() = Behavior::Delayed(Duration::from_secs(5));
        *links.lock().unwrap() = Some("git");
        listed(&[]).await;
        own.offers.lock().unwrap().insert("alice#1".to_owned(), tools(&["red"]));
        *links.lock().unwrap() = Some("nothing");
        listed(&[]).await;
        *own.behavior.lock().unwrap() = Behavior::Normal;
        sleep(Duration::from_mins(1)).await;
        listed(&["own_red"]).await;
        let asked = own.times("tools/list", "alice#1");
        listed(&["own_red"]).await;
        assert_eq!(own.times("tools/list", "alice#1"), asked);
    }
}
