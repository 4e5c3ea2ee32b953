//! Calls of disconnected clients: they end, buffer little, are cancelled once, and do not keep their session alive.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::Frame;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::sleep;
use vmcp_aggregate::Gateway;
use vmcp_aggregate::settings::Limits;
use vmcp_core::{Body, BoxError, Generation};

use crate::fake::with_limits;
use crate::responses::{body, endless};
use crate::script::{PendingCall, ScriptedBackend, ScriptedClient, Wire, messages, text};

const WIRES: [Wire; 3] = [Wire::Stateful, Wire::Stateless, Wire::Sse];
const MINUTE: Duration = Duration::from_mins(1);
const MEGABYTE: usize = 1 << 20;

/// Byte budget for disconnected clients in tests that exhaust it.
const BUDGET: usize = 8 * MEGABYTE;
const PART: usize = MEGABYTE / 4;

struct Scene {
    gateway: Gateway,
    backend: Arc<ScriptedBackend>,
    calls: UnboundedReceiver<PendingCall>,
    client: ScriptedClient,
}

async fn scene(client: Generation, wire: Wire, limits: Limits) -> Scene {
    let (backend, calls) = ScriptedBackend::new("be", wire);
    let gateway = with_limits(vec![backend.settings(None)], limits).await;
    let client = ScriptedClient::new(&gateway, client, "alice").await;
    Scene { gateway, backend, calls, client }
}

/// Returns limits that tests reach quickly.
fn tight() -> Limits {
    Limits { detached_bytes: BUDGET, ..Limits::default() }
}

async fn stateful(wire: Wire) -> Scene {
    scene(Generation::Stateful, wire, Limits::default()).await
}

fn progress(id: u64) -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/progress", "params":
        {"progressToken": id, "progress": 1}})
}

/// Builds a notification that is not dropped when the queue is full.
fn news(bytes: usize) -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params":
        {"uri": format!("x://{}", "x".repeat(bytes))}})
}

/// Builds a message for a call's stream that is not dropped when the queue is full. An HTTP+SSE backend can only send server
/// requests.
fn cache_sizes(wire: Wire, number: usize, bytes: usize) -> Value {
    let message = "x".repeat(bytes);
    if wire == Wire::Stateless {
        return json!({"jsonrpc": "2.0", "method": "notifications/x", "params": {"m": message}});
    }
    json!({"jsonrpc": "2.0", "id": format!("q{number}"), "method": "elicitation/create", "params":
        {"message": message, "requestedSchema": {"type": "object", "properties": {}}}})
}

fn result(bytes: usize) -> Value {
    json!({"content": [{"type": "text", "text": "r".repeat(bytes)}], "resultType": "complete"})
}

impl Scene {
    /// Starts a streaming call and disconnects its client. Returns the event id for resumption.
    async fn vanished(&mut self, id: u64) -> (PendingCall, String) {
        let client = self.client.clone();
        let call = tokio::spawn(async move { client.call(id, "t").await });
        let mut pending = self.calls.recv().await.unwrap();
        pending.say(&progress(id));
        let mut body = call.await.unwrap().into_body();
        let mut said = String::new();
        while !said.contains("progressToken") {
            let frame = body.frame().await.unwrap().unwrap().into_data().unwrap();
            said += &String::from_utf8_lossy(&frame);
        }
        let last = said.lines().filter_map(|line| line.strip_prefix("id: ")).next_back();
        (pending, last.unwrap().to_owned())
    }

    /// Returns the number of these calls that the gateway has ended.
    async fn ended(&self, calls: &[PendingCall]) -> usize {
        sleep(Duration::from_secs(1)).await;
        if self.backend.wire == Wire::Stateless {
            return calls.iter().filter(|call| call.is_gone()).count();
        }
        let cancelled = self.backend.messages("notifications/cancelled");
        let once: BTreeSet<_> = cancelled
            .iter()
            .map(|it| (it["session"].to_string(), it["params"]["requestId"].to_string()))
            .collect();
        assert_eq!(once.len(), cancelled.len(), "cancelled twice: {:?}", self.backend.wire);
        once.len()
    }
}

