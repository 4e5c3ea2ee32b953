//! Runs that a store cannot read, beside others that it can.

use vmcp_compose::{
    DefinitionHash, RunId, RunOwner, RunRecord, StoreError, StoreLimits, Timestamp, WorkflowStore,
};
use vmcp_test_support::LogCapture;
use vmcp_tests::counterparts::{Redis, skipped};

use super::fixtures::{key, key_prefix, open};
use super::runner::owner;
use crate::fixtures::standalone;

async fn create(store: &dyn WorkflowStore, name: &str) {
    let (id, hash) = (RunId::new(name), DefinitionHash::new([7; 32]));
    let arguments = serde_json::Map::from_iter([("secret".to_owned(), "canary".into())]);
    let run = RunRecord::new(id, owner(), "canary-name".into(), hash, arguments, Timestamp(5));
    let lease = store.create(run, Vec::new()).await.unwrap();
    store.release(&lease);
    while store.renew(&lease).await.is_ok() {}
}

async fn read(store: &dyn WorkflowStore, name: &str) -> Result<RunRecord, StoreError> {
    store.read(&owner(), &RunId::new(name)).await
}

#[tokio::test]
async fn older_key_of_ring_opens_runs() {
    if skipped() {
        return;
    }
    let server = Redis::start(&[]).await.unwrap();
    let (settings, prefix) = (standalone(server.port), key_prefix());
    let limits = StoreLimits::default();
    let old = open(&settings, &prefix, limits, &[1]).await;
    create(&*old, "a").await;
    let both = open(&settings, &prefix, limits, &[2, 1]).await;
    assert_eq!(read(&*both, "a").await.unwrap(), read(&*old, "a").await.unwrap());
    let (lease, _) = both.acquire(&owner(), &RunId::new("a")).await.unwrap();
    both.commit(&lease, Vec::new()).await.unwrap();
    assert_eq!(read(&*both, "a").await.unwrap().version, 2);
}

#[tokio::test]
async fn run_of_unknown_key_stays_as_it_is() {
    if skipped() {
        return;
    }
    let server = Redis::start(&[]).await.unwrap();
    let (settings, prefix) = (standalone(server.port), key_prefix());
    let limits = StoreLimits::default();
    let old = open(&settings, &prefix, limits, &[1]).await;
    create(&*old, "a").await;
    create(&*old, "b").await;
    let log = LogCapture::current_thread();
    let new = open(&settings, &prefix, limits, &[2]).await;
    create(&*new, "c").await;
    let before = read(&*old, "a").await.unwrap();
    for name in ["a", "b"] {
        assert_eq!(read(&*new, name).await, Err(StoreError::Corrupt));
        let acquired = new.acquire(&owner(), &RunId::new(name)).await;
        assert_eq!(acquired.unwrap_err(), StoreError::Corrupt);
        assert_eq!(new.cancel(&owner(), &RunId::new(name)).await, Err(StoreError::Corrupt));
    }
    // The readable ones are listed.
    let listed = new.list(&owner(), 10).await.unwrap();
    assert_eq!(listed.iter().map(|run| run.id.as_str()).collect::<Vec<_>>(), ["c"]);
    assert_eq!(log.text().matches("failed to open a stored run").count(), 1, "{}", log.text());
    assert_eq!(read(&*old, "a").await.unwrap(), before);
    // The replica that has the key continues it.
    old.acquire(&owner(), &RunId::new("a")).await.unwrap();
}

#[tokio::test]
async fn run_of_other_format_is_not_touched() {
    if skipped() {
        return;
    }
    let server = Redis::start(&[]).await.unwrap();
    let (settings, prefix) = (standalone(server.port), key_prefix());
    let store = open(&settings, &prefix, StoreLimits::default(), &[1]).await;
    create(&*store, "a").await;
    create(&*store, "b").await;
    let name = |run: &str| key(&*store, &format!("run:{run}"));
    server.cli(&["HSET", &name("a"), "f", "2", "s", "other", "l", "x"]).await.unwrap();
    server.cli(&["DEL", &name("b")]).await.unwrap();
    server.cli(&["SET", &name("b"), "text"]).await.unwrap();
    let before = server.cli(&["HGETALL", &name("a")]).await.unwrap();
    for name in ["a", "b"] {
        let run = RunId::new(name);
        assert_eq!(read(&*store, name).await, Err(StoreError::Corrupt), "{name}");
        let acquired = store.acquire(&owner(), &run).await;
        assert_eq!(acquired.unwrap_err(), StoreError::Corrupt, "{name}");
        assert_eq!(store.cancel(&owner(), &run).await, Err(StoreError::Corrupt), "{name}");
        let (hash, id) = (DefinitionHash::new([7; 32]), run.clone());
        let arguments = serde_json::Map::new();
        let run = RunRecord::new(id, owner(), "t".into(), hash, arguments, Timestamp(5));
        let created = store.create(run, Vec::new()).await;
        assert_eq!(created.unwrap_err(), StoreError::Corrupt, "{name}");
    }
    assert_eq!(server.cli(&["HGETALL", &name("a")]).await.unwrap(), before);
    assert_eq!(server.cli(&["GET", &name("b")]).await.unwrap().trim(), "text");
}

#[tokio::test]
async fn values_of_other_runs_do_not_open() {
    if skipped() {
        return;
    }
    let server = Redis::start(&[]).await.unwrap();
    let (settings, prefix) = (standalone(server.port), key_prefix());
    let store = open(&settings, &prefix, StoreLimits::default(), &[1]).await;
    create(&*store, "a").await;
    create(&*store, "b").await;
    let keys = server.cli(&["--scan"]).await.unwrap();
    assert!(keys.lines().all(|key| key.starts_with(&prefix)), "{keys}");
    for key in keys.lines() {
        let dump = server.cli(&["--raw", "DUMP", key]).await.unwrap_or_default();
        assert!(!dump.contains("canary") && !dump.contains("alice"), "{key}");
        assert!(!key.contains("alice"), "{key}");
    }
    // The snapshot of one run in place of that of another.
    let copy = "redis.call('HSET', KEYS[2], 'snapshot', redis.call('HGET', KEYS[1], 'snapshot'))";
    let (one, other) = (key(&*store, "run:a"), key(&*store, "run:b"));
    server.cli(&["EVAL", copy, "2", &one, &other]).await.unwrap();
    assert_eq!(read(&*store, "b").await, Err(StoreError::Corrupt));
    assert!(read(&*store, "a").await.is_ok());
    let mallory = RunOwner::new("mallory");
    assert_eq!(store.read(&mallory, &RunId::new("a")).await, Err(StoreError::NotFound));
}
