//! Many repetitions of one request at once.

use futures_util::future::try_join_all;
use serde_json::Value;
use vmcp_tests::authority::Authority;

use crate::bank::{Bank, KillPoint};
use crate::gateway::Gateway;
use crate::transfer::{CALLS, CALLS_BEFORE, Owner, config, output};

const REPLAYS: usize = 100;

/// Begins a run and returns its id and the state of its question.
async fn asked(owner: &Owner) -> (String, Value) {
    let asked = owner.begin().await.unwrap();
    let run = owner.newest_run().await;
    (run["id"].as_str().unwrap().to_owned(), asked["requestState"].clone())
}

/// Sends the same answers many times at once.
async fn assert_replays_complete(owner: &Owner, state: &Value) {
    let results = try_join_all((0..REPLAYS).map(|_| owner.answer(state))).await.unwrap();
    for result in results {
        assert_eq!(result["structuredContent"], output(), "{result}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_replays_continue_a_run_once() {
    let authority = Authority::start().unwrap();
    let bank = Bank::start();
    let mut gateway = Gateway::new("replays", &config(&authority, &bank));
    let process = gateway.start().await;
    let owner = Owner::at(&gateway.url, &authority);
    let (run, state) = asked(&owner).await;
    assert_replays_complete(&owner, &state).await;
    let calls = bank.calls(&run);
    assert!(calls.len() == CALLS && calls.values().all(|count| *count == 1), "{calls:?}");

    let (run, state) = asked(&owner).await;
    bank.kills(process, KillPoint { call: CALLS - CALLS_BEFORE, after: None });
    assert!(owner.answer(&state).await.is_err(), "the gateway was killed at its last call");
    bank.until_killed().await;
    let _process = gateway.start().await;
    assert_replays_complete(&Owner::at(&gateway.url, &authority), &state).await;
    let calls = bank.calls(&run);
    let repeated = calls.iter().filter(|(_, count)| **count > 1);
    assert_eq!(repeated.collect::<Vec<_>>(), [(&"end".to_owned(), &2)], "{calls:?}");
}
