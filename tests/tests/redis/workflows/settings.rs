//! Redis with wrong settings: each is reported when the store starts, or by its health.

use std::time::Duration;

use vmcp_compose::{
    DefinitionHash, RunId, RunRecord, StoreError, StoreLimits, Timestamp, WorkflowStore,
};
use vmcp_compose_redis::{RedisWorkflowStore, Settings, StartError};
use vmcp_core::Clock;
use vmcp_redis::{Credentials, Redis as Client, Timeouts};
use vmcp_test_support::LogCapture;
use vmcp_tests::counterparts::{Redis, skipped};

use super::fixtures::{key_prefix, open, ring};
use super::runner::owner;
use crate::fixtures::{TIMEOUTS, standalone, until};

async fn start(
    redis: vmcp_redis::Settings,
    key_prefix: &str,
) -> Result<std::sync::Arc<RedisWorkflowStore>, StartError> {
    let redis = Client::connect(redis).await?;
    let settings = Settings { key_prefix: key_prefix.to_owned(), limits: StoreLimits::default() };
    RedisWorkflowStore::start(redis, settings, ring(&[1]), Clock::system()).await
}

fn record(name: &str) -> RunRecord {
    let (id, hash) = (RunId::new(name), DefinitionHash::new([7; 32]));
    RunRecord::new(id, owner(), "t".into(), hash, serde_json::Map::new(), Timestamp(5))
}

#[tokio::test]
async fn error_names_denied_command() {
    if skipped() {
        return;
    }
    let documented =
        "+@hash +@sortedset +@list +@scripting +@connection +del +exists +pexpire +time +type";
    let server = Redis::start(&[]).await.unwrap();
    let cases = [
        ("elsewhere", "~other:*", documented.to_owned(), "key"),
        ("unscripted", "~vmcp:*", "+@hash +@connection".to_owned(), "evalsha"),
        ("untimed", "~vmcp:*", documented.replace("+time", ""), "TIME"),
        ("unlisted", "~vmcp:*", format!("{documented} -rpush"), "RPUSH"),
        ("endless", "~vmcp:*", format!("{documented} -pexpire"), "PEXPIRE"),
    ];
    for (user, keys, rules, named) in cases {
        let words = format!("ACL SETUSER {user} on >secret {keys} -@all {rules}");
        server.cli(&words.split_whitespace().collect::<Vec<_>>()).await.unwrap();
        let secret = |text: &str| Some(text.to_owned().into());
        let credentials = Credentials { user: secret(user), password: secret("secret") };
        let settings = vmcp_redis::Settings { credentials, ..standalone(server.port) };
        let error = start(settings, &key_prefix()).await.unwrap_err().to_string();
        assert!(error.contains(named) && !error.contains("secret"), "{user}: {error}");
    }
}

#[tokio::test]
async fn keys_of_others_are_reported_and_kept() {
    if skipped() {
        return;
    }
    let server = Redis::start(&[]).await.unwrap();
    let error = start(standalone(server.port), "a{b}").await.unwrap_err();
    assert!(matches!(error, StartError::InvalidKeyPrefix(_)), "{error}");
    for (command, expected) in
        [("SET NAME text", "another program"), ("HSET NAME f 2", "format \"2\"")]
    {
        let prefix = key_prefix();
        let name = format!("{prefix}{{workflows}}:all");
        let words: Vec<_> =
            command.split(' ').map(|word| if word == "NAME" { &*name } else { word }).collect();
        server.cli(&words).await.unwrap();
        let error = start(standalone(server.port), &prefix).await.unwrap_err().to_string();
        assert!(error.contains(expected) && error.contains(&name), "{error}");
        assert_eq!(server.cli(&["EXISTS", &name]).await.unwrap().trim(), "1");
    }
}

#[tokio::test]
async fn full_redis_takes_ends_but_no_starts() {
    if skipped() {
        return;
    }
    let server = Redis::start(&[]).await.unwrap();
    let store = open(&standalone(server.port), &key_prefix(), StoreLimits::default(), &[1]).await;
    let lease = store.create(record("a"), Vec::new()).await.unwrap();
    let before = store.counts().await.unwrap();
    server.cli(&["CONFIG", "SET", "maxmemory", "1"]).await.unwrap();
    let error = store.create(record("b"), Vec::new()).await.unwrap_err();
    assert_eq!(error, StoreError::Unavailable);
    let log = LogCapture::current_thread();
    assert_eq!(store.counts().await.unwrap(), before);
    store.renew(&lease).await.unwrap();
    // The store is still full.
    let state = store.state();
    assert!(!state.is_connected && state.last_error.unwrap().contains("OOM"));
    assert_eq!(log.text(), "");
    store.cancel(&owner(), &RunId::new("a")).await.unwrap();
    assert_eq!(store.counts().await.unwrap().active, 0);
    server.cli(&["CONFIG", "SET", "maxmemory", "0"]).await.unwrap();
    store.create(record("b"), Vec::new()).await.unwrap();
    assert!(store.state().is_connected);
}

#[tokio::test]
async fn store_starts_while_redis_is_down() {
    if skipped() {
        return;
    }
    let mut server = Redis::start(&[]).await.unwrap();
    server.kill().unwrap();
    let timeouts = Timeouts { dial: Duration::from_millis(300), ..TIMEOUTS };
    let redis = Client::connect_lazy(vmcp_redis::Settings { timeouts, ..standalone(server.port) });
    let settings = Settings { key_prefix: key_prefix(), limits: StoreLimits::default() };
    let store = RedisWorkflowStore::start(redis, settings, ring(&[1]), Clock::system()).await;
    let store = store.unwrap();
    let error = store.create(record("a"), Vec::new()).await.unwrap_err();
    assert_eq!(error, StoreError::Unavailable);
    assert!(store.state().last_error.unwrap().contains("failed to connect"));
    server.run().await.unwrap();
    until(Duration::from_secs(10), || store.state().is_connected).await;
    store.create(record("a"), Vec::new()).await.unwrap();
}

#[tokio::test]
async fn outage_is_logged_once_and_heals() {
    if skipped() {
        return;
    }
    let mut server = Redis::start(&[]).await.unwrap();
    let timeouts = Timeouts { dial: Duration::from_millis(300), ..TIMEOUTS };
    let settings = vmcp_redis::Settings { timeouts, ..standalone(server.port) };
    let store = open(&settings, &key_prefix(), StoreLimits::default(), &[1]).await;
    let log = LogCapture::current_thread();
    server.kill().unwrap();
    for name in ["a", "b"] {
        let error = store.create(record(name), Vec::new()).await.unwrap_err();
        assert_eq!(error, StoreError::Unavailable);
    }
    let state = store.state();
    assert!(!state.is_connected && state.last_error.unwrap().contains("failed to connect"));
    server.run().await.unwrap();
    // The server's scripts are lost too.
    store.create(record("a"), Vec::new()).await.unwrap();
    assert!(store.state().is_connected);
    for line in ["workflow store unavailable", "workflow store available"] {
        assert_eq!(log.text().matches(line).count(), 1, "{}", log.text());
    }
}
