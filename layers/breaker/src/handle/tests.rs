use tokio::time::advance;

use super::*;

const MINUTE: Duration = Duration::from_mins(1);

fn breaker() -> (CircuitHandle, Clock) {
    let clock = Clock::manual(SystemTime::UNIX_EPOCH);
    let settings = CircuitSettings::new(2, MINUTE).unwrap();
    (CircuitHandle::with_clock(Backend::new("b"), settings, clock.clone()), clock)
}

fn pass(breaker: &CircuitHandle, outcome: Outcome) {
    breaker.try_acquire().unwrap().record(outcome);
}

#[tokio::test(start_paused = true)]
async fn observers_receive_each_transition() {
    let (breaker, clock) = breaker();
    let mut changes = breaker.changes();
    assert_eq!((breaker.state(), breaker.last_changed()), (CircuitState::Closed, None));
    pass(&breaker, Outcome::Failure);
    assert_eq!((breaker.failures(), breaker.retry_in()), (1, None));
    clock.advance(MINUTE);
    pass(&breaker, Outcome::Failure);
    let open = changes.next().await.unwrap();
    assert_eq!((open.state, open.failures), (CircuitState::Open, 2));
    assert_eq!(open.last_changed, Some(SystemTime::UNIX_EPOCH + MINUTE));
    assert_eq!(breaker.status(), open);
    advance(MINUTE).await;
    let trial = breaker.try_acquire().unwrap();
    assert!(trial.is_trial());
    assert_eq!(changes.next().await.unwrap().state, CircuitState::HalfOpen);
    trial.record(Outcome::Success);
    assert_eq!(changes.next().await.unwrap().state, CircuitState::Closed);
    drop(breaker);
    assert_eq!(changes.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn status_counts_failures_of_closed_circuit() {
    let (breaker, _) = breaker();
    pass(&breaker, Outcome::Failure);
    assert_eq!((breaker.status().failures, breaker.last_changed()), (1, None));
    pass(&breaker, Outcome::Failure);
    assert_eq!(breaker.last_changed(), Some(SystemTime::UNIX_EPOCH));
    advance(MINUTE / 4).await;
    assert_eq!(breaker.retry_in(), Some(MINUTE * 3 / 4));
    assert_eq!(format!("{breaker:?}"), "CircuitHandle(b, open, 2 failures)");
}

#[tokio::test(start_paused = true)]
async fn transitions_are_logged() {
    let log = vmcp_test_support::LogCapture::current_thread();
    let (breaker, _) = breaker();
    pass(&breaker, Outcome::Failure);
    assert!(!log.text().contains("circuit_changed"));
    pass(&breaker, Outcome::Failure);
    let text = log.text();
    assert!(text.contains("WARN") && text.contains("circuit_changed"), "{text}");
    assert!(text.contains("retry_ms=60000") && text.contains("failures=2"), "{text}");
    advance(MINUTE).await;
    pass(&breaker, Outcome::Success);
    assert!(log.text().contains("to=\"closed\""), "{}", log.text());
}

#[tokio::test(start_paused = true)]
async fn kept_permit_stays_background() {
    for is_background in [false, true] {
        let (breaker, _) = breaker();
        // A background success does not reset a failure count that includes a call.
        pass(&breaker, Outcome::Failure);
        let permit = breaker.try_acquire().unwrap();
        let permit = if is_background { permit.background() } else { permit };
        let kept = permit.record_success_keep_body().unwrap();
        let after_first = breaker.failures();
        pass(&breaker, Outcome::Failure);
        assert_eq!(breaker.state() == CircuitState::Open, is_background, "{after_first}");
        drop(kept);
    }
    // The permit for the rest of the body is one for a background request too.
    let (breaker, _) = breaker();
    let kept = breaker.try_acquire().unwrap().background().record_success_keep_body().unwrap();
    pass(&breaker, Outcome::Failure);
    kept.record(Outcome::Success);
    assert_eq!(breaker.failures(), 1);
    let kept = breaker.try_acquire().unwrap().record_success_keep_body().unwrap();
    kept.record(Outcome::Success);
    assert_eq!(breaker.failures(), 0);
}

#[tokio::test(start_paused = true)]
async fn error_names_backend_and_retry_delay() {
    let (breaker, _) = breaker();
    pass(&breaker, Outcome::Failure);
    pass(&breaker, Outcome::Failure);
    advance(MINUTE / 4).await;
    let open = breaker.try_acquire().unwrap_err();
    assert_eq!(open, CircuitOpen { backend: Backend::new("b"), retry_in: MINUTE * 3 / 4 });
    assert_eq!(open.to_string(), "backend b unavailable: circuit open, retry in 45s");
}

#[tokio::test(start_paused = true)]
async fn dropped_trial_admits_another() {
    let (breaker, _) = breaker();
    pass(&breaker, Outcome::Failure);
    pass(&breaker, Outcome::Failure);
    advance(MINUTE).await;
    let trial = breaker.try_acquire().unwrap();
    assert!(breaker.try_acquire().is_err());
    drop(trial);
    pass(&breaker, Outcome::Success);
    assert_eq!(breaker.state(), CircuitState::Closed);
}

#[tokio::test(start_paused = true)]
async fn probes_and_requests_share_state() {
    let (breaker, _) = breaker();
    breaker.record_probe(Outcome::Failure);
    pass(&breaker, Outcome::Failure);
    assert_eq!(breaker.state(), CircuitState::Open);
    breaker.record_probe(Outcome::Success);
    assert_eq!(breaker.state(), CircuitState::Open);
    advance(MINUTE).await;
    breaker.record_probe(Outcome::Success);
    assert_eq!((breaker.state(), breaker.failures()), (CircuitState::Closed, 0));
}

#[tokio::test(start_paused = true)]
async fn success_resets_failure_count() {
    let (breaker, _) = breaker();
    for _ in 0..5 {
        pass(&breaker, Outcome::Failure);
        drop(breaker.try_acquire().unwrap());
        pass(&breaker, Outcome::Success);
    }
    assert_eq!((breaker.state(), breaker.failures()), (CircuitState::Closed, 0));
}

#[tokio::test(start_paused = true)]
async fn ignores_results_of_earlier_epochs() {
    let (breaker, _) = breaker();
    let (good, bad) = (breaker.try_acquire().unwrap(), breaker.try_acquire().unwrap());
    pass(&breaker, Outcome::Failure);
    pass(&breaker, Outcome::Failure);
    good.record(Outcome::Success);
    assert_eq!(breaker.state(), CircuitState::Open);
    advance(MINUTE).await;
    pass(&breaker, Outcome::Success);
    bad.record(Outcome::Failure);
    assert_eq!(breaker.failures(), 0);
}

#[tokio::test(start_paused = true)]
async fn concurrent_threads_get_one_trial() {
    let (breaker, _) = breaker();
    for round in 1..50 {
        pass(&breaker, Outcome::Failure);
        pass(&breaker, Outcome::Failure);
        advance(MINUTE).await;
        let gate = Arc::new(std::sync::Barrier::new(4));
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let (breaker, gate) = (breaker.clone(), gate.clone());
                tokio::task::spawn_blocking(move || {
                    gate.wait();
                    breaker.try_acquire().ok()
                })
            })
            .collect();
        let mut permits = Vec::new();
        for thread in threads {
            permits.extend(thread.await.unwrap());
        }
        assert_eq!((permits.len(), breaker.state()), (1, CircuitState::HalfOpen), "round {round}");
        permits.remove(0).record(Outcome::Success);
        assert_eq!(
            (breaker.state(), breaker.failures()),
            (CircuitState::Closed, 0),
            "round {round}"
        );
    }
}
