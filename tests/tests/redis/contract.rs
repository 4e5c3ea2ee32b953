//! The store contract in Redis, on one server and in a cluster, as a user with minimal permissions, and on Valkey.

use tokio::sync::OnceCell;
use vmcp_auth_store::Limits;
use vmcp_auth_store::contract::TestEnv;
use vmcp_redis::{Address, Credentials, Node, Settings};
use vmcp_tests::counterparts::{Redis, RedisCluster, skipped};

use crate::fixtures::{standalone, world};

mod one_server {
    use super::*;

    async fn fresh(limits: Limits) -> TestEnv {
        // The server exits with the test program.
        static SERVER: OnceCell<Redis> = OnceCell::const_new();
        let server = SERVER.get_or_init(async || Redis::start(&[]).await.unwrap()).await;
        world(&standalone(server.port), limits).await
    }

    vmcp_auth_store::contract!(fresh, unless skipped);
}

mod restricted_user {
    use super::*;

    /// Documented ACL, with the keys of the only namespace.
    const RULES: &str = "on >secret ~vmcp:auth:v1:{*}:* &vmcp:auth:v1:{*}:* -@all +@hash +@sortedset +@scripting \
                         +@pubsub +@connection +del +pexpire +pttl";

    async fn fresh(limits: Limits) -> TestEnv {
        static SERVER: OnceCell<Redis> = OnceCell::const_new();
        let started = async || {
            let server = Redis::start(&[]).await.unwrap();
            let user = ["ACL", "SETUSER", "issuer"].into_iter().chain(RULES.split_whitespace());
            server.cli(&user.collect::<Vec<_>>()).await.unwrap();
            server
        };
        let server = SERVER.get_or_init(started).await;
        let secret = |text: &str| Some(text.to_owned().into());
        let credentials = Credentials { user: secret("issuer"), password: secret("secret") };
        world(&Settings { credentials, ..standalone(server.port) }, limits).await
    }

    vmcp_auth_store::contract!(fresh, unless skipped);
}

mod valkey {
    use super::*;

    async fn fresh(limits: Limits) -> TestEnv {
        static SERVER: OnceCell<Redis> = OnceCell::const_new();
        let server = SERVER.get_or_init(async || Redis::valkey(&[]).await.unwrap()).await;
        world(&standalone(server.port), limits).await
    }

    vmcp_auth_store::contract!(fresh, unless skipped);
}

mod cluster {
    use super::*;

    async fn fresh(limits: Limits) -> TestEnv {
        static CLUSTER: OnceCell<RedisCluster> = OnceCell::const_new();
        let cluster = CLUSTER.get_or_init(async || RedisCluster::start(None).await.unwrap()).await;
        let address = Address::Cluster(vec![Node::new("localhost", cluster.nodes[1].port)]);
        world(&Settings { address, ..standalone(0) }, limits).await
    }

    vmcp_auth_store::contract!(fresh, unless skipped);
}
