//! Calls in flight: server requests, timeouts, cancellations, streams, and the end of sessions.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, sleep, timeout};
use vmcp_aggregate::Gateway;
use vmcp_aggregate::settings::PartialFailure;
use vmcp_breaker::{CircuitHandle, CircuitState};
use vmcp_core::{Backend, Body, Generation, RequestContext};

use crate::fake::{settings, with};
use crate::script::{LIMIT, PendingCall, ScriptedBackend, ScriptedClient, Wire, messages, text};

const STATEFUL: Generation = Generation::Stateful;
const STATELESS: Generation = Generation::Stateless;
const CLIENTS: [Generation; 2] = [STATEFUL, STATELESS];

/// Combinations of client generation and transport in which a backend can request input from the client.
const ASKING: [(Generation, Wire); 4] = [
    (STATEFUL, Wire::Stateful),
    (STATEFUL, Wire::Sse),
    (STATELESS, Wire::Stateful),
    (STATELESS, Wire::Sse),
];

struct Pair {
    gateway: Gateway,
    backend: Arc<ScriptedBackend>,
    calls: UnboundedReceiver<PendingCall>,
    client: ScriptedClient,
}

async fn guarded(client: Generation, wire: Wire, breaker: Option<CircuitHandle>) -> Pair {
    let (backend, calls) = ScriptedBackend::new("be", wire);
    let gateway = with(vec![backend.settings(breaker)], PartialFailure::BestEffort).await;
    let client = ScriptedClient::new(&gateway, client, "alice").await;
    Pair { gateway, backend, calls, client }
}

async fn paired(client: Generation, wire: Wire) -> Pair {
    guarded(client, wire, None).await
}

fn question(id: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params":
        {"message": "sure?", "requestedSchema": {"type": "object", "properties": {}}}})
}

fn progress(token: &Value) -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/progress", "params":
        {"progressToken": token, "progress": 1}})
}

fn done() -> Value {
    json!({"content": [], "resultType": "complete"})
}

/// Returns everything that is sent within `time`.
async fn read_for(body: &mut Body, time: Duration) -> String {
    let mut said = String::new();
    let read = async {
        while let Some(frame) = body.frame().await {
            said += &String::from_utf8_lossy(&frame.unwrap().into_data().unwrap());
        }
    };
    _ = timeout(time, read).await;
    said
}

/// Responds to the server request of a call after `thinking`, and returns the outcome of the call.
async fn answer_after(pair: &Pair, thinking: Duration, id: u64) -> tokio::task::JoinHandle<String> {
    let call = pair.client.call(id, "t").await;
    let mut body = call.into_body();
    if pair.client.generation == STATELESS {
        let asked = messages(&text(body).await).pop().unwrap();
        assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
        sleep(thinking).await;
        let questions = asked["result"]["inputRequests"].as_object().unwrap();
        let answers: Value = questions
            .keys()
            .map(|key| (key.clone(), json!({"action": "accept"})))
            .collect::<serde_json::Map<_, _>>()
            .into();
        let params = json!({"name": "be_t", "arguments": {}, "inputResponses": answers,
            "requestState": asked["result"]["requestState"]});
        let client = pair.client.clone();
        return tokio::spawn(async move {
            text(client.request(&json!(id + 1), "tools/call", params).await.into_body()).await
        });
    }
    let said = read_for(&mut body, Duration::from_millis(5)).await;
    let asked =
        messages(&said).into_iter().find(|it| it["method"] == "elicitation/create").unwrap();
    sleep(thinking).await;
    assert_eq!(pair.client.reply(&asked["id"], json!({"action": "accept"})).await.status(), 202);
    tokio::spawn(async move { text(body).await })
}

