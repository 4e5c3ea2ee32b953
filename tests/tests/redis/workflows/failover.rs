//! Failover and outage of Redis in the middle of runs.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::join;
use tokio::time::sleep;
use vmcp_compose::store::contract::TestStore;
use vmcp_compose::{Outcome, StoreLimits};
use vmcp_redis::{Address, Node, Sentinel, Settings, Timeouts};
use vmcp_tests::counterparts::{Redis, RedisCluster, RedisSentinels, skipped};

use super::fixtures::{key, stores};
use super::runner::{Backend, Runner, chain};
use crate::fixtures::{TIMEOUTS, standalone};

/// Runs at each of two replicas.
const RUNS: usize = 20;

/// Steps of a run, each of which takes 100 ms.
const STEPS: usize = 30;

/// Runs workflows at two replicas while Redis fails, and asserts that none is lost and no step is repeated. Returns a summary.
async fn run_during(settings: &Settings, failure: impl AsyncFnOnce(&str)) {
    let TestStore { store, replica, clock } = stores(settings, StoreLimits::default()).await;
    let name = key(&*store, "all");
    let backend = Backend::slow(Duration::from_millis(100));
    let runners = [store, replica].map(|store| {
        let (backend, clock) = (backend.clone(), clock.clone());
        Runner { workflow: chain(STEPS), store, backend, clock }
    });
    let ids: Vec<_> = (0..2 * RUNS).map(|number| format!("run-{number}")).collect();
    let runs = join_all(ids.iter().enumerate().map(|(n, id)| runners[n % 2].start(id)));
    let fail = async {
        sleep(Duration::from_secs(1)).await;
        failure(&name).await;
    };
    let (outcomes, ()) = join!(runs, fail);
    let completed = outcomes.iter().filter(|it| matches!(it, Outcome::Completed(_))).count();
    let calls = backend.calls();
    let mut counts = BTreeMap::<usize, usize>::new();
    for count in calls.values() {
        *counts.entry(*count).or_default() += 1;
    }
    println!("{completed} of {} runs completed; steps by number of calls: {counts:?}", ids.len());
    for outcome in outcomes {
        assert!(matches!(outcome, Outcome::Completed(_)), "{outcome:?}");
    }
    assert_eq!(counts, BTreeMap::from([(1, 2 * RUNS * STEPS)]));
    assert_eq!(runners[0].store.counts().await.unwrap().active, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_survive_sentinel_failover() {
    if skipped() {
        return;
    }
    let mut group = RedisSentinels::start(None, None).await.unwrap();
    let nodes = group.sentinels.iter().map(|sentinel| Node::new("127.0.0.1", sentinel.port));
    let address = Address::Sentinel(Sentinel {
        master: "mymaster".to_owned(),
        database: 0,
        nodes: nodes.collect(),
        tls: None,
    });
    let timeouts = Timeouts { dial: Duration::from_secs(1), ..TIMEOUTS };
    let settings = Settings { address, timeouts, ..standalone(0) };
    run_during(&settings, async |_| group.servers[0].kill().unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_survive_cluster_node_failure() {
    if skipped() {
        return;
    }
    let mut cluster = RedisCluster::start(None).await.unwrap();
    let address = Address::Cluster(vec![Node::new("127.0.0.1", cluster.nodes[0].port)]);
    let timeouts = Timeouts { dial: Duration::from_secs(1), ..TIMEOUTS };
    let settings = Settings { address, timeouts, ..standalone(0) };
    run_during(&settings, async |key| {
        for node in &mut cluster.nodes {
            // A replica reports the address of its master.
            if !node.cli(&["TYPE", key]).await.unwrap().contains("MOVED") {
                node.kill().unwrap();
                return;
            }
        }
        panic!("no node serves {key}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_survive_outage_of_twenty_seconds() {
    if skipped() {
        return;
    }
    let server = Redis::start(&[]).await.unwrap();
    run_during(&standalone(server.port), async |_| {
        server.signal("STOP").await.unwrap();
        sleep(Duration::from_secs(20)).await;
        server.signal("CONT").await.unwrap();
    })
    .await;
}
