//! Health checks of backends.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use http_body_util::Full;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use tower_layer::Layer;
use vmcp_aggregate::Gateway;
use vmcp_aggregate::settings::{BackendService, BackendSettings, Checks, PartialFailure};
use vmcp_aggregate::status::{BackendReport, HealthReport};
use vmcp_breaker::health::Health;
use vmcp_breaker::{CircuitBreakerLayer, CircuitHandle};
use vmcp_core::{Backend, Generation};

use crate::fake::{Behavior, Client, FakeBackend, StreamStart, gateway, settings, with_checks};

const BOTH: [Generation; 2] = [Generation::Stateful, Generation::Stateless];

fn tools(name: &str) -> Value {
    json!({"tools": [{"name": name}]})
}

fn fake(name: &'static str, generation: Generation) -> Arc<FakeBackend> {
    FakeBackend::new(name, generation).offer("*", tools("open"))
}

/// Returns checks every 30 s with a timeout of 10 s, first after 15 s; three failures make a backend unavailable.
fn checks() -> Checks {
    every(30, 10, 3)
}

fn every(interval: u64, timeout: u64, threshold: u32) -> Checks {
    let (interval, timeout) = (Duration::from_secs(interval), Duration::from_secs(timeout));
    Checks::new(interval, timeout, NonZeroU32::new(threshold).unwrap())
        .first_offset(|_| u32::MAX / 2)
}

async fn watched(backend: BackendSettings) -> Gateway {
    with_checks(vec![backend], PartialFailure::BestEffort, Some(checks())).await
}

fn set_behavior(fake: &FakeBackend, behavior: Behavior) {
    *fake.behavior.lock().unwrap() = behavior;
}

fn only(gateway: &Gateway) -> (BackendReport, HealthReport) {
    let report = gateway.backends().remove(0);
    let checked = report.checked.clone().unwrap();
    (report, checked)
}

/// Returns the number of health checks that the backend has received.
fn asked(fake: &FakeBackend) -> usize {
    fake.times("ping", "gateway") + fake.times("server/discover", "gateway")
}

#[tokio::test(start_paused = true)]
async fn marks_unavailable_at_threshold_and_ready_on_recovery() {
    for (generation, away, kind) in [
        (BOTH[0], Behavior::Unreachable, "unreachable"),
        (BOTH[1], Behavior::Unreachable, "unreachable"),
        (BOTH[0], Behavior::Silent, "timeout"),
        (BOTH[1], Behavior::Silent, "timeout"),
    ] {
        let fake = fake("a", generation);
        let gateway = watched(fake.settings()).await;
        assert_eq!(only(&gateway).0.health(), Health::Ready, "fetching is a check too");
        set_behavior(&fake, away);
        // Checks time out at 25 s and 55 s without a response.
        sleep(Duration::from_mins(1)).await;
        let (report, checked) = only(&gateway);
        assert_eq!((checked.health, checked.consecutive_failures), (Health::Ready, 2));
        assert_eq!(checked.last_error.as_ref().unwrap().kind, kind);
        assert!(!report.problem().unwrap().is_empty());
        sleep(Duration::from_secs(30)).await;
        let (report, checked) = only(&gateway);
        assert_eq!((report.health(), checked.consecutive_failures), (Health::Unavailable, 3));
        assert!(!report.is_healthy() && checked.next_check.unwrap() > checked.last_check.unwrap());
        let client = Client::new(&gateway, generation, "").await;
        assert_eq!(client.names("tools/list").await, ["a_open"], "the last good offer takes part");
        set_behavior(&fake, Behavior::Normal);
        sleep(Duration::from_secs(6)).await;
        let (report, checked) = only(&gateway);
        // An observer that retries indefinitely detects the recovery before the next check.
        assert!(report.health() == Health::Ready || away == Behavior::Silent, "{report:?}");
        sleep(Duration::from_secs(30)).await;
        let (report, recovered) = only(&gateway);
        assert_eq!((report.health(), report.problem()), (Health::Ready, None));
        assert_eq!(recovered.consecutive_failures, 0);
        assert!(recovered.since >= checked.since && recovered.changes == 3, "{recovered:?}");
        assert_eq!(recovered.last_error.unwrap().kind, kind, "what was wrong stays on show");
    }
}