#[tokio::test(start_paused = true)]
async fn server_request_pauses_idle_timer_exactly() {
    for (client, wire) in ASKING {
        for (works, answered) in [(29_500, true), (30_500, false)] {
            let mut pair = paired(client, wire).await;
            let (sender, took) = tokio::sync::oneshot::channel();
            let mut calls = pair.calls;
            pair.calls = tokio::sync::mpsc::unbounded_channel().1;
            let backend = Arc::clone(&pair.backend);
            tokio::spawn(async move {
                let mut call = calls.recv().await.unwrap();
                sleep(Duration::from_secs(20)).await;
                call.say(&question("q"));
                while backend.messages("").is_empty() {
                    sleep(Duration::from_millis(1)).await;
                }
                sleep(Duration::from_millis(works)).await;
                _ = sender.send(call.answer(&done()));
            });
            let call = answer_after(&pair, Duration::from_millis(29_700), 1).await;
            let began = Instant::now();
            let said = call.await.unwrap();
            let last = messages(&said).pop().unwrap();
            assert_eq!(last["result"].is_object(), answered, "{client:?} {wire:?}: {said}");
            if !answered {
                let waited = began.elapsed();
                let exact = waited.abs_diff(LIMIT) < Duration::from_millis(100);
                assert!(exact, "{client:?} {wire:?}: {waited:?}");
            }
            _ = took.await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn server_request_on_notification_stream_pauses_timer() {
    let mut pair = paired(STATEFUL, Wire::Stateful).await;
    let mut standing = pair.client.stand(None).await.into_body();
    let warm = pair.client.begin(1, "t");
    pair.calls.recv().await.unwrap().answer(&done());
    warm.await.unwrap();
    sleep(Duration::from_secs(1)).await;
    let call = pair.client.begin(2, "t");
    let pending = pair.calls.recv().await.unwrap();
    sleep(Duration::from_secs(20)).await;
    pair.backend.announce_in(&pending.session, &question("q"));
    let said = read_for(&mut standing, Duration::from_millis(10)).await;
    let asked = messages(&said).pop().unwrap();
    sleep(Duration::from_mins(1)).await;
    pair.client.reply(&asked["id"], json!({"action": "accept"})).await;
    sleep(Duration::from_secs(9)).await;
    pending.answer(&done());
    let said = call.await.unwrap();
    assert!(said.contains("\"result\""), "{said}");
}

#[tokio::test(start_paused = true)]
async fn timed_out_call_is_retryable_only_when_repeatable() {
    for (client, wire) in
        ASKING.into_iter().chain([(STATEFUL, Wire::Stateless), (STATELESS, Wire::Stateless)])
    {
        let mut pair = paired(client, wire).await;
        for (id, tool, retryable, streams) in [
            (1, "t", false, false),
            (2, "look", true, false),
            (3, "t", false, true),
            (4, "look", true, true),
        ] {
            let call = pair.client.begin(id, tool);
            let mut never = pair.calls.recv().await.unwrap();
            if streams {
                let token = never.message["params"]["_meta"]["progressToken"].clone();
                never.say(&progress(&token));
            }
            let said = messages(&call.await.unwrap()).pop().unwrap();
            assert_eq!(said["error"]["data"]["retryable"], retryable, "{client:?} {wire:?} {said}");
        }
        // A request that was not sent may be retried.
        pair.backend.is_away.store(true, std::sync::atomic::Ordering::Relaxed);
        let said = messages(&pair.client.begin(5, "t").await.unwrap()).pop().unwrap();
        assert_eq!(said["error"]["data"]["retryable"], true, "{client:?} {wire:?} {said}");
    }
}

#[tokio::test(start_paused = true)]
async fn unanswered_call_is_cancelled_once_when_timed_out() {
    for (client, wire) in ASKING {
        for streams in [false, true] {
            let mut pair = paired(client, wire).await;
            let call = pair.client.begin(7, "t");
            let mut pending = pair.calls.recv().await.unwrap();
            if streams {
                let token = pending.message["params"]["_meta"]["progressToken"].clone();
                pending.say(&progress(&token));
            }
            let said = call.await.unwrap();
            assert!(said.contains("in time"), "{said}");
            sleep(Duration::from_secs(1)).await;
            let reasons = pair.backend.cancellations();
            assert_eq!(reasons.len(), 1, "{client:?} {wire:?} {streams}: {reasons:?}");
            assert!(reasons[0].contains("30s"), "{client:?} {wire:?}: {reasons:?}");
            let sent = pair.backend.messages("notifications/cancelled");
            assert_eq!(sent[0]["params"]["requestId"], pending.message["id"]);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn lost_connection_cancels_stateless_call_once() {
    for wire in [Wire::Stateful, Wire::Sse] {
        for streams in [false, true] {
            let mut pair = paired(STATELESS, wire).await;
            let call = pair.client.begin(7, "t");
            let mut pending = pair.calls.recv().await.unwrap();
            if streams {
                let token = pending.message["params"]["_meta"]["progressToken"].clone();
                pending.say(&progress(&token));
                sleep(Duration::from_millis(1)).await;
            }
            call.abort();
            sleep(Duration::from_mins(1)).await;
            assert_eq!(
                pair.backend.cancellations(),
                ["the client disconnected"],
                "{wire:?} {streams}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn lost_connection_leaves_session_call_running() {
    for wire in [Wire::Stateful, Wire::Sse] {
        let mut pair = paired(STATEFUL, wire).await;
        for answers in [true, false] {
            let call = pair.client.begin(7, "t");
            let pending = pair.calls.recv().await.unwrap();
            call.abort();
            sleep(Duration::from_secs(10)).await;
            assert_eq!(pair.backend.cancellations(), [""; 0], "{wire:?}");
            if answers {
                assert!(pending.answer(&done()), "{wire:?}");
                sleep(2 * LIMIT).await;
                assert_eq!(pair.backend.cancellations(), [""; 0], "{wire:?}");
            } else {
                sleep(2 * LIMIT).await;
                let reasons = pair.backend.cancellations();
                assert_eq!(reasons.len(), 1, "{wire:?}: {reasons:?}");
                assert!(reasons[0].contains("30s"), "{wire:?}: {reasons:?}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn sends_client_cancellation_exactly_once() {
    for wire in [Wire::Stateful, Wire::Sse] {
        for streams in [false, true] {
            let mut pair = paired(STATEFUL, wire).await;
            let call = pair.client.begin(7, "t");
            let mut pending = pair.calls.recv().await.unwrap();
            if streams {
                pending.say(&progress(&json!(7)));
                sleep(Duration::from_millis(1)).await;
            }
            let cancel = json!({"requestId": 7, "reason": "changed my mind"});
            pair.client.notify("notifications/cancelled", cancel.clone()).await;
            pair.client.notify("notifications/cancelled", cancel).await;
            sleep(3 * LIMIT).await;
            assert!(call.is_finished(), "{wire:?} {streams}");
            assert_eq!(pair.backend.cancellations(), ["changed my mind"], "{wire:?} {streams}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn answered_call_is_never_cancelled() {
    for (client, wire) in ASKING {
        let mut pair = paired(client, wire).await;
        for (id, code) in [(1, 500), (2, 503), (3, 401), (4, 200)] {
            let call = pair.client.begin(id, "t");
            let mut pending = pair.calls.recv().await.unwrap();
            match (code, wire) {
                // An HTTP status is not a response on this transport.
                (_, Wire::Sse) => _ = pending.answer(&done()),
                (200, _) => {
                    let token = pending.message["params"]["_meta"]["progressToken"].clone();
                    pending.say(&progress(&token));
                    pending.answer(&done());
                }
                (code, _) => pending.refuse(code),
            }
            call.await.unwrap();
        }
        // A message that is not a valid response.
        if wire == Wire::Stateful {
            let call = pair.client.begin(5, "t");
            let body = Body::from(Bytes::from_static(b"{\"oops\":1}"));
            pair.calls.recv().await.unwrap().respond(200, "application/json", body);
            call.await.unwrap();
        }
        pair.client.notify("notifications/cancelled", json!({"requestId": 4})).await;
        sleep(2 * LIMIT).await;
        assert_eq!(pair.backend.cancellations(), [""; 0], "{client:?} {wire:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn unsent_call_is_not_cancelled() {
    for (client, wire) in ASKING {
        let mut pair = paired(client, wire).await;
        let call = pair.client.begin(1, "t");
        pair.calls.recv().await.unwrap().answer(&done());
        call.await.unwrap();
        let breaker = CircuitHandle::new(
            Backend::new("be"),
            vmcp_breaker::CircuitSettings::new(1, LIMIT).unwrap(),
        );
        let settings = pair.backend.settings(Some(breaker.clone()));
        let settings =
            vmcp_aggregate::settings::BackendSettings { service_revision: 1, ..settings };
        pair.gateway
            .reload(crate::fake::settings(vec![settings], PartialFailure::BestEffort, None))
            .await;
        breaker.record_probe(vmcp_breaker::Outcome::Failure);
        let said = pair.client.begin(2, "t").await.unwrap();
        assert!(said.contains("circuit open"), "{said}");
        sleep(3 * LIMIT).await;
        assert_eq!(pair.backend.cancellations(), [""; 0], "{client:?} {wire:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn unanswered_server_request_cancels_call_with_reason() {
    for wire in [Wire::Stateful, Wire::Sse] {
        let mut pair = paired(STATELESS, wire).await;
        let call = pair.client.begin(7, "t");
        let mut pending = pair.calls.recv().await.unwrap();
        pending.say(&question("q"));
        assert!(call.await.unwrap().contains("input_required"));
        sleep(Duration::from_secs(700)).await;
        assert_eq!(
            pair.backend.cancellations(),
            ["the client did not respond in time"],
            "{wire:?}"
        );
        assert_eq!(pair.gateway.report().parked_calls, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn suspended_call_that_was_answered_is_not_cancelled() {
    for wire in [Wire::Stateful, Wire::Sse] {
        for returns in [true, false] {
            let mut pair = paired(STATELESS, wire).await;
            let response = pair.client.begin(7, "t");
            let mut pending = pair.calls.recv().await.unwrap();
            pending.say(&question("q"));
            let asked = messages(&response.await.unwrap()).pop().unwrap();
            sleep(Duration::from_mins(1)).await;
            // The backend stops waiting for the user.
            pending.answer(&done());
            sleep(Duration::from_secs(1)).await;
            if returns {
                let params = json!({"name": "be_t", "arguments": {}, "inputResponses": {},
                    "requestState": asked["result"]["requestState"]});
                let said = pair.client.request(&json!(8), "tools/call", params).await;
                let said = text(said.into_body()).await;
                assert!(said.contains("\"content\""), "{wire:?}: {said}");
            }
            sleep(Duration::from_secs(700)).await;
            assert_eq!(pair.backend.cancellations(), [""; 0], "{wire:?} {returns}");
            assert_eq!(pair.gateway.report().parked_calls, 0);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn abandoned_server_request_pauses_no_other_call() {
    let mut pair = paired(STATELESS, Wire::Sse).await;
    let other = pair.client.begin(1, "t");
    let _never = pair.calls.recv().await.unwrap();
    // A server request of the channel may belong to any call; it goes to the latest one.
    let asking = pair.client.begin(2, "t");
    let mut pending = pair.calls.recv().await.unwrap();
    pending.say(&question("q"));
    assert!(asking.await.unwrap().contains("input_required"));
    sleep(Duration::from_secs(800)).await;
    assert!(other.is_finished());
}

#[tokio::test(start_paused = true)]
async fn server_request_of_removed_backend_pauses_no_timer() {
    for wire in [Wire::Stateful, Wire::Sse] {
        let mut pair = paired(STATEFUL, wire).await;
        let mut standing = pair.client.stand(None).await.into_body();
        // With two calls in flight, a server request belongs to neither and arrives on the notification stream.
        let calls = [pair.client.begin(1, "t"), pair.client.begin(2, "t")];
        let mut pending = pair.calls.recv().await.unwrap();
        let _other = pair.calls.recv().await.unwrap();
        sleep(Duration::from_secs(1)).await;
        if wire == Wire::Sse {
            pending.say(&question("q"));
        } else {
            pair.backend.announce_in(&pending.session, &question("q"));
        }
        let said = read_for(&mut standing, Duration::from_millis(10)).await;
        assert!(said.contains("elicitation/create"), "{wire:?}: {said}");
        pair.gateway.reload(settings(vec![], PartialFailure::BestEffort, None)).await;
        sleep(Duration::from_secs(90)).await;
        for call in &calls {
            assert!(call.is_finished(), "{wire:?}: its clock stopped for good");
        }
        let answers = pair.backend.messages("");
        assert!(answers.iter().any(|it| it["error"]["code"] == -32603), "{wire:?}: {answers:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn server_request_to_vanished_session_client_expires() {
    for wire in [Wire::Stateful, Wire::Sse] {
        let mut pair = paired(STATEFUL, wire).await;
        let call = pair.client.begin(7, "t");
        let mut pending = pair.calls.recv().await.unwrap();
        pending.say(&question("q"));
        sleep(Duration::from_secs(1)).await;
        call.abort();
        sleep(Duration::from_secs(800)).await;
        let reasons = pair.backend.cancellations();
        assert_eq!(reasons.len(), 1, "{wire:?}: {reasons:?}");
        assert!(pending.is_gone() || wire == Wire::Sse);
        sleep(Duration::from_hours(1)).await;
        assert_eq!(pair.gateway.counts().sessions, 0, "{wire:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn circuit_opens_after_failed_calls_of_any_cell() {
    for client in CLIENTS {
        for wire in [Wire::Stateful, Wire::Sse, Wire::Stateless] {
            let threshold = NonZeroU32::new(3).unwrap();
            let settings =
                vmcp_breaker::CircuitSettings::new(threshold.get(), Duration::from_mins(10))
                    .unwrap();
            let breaker = CircuitHandle::new(Backend::new("be"), settings);
            let mut pair = guarded(client, wire, Some(breaker.clone())).await;
            let warm = pair.client.begin(1, "t");
            pair.calls.recv().await.unwrap().answer(&done());
            warm.await.unwrap();
            // Between two successful polls of the backend's offer.
            sleep(Duration::from_secs(5)).await;
            let mut calls = Vec::new();
            for id in 2..5 {
                calls.push((pair.client.begin(id, "t"), pair.calls.recv().await.unwrap()));
                sleep(Duration::from_millis(100)).await;
            }
            for (call, _never) in calls {
                assert_eq!(breaker.state(), CircuitState::Closed, "{client:?} {wire:?}");
                call.await.unwrap();
                sleep(Duration::from_millis(10)).await;
            }
            assert_eq!(breaker.state(), CircuitState::Open, "{client:?} {wire:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn successful_call_closes_circuit_in_any_cell() {
    for client in CLIENTS {
        for wire in [Wire::Stateful, Wire::Sse, Wire::Stateless] {
            let settings = vmcp_breaker::CircuitSettings::new(2, Duration::from_secs(10)).unwrap();
            let breaker = CircuitHandle::new(Backend::new("be"), settings);
            let mut pair = guarded(client, wire, Some(breaker.clone())).await;
            let warm = pair.client.begin(1, "t");
            pair.calls.recv().await.unwrap().answer(&done());
            warm.await.unwrap();
            breaker.record_probe(vmcp_breaker::Outcome::Failure);
            breaker.record_probe(vmcp_breaker::Outcome::Failure);
            assert_eq!(breaker.state(), CircuitState::Open);
            sleep(Duration::from_secs(11)).await;
            let call = pair.client.begin(2, "t");
            pair.calls.recv().await.unwrap().answer(&done());
            assert!(call.await.unwrap().contains("result"), "{client:?} {wire:?}");
            assert_eq!(breaker.state(), CircuitState::Closed, "{client:?} {wire:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn large_result_passes_waiting_progress() {
    for (client, wire) in ASKING {
        let mut pair = paired(client, wire).await;
        let response = tokio::spawn({
            let client = pair.client.clone();
            async move { client.call(7, "t").await }
        });
        let mut pending = pair.calls.recv().await.unwrap();
        let token = pending.message["params"]["_meta"]["progressToken"].clone();
        for _ in 0..40 {
            pending.say(&progress(&token));
        }
        sleep(Duration::from_millis(1)).await;
        let large = "x".repeat(6 << 20);
        pending.answer(
            &json!({"content": [{"type": "text", "text": large}], "resultType": "complete"}),
        );
        sleep(Duration::from_millis(10)).await;
        let said = text(response.await.unwrap().into_body()).await;
        assert!(said.contains(&large), "{client:?} {wire:?}: {} bytes", said.len());
    }
}

#[tokio::test(start_paused = true)]
async fn notification_stream_survives_overflow() {
    let mut pair = paired(STATEFUL, Wire::Stateful).await;
    let mut standing = pair.client.stand(None).await.into_body();
    let warm = pair.client.begin(1, "t");
    pair.calls.recv().await.unwrap().answer(&done());
    warm.await.unwrap();
    sleep(Duration::from_secs(1)).await;
    let updated = |n: usize| {
        json!({"jsonrpc": "2.0", "method": "notifications/resources/updated",
        "params": {"uri": format!("x://{n}")}})
    };
    for n in 0..2000 {
        pair.backend.announce(&updated(n));
    }
    sleep(Duration::from_secs(1)).await;
    let mut last = None;
    for round in 0..3 {
        let said = read_for(&mut standing, Duration::from_secs(1)).await;
        let mut ids = said.lines().filter_map(|line| line.strip_prefix("id: "));
        last = ids.next_back().map(str::to_owned).or(last);
        let response = pair.client.stand(last.as_deref()).await;
        assert_eq!(response.status(), 200, "{round}");
        standing = response.into_body();
    }
    read_for(&mut standing, Duration::from_secs(1)).await;
    pair.backend.announce(&updated(9999));
    let said = read_for(&mut standing, Duration::from_secs(1)).await;
    assert!(said.contains("x://9999"), "{said:?}");
}

#[tokio::test(start_paused = true)]
async fn ended_session_leaves_no_subscription() {
    for hand in ["initialize", "resources/subscribe"] {
        let mut pair = paired(STATEFUL, Wire::Stateful).await;
        let observed = pair.backend.open_sessions();
        let tasks = tokio::runtime::Handle::current().metrics().num_alive_tasks();
        pair.backend.by_hand.lock().unwrap().push(hand);
        let client = pair.client.clone();
        let subscribing = tokio::spawn(async move {
            let params = json!({"uri": "x://r"});
            text(client.request(&json!(1), "resources/subscribe", params).await.into_body()).await
        });
        let pending = pair.calls.recv().await.unwrap();
        assert_eq!(pair.client.leave().await, 204);
        if hand == "initialize" {
            // The test responds for the backend, without a session that needs a DELETE.
            pending.answer(&json!({"protocolVersion": "2025-11-25", "capabilities": {"resources": {"subscribe": true}}, "serverInfo": {"name": "be", "version": "1"}}));
        } else {
            pending.answer(&json!({}));
        }
        subscribing.await.unwrap();
        sleep(Duration::from_mins(1)).await;
        assert_eq!(pair.backend.open_sessions(), observed, "{hand}");
        assert_eq!(pair.backend.standing(), observed, "{hand}");
        let left = tokio::runtime::Handle::current().metrics().num_alive_tasks();
        assert_eq!(left, tasks, "{hand}");
    }
}

#[tokio::test(start_paused = true)]
async fn does_not_restart_cancelled_call() {
    for leaves in [false, true] {
        let mut pair = paired(STATEFUL, Wire::Stateful).await;
        let call = pair.client.begin(7, "t");
        let pending = pair.calls.recv().await.unwrap();
        if leaves {
            assert_eq!(pair.client.leave().await, 204);
        } else {
            pair.client.notify("notifications/cancelled", json!({"requestId": 7})).await;
        }
        // The backend has forgotten the session, which normally leads to a retry.
        pair.backend.sessions.lock().unwrap().remove(&pending.session);
        pending.refuse(404);
        call.await.unwrap();
        sleep(Duration::from_mins(1)).await;
        assert_eq!(pair.backend.messages("tools/call").len(), 1, "leaves: {leaves}");
    }
}

#[tokio::test(start_paused = true)]
async fn progress_does_not_starve_server_request() {
    for wire in [Wire::Stateful, Wire::Sse] {
        let mut pair = paired(STATELESS, wire).await;
        let client = pair.client.clone();
        let call = tokio::spawn(async move { client.call(7, "t").await.into_body() });
        let mut pending = pair.calls.recv().await.unwrap();
        let token = pending.message["params"]["_meta"]["progressToken"].clone();
        pending.say(&progress(&token));
        let body = call.await.unwrap();
        pending.say(&question("q"));
        let began = Instant::now();
        let reading = tokio::spawn(text(body));
        while !reading.is_finished() && began.elapsed() < Duration::from_secs(5) {
            pending.say(&progress(&token));
            sleep(Duration::from_millis(10)).await;
        }
        assert!(began.elapsed() < Duration::from_millis(100), "{wire:?}");
        assert!(reading.await.unwrap().contains("input_required"));
    }
}

#[tokio::test(start_paused = true)]
async fn progress_increases_over_rounds() {
    let mut pair = paired(STATEFUL, Wire::Stateless).await;
    let client = pair.client.clone();
    let call = tokio::spawn(async move { client.call(1, "t").await });
    let mut pending = pair.calls.recv().await.unwrap();
    pending.say(&progress(&json!(1)));
    let mut body = call.await.unwrap().into_body();
    let mut said = String::new();
    for round in [0, 1] {
        for progress in 2 - round..=3 + round {
            pending.say(&json!({"jsonrpc": "2.0", "method": "notifications/progress", "params":
                {"progressToken": 1, "progress": progress}}));
        }
        if round == 1 {
            pending.answer(&done());
            break;
        }
        let asked = json!({"resultType": "input_required", "requestState": "s",
            "inputRequests": {"q": {"method": "elicitation/create", "params": {"message": "?",
            "requestedSchema": {"type": "object", "properties": {}}}}}});
        pending.answer(&asked);
        said = read_for(&mut body, Duration::from_millis(5)).await;
        let question = messages(&said).pop().unwrap();
        pair.client.reply(&question["id"], json!({"action": "accept"})).await;
        pending = pair.calls.recv().await.unwrap();
    }
    said += &text(body).await;
    let told = messages(&said);
    let told = told.iter().filter_map(|it| it["params"]["progress"].as_u64());
    assert_eq!(told.collect::<Vec<_>>(), [1, 2, 3, 4]);
}

#[tokio::test(start_paused = true)]
async fn subscription_reaches_backend_once() {
    let mut pair = paired(STATEFUL, Wire::Stateful).await;
    let subscribe = |uri| json!({"uri": uri});
    pair.client.request(&json!(1), "resources/subscribe", subscribe("x://r")).await;
    assert_eq!(pair.backend.messages("resources/subscribe").len(), 1);
    // A rejected subscription is not repeated in a new session.
    pair.backend.by_hand.lock().unwrap().push("resources/subscribe");
    let client = pair.client.clone();
    let refused = tokio::spawn(async move {
        client.request(&json!(2), "resources/subscribe", subscribe("x://be")).await
    });
    pair.calls.recv().await.unwrap().refuse_with(-32602);
    assert!(text(refused.await.unwrap().into_body()).await.contains("-32602"));
    pair.backend.by_hand.lock().unwrap().clear();
    pair.backend.received.lock().unwrap().clear();
    pair.backend.forget_sessions();
    let call = pair.client.begin(3, "t");
    pair.calls.recv().await.unwrap().answer(&done());
    call.await.unwrap();
    let subscribed = pair.backend.messages("resources/subscribe");
    let uris: Vec<_> = subscribed.iter().map(|it| it["params"]["uri"].clone()).collect();
    assert_eq!(uris, ["x://r"]);
}

#[tokio::test(start_paused = true)]
async fn records_error_on_stream() {
    for (client, wire) in ASKING.into_iter().chain(CLIENTS.map(|it| (it, Wire::Stateless))) {
        let mut pair = paired(client, wire).await;
        let request_context = RequestContext::default();
        pair.client.request_context = Some(request_context.clone());
        let call = pair.client.begin(1, "t");
        let mut pending = pair.calls.recv().await.unwrap();
        let token = pending.message["params"]["_meta"]["progressToken"].clone();
        pending.say(&progress(&token));
        let said = call.await.unwrap();
        let last = messages(&said).pop().unwrap();
        assert_eq!(
            last["error"]["code"].as_i64(),
            request_context.error(),
            "{client:?} {wire:?}: {said}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn log_level_reaches_opening_session() {
    let mut pair = paired(STATEFUL, Wire::Stateful).await;
    pair.backend.by_hand.lock().unwrap().push("initialize");
    let call = pair.client.begin(1, "t");
    let opening = pair.calls.recv().await.unwrap();
    let id = json!(2);
    let set = pair.client.request(&id, "logging/setLevel", json!({"level": "debug"}));
    assert_eq!(timeout(Duration::from_secs(1), set).await.unwrap().status(), 200);
    pair.backend.sessions.lock().unwrap().insert(String::new(), Vec::new());
    opening.answer(&json!({"protocolVersion": "2025-11-25", "capabilities": {"logging": {}},
        "serverInfo": {"name": "be", "version": "1"}}));
    pair.calls.recv().await.unwrap().answer(&done());
    call.await.unwrap();
    let levels = pair.backend.messages("logging/setLevel");
    assert_eq!(levels.len(), 1);
    assert_eq!(levels[0]["params"]["level"], "debug");
}

#[tokio::test(start_paused = true)]
async fn slow_backend_delays_no_others_notifications() {
    let (slow, mut slow_calls) = ScriptedBackend::new("slow", Wire::Stateful);
    let (fast, mut fast_calls) = ScriptedBackend::new("zfast", Wire::Stateful);
    let settings = vec![slow.settings(None), fast.settings(None)];
    let gateway = with(settings, PartialFailure::BestEffort).await;
    let client = ScriptedClient::new(&gateway, STATEFUL, "alice").await;
    for (name, calls) in [("slow_t", &mut slow_calls), ("zfast_t", &mut fast_calls)] {
        let (client, params) = (client.clone(), json!({"name": name}));
        let call = tokio::spawn(async move {
            client.request(&json!(1), "tools/call", params).await;
        });
        calls.recv().await.unwrap().answer(&done());
        call.await.unwrap();
    }
    slow.by_hand.lock().unwrap().push("logging/setLevel");
    let setting = tokio::spawn({
        let client = client.clone();
        async move {
            client.request(&json!(2), "logging/setLevel", json!({"level": "info"})).await.status()
        }
    });
    let _never = slow_calls.recv().await.unwrap();
    sleep(Duration::from_millis(1)).await;
    assert_eq!(fast.messages("logging/setLevel").len(), 1);
    assert_eq!(setting.await.unwrap(), 200);
}

#[tokio::test(start_paused = true)]
async fn abandons_endless_response_to_notification() {
    let mut pair = paired(STATEFUL, Wire::Stateful).await;
    let call = pair.client.begin(1, "t");
    let mut pending = pair.calls.recv().await.unwrap();
    pending.say(&question("q"));
    sleep(Duration::from_millis(1)).await;
    *pair.backend.endless.lock().unwrap() = true;
    let asked = json!(1);
    let replying = pair.client.reply(&asked, json!({"action": "accept"}));
    let status = timeout(Duration::from_secs(5), replying).await.expect("it ends").status();
    assert_eq!(status, 202);
    pending.answer(&done());
    assert!(call.await.unwrap().contains("result"));
}

#[tokio::test(start_paused = true)]
async fn resumes_stream_again_after_no_events() {
    let mut pair = paired(STATEFUL, Wire::Stateful).await;
    let call = pair.client.begin(1, "t");
    let mut pending = pair.calls.recv().await.unwrap();
    pending.say(&progress(&json!(1)));
    pending.say_raw("id: e1\nretry: 100\ndata: \n\n");
    let session = pending.session.clone();
    drop(pending);
    // The first resumption yields nothing, the second one the response.
    for round in 0..2 {
        sleep(Duration::from_millis(150)).await;
        let stream = {
            let mut sessions = pair.backend.sessions.lock().unwrap();
            sessions
                .get_mut(&session)
                .unwrap()
                .pop()
                .unwrap_or_else(|| panic!("resumption {round}"))
        };
        if round == 1 {
            let answer = json!({"jsonrpc": "2.0", "id": 1, "result": done()});
            stream.send(format!("data: {answer}\n\n").into()).unwrap();
        }
    }
    let said = call.await.unwrap();
    assert!(said.contains("\"result\""), "{said}");
}

#[tokio::test(start_paused = true)]
async fn resumes_notification_stream_after_last_event() {
    let mut pair = paired(STATEFUL, Wire::Stateful).await;
    let _standing = pair.client.stand(None).await;
    let warm = pair.client.begin(1, "t");
    let pending = pair.calls.recv().await.unwrap();
    let session = pending.session.clone();
    pending.answer(&done());
    warm.await.unwrap();
    sleep(Duration::from_secs(1)).await;
    pair.backend.received.lock().unwrap().clear();
    let said = json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {}});
    // The third connection yields nothing and does not change the resumption point.
    for event in ["id: e1\n", ""] {
        let stream = pair.backend.sessions.lock().unwrap().get_mut(&session).unwrap().pop();
        let stream = stream.unwrap();
        if !event.is_empty() {
            stream.send(format!("{event}data: {said}\n\n").into()).unwrap();
        }
        drop(stream);
        sleep(Duration::from_secs(1)).await;
    }
    let places: Vec<_> = pair.backend.messages("GET").iter().map(|it| it["last"].clone()).collect();
    assert_eq!(places, ["e1", "e1"]);
}

#[tokio::test(start_paused = true)]
async fn session_flood_evicts_only_own_sessions() {
    let mut pair = paired(STATEFUL, Wire::Stateful).await;
    let call = async |pair: &mut Pair| {
        let call = pair.client.begin(1, "t");
        if let Ok(Some(pending)) = timeout(Duration::from_secs(1), pair.calls.recv()).await {
            pending.answer(&done());
        }
        call.await.unwrap()
    };
    let bob = ScriptedClient::new(&pair.gateway, STATEFUL, "bob").await;
    bob.request(&json!(1), "ping", json!({})).await;
    assert!(call(&mut pair).await.contains("result"));
    for _ in 0..1500 {
        ScriptedClient::new(&pair.gateway, STATEFUL, "alice").await;
    }
    assert!(call(&mut pair).await.contains("result"), "what was never used goes first");
    for _ in 0..1000 {
        let client = ScriptedClient::new(&pair.gateway, STATEFUL, "alice").await;
        client.request(&json!(1), "ping", json!({})).await;
        sleep(Duration::from_millis(1)).await;
    }
    assert!(call(&mut pair).await.contains("session"), "the longest idle goes then");
    assert_eq!(bob.request(&json!(2), "ping", json!({})).await.status(), 200);
    assert_eq!(pair.gateway.counts().sessions, 1001);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(pair.backend.open_sessions(), 1, "the evicted session's is ended, too");
}

#[tokio::test(start_paused = true)]
async fn rejects_two_session_ids() {
    let pair = paired(STATEFUL, Wire::Stateful).await;
    let session = pair.client.session.clone().unwrap();
    for method in [http::Method::GET, http::Method::DELETE] {
        let mut request = http::Request::new(());
        *request.method_mut() = method;
        request.extensions_mut().insert(pair.client.identity.clone());
        request.headers_mut().append("accept", "text/event-stream".parse().unwrap());
        for id in [session.clone(), session.clone()] {
            request.headers_mut().append("mcp-session-id", id);
        }
        let Ok(response) = tower::ServiceExt::oneshot(pair.gateway.clone(), request).await;
        assert_eq!(response.status(), 400);
        assert!(text(response.into_body()).await.contains("send one Mcp-Session-Id"));
    }
    assert_eq!(pair.client.request(&json!(1), "ping", json!({})).await.status(), 200);
}

#[tokio::test(start_paused = true)]
async fn adds_id_to_error_with_trailing_space() {
    let mut pair = paired(STATEFUL, Wire::Stateful).await;
    let call = pair.client.begin(7, "t");
    let body = Body::from(Bytes::from_static(
        b" {\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32600,\"message\":\"no\"}} \n\r\t\n",
    ));
    pair.calls.recv().await.unwrap().respond(400, "application/json", body);
    let said: Value = serde_json::from_str(&call.await.unwrap()).unwrap();
    assert_eq!(said["id"], 7, "{said}");
}
