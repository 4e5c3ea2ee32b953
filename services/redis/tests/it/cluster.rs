use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::Notify;
use tokio::time::timeout;
use vmcp_redis::{Address, Credentials, Error, Idempotency, Redis, Settings, Value, cmd};

use crate::fake::{FakeServer, Reply};
use crate::{increment, settings, with_few_retries};

/// Formats the slot map of two masters with half of the slots each.
fn slots(ports: [u16; 2]) -> String {
    let range = |first: u16, last: u16, port: u16| {
        format!("*3\r\n:{first}\r\n:{last}\r\n*2\r\n$9\r\n127.0.0.1\r\n:{port}\r\n")
    };
    format!("*2\r\n{}{}", range(0, 8191, ports[0]), range(8192, 16383, ports[1]))
}

/// Formats the slot map of a master with a replica.
fn one_shard(ports: [u16; 2]) -> String {
    let node = |port| format!("*2\r\n$9\r\n127.0.0.1\r\n:{port}\r\n");
    format!("*1\r\n*4\r\n:0\r\n:16383\r\n{}{}", node(ports[0]), node(ports[1]))
}

#[tokio::test]
async fn failed_slot_query_fails_no_other_command() {
    let moved_to = FakeServer::start(|_| Reply::Text("-CLUSTERDOWN not served\r\n".into())).await;
    let (loading, executed) = (Arc::new(AtomicBool::new(false)), Arc::new(Notify::new()));
    let ports = Arc::new(OnceLock::new());
    let start = || {
        let (ports, target) = (Arc::clone(&ports), moved_to.port());
        let (loading, executed) = (Arc::clone(&loading), Arc::clone(&executed));
        FakeServer::start(move |command| match command {
            "CLUSTER SLOTS" if loading.load(Ordering::Relaxed) => {
                Reply::Text("-LOADING Redis is loading the dataset in memory\r\n".into())
            }
            "CLUSTER SLOTS" => Reply::Text(slots(*ports.get().unwrap())),
            "INCR foo" => Reply::After(Arc::clone(&executed), ":1\r\n".into()),
            _ => {
                loading.store(true, Ordering::Relaxed);
                Reply::Text(format!("-MOVED 5061 127.0.0.1:{target}\r\n"))
            }
        })
    };
    let nodes = [start().await, start().await];
    ports.set(nodes.each_ref().map(FakeServer::port)).unwrap();
    let redis = Redis::connect_lazy(with_few_retries(Address::Cluster(vec![nodes[0].node()])));
    // "foo" is in slot 12182, "bar" in slot 5061.
    let commands = async {
        nodes[1].received("INCR foo").await;
        let failed = redis.call("bar", cmd("GET").arg("bar"), Idempotency::Idempotent).await;
        executed.notify_one();
        failed
    };
    let (executed, failed) = tokio::join!(increment(&redis, "foo"), commands);
    assert_eq!(executed, Ok(Value::Int(1)));
    assert!(matches!(failed, Err(Error::CommandFailed { .. })), "{failed:?}");
    let count = |command: &str| {
        let received = nodes.iter().flat_map(FakeServer::commands);
        received.filter(|received| received == command).count()
    };
    assert_eq!(count("INCR foo"), 1);
    // The client pauses between queries.
    assert!(count("CLUSTER SLOTS") < 50, "{}", count("CLUSTER SLOTS"));
}

#[tokio::test]
async fn failed_node_keeps_slots_of_others() {
    let is_down = Arc::new(AtomicBool::new(false));
    let ports = Arc::new(OnceLock::new());
    let start = || {
        let (ports, is_down) = (Arc::clone(&ports), Arc::clone(&is_down));
        FakeServer::start(move |command| match command {
            "GET bar" => {
                is_down.store(true, Ordering::Relaxed);
                Reply::Text("-CLUSTERDOWN not served\r\n".into())
            }
            "CLUSTER SLOTS" if is_down.load(Ordering::Relaxed) => Reply::Lost,
            "CLUSTER SLOTS" => Reply::Text(slots(*ports.get().unwrap())),
            _ => Reply::Text(":1\r\n".into()),
        })
    };
    let nodes = [start().await, start().await];
    ports.set(nodes.each_ref().map(FakeServer::port)).unwrap();
    let redis = Redis::connect_lazy(with_few_retries(Address::Cluster(vec![nodes[0].node()])));
    let failed = redis.call("bar", cmd("GET").arg("bar"), Idempotency::Idempotent).await;
    assert!(failed.is_err(), "{failed:?}");
    assert_eq!(increment(&redis, "foo").await, Ok(Value::Int(1)));
}

