//! The gateway is killed at fifty points of a run, which goes on in its next process or at another replica.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use vmcp_tests::authority::Authority;
use vmcp_tests::counterparts::{Redis, skipped};

use crate::bank::KillPoint;
use crate::transfer::{ACTING, CALLS, CALLS_BEFORE, output};
use crate::world::World;

/// Times after the response to a call at which the gateway is killed; without a response first.
const AFTER: [Option<u64>; 5] = [None, Some(0), Some(500), Some(2_000), Some(8_000)];

/// Number of the call of the last step but one, after the question.
const CHARGE: usize = END - 1;

/// Number of the last call after the question.
const END: usize = CALLS - CALLS_BEFORE;

impl World<'_> {
    /// Begins a run that is killed before its question, and one that is not.
    async fn kill_before_question(&mut self, point: KillPoint) {
        self.kills_at(point).await;
        let first = self.owner().begin().await;
        self.restart().await;
        let run = self.owner().newest_run().await;
        if let Ok(asked) = first {
            // The question was sent before the kill, and the state is good for the next process.
            let done = self.owner().answer(&asked["requestState"]).await.unwrap();
            assert_eq!(done["structuredContent"], output(), "{point:?}: {done}");
        } else if run["status"] != "input_required" {
            self.until_interrupted(point).await;
            assert_called_once(&self.calls(&run), &run, point);
        }
        let asked = self.owner().begin().await.unwrap();
        assert_eq!(asked["resultType"], "input_required", "{point:?}: {asked}");
    }

    /// Begins a run that is killed after its question was answered, and continues it.
    async fn kill_after_question(&mut self, point: KillPoint, waits: bool) {
        let asked = self.owner().begin().await.unwrap();
        let state = &asked["requestState"];
        self.kills_at(point).await;
        // The response may arrive before the kill.
        let first = self.owner().answer(state).await.ok();
        self.restart().await;
        let run = self.owner().newest_run().await;
        if waits {
            self.until_interrupted(point).await;
        }
        let done = self.owner().answer(state).await.unwrap();
        assert!(first.is_none_or(|first| first == done), "{point:?}: {done}");
        let calls = self.calls(&run);
        assert_called_once(&calls, &run, point);
        let unknown: Vec<_> = in_flight(&run).filter(|step| ACTING.contains(step)).collect();
        match point {
            KillPoint { call: CHARGE, after: None } => assert_eq!(unknown, ["charge"], "{run}"),
            KillPoint { call: END, after: None } => assert_eq!(calls["end"], 2, "{run}"),
            KillPoint { .. } => {}
        }
        if unknown.is_empty() {
            assert_eq!(done["structuredContent"], output(), "{point:?}: {done}\n{run}");
            assert_eq!(calls.len(), CALLS, "{point:?}: {calls:?}");
        } else {
            assert_eq!(done["isError"], true, "{point:?}: {done}\n{run}");
            let text = done["content"][0]["text"].as_str().unwrap();
            assert!(text.contains("outcome is unknown"), "{point:?}: {text}");
        }
        // A repetition has the same outcome, and calls nothing.
        assert_eq!(self.owner().answer(state).await.unwrap(), done, "{point:?}");
        assert_eq!(self.calls(&run), calls, "{point:?}");
    }
}

/// Returns the steps that had begun and had no result.
pub(crate) fn in_flight(run: &Value) -> impl Iterator<Item = &str> {
    let running = run["steps"].as_array().unwrap().iter().filter(|it| it["status"] == "running");
    running.map(|step| step["id"].as_str().unwrap())
}

/// Asserts that no recorded call was repeated, and no call of a tool that acts. `run` is as the first gateway left it.
pub(crate) fn assert_called_once(calls: &BTreeMap<String, usize>, run: &Value, point: KillPoint) {
    for (step, count) in calls {
        let name = step.split('/').next().unwrap();
        let may_repeat = !ACTING.contains(&name) && in_flight(run).any(|it| it == name);
        let most = if may_repeat { 2 } else { 1 };
        assert!(*count <= most, "{point:?}: {count} calls of {step}\n{run}");
    }
    let each = run["steps"].as_array().unwrap().iter().find(|step| step["id"] == "each").unwrap();
    let number = |member: &str| each["iterations"][member].as_u64().unwrap_or_default();
    let repeated = calls.iter().filter(|(step, count)| step.starts_with("each/") && **count > 1);
    let in_flight = number("started") - number("completed");
    assert!(repeated.count() as u64 <= in_flight, "{point:?}: {calls:?}\n{run}");
}

/// Kills the gateway at these points, one after the other.
async fn kill_at_each(mut world: World<'_>, points: impl Iterator<Item = KillPoint>) {
    for (number, KillPoint { call, after }) in points.enumerate() {
        match call.checked_sub(CALLS_BEFORE + 1) {
            None => world.kill_before_question(KillPoint { call, after }).await,
            Some(earlier) => {
                let point = KillPoint { call: earlier + 1, after };
                world.kill_after_question(point, number % 2 == 0).await;
            }
        }
    }
}

/// Returns every third of the points.
fn points(part: usize) -> impl Iterator<Item = KillPoint> {
    let all = (1..=CALLS).flat_map(|call| {
        let after = |micros: Option<u64>| micros.map(Duration::from_micros);
        AFTER.map(|it| KillPoint { call, after: after(it) })
    });
    all.skip(part).step_by(3)
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_gateway_repeats_no_recorded_step() {
    let authority = Authority::start().unwrap();
    let kill = async |name: &str, part| {
        kill_at_each(World::start(name, &authority).await, points(part)).await;
    };
    tokio::join!(kill("one", 0), kill("two", 1), kill("three", 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn replica_repeats_no_recorded_step() {
    if skipped() {
        return;
    }
    let authority = Authority::start().unwrap();
    let redis = Redis::start(&[]).await.unwrap();
    let kill = async |name: &str, part| {
        let world = World::start_replicas(name, &authority, redis.port).await;
        kill_at_each(world, points(part)).await;
    };
    tokio::join!(kill("replicas-1", 0), kill("replicas-2", 1), kill("replicas-3", 2));
}
