use tokio::net::TcpListener;
use vmcp_redis::{Address, Error, Node, Redis, Sentinel, Settings, Value};

use crate::fake::{FakeServer, Reply};
use crate::{increment, settings};

/// Starts a Sentinel that reports a master named `main`.
async fn sentinel(master: u16) -> FakeServer {
    let address = format!("*2\r\n$9\r\n127.0.0.1\r\n${}\r\n{master}\r\n", master.to_string().len());
    FakeServer::start(move |command| match command {
        "SENTINEL GET-MASTER-ADDR-BY-NAME main" => Reply::Text(address.clone()),
        _ => Reply::Text("*-1\r\n".into()),
    })
    .await
}

fn of_sentinels(master: &str, nodes: Vec<Node>) -> Settings {
    let master = master.to_owned();
    settings(Address::Sentinel(Sentinel { master, database: 0, nodes, tls: None }))
}

#[tokio::test]
async fn unreachable_master_is_not_unknown() {
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = closed.local_addr().unwrap().port();
    drop(closed);
    let sentinel = sentinel(port).await;
    let failed = Redis::connect(of_sentinels("main", vec![sentinel.node()])).await.unwrap_err();
    assert!(matches!(failed, Error::Connect { .. }) && failed.is_temporary(), "{failed}");
    let unknown = Redis::connect(of_sentinels("other", vec![sentinel.node()])).await.unwrap_err();
    assert!(matches!(unknown, Error::UnknownMaster { .. }), "{unknown}");
}

#[tokio::test]
async fn master_may_deny_role() {
    let master = FakeServer::start(|command| match command {
        "ROLE" => Reply::Text("-NOPERM User has no permissions to run 'role'\r\n".into()),
        _ => Reply::Text(":1\r\n".into()),
    })
    .await;
    let sentinel = sentinel(master.port()).await;
    let redis = Redis::connect_lazy(of_sentinels("main", vec![sentinel.node()]));
    assert_eq!(increment(&redis, "key").await, Ok(Value::Int(1)));
}