#[tokio::test(start_paused = true)]
async fn replaces_session_of_unavailable_backend() {
    let fake = fake("a", Generation::Stateful);
    let gateway = watched(fake.settings()).await;
    set_behavior(&fake, Behavior::Silent);
    sleep(Duration::from_secs(90)).await;
    assert_eq!(only(&gateway).0.health(), Health::Unavailable);
    assert_eq!(fake.open_streams("gateway"), 0, "the old stream is let go of");
    set_behavior(&fake, Behavior::Normal);
    sleep(Duration::from_mins(1)).await;
    assert_eq!((fake.open_streams("gateway"), fake.times("initialize", "gateway")), (1, 3));
    let fake = fake.offer("*", tools("new"));
    fake.say("gateway", &json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
    sleep(Duration::from_secs(1)).await;
    let client = Client::new(&gateway, Generation::Stateless, "").await;
    assert_eq!(client.names("tools/list").await, ["a_new"], "its news are heard again");
}

#[tokio::test(start_paused = true)]
async fn checks_ping_stateful_backend_in_one_session() {
    let fake = fake("a", Generation::Stateful);
    let gateway = watched(fake.settings()).await;
    sleep(Duration::from_mins(25)).await;
    assert_eq!((fake.times("ping", "gateway"), fake.times("initialize", "gateway")), (50, 1));
    assert_eq!(only(&gateway).1.changes, 1);
}

#[tokio::test(start_paused = true)]
async fn spreads_checks_of_backends_over_interval() {
    let names: Vec<&'static str> = (b'a'..=b'x')
        .map(|name| &*vec![name].leak())
        .map(|name| std::str::from_utf8(name).unwrap())
        .collect();
    let fakes: Vec<_> = names.iter().map(|name| fake(name, Generation::Stateful)).collect();
    let spread =
        |backend: &Backend| u32::from(backend.name().as_bytes()[0] - b'a') * (u32::MAX / 24);
    let all = fakes.iter().map(FakeBackend::settings).collect();
    let checks = Some(checks().first_offset(spread));
    let _gateway = with_checks(all, PartialFailure::BestEffort, checks).await;
    let total = || fakes.iter().map(|fake| fake.times("ping", "gateway")).sum::<usize>();
    let mut before = total();
    for _ in 0..60 {
        sleep(Duration::from_secs(1)).await;
        let now = total();
        assert!(now - before <= 2, "{} at once", now - before);
        before = now;
    }
    // Two rounds, plus possibly the first check of the third.
    assert!((48..=49).contains(&before), "{before}");
}

#[tokio::test(start_paused = true)]
async fn checks_start_at_random_offsets_by_default() {
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let fakes: Vec<_> = names.map(|name| fake(name, Generation::Stateful)).into();
    let second = Duration::from_secs(1);
    let checks = Checks::new(1000 * second, second, NonZeroU32::MIN);
    let all = fakes.iter().map(FakeBackend::settings).collect();
    let gateway = with_checks(all, PartialFailure::BestEffort, Some(checks)).await;
    let mut nexts: Vec<_> =
        gateway.backends().into_iter().map(|backend| backend.checked.unwrap().next_check).collect();
    nexts.sort();
    nexts.dedup_by_key(|next| {
        next.unwrap().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs()
    });
    assert!(nexts.len() > 4, "{nexts:?}");
}

#[tokio::test(start_paused = true)]
async fn reload_keeps_health_of_unchanged_backends() {
    let fake = fake("a", Generation::Stateful);
    let gateway = watched(fake.settings()).await;
    let reload = async |backends: Vec<BackendSettings>, checks: Checks| {
        gateway.reload(settings(backends, PartialFailure::BestEffort, Some(checks))).await;
    };
    set_behavior(&fake, Behavior::Unreachable);
    sleep(Duration::from_secs(50)).await;
    assert_eq!(only(&gateway).1.consecutive_failures, 2);
    reload(vec![fake.settings()], checks()).await;
    sleep(Duration::from_secs(20)).await;
    assert_eq!(only(&gateway).1.consecutive_failures, 2, "not before its time");
    sleep(Duration::from_secs(10)).await;
    let (report, checked) = only(&gateway);
    assert_eq!((report.health(), checked.consecutive_failures), (Health::Unavailable, 3));
    // A new interval applies immediately, and earlier results are kept.
    reload(vec![fake.settings()], every(2, 1, 3)).await;
    sleep(Duration::from_secs(4)).await;
    let (report, checked) = only(&gateway);
    assert_eq!((report.health(), checked.consecutive_failures), (Health::Unavailable, 5));
    // A changed fingerprint starts a new health record.
    reload(vec![BackendSettings { fingerprint: 1, ..fake.settings() }], every(2, 1, 3)).await;
    assert!(only(&gateway).1.consecutive_failures <= 1);
}

#[tokio::test(start_paused = true)]
async fn checks_end_with_their_backend() {
    for generation in BOTH {
        let (fake, other) = (fake("a", generation), fake("b", generation));
        let gateway = watched(fake.settings()).await;
        sleep(Duration::from_mins(1)).await;
        let settings = settings(vec![other.settings()], PartialFailure::Fail, Some(checks()));
        gateway.reload(settings).await;
        let before = asked(&fake);
        sleep(Duration::from_mins(5)).await;
        assert_eq!((asked(&fake), asked(&other) >= 10), (before, true));
        drop(gateway);
        let before = asked(&other);
        sleep(Duration::from_mins(5)).await;
        assert_eq!(asked(&other), before, "the last clone of the gateway ends them");
    }
}

#[tokio::test(start_paused = true)]
async fn rejected_gateway_credentials_make_backend_unhealthy() {
    for generation in BOTH {
        let fake = fake("a", generation);
        let gateway = watched(fake.settings()).await;
        fake.offers.lock().unwrap().clear();
        sleep(Duration::from_secs(90)).await;
        let (report, checked) = only(&gateway);
        assert_eq!((report.health(), checked.consecutive_failures), (Health::Unauthenticated, 3));
        assert_eq!(checked.last_error.unwrap().kind, "unauthorized");
        assert!(!report.is_healthy());
    }
}

#[tokio::test(start_paused = true)]
async fn per_caller_backend_is_healthy_while_unauthenticated() {
    for generation in BOTH {
        let fake = FakeBackend::new("a", generation).offer("alice", tools("own"));
        let gateway = watched(fake.per_caller()).await;
        for _ in 0..5 {
            let (report, checked) = only(&gateway);
            assert_eq!(report.health(), Health::Unauthenticated);
            assert_eq!((checked.consecutive_failures, checked.changes), (0, 1));
            assert!(report.is_healthy() && report.problem().is_none(), "{report:?}");
            sleep(Duration::from_secs(30)).await;
        }
        set_behavior(&fake, Behavior::Silent);
        sleep(Duration::from_secs(90)).await;
        assert_eq!(only(&gateway).0.health(), Health::Unavailable);
        // Requests do not wait for a backend that is known to be unavailable.
        let alice = Client::new(&gateway, Generation::Stateless, "alice").await;
        let begun = Instant::now();
        alice.ask("tools/list", json!({})).await;
        assert_eq!(begun.elapsed(), Duration::ZERO);
    }
}

#[tokio::test(start_paused = true)]
async fn marks_repeatedly_slow_backend_degraded() {
    let fake = fake("a", Generation::Stateful);
    let gateway = watched(fake.settings()).await;
    set_behavior(&fake, Behavior::Delayed(Duration::from_secs(6)));
    sleep(Duration::from_mins(1)).await;
    assert_eq!(only(&gateway).0.health(), Health::Ready, "twice is nothing");
    sleep(Duration::from_secs(30)).await;
    let (report, checked) = only(&gateway);
    assert_eq!((report.health(), checked.consecutive_failures), (Health::Degraded, 0));
    assert!(report.problem().unwrap().contains("more than 5s"), "{report:?}");
    set_behavior(&fake, Behavior::Normal);
    sleep(Duration::from_secs(30)).await;
    assert_eq!(only(&gateway).0.health(), Health::Ready);
}

/// Returns settings with a circuit breaker that opens after one failure.
fn guarded(fake: &Arc<FakeBackend>, timeout: u64) -> (BackendSettings, CircuitHandle) {
    let limits = vmcp_breaker::CircuitSettings::new(1, Duration::from_secs(timeout)).unwrap();
    let breaker = CircuitHandle::new(Backend::new("a"), limits);
    let settings = fake.settings();
    let inner = settings.service.clone();
    let service =
        tower::service_fn(move |request: Request<Full<bytes::Bytes>>| inner.send(request));
    let service = BackendService::new(CircuitBreakerLayer::new(breaker.clone()).layer(service));
    (BackendSettings { service, breaker: Some(breaker.clone()), ..settings }, breaker)
}

#[tokio::test(start_paused = true)]
async fn checks_share_circuit_with_requests_and_probe_it() {
    let fake = fake("a", Generation::Stateful);
    let (backend, breaker) = guarded(&fake, 40);
    let gateway = watched(backend).await;
    set_behavior(&fake, Behavior::Unreachable);
    sleep(Duration::from_secs(16)).await;
    assert_eq!(breaker.state().name(), "open", "the check at 15 s has failed");
    let before = asked(&fake);
    sleep(Duration::from_secs(30)).await;
    let (report, checked) = only(&gateway);
    // No request was sent at 45 s, so no result was recorded.
    assert_eq!((checked.consecutive_failures, asked(&fake)), (1, before));
    assert_eq!(report.breaker.unwrap().state().name(), "open");
    set_behavior(&fake, Behavior::Normal);
    sleep(Duration::from_secs(10)).await;
    assert_eq!((breaker.state().name(), asked(&fake)), ("closed", before + 1), "a check at 55 s");
    assert_eq!(only(&gateway).1.consecutive_failures, 0);
}

#[tokio::test(start_paused = true)]
async fn timed_out_check_counts_as_circuit_failure() {
    let fake = fake("a", Generation::Stateful);
    let (backend, breaker) = guarded(&fake, 3600);
    let _gateway = watched(backend).await;
    set_behavior(&fake, Behavior::Silent);
    sleep(Duration::from_secs(26)).await;
    assert_eq!((breaker.state().name(), breaker.failures()), ("open", 1));
}

#[tokio::test(start_paused = true)]
async fn fail_mode_rejects_list_without_unavailable_backend() {
    let fake = fake("a", Generation::Stateful);
    set_behavior(&fake, Behavior::Silent);
    let gateway =
        with_checks(vec![fake.settings()], PartialFailure::Fail, Some(every(2, 1, 2))).await;
    assert_eq!(only(&gateway).0.health(), Health::Unavailable);
    let client = Client::new(&gateway, Generation::Stateless, "").await;
    let begun = Instant::now();
    let said = client.ask("tools/list", json!({})).await.json();
    let message = said["error"]["message"].as_str().unwrap();
    assert!(message.contains("backend a did not respond to a health check in time"), "{message}");
    assert_eq!(
        (begun.elapsed(), &said["error"]["data"]["retryable"]),
        (Duration::ZERO, &json!(true))
    );
}

#[tokio::test(start_paused = true)]
async fn drops_catalog_ten_minutes_after_backend_failure() {
    for (generation, partial_failure) in
        [(BOTH[0], PartialFailure::BestEffort), (BOTH[1], PartialFailure::Fail)]
    {
        let (dies, stays) = (fake("dies", generation), fake("stays", generation));
        let all = vec![dies.settings(), stays.settings()];
        let gateway = with_checks(all, partial_failure, Some(checks())).await;
        let client = Client::new(&gateway, generation, "").await;
        // An unused session ends after a minute.
        client.ask("ping", json!({})).await;
        set_behavior(&dies, Behavior::Unreachable);
        sleep(Duration::from_secs(75 + 590)).await;
        assert_eq!(client.names("tools/list").await, ["dies_open", "stays_open"]);
        sleep(Duration::from_mins(1)).await;
        let said = client.ask("tools/list", json!({})).await.json();
        match partial_failure {
            PartialFailure::BestEffort => {
                assert_eq!(said["result"]["tools"].as_array().unwrap().len(), 1, "{said}");
            }
            PartialFailure::Fail => assert_eq!(said["error"]["data"]["backend"], "dies", "{said}"),
        }
        set_behavior(&dies, Behavior::Normal);
        sleep(Duration::from_secs(40)).await;
        assert_eq!(client.names("tools/list").await, ["dies_open", "stays_open"]);
    }
}

#[tokio::test(start_paused = true)]
async fn serves_backend_without_notification_streams() {
    for generation in BOTH {
        for begins in [StreamStart::Never, StreamStart::Broken] {
            let fake =
                FakeBackend::new("be", generation).offer("*", json!({"tools": [{"name": "x"}]}));
            *fake.stream_start.lock().unwrap() = begins;
            let gateway = gateway(&[Arc::clone(&fake)]).await;
            let client = Client::new(&gateway, Generation::Stateless, "").await;
            assert_eq!(client.names("tools/list").await, ["be_x"], "{generation:?} {begins:?}");
            assert_eq!(client.call("be_x").await.as_deref(), Some("be:nobody"));
            // Without a stream, the backend is polled.
            _ = fake.clone().offer("*", json!({"tools": [{"name": "y"}]}));
            sleep(Duration::from_secs(40)).await;
            assert_eq!(client.names("tools/list").await, ["be_y"], "{generation:?} {begins:?}");
        }
    }
}
