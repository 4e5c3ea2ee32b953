//! Backends with per-caller offers.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use vmcp_aggregate::Gateway;
use vmcp_aggregate::settings::PartialFailure;
use vmcp_core::Generation;

use crate::fake::{Behavior, Client, FakeBackend, heard, with};

const BOTH: [Generation; 2] = [Generation::Stateful, Generation::Stateless];

fn tools(names: &[&str]) -> Value {
    json!({"tools": names.iter().map(|name| json!({"name": name})).collect::<Vec<_>>()})
}

fn own(generation: Generation) -> Arc<FakeBackend> {
    FakeBackend::new("own", generation)
        .offer("alice", tools(&["red", "touch"]))
        .offer("bob", tools(&["blue", "touch"]))
        .offer("carol", tools(&["red", "touch"]))
}

fn shared_backend() -> Arc<FakeBackend> {
    FakeBackend::new("all", Generation::Stateless).offer("*", tools(&["open"]))
}

async fn gateway(own: &Arc<FakeBackend>, partial_failure: PartialFailure) -> Gateway {
    with(vec![shared_backend().settings(), own.per_caller()], partial_failure).await
}

async fn best_effort_gateway(own: &Arc<FakeBackend>) -> Gateway {
    gateway(own, PartialFailure::BestEffort).await
}

#[tokio::test(start_paused = true)]
async fn each_caller_uses_own_catalog() {
    for backend in BOTH {
        let own = own(backend);
        let gateway = best_effort_gateway(&own).await;
        for generation in BOTH {
            let alice = Client::new(&gateway, generation, "alice").await;
            let bob = Client::new(&gateway, generation, "bob").await;
            for _ in 0..2 {
                assert_eq!(alice.names("tools/list").await, ["all_open", "own_red", "own_touch"]);
                assert_eq!(bob.names("tools/list").await, ["all_open", "own_blue", "own_touch"]);
                assert_eq!(alice.call("own_red").await.as_deref(), Some("own:alice"));
                assert_eq!(bob.call("own_red").await, None);
                assert_eq!(bob.call("all_open").await.as_deref(), Some("all:bob"));
            }
        }
        assert_eq!(own.times("tools/list", "alice"), 1, "kept from one request to the next");
        assert_eq!(own.times("tools/list", "gateway"), 0, "the gateway itself has no say in it");
        let report = gateway.report();
        let shown = &report.backends[1];
        assert!(shown.offered && shown.unauthenticated && shown.failure.is_none(), "{shown:?}");
        assert!(report.entries.iter().all(|entry| entry.backend == "all"));
    }
}

