use std::sync::atomic::{AtomicBool, Ordering};

use vmcp_redis::{Address, Error, Redis, Value};

use crate::fake::{FakeServer, Reply};
use crate::{increment, settings};

#[tokio::test]
async fn connection_closed_while_idle_fails_no_command() {
    let server = FakeServer::start(|command| match command {
        "INCR first" => Reply::Last(":1\r\n".into()),
        _ => Reply::Text(":2\r\n".into()),
    })
    .await;
    let redis = Redis::connect_lazy(settings(Address::Standalone(server.node())));
    assert_eq!(increment(&redis, "first").await, Ok(Value::Int(1)));
    server.closed().await;
    // The client notices the close before it receives a later response.
    let other = FakeServer::start(|_| Reply::Text("+PONG\r\n".into())).await;
    Redis::connect(settings(Address::Standalone(other.node()))).await.unwrap();
    assert_eq!(increment(&redis, "second").await, Ok(Value::Int(2)));
    assert_eq!(server.commands(), ["INCR first", "INCR second"]);
}

#[tokio::test]
async fn lost_response_fails_command_without_retry() {
    let server = FakeServer::start(|_| Reply::Lost).await;
    let redis = Redis::connect_lazy(settings(Address::Standalone(server.node())));
    let lost = increment(&redis, "key").await;
    assert_eq!(lost, Err(Error::ConnectionLost { node: server.node() }));
    assert_eq!(server.commands(), ["INCR key"]);
}

#[tokio::test]
async fn commands_that_were_not_executed_are_retried() {
    for error in ["LOADING", "READONLY", "TRYAGAIN", "CLUSTERDOWN", "MASTERDOWN"] {
        let is_rejected = AtomicBool::new(false);
        let server = FakeServer::start(move |_| {
            if is_rejected.swap(true, Ordering::Relaxed) {
                Reply::Text(":1\r\n".into())
            } else {
                Reply::Text(format!("-{error} reason\r\n"))
            }
        })
        .await;
        let redis = Redis::connect_lazy(settings(Address::Standalone(server.node())));
        assert_eq!(increment(&redis, "key").await, Ok(Value::Int(1)), "{error}");
        assert_eq!(server.commands(), ["INCR key", "INCR key"], "{error}");
        // Behind a name, a new connection may lead to another server.
        assert_eq!(server.connections(), 2, "{error}");
    }
}

#[tokio::test]
async fn rejected_long_command_means_missing_password() {
    // The answer of Redis to more than ten arguments before AUTH.
    let answer = "-ERR Protocol error: unauthenticated multibulk length\r\n";
    let server = FakeServer::start(|_| Reply::Text(answer.into())).await;
    let redis = Redis::connect_lazy(settings(Address::Standalone(server.node())));
    let rejected = increment(&redis, "key").await;
    assert_eq!(rejected, Err(Error::InvalidCredentials { node: server.node() }));
}
