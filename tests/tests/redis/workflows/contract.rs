//! The store contract in Redis, on one server, behind Sentinels and in a cluster, as a user with minimal permissions, and on Valkey.

use tokio::sync::OnceCell;
use vmcp_compose::StoreLimits;
use vmcp_compose::store::contract::TestStore;
use vmcp_redis::{Address, Credentials, Node, Sentinel, Settings};
use vmcp_tests::counterparts::{Redis, RedisCluster, RedisSentinels, skipped};

use super::fixtures::stores;
use crate::fixtures::standalone;

mod one_server {
    use super::*;

    async fn fresh(limits: StoreLimits) -> TestStore {
        // The server exits with the test program.
        static SERVER: OnceCell<Redis> = OnceCell::const_new();
        let server = SERVER.get_or_init(async || Redis::start(&[]).await.unwrap()).await;
        stores(&standalone(server.port), limits).await
    }

    vmcp_compose::contract!(fresh, unless skipped);
}

mod restricted_user {
    use super::*;

    /// Documented ACL.
    const RULES: &str = "on >secret ~vmcp:* -@all +@hash +@sortedset +@list +@scripting +@connection +del +exists \
                         +pexpire +time +type";

    async fn fresh(limits: StoreLimits) -> TestStore {
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
        stores(&Settings { credentials, ..standalone(server.port) }, limits).await
    }

    vmcp_compose::contract!(fresh, unless skipped);
}

mod valkey {
    use super::*;

    async fn fresh(limits: StoreLimits) -> TestStore {
        static SERVER: OnceCell<Redis> = OnceCell::const_new();
        let server = SERVER.get_or_init(async || Redis::valkey(&[]).await.unwrap()).await;
        stores(&standalone(server.port), limits).await
    }

    vmcp_compose::contract!(fresh, unless skipped);
}

mod sentinel {
    use super::*;

    async fn fresh(limits: StoreLimits) -> TestStore {
        static GROUP: OnceCell<RedisSentinels> = OnceCell::const_new();
        let started = async || RedisSentinels::start(None, None).await.unwrap();
        let group = GROUP.get_or_init(started).await;
        let nodes = group.sentinels.iter().map(|sentinel| Node::new("127.0.0.1", sentinel.port));
        let (master, nodes) = ("mymaster".to_owned(), nodes.collect());
        let address = Address::Sentinel(Sentinel { master, database: 0, nodes, tls: None });
        stores(&Settings { address, ..standalone(0) }, limits).await
    }

    vmcp_compose::contract!(fresh, unless skipped);
}

mod cluster {
    use super::*;

    async fn fresh(limits: StoreLimits) -> TestStore {
        static CLUSTER: OnceCell<RedisCluster> = OnceCell::const_new();
        let cluster = CLUSTER.get_or_init(async || RedisCluster::start(None).await.unwrap()).await;
        let address = Address::Cluster(vec![Node::new("localhost", cluster.nodes[1].port)]);
        stores(&Settings { address, ..standalone(0) }, limits).await
    }

    vmcp_compose::contract!(fresh, unless skipped);
}
