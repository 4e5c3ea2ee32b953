//! Storages of sessions that the replicas share.

use std::time::Duration;

use tokio::time::sleep;
use vmcp_tests::counterparts::{Redis, RedisCluster, RedisSentinels};

use super::rig::Setup;

/// Time for which Redis is down.
const OUTAGE: Duration = Duration::from_secs(20);

/// A storage that can fail.
pub(crate) enum Storage {
    Single(Redis),
    Sentinels(RedisSentinels),
    Cluster(RedisCluster),
}

impl Storage {
    pub(crate) async fn single() -> Self {
        Self::Single(Redis::start(&[]).await.unwrap())
    }

    pub(crate) async fn sentinels() -> Self {
        Self::Sentinels(RedisSentinels::start(None, None).await.unwrap())
    }

    pub(crate) async fn cluster() -> Self {
        Self::Cluster(RedisCluster::start(None).await.unwrap())
    }

    /// Returns the settings of replicas that use it.
    pub(crate) fn setup(&self) -> Setup {
        let address = match self {
            Self::Single(server) => format!("address: \"127.0.0.1:{}\"", server.port),
            Self::Cluster(cluster) => {
                format!("address: \"127.0.0.1:{}\", clusterMode: true", cluster.nodes[0].port)
            }
            Self::Sentinels(group) => {
                let addresses: Vec<_> = group
                    .sentinels
                    .iter()
                    .map(|sentinel| format!("\"127.0.0.1:{}\"", sentinel.port))
                    .collect();
                let addresses = addresses.join(", ");
                format!(
                    "sentinelConfig: {{masterName: mymaster, db: 0, sentinelAddrs: [{addresses}]}}"
                )
            }
        };
        let yaml = format!("sessionStorage: {{provider: redis, {address}}}\n");
        Setup { yaml, ..Setup::default() }
    }

    /// Kills a single server and starts it again without its keys after [`OUTAGE`], or kills the server with the sessions,
    /// so that another one takes over.
    pub(crate) async fn fail(&mut self) {
        match self {
            Self::Single(server) => {
                server.kill().unwrap();
                sleep(OUTAGE).await;
                server.run().await.unwrap();
            }
            Self::Sentinels(group) => group.servers[0].kill().unwrap(),
            Self::Cluster(cluster) => {
                let serving = serving(cluster).await;
                cluster.nodes[serving].kill().unwrap();
            }
        }
    }
}

/// Returns the index of the master with the keys of the sessions.
async fn serving(cluster: &RedisCluster) -> usize {
    for (number, node) in cluster.nodes.iter().enumerate() {
        let keys = node.cli(&["KEYS", "*{sessions}*"]).await.unwrap();
        let role = node.cli(&["ROLE"]).await.unwrap();
        if !keys.trim().is_empty() && role.starts_with("master") {
            return number;
        }
    }
    panic!("no node has sessions");
}
