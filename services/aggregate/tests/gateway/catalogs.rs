//! Catalogs of backends that change, fail or mean harm.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;
use vmcp_aggregate::settings::PartialFailure;
use vmcp_core::{Admission, Admit, Generation, Item, Verdict, ViewKey};

use crate::fake::{Begins, Client, Fake, Mood, Sessions, gateway, settings};

const BOTH: [Generation; 2] = [Generation::Stateful, Generation::Stateless];

#[tokio::test(start_paused = true)]
async fn survives_templates_of_thousands_of_expressions() {
    for generation in BOTH {
        let hostile = json!({"resourceTemplates": [
            {"uriTemplate": "{?a}".repeat(19_900), "name": "h"},
            {"uriTemplate": "{+a}{+b}!".repeat(2_000), "name": "h"},
        ]});
        let good = json!({"resourceTemplates": [{"uriTemplate": "t://{n}", "name": "g"}]});
        let hostile = Fake::new("bad", generation).offer("*", hostile);
        let good = Fake::new("good", generation).offer("*", good);
        let gateway = gateway(&[hostile, good]).await;
        for client in BOTH {
            let client = Client::new(&gateway, client, "").await;
            let read = client.ask("resources/read", json!({"uri": "t://1"})).await;
            assert_eq!(read.json()["result"]["content"][0]["text"], "good:nobody", "{read:?}");
            let long = "?".to_owned() + &"a".repeat(100_000);
            let read = client.ask("resources/read", json!({"uri": long})).await;
            let message = read.json()["error"]["message"].to_string();
            assert!(message.contains("unknown resource"), "{message}");
        }
    }
}

/// Hides everything.
struct Hides;

impl Admit for Hides {
    fn visible(&self, _: &Item<'_>) -> bool {
        false
    }

    fn admit(&self, _: &Item<'_>, _: Option<&[u8]>) -> Verdict {
        Verdict::Hidden
    }

    fn view(&self) -> ViewKey {
        ViewKey([0; 16])
    }
}

#[tokio::test(start_paused = true)]
async fn judges_a_resource_before_matching_templates() {
    let hostile = json!({"resourceTemplates": [{"uriTemplate": "{+a}{+b}!", "name": "h"}]});
    let gateway = gateway(&[Fake::new("bad", BOTH[1]).offer("*", hostile)]).await;
    let client = Client::new(&gateway, BOTH[1], "a").await.with(Admission::new(Hides));
    let read = client.ask("resources/read", json!({"uri": "x://y"})).await;
    assert_eq!(read.trail.denied(), Some("hidden from the caller"), "judged before it is found");
}

fn tools(names: &[&str]) -> Value {
    json!({"tools": names.iter().map(|name| json!({"name": name})).collect::<Vec<_>>()})
}

#[tokio::test(start_paused = true)]
async fn fetches_list_that_changed_during_a_call() {
    for (backend, client) in BOTH.into_iter().flat_map(|one| BOTH.map(|other| (one, other))) {
        let fake = Fake::new("be", backend).offer("*", tools(&["touch"]));
        let gateway = gateway(&[Arc::clone(&fake)]).await;
        let client = Client::new(&gateway, client, "c").await;
        let fake = fake.offer("*", tools(&["touch", "new"]));
        client.ask("tools/call", json!({"name": "be_touch", "arguments": {}})).await;
        sleep(Duration::from_secs(1)).await;
        let names = client.names("tools/list").await;
        // A stateless backend's stream belongs to a stateless client as it is.
        if (backend, client.generation) != (BOTH[1], BOTH[1]) {
            assert_eq!(names, ["be_new", "be_touch"], "{backend:?} {:?}", client.generation);
        }
        assert_eq!(fake.open_streams("gateway"), usize::from(backend == BOTH[0]));
    }
}

#[tokio::test(start_paused = true)]
async fn keeps_session_of_backend_without_get_route() {
    let fake = Fake::new("be", BOTH[0]).offer("*", tools(&["t"]));
    *fake.sessions.lock().unwrap() = Some(Sessions::default());
    *fake.streams_begin.lock().unwrap() = Begins::Unrouted;
    let gateway = gateway(&[Arc::clone(&fake)]).await;
    let client = Client::new(&gateway, BOTH[0], "c").await;
    let _stream = client.stand().await;
    for _ in 0..10 {
        assert_eq!(client.call("be_t").await.as_deref(), Some("be:c"));
        sleep(Duration::from_secs(30)).await;
    }
    let sessions = fake.sessions.lock().unwrap();
    let sessions = sessions.as_ref().unwrap();
    assert_eq!(
        (&sessions.openers[..], sessions.open.len()),
        (&["gateway".into(), "c".into()][..], 2)
    );
}

#[tokio::test(start_paused = true)]
async fn opens_a_session_again_that_its_backend_forgot() {
    let fake = Fake::new("be", BOTH[0]).offer("*", tools(&["t"]));
    *fake.sessions.lock().unwrap() = Some(Sessions::default());
    let gateway = gateway(&[Arc::clone(&fake)]).await;
    let client = Client::new(&gateway, BOTH[0], "c").await;
    let _stream = client.stand().await;
    assert_eq!(client.call("be_t").await.as_deref(), Some("be:c"));
    sleep(Duration::from_secs(1)).await;
    assert_eq!(fake.open_streams("c"), 1);
    fake.sessions.lock().unwrap().as_mut().unwrap().open.clear();
    fake.streams.lock().unwrap().clear();
    sleep(Duration::from_secs(30)).await;
    assert_eq!((fake.open_streams("c"), fake.open_streams("gateway")), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn ends_session_at_unknown_revision() {
    let fake = Fake::new("be", BOTH[0]).offer("*", tools(&["t"]));
    *fake.sessions.lock().unwrap() = Some(Sessions::default());
    *fake.revision.lock().unwrap() = "1999-01-01";
    let _gateway = gateway(&[Arc::clone(&fake)]).await;
    sleep(Duration::from_millis(50)).await;
    let sessions = fake.sessions.lock().unwrap();
    let sessions = sessions.as_ref().unwrap();
    assert!(!sessions.openers.is_empty() && sessions.open.is_empty(), "{sessions:?}");
}

#[tokio::test(start_paused = true)]
async fn leaves_a_removed_backend_to_a_late_subscriber() {
    let offer = json!({"resources": [{"uri": "x://r", "name": "r"}]});
    let fake = Fake::new("be", BOTH[0]).offer("*", offer);
    *fake.sessions.lock().unwrap() = Some(Sessions::default());
    let gateway = gateway(&[Arc::clone(&fake)]).await;
    let client = Client::new(&gateway, BOTH[0], "c").await;
    *fake.mood.lock().unwrap() = Mood::Late(Duration::from_secs(1));
    let asking = tokio::spawn({
        let client = client.clone();
        async move { client.ask("resources/subscribe", json!({"uri": "x://r"})).await }
    });
    sleep(Duration::from_millis(500)).await;
    gateway.reload(settings(Vec::new(), PartialFailure::BestEffort, None)).await;
    let subscribed = asking.await.unwrap();
    assert_eq!(subscribed.status, 200, "it ends on the configuration that it began with");
    sleep(Duration::from_secs(60)).await;
    assert_eq!(fake.open_streams("c"), 0, "nobody follows it");
    let sessions = fake.sessions.lock().unwrap();
    assert_eq!(sessions.as_ref().unwrap().open.len(), 0, "{sessions:?}");
}
