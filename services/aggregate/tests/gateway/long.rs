//! Work that outlasts a request: it ends with the token, and is authorized by the current policies.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;
use vmcp_aggregate::{CallerAccess, CallerAuthorizer, Gateway};
use vmcp_core::{Authorizer, CallerPermissions, Decision, Fingerprint, Generation, Item};

use crate::fake::{Client, FakeBackend, gateway, heard};

const BOTH: [Generation; 2] = [Generation::Stateful, Generation::Stateless];

fn backend(generation: Generation) -> Arc<FakeBackend> {
    let resources = json!([{"uri": "x://red", "name": "r"}, {"uri": "x://blue", "name": "b"}]);
    let offer = json!({"tools": [{"name": "ask"}], "resources": resources});
    FakeBackend::new("be", generation).offer("*", offer)
}

fn updated(uri: &str) -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": uri}})
}

#[tokio::test(start_paused = true)]
async fn suspended_call_ends_with_original_token() {
    let backend = backend(Generation::Stateful);
    let gateway = gateway(&[Arc::clone(&backend)]).await;
    let alice = Client::new(&gateway, Generation::Stateless, "alice").await;
    let alice = alice.until(Duration::from_secs(100));
    let said = alice.ask("tools/call", json!({"name": "be_ask", "arguments": {}})).await;
    assert_eq!(said.json()["result"]["resultType"], "input_required", "{said:?}");
    sleep(Duration::from_secs(90)).await;
    assert_eq!((gateway.report().parked_calls, backend.open_streams("alice")), (1, 1));
    sleep(Duration::from_secs(20)).await;
    assert_eq!((gateway.report().parked_calls, backend.open_streams("alice")), (0, 0));
    assert_eq!(backend.times("notifications/cancelled", "alice"), 1);
}

#[tokio::test(start_paused = true)]
async fn suspended_calls_of_anonymous_callers_count_by_network() {
    let gateway = gateway(&[backend(Generation::Stateful)]).await;
    let anonymous = Client::new(&gateway, Generation::Stateless, "").await;
    let suspended = async |address: &str, result: &str| {
        let client = anonymous.clone().at(address);
        let said = client.ask("tools/call", json!({"name": "be_ask", "arguments": {}})).await;
        said.json()["result"]["resultType"] == result
    };
    // The limit per caller.
    for _ in 0..16 {
        assert!(suspended("2001:db8::1", "input_required").await);
    }
    assert!(!suspended("2001:db8::2", "input_required").await, "a neighbor in the network");
    assert!(suspended("2001:db8:0:1::1", "input_required").await, "another network");
    assert_eq!(gateway.report().parked_calls, 17);
}

#[tokio::test(start_paused = true)]
async fn anonymous_caller_resumes_from_other_network() {
    let gateway = gateway(&[backend(Generation::Stateful)]).await;
    let anonymous = Client::new(&gateway, Generation::Stateless, "").await;
    let asked = anonymous.clone().at("10.0.0.1");
    let asked = asked.ask("tools/call", json!({"name": "be_ask", "arguments": {}})).await;
    let params = json!({"name": "be_ask", "arguments": {}, "inputResponses": {},
        "requestState": asked.json()["result"]["requestState"]});
    let said = anonymous.at("10.0.0.2").ask("tools/call", params).await.json();
    assert_ne!(said["result"], Value::Null, "{said}");
}

#[tokio::test(start_paused = true)]
async fn restarts_backend_stream_with_renewed_token() {
    for generation in BOTH {
        let backend = backend(generation);
        let gateway = gateway(&[Arc::clone(&backend)]).await;
        let alice = Client::new(&gateway, Generation::Stateful, "alice").await;
        let alice = alice.until(Duration::from_secs(100));
        let red = json!({"uri": "x://red"});
        assert_eq!(
            alice.ask("resources/subscribe", red.clone()).await.json()["error"],
            Value::Null
        );
        sleep(Duration::from_secs(90)).await;
        assert_eq!(backend.open_streams("alice"), 1);
        sleep(Duration::from_secs(20)).await;
        assert_eq!(backend.open_streams("alice"), 0);
        let alice = alice.until(Duration::from_mins(5));
        let _standing = alice.stand().await;
        alice.ask("resources/subscribe", red).await;
        sleep(Duration::from_secs(90)).await;
        assert_eq!(backend.open_streams("alice"), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn listen_stream_closes_backend_streams_after_expiry() {
    for generation in BOTH {
        let backend = backend(generation);
        let gateway = gateway(&[Arc::clone(&backend)]).await;
        let alice = Client::new(&gateway, Generation::Stateless, "alice").await;
        let alice = alice.until(Duration::from_secs(100));
        let wanted = json!({"notifications": {"resourceSubscriptions": ["x://red"]}});
        let _stream = alice.send("subscriptions/listen", wanted).await;
        sleep(Duration::from_secs(90)).await;
        assert_eq!(backend.open_streams("alice"), 1);
        sleep(Duration::from_secs(20)).await;
        assert_eq!(backend.open_streams("alice"), 0);
    }
}

/// Authorizer that shows red, and blue too while the flag is set.
struct Red(Arc<AtomicBool>);

impl Authorizer for Red {
    fn is_visible(&self, item: &Item<'_>) -> bool {
        item.name.contains("red") || self.0.load(Ordering::Relaxed)
    }

    fn authorize(&self, item: &Item<'_>, _: Option<&[u8]>) -> Decision {
        if self.is_visible(item) { Decision::Allow } else { Decision::Hide }
    }

    fn visibility_key(&self) -> Fingerprint {
        Fingerprint([u8::from(self.0.load(Ordering::Relaxed)); 16])
    }
}

async fn hears(
    gateway: &Gateway,
    backend: &FakeBackend,
    generation: Generation,
    blue: &AtomicBool,
) {
    let alice = Client::new(gateway, generation, "alice").await;
    let mut stream = if generation == Generation::Stateful {
        for uri in ["x://red", "x://blue"] {
            let said = alice.ask("resources/subscribe", json!({"uri": uri})).await;
            assert_eq!(said.json()["error"], Value::Null);
        }
        alice.stand().await
    } else {
        let uris = json!({"resourceSubscriptions": ["x://red", "x://blue"]});
        alice.send("subscriptions/listen", json!({"notifications": uris})).await.0.into_body()
    };
    sleep(Duration::from_secs(1)).await;
    for allowed in [true, false, true] {
        blue.store(allowed, Ordering::Relaxed);
        heard(&mut stream).await;
        backend.say("alice", &updated("x://red"));
        backend.say("alice", &updated("x://blue"));
        let said = heard(&mut stream).await;
        assert!(said.contains("x://red"), "{said}");
        assert_eq!(said.contains("x://blue"), allowed, "{said}");
    }
}

#[tokio::test(start_paused = true)]
async fn authorizes_updates_by_current_policies() {
    for client in BOTH {
        for generation in BOTH {
            let backend = backend(generation);
            let gateway = gateway(&[Arc::clone(&backend)]).await;
            let blue = Arc::new(AtomicBool::new(true));
            let known = Arc::clone(&blue);
            let authorizer = CallerAuthorizer::new(move |_| {
                CallerAccess::Restricted(CallerPermissions::new(Red(Arc::clone(&known))))
            });
            gateway.set_caller_authorizer(Some(authorizer));
            hears(&gateway, &backend, client, &blue).await;
        }
    }
}
