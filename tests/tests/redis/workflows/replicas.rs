//! Two replicas with one store.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::poll;
use vmcp_compose::store::contract::TestStore;
use vmcp_compose::{Outcome, RunErrorKind, RunId, RunStatus, StoreLimits};
use vmcp_tests::counterparts::{Redis, skipped};

use super::fixtures::stores;
use super::runner::{Backend, CALLS, Runner, owner, workflow};
use crate::fixtures::standalone;

/// Two replicas and their server.
async fn replicas(backend: Backend) -> (Redis, [Runner; 2]) {
    let server = Redis::start(&[]).await.unwrap();
    let limits = StoreLimits::default();
    let TestStore { store, replica, clock } = stores(&standalone(server.port), limits).await;
    let runners = [store, replica].map(|store| {
        let (backend, clock) = (backend.clone(), clock.clone());
        Runner { workflow: workflow(), store, backend, clock }
    });
    (server, runners)
}

#[tokio::test(flavor = "multi_thread")]
async fn replays_at_two_replicas_continue_once() {
    if skipped() {
        return;
    }
    let (_server, runners) = replicas(Backend::slow(Duration::from_millis(5))).await;
    let asked = runners[0].start("a").await;
    assert!(matches!(asked, Outcome::InputRequired(_)), "{asked:?}");
    let outcomes = join_all((0..100).map(|number| runners[number % 2].answer("a"))).await;
    for outcome in outcomes {
        let Outcome::Completed(output) = outcome else { panic!("{outcome:?}") };
        assert_eq!(output.text(), r#"{"step":"end"}"#);
    }
    let calls = runners[0].backend.calls();
    assert!(calls.len() == CALLS && calls.values().all(|count| *count == 1), "{calls:?}");
}

/// Starts a run that stops during a step without giving its lease back, and continues it at the other replica.
async fn stop_and_take_over(hangs: &'static str) -> (Outcome, Backend) {
    let (_server, [holder, replica]) = replicas(Backend::hanging(hangs)).await;
    assert!(matches!(holder.start("a").await, Outcome::InputRequired(_)));
    let mut stopped = Box::pin(holder.answer("a"));
    let key = format!("a/{hangs}");
    loop {
        assert!(poll!(&mut stopped).is_pending());
        let record = replica.store.read(&owner(), &RunId::new("a")).await.unwrap();
        let in_flight = record.steps.values().filter(|step| step.is_in_flight).count();
        // The other steps are recorded.
        if holder.backend.calls().contains_key(&key) && in_flight == 1 {
            assert_eq!(record.status, RunStatus::Running);
            break;
        }
    }
    // A process that is killed or paused gives nothing back.
    holder.clock.advance(holder.store.lease_duration());
    let outcome = replica.answer("a").await;
    let after = replica.store.read(&owner(), &RunId::new("a")).await.unwrap();
    // The holder goes on, and finds that the lease is over.
    drop(stopped);
    holder.store.list(&owner(), 1).await.unwrap();
    assert_eq!(replica.store.read(&owner(), &RunId::new("a")).await.unwrap(), after);
    (outcome, holder.backend)
}

#[tokio::test]
async fn replica_takes_over_after_holder_stopped() {
    if skipped() {
        return;
    }
    let (outcome, backend) = stop_and_take_over("right").await;
    assert!(matches!(outcome, Outcome::Completed(_)), "{outcome:?}");
    let mut calls = backend.calls();
    assert_eq!(calls.remove("a/right"), Some(2), "a read-only call is repeated");
    assert!(calls.values().all(|count| *count == 1), "{calls:?}");
}

#[tokio::test]
async fn replica_does_not_repeat_call_that_acts() {
    if skipped() {
        return;
    }
    let (outcome, backend) = stop_and_take_over("charge").await;
    let Outcome::Failed(error) = outcome else { panic!("{outcome:?}") };
    assert_eq!(error.kind(), RunErrorKind::OutcomeUnknown);
    let calls = backend.calls();
    assert!(calls.values().all(|count| *count == 1), "{calls:?}");
}

#[tokio::test]
async fn replica_ends_run_of_other_holder() {
    if skipped() {
        return;
    }
    let backend = Backend::hanging("quote");
    let (_server, [holder, replica]) = replicas(backend).await;
    let holder = Arc::new(holder);
    let running = tokio::spawn({
        let holder = Arc::clone(&holder);
        async move { holder.start("a").await }
    });
    while !holder.backend.calls().contains_key("a/reserve") {
        tokio::task::yield_now().await;
    }
    let status = replica.store.cancel(&owner(), &RunId::new("a")).await;
    assert_eq!(status, Ok(RunStatus::Cancelled));
    let outcome = running.await.unwrap();
    let Outcome::Failed(error) = outcome else { panic!("{outcome:?}") };
    assert_eq!(error.kind(), RunErrorKind::Cancelled, "{error}");
}

#[tokio::test]
async fn replica_that_shuts_down_gives_leases_back() {
    if skipped() {
        return;
    }
    let (_server, [holder, replica]) = replicas(Backend::hanging("quote")).await;
    for name in ["a", "b", "c"] {
        let mut running = Box::pin(holder.start(name));
        while !holder.backend.calls().contains_key(&format!("{name}/quote")) {
            assert!(poll!(&mut running).is_pending());
            tokio::task::yield_now().await;
        }
    }
    holder.store.released().await;
    for name in ["a", "b", "c"] {
        let record = replica.store.read(&owner(), &RunId::new(name)).await.unwrap();
        assert_eq!(record.status, RunStatus::Interrupted, "{name}");
    }
}
