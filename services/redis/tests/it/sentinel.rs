use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::net::TcpListener;
use tokio::sync::Notify;
use vmcp_redis::{Address, Error, Node, Redis, Sentinel, Value};

use crate::fake::{FakeServer, Reply};
use crate::{increment, settings, with_few_retries};

/// Starts a Sentinel that reports a master named `main`.
async fn sentinel(master: u16) -> FakeServer {
    let address = master_at(master);
    FakeServer::start(move |command| match command {
        "SENTINEL GET-MASTER-ADDR-BY-NAME main" => Reply::Text(address.clone()),
        _ => Reply::Text("*-1\r\n".into()),
    })
    .await
}

/// Formats the response that names a master.
fn master_at(port: u16) -> String {
    format!("*2\r\n$9\r\n127.0.0.1\r\n${}\r\n{port}\r\n", port.to_string().len())
}

fn of_sentinels(master: &str, nodes: Vec<Node>) -> Address {
    let master = master.to_owned();
    Address::Sentinel(Sentinel { master, database: 0, nodes, tls: None })
}

#[tokio::test]
async fn unreachable_master_is_not_unknown() {
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = closed.local_addr().unwrap().port();
    drop(closed);
    let sentinel = sentinel(port).await;
    let connect = async |master: &str| {
        let address = of_sentinels(master, vec![sentinel.node()]);
        Redis::connect(with_few_retries(address)).await.unwrap_err()
    };
    let failed = connect("main").await;
    assert!(matches!(failed, Error::Connect { .. }) && failed.is_temporary(), "{failed}");
    let unknown = connect("other").await;
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
    let redis = Redis::connect_lazy(settings(of_sentinels("main", vec![sentinel.node()])));
    assert_eq!(increment(&redis, "key").await, Ok(Value::Int(1)));
}

#[tokio::test]
async fn other_sentinels_outvote_stale_one() {
    let is_stale = Arc::new(AtomicBool::new(false));
    let noticed = Arc::clone(&is_stale);
    let replica = FakeServer::start(move |_| {
        noticed.store(true, Ordering::Relaxed);
        Reply::Text("*1\r\n$5\r\nslave\r\n".into())
    })
    .await;
    let master = FakeServer::start(|command| match command {
        "ROLE" => Reply::Text("*1\r\n$6\r\nmaster\r\n".into()),
        _ => Reply::Text(":1\r\n".into()),
    })
    .await;
    // Responds first to each lookup, and after the first lookup also causes the other response.
    let responded = Arc::new(Notify::new());
    let (to_other, of_stale) = (Arc::clone(&responded), master_at(replica.port()));
    let stale = FakeServer::start(move |_| {
        to_other.notify_one();
        Reply::Text(of_stale.clone())
    })
    .await;
    let of_other = master_at(master.port());
    let other = FakeServer::start(move |_| {
        if is_stale.load(Ordering::Relaxed) {
            Reply::After(Arc::clone(&responded), of_other.clone())
        } else {
            Reply::Lost
        }
    })
    .await;
    let redis =
        Redis::connect_lazy(settings(of_sentinels("main", vec![stale.node(), other.node()])));
    assert_eq!(increment(&redis, "key").await, Ok(Value::Int(1)));
}
