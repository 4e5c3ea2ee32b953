//! The store in Redis holds what every store has to hold, on one server and in a cluster.

use tokio::sync::OnceCell;
use vmcp_auth_store::Limits;
use vmcp_auth_store::contract::World;
use vmcp_redis::{Address, Node, Settings};
use vmcp_tests::counterparts::{Redis, RedisCluster, skipped};

use crate::given::{standalone, world};

mod one_server {
    use super::*;

    async fn fresh(limits: Limits) -> World {
        // It ends with the test program.
        static SERVER: OnceCell<Redis> = OnceCell::const_new();
        let server = SERVER.get_or_init(async || Redis::start(&[]).await.unwrap()).await;
        world(&standalone(server.port), limits).await
    }

    vmcp_auth_store::contract!(fresh, unless skipped);
}

mod cluster {
    use super::*;

    async fn fresh(limits: Limits) -> World {
        static CLUSTER: OnceCell<RedisCluster> = OnceCell::const_new();
        let cluster = CLUSTER.get_or_init(async || RedisCluster::start(None).await.unwrap()).await;
        let address = Address::Cluster(vec![Node::new("localhost", cluster.nodes[1].port)]);
        world(&Settings { address, ..standalone(0) }, limits).await
    }

    vmcp_auth_store::contract!(fresh, unless skipped);
}
