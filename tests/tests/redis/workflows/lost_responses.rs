//! Responses that are lost, and writes that a failover loses.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, mpsc};
use vmcp_compose::store::contract::TestStore;
use vmcp_compose::{
    Change, DefinitionHash, RunId, RunRecord, RunResult, RunStatus, StoreError, StoreLimits,
    Timestamp,
};
use vmcp_tests::counterparts::{Redis, skipped};

use super::fixtures::{key, stores};
use super::runner::owner;
use crate::failover::lossy;
use crate::fixtures::standalone;

fn record(name: &str) -> RunRecord {
    let (id, hash) = (RunId::new(name), DefinitionHash::new([7; 32]));
    RunRecord::new(id, owner(), "workflow".into(), hash, serde_json::Map::new(), Timestamp(5))
        .keeping_result()
}

fn started(step: usize) -> Vec<Change> {
    vec![Change::StepStarted { step, at: Timestamp(6), question: None }]
}

fn completed() -> Vec<Change> {
    let result = RunResult::Completed(Arc::new(json!({"done": true})));
    vec![Change::RunFinished { status: RunStatus::Completed, at: Timestamp(8), result }]
}

#[tokio::test]
async fn step_with_lost_response_is_taken_once() {
    if skipped() {
        return;
    }
    let server = Redis::start(&[]).await.unwrap();
    let cut = Arc::new(AtomicBool::new(false));
    let port = lossy(server.port, Arc::clone(&cut)).await;
    let direct = stores(&standalone(server.port), StoreLimits::default()).await;
    let TestStore { store, .. } = stores(&standalone(port), StoreLimits::default()).await;
    // The source of each script is sent before: a response to it would be the one that is lost.
    let warm = direct.store.create(record("warm"), Vec::new()).await.unwrap();
    direct.store.commit(&warm, started(0)).await.unwrap();
    direct.store.renew(&warm).await.unwrap();
    direct.store.commit(&warm, completed()).await.unwrap();
    assert!(direct.store.acquire(&owner(), &RunId::new("warm")).await.is_err());
    let lose = || cut.store(true, Ordering::SeqCst);

    lose();
    let lease = store.create(record("a"), Vec::new()).await.unwrap();
    for step in 0..3 {
        lose();
        store.commit(&lease, started(step)).await.unwrap();
    }
    lose();
    store.renew(&lease).await.unwrap();
    store.commit(&lease, started(3)).await.unwrap();
    let read = store.read(&owner(), &RunId::new("a")).await.unwrap();
    assert_eq!(read.version, 5);
    assert!(read.steps.values().all(|step| step.attempts == 1), "{read:?}");
    store.release(&lease);
    while store.read(&owner(), &RunId::new("a")).await.unwrap().status == RunStatus::Running {
        tokio::task::yield_now().await;
    }
    lose();
    let (lease, _) = store.acquire(&owner(), &RunId::new("a")).await.unwrap();
    assert_eq!(lease.epoch, 2);
    lose();
    store.commit(&lease, completed()).await.unwrap();
    let read = store.read(&owner(), &RunId::new("a")).await.unwrap();
    assert_eq!(read.result, Some(RunResult::Completed(Arc::new(json!({"done": true})))));
    assert_eq!(store.counts().await.unwrap().runs, 1);
    assert!(!cut.load(Ordering::SeqCst), "each loss happened");
}

/// Network between a store and Redis. The next request after `holds` is set is delivered once `deliver` is notified, and its
/// connection breaks; each response to such a request is sent to the returned channel.
async fn delaying(
    server: u16,
    holds: Arc<AtomicBool>,
    deliver: Arc<Notify>,
) -> (u16, mpsc::UnboundedReceiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (responses, received) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((mut near, _)) = listener.accept().await {
            let (holds, deliver) = (Arc::clone(&holds), Arc::clone(&deliver));
            let responses = responses.clone();
            tokio::spawn(async move {
                let mut far = TcpStream::connect(("127.0.0.1", server)).await.unwrap();
                let held = {
                    let (mut from_near, mut to_near) = near.split();
                    let (mut from_far, mut to_far) = far.split();
                    let forth = async {
                        let mut buffer = vec![0; 65_536];
                        loop {
                            let length = from_near.read(&mut buffer).await.unwrap_or_default();
                            if length == 0 || holds.swap(false, Ordering::SeqCst) {
                                return buffer[..length].to_vec();
                            }
                            to_far.write_all(&buffer[..length]).await.unwrap();
                        }
                    };
                    tokio::select! {
                        held = forth => held,
                        _ = copy(&mut from_far, &mut to_near) => Vec::new(),
                    }
                };
                drop(near);
                if held.is_empty() {
                    return;
                }
                deliver.notified().await;
                far.write_all(&held).await.unwrap();
                let mut buffer = [0; 256];
                let length = far.read(&mut buffer).await.unwrap();
                _ = responses.send(String::from_utf8_lossy(&buffer[..length]).into_owned());
            });
        }
    });
    (port, received)
}