#[tokio::test]
async fn concurrent_commands_share_slot_query() {
    let (port, reported) = (Arc::new(OnceLock::new()), Arc::new(Notify::new()));
    let (of_server, to_report) = (Arc::clone(&port), Arc::clone(&reported));
    let server = FakeServer::start(move |command| match command {
        "CLUSTER SLOTS" => {
            let port = *of_server.get().unwrap();
            Reply::After(Arc::clone(&to_report), slots([port, port]))
        }
        _ => Reply::Text(":1\r\n".into()),
    })
    .await;
    port.set(server.port()).unwrap();
    let redis = Redis::connect_lazy(settings(Address::Cluster(vec![server.node()])));
    let commands = join_all(["a", "b", "c"].map(|key| increment(&redis, key)));
    let report = async {
        server.received("CLUSTER SLOTS").await;
        reported.notify_one();
    };
    let (executed, ()) = tokio::join!(commands, report);
    assert_eq!(executed, [Ok(Value::Int(1)), Ok(Value::Int(1)), Ok(Value::Int(1))]);
    let received = server.commands();
    assert_eq!(received.iter().filter(|command| *command == "CLUSTER SLOTS").count(), 1);
}

#[tokio::test]
async fn replica_reports_slots_after_masters_fail() {
    let is_down = Arc::new(AtomicBool::new(false));
    let ports = Arc::new(OnceLock::<[u16; 2]>::new());
    let start = |index: usize| {
        let (ports, is_down) = (Arc::clone(&ports), Arc::clone(&is_down));
        FakeServer::start(move |command| match command {
            _ if index == 0 && is_down.load(Ordering::Relaxed) => Reply::Lost,
            "CLUSTER SLOTS" => {
                let ports = ports.get().unwrap();
                Reply::Text(one_shard([ports[index], ports[1 - index]]))
            }
            _ => Reply::Text(format!(":{index}\r\n")),
        })
    };
    let nodes = [start(0).await, start(1).await];
    ports.set(nodes.each_ref().map(FakeServer::port)).unwrap();
    let redis = Redis::connect_lazy(settings(Address::Cluster(vec![nodes[0].node()])));
    let call = async || redis.call("key", cmd("GET").arg("key"), Idempotency::Idempotent).await;
    assert_eq!(call().await, Ok(Value::Int(0)));
    is_down.store(true, Ordering::Relaxed);
    assert_eq!(call().await, Ok(Value::Int(1)));
}

#[tokio::test]
async fn unresponsive_nodes_do_not_delay_slot_query() {
    let never = Arc::new(Notify::new());
    let silent = || {
        let never = Arc::clone(&never);
        FakeServer::start(move |_| Reply::After(Arc::clone(&never), String::new()))
    };
    let silent = [silent().await, silent().await, silent().await];
    let port = Arc::new(OnceLock::new());
    let of_server = Arc::clone(&port);
    let server = FakeServer::start(move |command| match command {
        "CLUSTER SLOTS" => Reply::Text(slots([*of_server.get().unwrap(); 2])),
        _ => Reply::Text(":1\r\n".into()),
    })
    .await;
    port.set(server.port()).unwrap();
    let nodes = silent.iter().chain([&server]).map(FakeServer::node).collect();
    let redis = Redis::connect_lazy(settings(Address::Cluster(nodes)));
    let executed = timeout(Duration::from_secs(5), increment(&redis, "key")).await;
    assert_eq!(executed.unwrap(), Ok(Value::Int(1)));
}

#[tokio::test]
async fn redirection_without_host_keeps_host() {
    let target = FakeServer::start(|_| Reply::Text(":1\r\n".into())).await;
    let (own, port) = (Arc::new(OnceLock::new()), target.port());
    let of_server = Arc::clone(&own);
    let server = FakeServer::start(move |command| match command {
        "CLUSTER SLOTS" => Reply::Text(slots([*of_server.get().unwrap(); 2])),
        _ => Reply::Text(format!("-MOVED 5061 :{port}\r\n")),
    })
    .await;
    own.set(server.port()).unwrap();
    let redis = Redis::connect_lazy(settings(Address::Cluster(vec![server.node()])));
    assert_eq!(increment(&redis, "bar").await, Ok(Value::Int(1)));
    // The client sends later commands directly.
    assert_eq!(increment(&redis, "bar").await, Ok(Value::Int(1)));
    assert_eq!(server.commands(), ["CLUSTER SLOTS", "INCR bar"]);
}

#[tokio::test]
async fn rejected_credentials_are_not_a_network_error() {
    let server = FakeServer::start(|command| match command {
        "AUTH wrong" => Reply::Text("-WRONGPASS invalid username-password pair\r\n".into()),
        _ => Reply::Text("-NOAUTH Authentication required.\r\n".into()),
    })
    .await;
    let credentials = Credentials { user: None, password: Some("wrong".to_owned().into()) };
    let address = Address::Cluster(vec![server.node()]);
    let rejected = Redis::connect(Settings { credentials, ..settings(address) }).await.unwrap_err();
    assert_eq!(rejected, Error::InvalidCredentials { node: server.node() });
}
