use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use vmcp_redis::{Address, Idempotency, Redis, Script, Value};

use crate::fake::{FakeServer, Reply};
use crate::{increment, settings};

/// Starts a cluster of one node that migrates a slot: its first response redirects to `target`.
async fn migrating(target: u16) -> FakeServer {
    let (own, is_redirected) = (Arc::new(OnceLock::<u16>::new()), AtomicBool::new(false));
    let port = Arc::clone(&own);
    let server = FakeServer::start(move |command| match command {
        "CLUSTER SLOTS" => {
            let port = port.get().unwrap();
            let node = format!("*2\r\n$9\r\n127.0.0.1\r\n:{port}\r\n");
            Reply::Text(format!("*1\r\n*3\r\n:0\r\n:16383\r\n{node}"))
        }
        _ if is_redirected.swap(true, Ordering::Relaxed) => Reply::Text(":1\r\n".into()),
        _ => Reply::Text(format!("-ASK 5061 127.0.0.1:{target}\r\n")),
    })
    .await;
    own.set(server.port()).unwrap();
    server
}

async fn importing() -> FakeServer {
    FakeServer::start(|command| match command {
        "ASKING" => Reply::Text("+OK\r\n".into()),
        _ => Reply::Text(":2\r\n".into()),
    })
    .await
}

#[tokio::test]
async fn command_follows_migrated_key_once() {
    let importing = importing().await;
    let server = migrating(importing.port()).await;
    let redis = Redis::connect_lazy(settings(Address::Cluster(vec![server.node()])));
    assert_eq!(increment(&redis, "bar").await, Ok(Value::Int(2)));
    assert_eq!(importing.commands(), ["ASKING", "INCR bar"]);
    assert_eq!(increment(&redis, "bar").await, Ok(Value::Int(1)));
}

#[tokio::test]
async fn script_waits_for_end_of_migration() {
    let importing = importing().await;
    let server = migrating(importing.port()).await;
    let redis = Redis::connect_lazy(settings(Address::Cluster(vec![server.node()])));
    let script = Script::new("return 1");
    let executed = redis.run(&script, "bar", &"argument", Idempotency::NotIdempotent).await;
    assert_eq!(executed, Ok(Value::Int(1)));
    assert_eq!(importing.commands(), [""; 0]);
}
