//! Two gateways that share sessions in Redis, and forward to each other what is in their memory.

use std::fs;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::time::Duration;

use http::StatusCode;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use vmcp_tests::backends::conforming_server;
use vmcp_tests::caller::Caller;
use vmcp_tests::counterparts::{Gateway, Redis, skipped};
use vmcp_tests::fixture::Generation;

/// Returns a port that is free on both addresses.
fn peer_port() -> u16 {
    loop {
        let first = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = first.local_addr().unwrap().port();
        if TcpListener::bind(SocketAddr::new(IpAddr::from([127, 0, 0, 2]), port)).is_ok() {
            return port;
        }
    }
}

async fn replicas(yaml: &str) -> [Gateway; 2] {
    let port = peer_port();
    let key = std::env::temp_dir().join(format!("vmcp-forwarding-{}-{port}", std::process::id()));
    fs::write(&key, "07".repeat(32)).unwrap();
    let start = async |host: u8| {
        let listen = format!("127.0.0.{host}:{port}");
        let seal = ["--seal-key", key.to_str().unwrap()];
        let peers = ["--peer-listen", &listen, "--peer-network", "127.0.0.0/8"];
        Gateway::start_with(yaml, &[seal.as_slice(), &peers].concat()).await.unwrap()
    };
    let replicas = [start(1).await, start(2).await];
    fs::remove_file(&key).unwrap();
    replicas
}

/// Returns the user's response to a question.
fn response(asked: &Value) -> Value {
    let result = json!({ "action": "accept", "content": { "word": "yes" } });
    json!({ "jsonrpc": "2.0", "id": asked["id"], "result": result })
}

fn question() -> Value {
    json!({ "name": "a_ask", "arguments": { "question": "?" } })
}

#[tokio::test(flavor = "multi_thread")]
async fn question_is_answered_at_other_replica_with_redis() {
    if skipped() {
        return;
    }
    let redis = Redis::start(&[]).await.unwrap();
    for generation in [Generation::Stateful, Generation::Stateless] {
        let backend = conforming_server("a").protocol(generation).start();
        let yaml = format!(
            "name: forwarding\n\
             incomingAuth: {{type: anonymous}}\n\
             backends:\n\
             - {{name: a, url: \"{}\", transport: streamable-http}}\n\
             sessionStorage: {{provider: redis, address: \"127.0.0.1:{}\"}}\n",
            backend.url(),
            redis.port
        );
        let replicas = replicas(&yaml).await;
        let capabilities = json!({ "elicitation": {} });
        let first = Caller::stateful_with(replicas[0].url(), capabilities).await.unwrap();
        let mut clients = [first.at(replicas[0].url()), first.at(replicas[1].url())];
        for (asker, answerer) in [(0, 1), (1, 0)] {
            let mut events = clients[asker].stream("tools/call", question()).await.unwrap();
            let asked = events.next().await.unwrap().unwrap();
            assert_eq!(asked["method"], "elicitation/create", "{asked}");
            // No connection of the answerer is open yet: nothing is lost while the replica with the question is stopped.
            replicas[asker].signal("STOP").await.unwrap();
            let begun = Instant::now();
            let refused = clients[answerer].post(&response(&asked)).await.unwrap();
            replicas[asker].signal("CONT").await.unwrap();
            assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE, "{refused:?}");
            assert!(refused.headers.contains_key("retry-after"), "{refused:?}");
            assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
            let mut answered = clients[answerer].post(&response(&asked)).await.unwrap();
            for _ in 0..20 {
                if answered.status == StatusCode::ACCEPTED {
                    break;
                }
                sleep(Duration::from_millis(100)).await;
                answered = clients[answerer].post(&response(&asked)).await.unwrap();
            }
            assert_eq!(answered.status, StatusCode::ACCEPTED, "{answered:?}");
            let said = events.next().await.unwrap().unwrap();
            assert_eq!(said["result"]["structuredContent"]["backend"], "a", "{said}");
            assert!(said["result"]["_meta"]["vmcp.dev/backendSession"].is_null(), "{said}");
        }
        for gateway in &replicas {
            let status = gateway.page("/status").await.unwrap().message().unwrap();
            let forwarded = status["peers"]["forwarded"].as_array().unwrap();
            let responded = forwarded
                .iter()
                .find(|it| it["kind"] == "response" && it["outcome"] == "responded");
            assert_eq!(responded.unwrap()["requests"], 1, "{status}");
        }
    }
}
