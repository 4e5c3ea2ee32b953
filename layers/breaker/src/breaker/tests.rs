use tokio::time::advance;

use super::*;

const MINUTE: Duration = Duration::from_secs(60);

fn breaker() -> (Breaker, Clock) {
    let clock = Clock::manual(SystemTime::UNIX_EPOCH);
    let settings = Settings::new(2, MINUTE).unwrap();
    (Breaker::with_clock(Backend::new("b"), settings, clock.clone()), clock)
}

fn pass(breaker: &Breaker, class: Class) {
    breaker.admit().unwrap().settle(class);
}

#[tokio::test(start_paused = true)]
async fn observers_see_each_transition_without_asking() {
    let (breaker, clock) = breaker();
    let mut changes = breaker.changes();
    assert_eq!((breaker.state(), breaker.last_changed()), (State::Closed, None));
    pass(&breaker, Class::Failure);
    assert_eq!((breaker.failures(), breaker.retry_in()), (1, None));
    clock.advance(MINUTE);
    pass(&breaker, Class::Failure);
    let open = changes.next().await.unwrap();
    assert_eq!((open.state, open.failures), (State::Open, 2));
    assert_eq!(open.last_changed, Some(SystemTime::UNIX_EPOCH + MINUTE));
    assert_eq!(breaker.status(), open);
    advance(MINUTE).await;
    let trial = breaker.admit().unwrap();
    assert!(trial.is_trial());
    assert_eq!(changes.next().await.unwrap().state, State::HalfOpen);
    trial.settle(Class::Success);
    assert_eq!(changes.next().await.unwrap().state, State::Closed);
    drop(breaker);
    assert_eq!(changes.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn who_is_refused_is_told_when_to_come_back() {
    let (breaker, _) = breaker();
    pass(&breaker, Class::Failure);
    pass(&breaker, Class::Failure);
    advance(MINUTE / 4).await;
    let open = breaker.admit().unwrap_err();
    assert_eq!(open, Open { backend: Backend::new("b"), retry_in: MINUTE * 3 / 4 });
    assert_eq!(open.to_string(), "backend b failed too often and is left alone for 45s");
}

#[tokio::test(start_paused = true)]
async fn a_trial_that_is_dropped_is_another_ones() {
    let (breaker, _) = breaker();
    pass(&breaker, Class::Failure);
    pass(&breaker, Class::Failure);
    advance(MINUTE).await;
    let trial = breaker.admit().unwrap();
    assert!(breaker.admit().is_err());
    drop(trial);
    pass(&breaker, Class::Success);
    assert_eq!(breaker.state(), State::Closed);
}

#[tokio::test(start_paused = true)]
async fn probes_feed_the_same_state() {
    let (breaker, _) = breaker();
    breaker.on_probe(Class::Failure);
    pass(&breaker, Class::Failure);
    assert_eq!(breaker.state(), State::Open);
    breaker.on_probe(Class::Success);
    assert_eq!(breaker.state(), State::Open);
    advance(MINUTE).await;
    breaker.on_probe(Class::Success);
    assert_eq!((breaker.state(), breaker.failures()), (State::Closed, 0));
}

#[tokio::test(start_paused = true)]
async fn a_success_in_between_starts_the_count_anew() {
    let (breaker, _) = breaker();
    for _ in 0..5 {
        pass(&breaker, Class::Failure);
        drop(breaker.admit().unwrap());
        pass(&breaker, Class::Success);
    }
    assert_eq!((breaker.state(), breaker.failures()), (State::Closed, 0));
}

#[tokio::test(start_paused = true)]
async fn late_results_do_not_touch_what_has_changed_since() {
    let (breaker, _) = breaker();
    let (good, bad) = (breaker.admit().unwrap(), breaker.admit().unwrap());
    pass(&breaker, Class::Failure);
    pass(&breaker, Class::Failure);
    good.settle(Class::Success);
    assert_eq!(breaker.state(), State::Open);
    advance(MINUTE).await;
    pass(&breaker, Class::Success);
    bad.settle(Class::Failure);
    assert_eq!(breaker.failures(), 0);
}

#[tokio::test(start_paused = true)]
async fn of_threads_that_come_at_once_one_has_the_trial() {
    let (breaker, _) = breaker();
    for round in 1..50 {
        pass(&breaker, Class::Failure);
        pass(&breaker, Class::Failure);
        advance(MINUTE).await;
        let gate = Arc::new(std::sync::Barrier::new(4));
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let (breaker, gate) = (breaker.clone(), gate.clone());
                tokio::task::spawn_blocking(move || {
                    gate.wait();
                    breaker.admit().ok()
                })
            })
            .collect();
        let mut permits = Vec::new();
        for thread in threads {
            permits.extend(thread.await.unwrap());
        }
        assert_eq!((permits.len(), breaker.state()), (1, State::HalfOpen), "round {round}");
        permits.remove(0).settle(Class::Success);
        assert_eq!((breaker.state(), breaker.failures()), (State::Closed, 0), "round {round}");
    }
}