#[tokio::test(start_paused = true)]
async fn serves_call_as_first_request() {
    for backend in BOTH {
        for generation in BOTH {
            let gateway = best_effort_gateway(&own(backend)).await;
            let alice = Client::new(&gateway, generation, "alice").await;
            assert_eq!(alice.call("own_red").await.as_deref(), Some("own:alice"));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn call_to_shared_tool_skips_caller_catalogs() {
    let own = own(Generation::Stateless);
    let gateway = best_effort_gateway(&own).await;
    let alice = Client::new(&gateway, Generation::Stateless, "alice").await;
    assert_eq!(alice.call("all_open").await.as_deref(), Some("all:alice"));
    assert_eq!(own.times("tools/list", "alice"), 0);
}

#[tokio::test(start_paused = true)]
async fn stores_equal_offers_and_catalogs_once() {
    let gateway = best_effort_gateway(&own(Generation::Stateless)).await;
    for subject in ["alice", "bob", "carol"] {
        let client = Client::new(&gateway, Generation::Stateless, subject).await;
        client.names("tools/list").await;
    }
    let kept = gateway.cache_sizes();
    assert_eq!((kept.caller_offers, kept.distinct_offers, kept.caller_catalogs), (3, 2, 2));
    assert_eq!(gateway.cache_sizes().list_views, 0, "nobody judges");
}

#[tokio::test(start_paused = true)]
async fn anonymous_caller_sees_only_shared_catalog() {
    let own = own(Generation::Stateless);
    for generation in BOTH {
        let gateway = best_effort_gateway(&own).await;
        let nobody = Client::new(&gateway, generation, "").await;
        assert_eq!(nobody.names("tools/list").await, ["all_open"]);
        assert_eq!(nobody.call("own_red").await, None);
        let strict = self::gateway(&own, PartialFailure::Fail).await;
        let nobody = Client::new(&strict, generation, "").await;
        let said = nobody.ask("tools/list", json!({})).await.json();
        let told = said["error"]["message"].as_str().unwrap();
        assert!(told.contains("credentials for backend own") && told.contains("not authenticated"));
        assert_eq!(nobody.call("all_open").await.as_deref(), Some("all:nobody"));
    }
    assert_eq!(own.times("tools/list", "nobody") + own.times("tools/call", "nobody"), 0);
}

#[tokio::test(start_paused = true)]
async fn dead_backend_removes_only_own_tools() {
    for backend in BOTH {
        let own = own(backend);
        *own.behavior.lock().unwrap() = Behavior::Unreachable;
        let gateway = best_effort_gateway(&own).await;
        let alice = Client::new(&gateway, Generation::Stateless, "alice").await;
        assert_eq!(alice.names("tools/list").await, ["all_open"]);
        let strict = self::gateway(&own, PartialFailure::Fail).await;
        let said = Client::new(&strict, Generation::Stateless, "alice").await;
        let said = said.ask("tools/list", json!({})).await.json();
        assert_eq!(said["error"]["message"], "backend own is unreachable");
        assert_eq!(said["error"]["data"], json!({"backend": "own", "retryable": true}));
        *own.behavior.lock().unwrap() = Behavior::Normal;
        sleep(Duration::from_secs(6)).await;
        assert_eq!(alice.names("tools/list").await.len(), 3, "it is asked again");
        *own.behavior.lock().unwrap() = Behavior::Unreachable;
        sleep(Duration::from_secs(61)).await;
        for _ in 0..3 {
            assert_eq!(alice.names("tools/list").await.len(), 3, "the last good one takes part");
            sleep(Duration::from_secs(1)).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn waits_once_for_silent_backend() {
    let own = own(Generation::Stateful);
    *own.behavior.lock().unwrap() = Behavior::Silent;
    for (partial_failure, patience) in [(PartialFailure::BestEffort, 1), (PartialFailure::Fail, 5)]
    {
        let gateway = gateway(&own, partial_failure).await;
        let alice = Client::new(&gateway, Generation::Stateless, "alice").await;
        for expected in [Duration::from_secs(patience), Duration::ZERO] {
            let begun = Instant::now();
            let said = alice.ask("tools/list", json!({})).await.json();
            assert_eq!(begun.elapsed().as_secs(), expected.as_secs());
            assert_eq!(said.get("error").is_some(), partial_failure == PartialFailure::Fail);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn removes_catalog_after_lost_access() {
    let own = own(Generation::Stateless);
    let gateway = best_effort_gateway(&own).await;
    let alice = Client::new(&gateway, Generation::Stateful, "alice").await;
    assert_eq!(alice.names("tools/list").await.len(), 3);
    own.offers.lock().unwrap().remove("alice");
    sleep(Duration::from_secs(61)).await;
    alice.names("tools/list").await;
    sleep(Duration::from_secs(1)).await;
    assert_eq!(alice.names("tools/list").await, ["all_open"]);
}

#[tokio::test(start_paused = true)]
async fn notifies_caller_after_background_catalog_refresh() {
    let own = own(Generation::Stateless);
    let gateway = best_effort_gateway(&own).await;
    let alice = Client::new(&gateway, Generation::Stateless, "alice").await;
    let bob = Client::new(&gateway, Generation::Stateless, "bob").await;
    let mut streams = Vec::new();
    for client in [&alice, &bob] {
        client.names("tools/list").await;
        let wanted = json!({"notifications": {"toolsListChanged": true}});
        streams.push(client.send("subscriptions/listen", wanted).await.0.into_body());
    }
    let own = own.offer("alice", tools(&["green"]));
    sleep(Duration::from_secs(61)).await;
    assert_eq!(alice.names("tools/list").await.len(), 3, "nobody waits for it");
    sleep(Duration::from_secs(1)).await;
    assert_eq!(alice.names("tools/list").await, ["all_open", "own_green"]);
    assert_eq!(own.times("tools/list", "bob"), 1);
    let mut told = Vec::new();
    for mut stream in streams {
        told.push(heard(&mut stream).await.contains("notifications/tools/list_changed"));
    }
    assert_eq!(told, [true, false]);
}

#[tokio::test(start_paused = true)]
async fn list_change_affects_only_notified_caller() {
    for generation in BOTH {
        let own = own(Generation::Stateful);
        let gateway = best_effort_gateway(&own).await;
        let alice = Client::new(&gateway, generation, "alice").await;
        let bob = Client::new(&gateway, generation, "bob").await;
        alice.names("tools/list").await;
        bob.names("tools/list").await;
        let own = own.offer("alice", tools(&["green"])).offer("bob", tools(&["grey"]));
        let told = alice.ask("tools/call", json!({"name": "own_touch", "arguments": {}})).await;
        let passed = String::from_utf8_lossy(&told.body).contains("tools/list_changed");
        assert_eq!(passed, generation == Generation::Stateful);
        assert_eq!(alice.names("tools/list").await, ["all_open", "own_green"]);
        assert_eq!(bob.names("tools/list").await.len(), 3);
        assert_eq!((own.times("tools/list", "alice"), own.times("tools/list", "bob")), (2, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn follows_backend_generation_change_per_caller() {
    let own = own(Generation::Stateful);
    let gateway = best_effort_gateway(&own).await;
    for generation in BOTH {
        let alice = Client::new(&gateway, generation, "alice").await;
        alice.names("tools/list").await;
        let other = *own.generation.lock().unwrap() == Generation::Stateful;
        *own.generation.lock().unwrap() = BOTH[usize::from(other)];
        assert_eq!(alice.call("own_red").await.as_deref(), Some("own:alice"));
    }
}

#[tokio::test(start_paused = true)]
async fn concurrent_first_requests_share_one_fetch() {
    let own = own(Generation::Stateless);
    let gateway = best_effort_gateway(&own).await;
    let alice = Client::new(&gateway, Generation::Stateless, "alice").await;
    let all = join_all((0..1000).map(|_| alice.names("tools/list"))).await;
    assert!(all.iter().all(|names| names.len() == 3));
    assert_eq!(own.times("tools/list", "alice"), 1);
}

#[tokio::test(start_paused = true)]
async fn isolates_catalogs_and_calls_between_callers() {
    const CALLERS: usize = 12;
    let mut backends = Vec::new();
    for (name, generation) in ["one", "two"].into_iter().zip(BOTH) {
        let mut own = FakeBackend::new(name, generation);
        for caller in 0..CALLERS {
            own = own.offer(&format!("c{caller}"), tools(&[&format!("of-c{caller}-"), "same"]));
        }
        backends.push(own);
    }
    let settings = backends.iter().map(FakeBackend::per_caller).collect();
    let gateway = with(settings, PartialFailure::BestEffort).await;
    let callers = (0..CALLERS).map(|number| {
        let gateway = gateway.clone();
        async move {
            let me = format!("c{number}");
            // A deterministic random number generator.
            let mut state = number * 7919 + 1;
            for _ in 0..60 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
                let client = Client::new(&gateway, BOTH[state >> 33 & 1], &me).await;
                let other = format!("{}_of-c{}-", ["one", "two"][state >> 35 & 1], state >> 40 & 7);
                match state >> 37 & 3 {
                    0 => {
                        let names = client.names("tools/list").await;
                        let own = |name: &String| {
                            name.contains(&format!("of-{me}-")) || name.ends_with("same")
                        };
                        assert!(names.len() == 4 && names.iter().all(own), "{me}: {names:?}");
                    }
                    1 => {
                        let said = client.call("two_same").await;
                        assert_eq!(said, Some(format!("two:{me}")));
                    }
                    2 => {
                        let said = client.call(&other).await;
                        assert_eq!(said.is_some(), other.contains(&format!("of-{me}-")));
                    }
                    _ => sleep(Duration::from_secs(20)).await,
                }
            }
        }
    });
    join_all(callers).await;
    for backend in &backends {
        let heard = backend.heard.lock().unwrap();
        for (who, method, params) in heard.iter().filter(|(_, method, _)| method == "tools/call") {
            let tool = params["name"].as_str().unwrap();
            assert!(
                tool == "same" || tool.contains(&format!("of-{who}-")),
                "{who}: {method} {tool}"
            );
        }
    }
}

/// Returns the error of a rejected call.
async fn refused(client: &Client, tool: &str) -> Value {
    client.ask("tools/call", json!({"name": tool, "arguments": {}})).await.json()["error"].clone()
}

#[tokio::test(start_paused = true)]
async fn reports_unknown_tool_only_after_successful_fetch() {
    for backend in BOTH {
        let own = own(backend);
        *own.behavior.lock().unwrap() = Behavior::Unreachable;
        for partial_failure in [PartialFailure::BestEffort, PartialFailure::Fail] {
            let gateway = gateway(&own, partial_failure).await;
            for generation in BOTH {
                let alice = Client::new(&gateway, generation, "alice").await;
                let said = refused(&alice, "own_red").await;
                assert_eq!(said["message"], "backend own is unreachable");
                assert_eq!(said["data"], json!({"backend": "own", "retryable": true}));
                // Only `own` has names with this prefix, and the offer of `all` is known.
                for other in ["all_shut", "red"] {
                    let said = refused(&alice, other).await;
                    assert_eq!(said["message"], format!("unknown tool: {other}"));
                }
                assert_eq!(alice.call("all_open").await.as_deref(), Some("all:alice"));
            }
        }
        *own.behavior.lock().unwrap() = Behavior::Normal;
        let gateway = best_effort_gateway(&own).await;
        for generation in BOTH {
            let alice = Client::new(&gateway, generation, "alice").await;
            assert_eq!(refused(&alice, "own_no").await["message"], "unknown tool: own_no");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn cached_tool_fails_with_backend_error() {
    for backend in BOTH {
        let own = own(backend);
        let gateway = best_effort_gateway(&own).await;
        for generation in BOTH {
            let alice = Client::new(&gateway, generation, "alice").await;
            assert_eq!(alice.call("own_red").await.as_deref(), Some("own:alice"));
            *own.behavior.lock().unwrap() = Behavior::Unreachable;
            let said = refused(&alice, "own_red").await;
            assert_eq!(said["data"], json!({"backend": "own", "retryable": true}), "{said}");
            assert_eq!(refused(&alice, "own_no").await["message"], "unknown tool: own_no");
            *own.behavior.lock().unwrap() = Behavior::Normal;
            sleep(Duration::from_secs(61)).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn shared_names_are_not_unknown_before_fetch() {
    for backend in BOTH {
        let dead = FakeBackend::new("dead", backend).offer("*", tools(&["red"]));
        *dead.behavior.lock().unwrap() = Behavior::Unreachable;
        let both = vec![shared_backend().settings(), dead.settings()];
        let gateway = with(both, PartialFailure::BestEffort).await;
        for generation in BOTH {
            let alice = Client::new(&gateway, generation, "alice").await;
            let said = refused(&alice, "dead_red").await;
            assert_eq!(said["data"], json!({"backend": "dead", "retryable": true}), "{said}");
            assert_eq!(refused(&alice, "all_no").await["message"], "unknown tool: all_no");
            let read = alice.ask("resources/read", json!({"uri": "x://any"})).await.json();
            assert_eq!(read["error"]["data"], json!({"backend": "dead", "retryable": true}));
        }
    }
}
