//! Round trips to Redis for each operation of the whole gateway, as Redis counts them.

use std::time::Duration;

use serde_json::json;
use tokio::time::sleep;
use vmcp_tests::caller::Caller;
use vmcp_tests::counterparts::{Gateway, Redis, skipped};

use super::rig::Rig;
use super::storage::Storage;

/// Number of times that an operation is counted. More than the steps that replicas take in the background meanwhile.
const TIMES: usize = 50;

/// Time in which replicas hear of each other.
const START: Duration = Duration::from_secs(1);

/// Counter of scripts. Each is one round trip, and no step is another command.
struct Counter<'a> {
    redis: &'a Redis,
    last: usize,
}

impl Counter<'_> {
    /// Prints and asserts the round trips of an operation that was performed [`TIMES`] times since the last count.
    async fn assert(&mut self, operation: &str, expected: usize) {
        let scripts = scripts(self.redis).await;
        let trips = scripts - self.last;
        eprintln!("{trips:>8} round trips: {TIMES} x {operation}");
        assert_eq!(trips / TIMES, expected, "{operation}");
        self.last = scripts;
    }
}

/// Returns the number of scripts that Redis ran.
async fn scripts(redis: &Redis) -> usize {
    let statistics = redis.cli(&["INFO", "commandstats"]).await.unwrap();
    let calls = statistics.lines().filter_map(|line| {
        let (command, fields) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
        let is_script = command.starts_with("eval");
        is_script.then(|| fields.split(',').next().unwrap().parse::<usize>().unwrap())
    });
    calls.sum()
}

/// Calls a tool of the stateful backend.
async fn call(caller: &mut Caller) {
    caller.call("stateful_read", json!({ "key": "read" })).await.unwrap();
}

/// Performs each operation once, so that Redis knows each script.
async fn warm_up([first, second, third]: [&str; 3]) {
    let caller = Caller::stateful(first).await.unwrap();
    caller.at(second).result("ping", json!({})).await.unwrap();
    call(&mut caller.at(second)).await;
    call(&mut caller.at(third)).await;
    caller.at(third).leave().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn each_operation_costs_documented_round_trips() {
    if skipped() {
        return;
    }
    let storage = Storage::single().await;
    let rig = Rig::start(storage.setup()).await;
    let Storage::Single(redis) = &storage else { unreachable!("it is a single server") };
    let urls: Vec<_> = rig.replicas.iter().map(Gateway::url).collect();
    let urls: [&str; 3] = urls.try_into().unwrap();
    let [first, second, third] = urls;
    sleep(START).await;
    warm_up(urls).await;
    let (mut known, mut stateless) =
        (Caller::stateful(first).await.unwrap(), Caller::stateless(first));
    call(&mut known).await;
    let mut counter = Counter { redis, last: scripts(redis).await };

    for _ in 0..TIMES {
        call(&mut stateless).await;
    }
    counter.assert("call without a session", 0).await;
    for _ in 0..TIMES {
        call(&mut known).await;
    }
    counter.assert("call in a session that the replica knows", 0).await;
    let mut sessions = Vec::new();
    for _ in 0..2 * TIMES {
        sessions.push(Caller::stateful(first).await.unwrap());
    }
    counter.assert("two times initialize", 2).await;
    for session in &sessions[..TIMES] {
        session.at(second).result("ping", json!({})).await.unwrap();
    }
    counter.assert("first request at another replica", 1).await;
    let sessions = &mut sessions[TIMES..];
    for session in &mut *sessions {
        *session = session.at(second);
        session.result("ping", json!({})).await.unwrap();
        call(session).await;
    }
    counter.assert("first request at another replica, then first call of a backend", 2).await;
    for session in &mut *sessions {
        *session = session.at(third);
        call(session).await;
    }
    counter.assert("first call at a third replica", 1).await;
    for session in sessions {
        assert_eq!(session.leave().await.unwrap().status.as_u16(), 204);
    }
    counter.assert("DELETE", 1).await;
}