#[tokio::test(start_paused = true)]
async fn progress_does_not_extend_detached_calls() {
    for wire in WIRES {
        let mut scene = stateful(wire).await;
        let (call, _) = scene.vanished(7).await;
        let mut calls = vec![call];
        for _ in 0..59 {
            sleep(Duration::from_secs(10)).await;
            calls[0].say(&progress(7));
        }
        assert_eq!(scene.ended(&calls).await, 0, "{wire:?}");
        for _ in 0..600 {
            sleep(Duration::from_secs(10)).await;
            calls[0].say(&progress(7));
        }
        assert_eq!(scene.ended(&calls).await, 1, "{wire:?}");
        if wire != Wire::Stateless {
            let reasons = scene.backend.cancellations();
            assert_eq!(reasons, ["the client was disconnected for too long"], "{wire:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn comments_do_not_extend_detached_calls() {
    for wire in [Wire::Stateful, Wire::Stateless] {
        let mut scene = stateful(wire).await;
        let call = scene.client.begin(7, "t");
        let pending = scene.calls.recv().await.unwrap();
        let gone = Arc::new(());
        let (held, comments) = (Arc::clone(&gone), endless());
        let body = comments.map_frame(move |frame| {
            assert!(Arc::strong_count(&held) > 0);
            frame
        });
        pending.respond(200, "text/event-stream", Body::wrap(body));
        sleep(Duration::from_secs(1)).await;
        call.abort();
        sleep(9 * MINUTE).await;
        assert_eq!(Arc::strong_count(&gone), 2, "{wire:?}");
        sleep(2 * MINUTE).await;
        assert_eq!(Arc::strong_count(&gone), 1, "{wire:?}");
        let cancelled = usize::from(wire == Wire::Stateful);
        assert_eq!(scene.backend.cancellations().len(), cancelled, "{wire:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn session_expires_despite_call_without_client() {
    for wire in WIRES {
        let limits = Limits { session_ttl: MINUTE, ..Limits::default() };
        let mut scene = scene(Generation::Stateful, wire, limits).await;
        let (call, _) = scene.vanished(7).await;
        let mut calls = vec![call];
        for _ in 0..9 {
            sleep(Duration::from_secs(10)).await;
            calls[0].say(&progress(7));
        }
        assert_eq!(scene.gateway.counts().sessions, 0, "{wire:?}");
        assert_eq!(scene.ended(&calls).await, 1, "{wire:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn connected_call_keeps_session_alive() {
    for wire in WIRES {
        let limits = Limits { session_ttl: MINUTE, ..Limits::default() };
        let mut scene = scene(Generation::Stateful, wire, limits).await;
        let call = scene.client.begin(7, "t");
        let mut pending = scene.calls.recv().await.unwrap();
        for _ in 0..100 {
            pending.say(&progress(7));
            sleep(Duration::from_secs(20)).await;
        }
        assert_eq!(scene.gateway.counts().sessions, 1, "{wire:?}");
        assert!(pending.answer(&result(1)), "{wire:?}");
        assert!(call.await.unwrap().contains("\"result\""), "{wire:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn resumption_restarts_detached_time_limit() {
    for wire in WIRES {
        let mut scene = stateful(wire).await;
        let (mut pending, last) = scene.vanished(7).await;
        for _ in 0..3 {
            for _ in 0..25 {
                sleep(Duration::from_secs(20)).await;
                pending.say(&progress(7));
            }
            assert_eq!(scene.client.stand(Some(&last)).await.status(), 200, "{wire:?}");
        }
        assert!(pending.answer(&result(1)), "{wire:?}");
        let said = text(scene.client.stand(Some(&last)).await.into_body()).await;
        assert!(said.contains("\"result\""), "{wire:?}: {said}");
        assert_eq!(scene.backend.cancellations(), [""; 0], "{wire:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn limits_bytes_of_detached_calls() {
    for wire in WIRES {
        let mut scene = scene(Generation::Stateful, wire, tight()).await;
        let bob = ScriptedClient::new(&scene.gateway, Generation::Stateful, "bob").await;
        let mut calls = Vec::new();
        for id in 1..=40 {
            calls.push(scene.vanished(id).await.0);
            // An HTTP+SSE backend's server request belongs to its only call, or to none.
            let number = usize::try_from(id).unwrap();
            let messages = if wire == Wire::Sse { 0 } else { 3 };
            for part in 0..messages {
                calls.last_mut().unwrap().say(&cache_sizes(wire, 10 * number + part, PART));
            }
            if wire == Wire::Sse {
                // The response is charged to the budget all the same.
                let call = calls.pop().unwrap();
                assert!(call.answer(&result(PART)));
            }
            sleep(Duration::from_millis(10)).await;
            let held = scene.gateway.cache_sizes().detached_bytes;
            assert!(held <= BUDGET / 2 + PART, "{wire:?}: {held} bytes");
        }
        assert!(scene.gateway.counts().detached_calls_ended > 10, "{wire:?}");
        if wire != Wire::Sse {
            let ended = scene.ended(&calls).await;
            assert!((10..40).contains(&ended), "{wire:?}: {ended}");
        }
        // The budget still has capacity for other clients.
        scene.client = bob;
        let (pending, last) = scene.vanished(7).await;
        assert!(pending.answer(&result(PART)), "{wire:?}");
        sleep(Duration::from_secs(1)).await;
        let said = text(scene.client.stand(Some(&last)).await.into_body()).await;
        assert!(said.len() > PART, "{wire:?}: {} bytes", said.len());
        drop(calls);
        sleep(120 * MINUTE).await;
        assert_eq!(scene.gateway.cache_sizes().detached_bytes, 0, "{wire:?}");
        assert_eq!(scene.gateway.counts().detached_calls, 0, "{wire:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn unfinished_messages_count_for_calls_without_clients() {
    for wire in [Wire::Stateful, Wire::Stateless] {
        for begun in [true, false] {
            let mut scene = scene(Generation::Stateful, wire, tight()).await;
            let mut calls = Vec::new();
            let mut bodies = Vec::new();
            for id in 1..=6 {
                if begun {
                    calls.push(scene.vanished(id).await.0);
                } else {
                    let call = scene.client.begin(id, "t");
                    let pending = scene.calls.recv().await.unwrap();
                    let (sender, body) = body();
                    pending.respond(200, "text/event-stream", body);
                    bodies.push(sender);
                    sleep(Duration::from_millis(1)).await;
                    call.abort();
                }
            }
            sleep(Duration::from_secs(1)).await;
            let chunk = "x".repeat(PART);
            for round in 0..12 {
                let part = if round == 0 { format!("data: {chunk}") } else { chunk.clone() };
                for call in &mut calls {
                    call.say_raw(&part);
                }
                for body in &bodies {
                    _ = body.send(part.clone().into());
                }
                sleep(Duration::from_millis(10)).await;
                let held = scene.gateway.cache_sizes().detached_bytes;
                assert!(held <= BUDGET / 2, "{wire:?} {begun}: {held} bytes");
            }
            let gone = calls.iter().filter(|call| call.is_gone()).count()
                + bodies.iter().filter(|body| body.is_closed()).count();
            assert!((4..=6).contains(&gone), "{wire:?} {begun}: {gone}");
            let cancelled = scene.backend.cancellations().len();
            let expected = if wire == Wire::Stateful { gone } else { 0 };
            assert_eq!(cancelled, expected, "{wire:?} {begun}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn oversized_detached_response_becomes_named_error() {
    for wire in WIRES {
        let limits = Limits { detached_bytes: 4 * MEGABYTE, ..Limits::default() };
        let mut scene = scene(Generation::Stateful, wire, limits).await;
        let (pending, last) = scene.vanished(7).await;
        assert!(pending.answer(&result(3 * MEGABYTE)), "{wire:?}");
        sleep(Duration::from_secs(1)).await;
        let said = text(scene.client.stand(Some(&last)).await.into_body()).await;
        let answer = messages(&said).pop().unwrap();
        let message = answer["error"]["message"].as_str().unwrap();
        // A response of HTTP+SSE is read in pieces, so the call ends before the end of its response is known.
        let is_in_pieces = wire == Wire::Sse;
        let problem = if is_in_pieces { "sent more" } else { "returned more" };
        assert!(message.starts_with(&format!("backend be {problem}")), "{wire:?}: {message}");
        assert_eq!(answer["error"]["data"]["retryable"], false, "{wire:?}");
        assert_eq!(scene.backend.cancellations().len(), usize::from(is_in_pieces), "{wire:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn returning_client_receives_error_of_ended_call() {
    for wire in WIRES {
        let limits = Limits { detached_timeout: MINUTE, ..Limits::default() };
        let mut scene = scene(Generation::Stateful, wire, limits).await;
        let (mut pending, last) = scene.vanished(7).await;
        for _ in 0..4 {
            sleep(Duration::from_secs(20)).await;
            pending.say(&progress(7));
        }
        let said = text(scene.client.stand(Some(&last)).await.into_body()).await;
        let answer = messages(&said).pop().unwrap();
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(
            message.contains("its client was disconnected for too long"),
            "{wire:?}: {message}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn requests_without_clients_are_limited_in_number() {
    let (backend, mut calls) = ScriptedBackend::new("be", Wire::Stateful);
    let gateway = with_limits(vec![backend.settings(None)], Limits::default()).await;
    let mut pending = Vec::new();
    for _ in 0..4 {
        let client = ScriptedClient::new(&gateway, Generation::Stateful, "alice").await;
        for id in 0..200 {
            let call = client.begin(id, "t");
            pending.push(calls.recv().await.unwrap());
            call.abort();
        }
    }
    sleep(Duration::from_secs(1)).await;
    let counts = gateway.counts();
    assert_eq!(counts.detached_calls, 512);
    assert_eq!(counts.detached_calls_ended, 800 - 512);
    assert_eq!(backend.cancellations().len(), 800 - 512);
    // Other clients are not affected.
    let bob = ScriptedClient::new(&gateway, Generation::Stateful, "bob").await;
    let call = bob.begin(1, "t");
    let theirs = calls.recv().await.unwrap();
    call.abort();
    sleep(Duration::from_secs(1)).await;
    assert!(!theirs.is_gone());
    sleep(MINUTE).await;
    assert_eq!(gateway.counts().detached_calls, 0);
    assert_eq!(backend.cancellations().len(), 801, "each was cancelled once");
}

#[tokio::test(start_paused = true)]
async fn suspended_calls_hold_bounded_bytes() {
    for wire in [Wire::Stateful, Wire::Sse] {
        let mut scene = scene(Generation::Stateless, wire, tight()).await;
        let call = scene.client.begin(7, "t");
        let mut pending = scene.calls.recv().await.unwrap();
        pending.say(&cache_sizes(Wire::Stateful, 0, 10));
        let asked = messages(&call.await.unwrap()).pop().unwrap();
        for number in 1..12 {
            pending.say(&cache_sizes(Wire::Stateful, number, 3 * PART));
            sleep(Duration::from_millis(10)).await;
            let held = scene.gateway.cache_sizes().detached_bytes;
            assert!(held <= BUDGET / 2, "{wire:?}: {held} bytes");
        }
        assert_eq!(scene.ended(&[]).await, 1, "{wire:?}");
        let params = json!({"name": "be_t", "arguments": {}, "inputResponses": {},
            "requestState": asked["result"]["requestState"]});
        let said = scene.client.request(&json!(8), "tools/call", params).await;
        let said = messages(&text(said.into_body()).await).pop().unwrap();
        let message = said["error"]["message"].as_str().unwrap();
        assert!(message.starts_with("backend be sent more"), "{wire:?}: {message}");
        sleep(20 * MINUTE).await;
        assert_eq!(scene.ended(&[]).await, 1, "{wire:?}");
        assert_eq!(scene.gateway.cache_sizes().detached_bytes, 0, "{wire:?}");
    }
}

/// Stream of this many events that are always ready; counts the events read.
struct Flood(usize, Arc<AtomicUsize>);

impl http_body::Body for Flood {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        self.0 -= 1;
        self.1.fetch_add(1, Ordering::Relaxed);
        let event =
            format!("data: {}\n\n", if self.0.is_multiple_of(2) { news(1) } else { progress(1) });
        Poll::Ready((self.0 > 0).then(|| Ok(Frame::data(event.into()))))
    }
}

#[tokio::test(start_paused = true)]
async fn message_flood_does_not_extend_stateless_call() {
    let mut scene = scene(Generation::Stateless, Wire::Stateful, Limits::default()).await;
    let call = scene.client.begin(7, "t");
    let pending = scene.calls.recv().await.unwrap();
    let sent = Arc::new(AtomicUsize::new(0));
    let (sender, first) = body();
    let flood = Flood(100_000, Arc::clone(&sent));
    // The call streams, and the flood starts after its client has disconnected.
    let chained = Chained { first, gone: None, rest: flood };
    let (ready, gone) = tokio::sync::oneshot::channel();
    pending.respond(200, "text/event-stream", Body::wrap(Chained { gone: Some(gone), ..chained }));
    sender.send(format!("data: {}\n\n", progress(1)).into()).unwrap();
    sleep(Duration::from_secs(1)).await;
    call.abort();
    _ = ready.send(());
    sleep(Duration::from_secs(1)).await;
    assert!(sent.load(Ordering::Relaxed) < 1000, "{sent:?} messages were read");
    assert_eq!(scene.backend.cancellations(), ["the client disconnected"]);
}

/// Endless stream of one-megabyte events; counts the events read.
struct Wide(Arc<AtomicUsize>, Bytes);

impl http_body::Body for Wide {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if self.0.load(Ordering::Relaxed) == 1000 {
            return Poll::Pending;
        }
        // Yield regularly.
        std::task::ready!(tokio::task::coop::poll_proceed(cx)).made_progress();
        self.0.fetch_add(1, Ordering::Relaxed);
        Poll::Ready(Some(Ok(Frame::data(self.1.clone()))))
    }
}

#[tokio::test(start_paused = true)]
async fn bounds_bytes_and_time_for_stalled_client() {
    let mut scene = scene(Generation::Stateless, Wire::Stateful, Limits::default()).await;
    let client = scene.client.clone();
    let call = tokio::spawn(async move { client.call(7, "t").await.into_body() });
    let pending = scene.calls.recv().await.unwrap();
    let token = &pending.message["params"]["_meta"]["progressToken"];
    let mut wide = progress(7);
    wide["params"]["progressToken"] = token.clone();
    wide["params"]["message"] = json!("x".repeat(MEGABYTE));
    let read = Arc::new(AtomicUsize::new(0));
    let body = Wide(Arc::clone(&read), format!("data: {wide}\n\n").into());
    pending.respond(200, "text/event-stream", Body::wrap(body));
    let body = call.await.unwrap();
    sleep(9 * MINUTE).await;
    assert!(read.load(Ordering::Relaxed) < 10, "{read:?} megabytes were read");
    assert_eq!(scene.ended(&[]).await, 0);
    sleep(2 * MINUTE).await;
    assert_eq!(scene.ended(&[]).await, 1);
    drop(body);
    sleep(20 * MINUTE).await;
    assert_eq!(scene.ended(&[]).await, 1);
}

#[tokio::test(start_paused = true)]
async fn progress_does_not_extend_stalled_client_calls() {
    for wire in WIRES {
        let mut scene = stateful(wire).await;
        let client = scene.client.clone();
        let call = tokio::spawn(async move { client.call(7, "t").await.into_body() });
        let mut pending = scene.calls.recv().await.unwrap();
        pending.say(&progress(7));
        let body = call.await.unwrap();
        for _ in 0..130 {
            sleep(Duration::from_secs(10)).await;
            pending.say(&progress(7));
        }
        assert_eq!(scene.ended(&[pending]).await, 1, "{wire:?}");
        drop(body);
    }
}

/// Body that switches to another one at a signal.
struct Chained {
    first: Body,
    gone: Option<tokio::sync::oneshot::Receiver<()>>,
    rest: Flood,
}

impl http_body::Body for Chained {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Some(gone) = &mut self.gone {
            if Pin::new(gone).poll(cx).is_pending() {
                return Pin::new(&mut self.first).poll_frame(cx);
            }
            self.gone = None;
        }
        Pin::new(&mut self.rest).poll_frame(cx)
    }
}

#[tokio::test(start_paused = true)]
async fn limits_bytes_of_detached_notification_streams() {
    let mut scene = scene(Generation::Stateful, Wire::Stateful, tight()).await;
    let mut clients = Vec::new();
    for _ in 0..20 {
        let client = ScriptedClient::new(&scene.gateway, Generation::Stateful, "alice").await;
        scene.client = client.clone();
        clients.push(client.clone());
        // A subscription keeps the backend's stream open.
        client.request(&json!(1), "resources/subscribe", json!({"uri": "x://r"})).await;
    }
    sleep(Duration::from_secs(1)).await;
    for _ in 0..3 {
        let mut many = news(PART);
        many["method"] = json!("notifications/message");
        scene.backend.announce(&many);
        sleep(Duration::from_millis(100)).await;
    }
    let held = scene.gateway.cache_sizes().detached_bytes;
    assert!((8 * PART..=BUDGET / 2).contains(&held), "{held} bytes");
    // A returning client receives the buffered messages.
    let response = clients[0].stand(None).await;
    let mut body = response.into_body();
    let mut length = 0;
    while length <= PART {
        length += body.frame().await.unwrap().unwrap().into_data().unwrap().len();
    }
}
