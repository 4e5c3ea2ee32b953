//! Failover under writes: each acknowledged end holds everywhere.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};
use vmcp_redis::{Address, Node, Sentinel, Settings, Timeouts};
use vmcp_session::{Liveness, SessionKey, SessionStorage, StorageError};
use vmcp_session_redis::RedisSessionStorage;
use vmcp_tests::counterparts::{RedisCluster, RedisSentinels, skipped};

use super::fixtures::{key_prefix, session, start, until, until_ended};
use crate::fixtures::{TIMEOUTS, standalone};

/// Timeout for the election of a new master.
const FAILOVER: Duration = Duration::from_mins(1);

/// Returns the settings of a group.
fn behind(group: &RedisSentinels) -> Settings {
    let nodes = group.sentinels.iter().map(|sentinel| Node::new("127.0.0.1", sentinel.port));
    let (master, nodes) = ("mymaster".to_owned(), nodes.collect());
    let address = Address::Sentinel(Sentinel { master, database: 1, nodes, tls: None });
    let timeouts = Timeouts { dial: Duration::from_secs(1), ..TIMEOUTS };
    Settings { address, timeouts, ..standalone(0) }
}

/// Ends a session, and retries as a client does.
async fn end(storage: &RedisSessionStorage, session: &SessionKey) {
    let deadline = Instant::now() + FAILOVER;
    while let Err(error) = storage.end(session).await {
        assert!(error == StorageError::Unavailable && Instant::now() < deadline, "{error}");
        sleep(Duration::from_millis(50)).await;
    }
}

/// Ends sessions one after another until it is stopped, and returns them.
fn end_many(storage: &Arc<RedisSessionStorage>) -> tokio::task::JoinHandle<Vec<SessionKey>> {
    let storage = Arc::clone(storage);
    tokio::spawn(async move {
        let mut ended = Vec::new();
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(8) {
            let session = session();
            end(&storage, &session).await;
            ended.push(session);
            sleep(Duration::from_millis(20)).await;
        }
        ended
    })
}

/// Takes the master away under writes, and checks that each end is known to a replica and to one that begins later.
async fn fail_over(settings: &Settings, take_master_away: impl AsyncFnOnce()) {
    let prefix = key_prefix();
    let storage = start(settings, &prefix).await.unwrap();
    let replica = start(settings, &prefix).await.unwrap();
    let (open, before) = (session(), session());
    storage.create(&open).await.unwrap();
    end(&storage, &before).await;
    let during = end_many(&storage);
    sleep(Duration::from_secs(1)).await;
    let begun = Instant::now();
    take_master_away().await;
    for state in [Liveness::Silent, Liveness::Current] {
        for storage in [&storage, &replica] {
            until(FAILOVER, || storage.liveness() == state).await;
        }
    }
    let silence = begun.elapsed();
    let during = during.await.unwrap();
    eprintln!("messages arrived again within {silence:?}; {} ends", during.len());
    let after = session();
    end(&replica, &after).await;
    until_ended(&*storage, &after).await;
    let late = start(settings, &prefix).await.unwrap();
    for session in during.iter().chain([&before, &after]) {
        until_ended(&*replica, session).await;
        assert_eq!(late.restore(session).await, Err(StorageError::Ended));
    }
    // Replication is asynchronous: the record may be lost, the session is not.
    late.restore(&open).await.unwrap();
    assert!(storage.state().is_connected && replica.state().is_connected);
}

#[tokio::test(flavor = "multi_thread")]
async fn ends_survive_sentinel_failover() {
    if skipped() {
        return;
    }
    let mut group = RedisSentinels::start(None, None).await.unwrap();
    fail_over(&behind(&group), async || group.servers[0].kill().unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ends_survive_hanging_master() {
    if skipped() {
        return;
    }
    let group = RedisSentinels::start(None, None).await.unwrap();
    let [master, successor] = &group.servers;
    let settings = behind(&group);
    fail_over(&settings, async || master.signal("STOP").await.unwrap()).await;
    successor.until(&["ROLE"], "master").await.unwrap();
    master.signal("CONT").await.unwrap();
    master.until(&["ROLE"], "slave").await.unwrap();
    let prefix = key_prefix();
    let storage = start(&settings, &prefix).await.unwrap();
    storage.create(&session()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn ends_survive_cluster_node_failure() {
    if skipped() {
        return;
    }
    let mut cluster = RedisCluster::start(None).await.unwrap();
    let address = Address::Cluster(vec![Node::new("127.0.0.1", cluster.nodes[0].port)]);
    let timeouts = Timeouts { dial: Duration::from_secs(1), ..TIMEOUTS };
    let settings = Settings { address, timeouts, ..standalone(0) };
    let mut serving = None;
    for (number, node) in cluster.nodes.iter().enumerate() {
        // A replica reports the address of its master.
        if !node.cli(&["GET", "{sessions}"]).await.unwrap().contains("MOVED") {
            serving = Some(number);
        }
    }
    fail_over(&settings, async || cluster.nodes[serving.unwrap()].kill().unwrap()).await;
}
