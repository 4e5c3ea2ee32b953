//! A replica is paused during a run that another one continues, and wakes up after its lease.

use std::time::Duration;

use vmcp_tests::authority::Authority;
use vmcp_tests::counterparts::{Redis, skipped};

use crate::bank::{Bank, KillPoint, signal};
use crate::gateway::Gateway;
use crate::transfer::{ACTING, CALLS, CALLS_BEFORE, Owner, config, output};

/// Times after the response to a call at which the replica is paused; without a response first.
const AFTER: [Option<Duration>; 3] = [None, Some(Duration::ZERO), Some(Duration::from_millis(2))];

#[tokio::test(flavor = "multi_thread")]
async fn paused_replica_writes_nothing_after_its_lease() {
    if skipped() {
        return;
    }
    let authority = Authority::start().unwrap();
    let (bank, redis) = (Bank::start(), Redis::start(&[]).await.unwrap());
    let (yaml, store) = (config(&authority, &bank), (redis.port, "vmcp:paused:"));
    let gateway = |name: &str| Gateway::with_redis(name, &yaml, store);
    let (mut paused, mut other) = (gateway("paused-one"), gateway("paused-two"));
    let (process, _other) = tokio::join!(paused.start(), other.start());
    let process_id = process.id().unwrap();
    let (mut completed, mut unknown) = (0, 0);
    for call in 1..=CALLS - CALLS_BEFORE {
        for after in AFTER {
            let point = KillPoint { call, after };
            let asked = Owner::at(&paused.url, &authority).begin().await.unwrap();
            let state = asked["requestState"].clone();
            bank.pauses(process_id, point);
            let first = tokio::spawn({
                let (owner, state) = (Owner::at(&paused.url, &authority), state.clone());
                async move { owner.answer(&state).await }
            });
            bank.until_signaled().await;
            let owner = Owner::at(&other.url, &authority);
            let done = owner.answer(&state).await.unwrap();
            let before = owner.newest_run().await;
            signal(process_id, "CONT");
            let late = first.await.unwrap();
            assert_eq!(owner.newest_run().await, before, "{point:?}: {late:?}");
            assert_eq!(owner.answer(&state).await.unwrap(), done, "{point:?}");
            for (step, count) in bank.calls(before["id"].as_str().unwrap()) {
                let is_acting = ACTING.contains(&&*step);
                assert!(count <= if is_acting { 1 } else { 2 }, "{point:?}: {count} of {step}");
            }
            if done["isError"] == true {
                let text = done["content"][0]["text"].as_str().unwrap();
                assert!(text.contains("outcome is unknown"), "{point:?}: {text}");
                unknown += 1;
            } else {
                assert_eq!(done["structuredContent"], output(), "{point:?}: {done}");
                completed += 1;
            }
        }
    }
    println!("continued by the other replica: {completed} completed, {unknown} unknown outcomes");
    assert!(completed > 0 && unknown > 0);
}
