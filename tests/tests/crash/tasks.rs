//! Tasks whose replica is killed, or that another replica answers and cancels.

use serde_json::Value;
use tokio::time::{Duration, Instant, sleep};
use vmcp_tests::authority::Authority;
use vmcp_tests::counterparts::{Redis, skipped};

use crate::bank::KillPoint;
use crate::killed::{assert_called_once, in_flight};
use crate::transfer::{ACTING, CALLS, CALLS_BEFORE, Owner, output};
use crate::world::{SOON, World};

/// Waits until a task has another status than `working`.
async fn until_paused(owner: &Owner, id: &Value) -> Value {
    let deadline = Instant::now() + SOON;
    loop {
        let task = owner.task(id).await;
        if task["status"] != "working" {
            return task;
        }
        assert!(Instant::now() < deadline, "{task}");
        sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn replica_completes_task_of_killed_one() {
    if skipped() {
        return;
    }
    let authority = Authority::start().unwrap();
    let redis = Redis::start(&[]).await.unwrap();
    let mut world = World::start_replicas("tasks", &authority, redis.port).await;
    for call in 1..=CALLS - CALLS_BEFORE {
        for after in [None, Some(Duration::ZERO)] {
            let id = world.owner().begin_task().await;
            let task = until_paused(&world.owner(), &id).await;
            assert_eq!(task["status"], "input_required", "{task}");
            let point = KillPoint { call, after };
            world.kills_at(point).await;
            // The response may arrive before the kill.
            _ = world.owner().answer_task(&id).await;
            world.restart().await;
            let run = world.owner().newest_run().await;
            // Each request of the owner continues a run that was interrupted.
            let task = until_paused(&world.owner(), &id).await;
            assert_called_once(&world.calls(&run), &run, point);
            let is_unknown = in_flight(&run).any(|step| ACTING.contains(&step));
            if is_unknown {
                assert!(
                    task.to_string().contains("outcome is unknown"),
                    "{point:?}: {task}\n{run}"
                );
            } else {
                assert_eq!(task["status"], "completed", "{point:?}: {task}\n{run}");
                assert_eq!(task["result"]["structuredContent"], output(), "{point:?}: {task}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_answer_and_cancel_tasks_of_each_other() {
    if skipped() {
        return;
    }
    let authority = Authority::start().unwrap();
    let redis = Redis::start(&[]).await.unwrap();
    let world = World::start_replicas("each-other", &authority, redis.port).await;
    let (one, other) = (world.owner(), world.other_owner());
    let id = one.begin_task().await;
    assert_eq!(until_paused(&other, &id).await["status"], "input_required");
    other.answer_task(&id).await.unwrap();
    let task = until_paused(&one, &id).await;
    assert_eq!(task["result"]["structuredContent"], output(), "{task}");
    assert_eq!(until_paused(&other, &id).await, task);
    let run = one.newest_run().await;
    let calls = world.calls(&run);
    assert!(calls.len() == CALLS && calls.values().all(|count| *count == 1), "{calls:?}");

    let id = one.begin_task().await;
    until_paused(&other, &id).await;
    other.cancel_task(&id).await;
    assert_eq!(until_paused(&one, &id).await["status"], "cancelled");
}
