//! The storage contract in Redis, on one server, behind Sentinel and in a cluster, as a user with minimal permissions, and on
//! Valkey.

use tokio::sync::OnceCell;
use vmcp_redis::{Address, Credentials, Node, Sentinel, Settings};
use vmcp_session::contract::TestStorage;
use vmcp_tests::counterparts::{Redis, RedisCluster, RedisSentinels, skipped};

use super::fixtures::storages;
use crate::fixtures::standalone;

mod one_server {
    use super::*;

    async fn fresh() -> TestStorage {
        // The server exits with the test program.
        static SERVER: OnceCell<Redis> = OnceCell::const_new();
        let server = SERVER.get_or_init(async || Redis::start(&[]).await.unwrap()).await;
        storages(&standalone(server.port)).await
    }

    vmcp_session::contract!(fresh, unless skipped);
}

mod restricted_user {
    use super::*;

    /// Documented ACL.
    const RULES: &str = "on >secret ~vmcp:test-* &vmcp:test-* -@all +@hash +@sortedset +@scripting +@pubsub \
                         +@connection +del +pexpire +time";

    async fn fresh() -> TestStorage {
        static SERVER: OnceCell<Redis> = OnceCell::const_new();
        let started = async || {
            let server = Redis::start(&[]).await.unwrap();
            let user = ["ACL", "SETUSER", "vmcp"].into_iter().chain(RULES.split_whitespace());
            server.cli(&user.collect::<Vec<_>>()).await.unwrap();
            server
        };
        let server = SERVER.get_or_init(started).await;
        let secret = |text: &str| Some(text.to_owned().into());
        let credentials = Credentials { user: secret("vmcp"), password: secret("secret") };
        storages(&Settings { credentials, ..standalone(server.port) }).await
    }

    vmcp_session::contract!(fresh, unless skipped);
}

mod valkey {
    use super::*;

    async fn fresh() -> TestStorage {
        static SERVER: OnceCell<Redis> = OnceCell::const_new();
        let server = SERVER.get_or_init(async || Redis::valkey(&[]).await.unwrap()).await;
        storages(&standalone(server.port)).await
    }

    vmcp_session::contract!(fresh, unless skipped);
}

mod cluster {
    use super::*;

    async fn fresh() -> TestStorage {
        static CLUSTER: OnceCell<RedisCluster> = OnceCell::const_new();
        let cluster = CLUSTER.get_or_init(async || RedisCluster::start(None).await.unwrap()).await;
        let address = Address::Cluster(vec![Node::new("localhost", cluster.nodes[1].port)]);
        storages(&Settings { address, ..standalone(0) }).await
    }

    vmcp_session::contract!(fresh, unless skipped);
}

mod sentinel {
    use super::*;

    async fn fresh() -> TestStorage {
        static GROUP: OnceCell<RedisSentinels> = OnceCell::const_new();
        let group = async || RedisSentinels::start(None, None).await.unwrap();
        let group = GROUP.get_or_init(group).await;
        let nodes = group.sentinels.iter().map(|sentinel| Node::new("127.0.0.1", sentinel.port));
        let address = Address::Sentinel(Sentinel {
            master: "mymaster".to_owned(),
            database: 1,
            nodes: nodes.collect(),
            tls: None,
        });
        storages(&Settings { address, ..standalone(0) }).await
    }

    vmcp_session::contract!(fresh, unless skipped);
}