#[tokio::test]
async fn delayed_write_changes_nothing() {
    if skipped() {
        return;
    }
    let server = Redis::start(&[]).await.unwrap();
    let (holds, deliver) = (Arc::new(AtomicBool::new(false)), Arc::new(Notify::new()));
    let (port, mut responses) =
        delaying(server.port, Arc::clone(&holds), Arc::clone(&deliver)).await;
    let TestStore { store, .. } = stores(&standalone(port), StoreLimits::default()).await;
    let lease = store.create(record("a"), started(0)).await.unwrap();
    // The source of the script is sent here.
    store.commit(&lease, started(1)).await.unwrap();
    let read = async || store.read(&owner(), &RunId::new("a")).await.unwrap();
    for (releases, expected) in [(false, "ok"), (true, "superseded")] {
        holds.store(true, Ordering::SeqCst);
        // The store repeats the request on another connection.
        store.commit(&lease, started(2)).await.unwrap();
        assert!(!holds.load(Ordering::SeqCst));
        if releases {
            store.release(&lease);
            while read().await.status == RunStatus::Running {
                tokio::task::yield_now().await;
            }
        }
        let before = read().await;
        deliver.notify_one();
        let response = responses.recv().await.unwrap();
        assert!(response.contains(expected), "{response}");
        assert_eq!(read().await, before);
    }
}

#[tokio::test]
async fn holder_writes_again_what_failover_lost() {
    if skipped() {
        return;
    }
    let server = Redis::start(&[]).await.unwrap();
    let TestStore { store, replica, .. } =
        stores(&standalone(server.port), StoreLimits::default()).await;
    let lease = store.create(record("a"), started(0)).await.unwrap();
    store.commit(&lease, started(1)).await.unwrap();
    store.commit(&lease, started(2)).await.unwrap();
    // As a replica of Redis that has not received the last write yet.
    let name = |kind: &str| key(&*store, &format!("{kind}:a"));
    server.cli(&["RPOP", &name("changes")]).await.unwrap();
    server.cli(&["HSET", &name("run"), "v", "2"]).await.unwrap();
    let lost = replica.read(&owner(), &RunId::new("a")).await.unwrap();
    assert_eq!(lost.steps.len(), 2);
    store.commit(&lease, started(3)).await.unwrap();
    store.commit(&lease, started(4)).await.unwrap();
    let read = replica.read(&owner(), &RunId::new("a")).await.unwrap();
    assert_eq!((read.version, read.steps.len()), (5, 5));
}

#[tokio::test]
async fn holder_whose_lease_failover_lost_writes_nothing() {
    if skipped() {
        return;
    }
    let server = Redis::start(&[]).await.unwrap();
    let TestStore { store, replica, .. } =
        stores(&standalone(server.port), StoreLimits::default()).await;
    let lease = store.create(record("a"), started(0)).await.unwrap();
    let before = replica.read(&owner(), &RunId::new("a")).await.unwrap();
    // Another replica was granted the same epoch after the failover.
    let name = key(&*store, "run:a");
    server.cli(&["HSET", &name, "h", "other"]).await.unwrap();
    assert_eq!(store.commit(&lease, started(1)).await, Err(StoreError::Superseded));
    assert_eq!(store.renew(&lease).await, Err(StoreError::Superseded));
    assert_eq!(store.commit(&lease, completed()).await, Err(StoreError::Superseded));
    assert_eq!(replica.read(&owner(), &RunId::new("a")).await.unwrap(), before);
}
