//! Lost records: servers enter what they have, and use one session with the backend.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, sleep};
use vmcp_test_support::McpBackend;
use vmcp_test_support::mcp_backend::{PendingRequest, Protocol};
use vmcp_tests::backends::{SESSION, conforming_server};
use vmcp_tests::caller::{Caller, Events};
use vmcp_tests::counterparts::{Gateway, Redis, skipped};

const URIS: [&str; 2] = ["test://before", "test://after"];

/// Time in which servers recover.
const RECOVERY: Duration = Duration::from_secs(20);

/// Three servers that share Redis and a backend.
struct Replicas {
    gateways: Vec<Gateway>,
    backend: McpBackend,
    /// Number of sessions that the servers have for themselves.
    own_sessions: usize,
}

impl Replicas {
    async fn start(redis: &Redis) -> Self {
        let resources = URIS.map(|uri| json!({ "uri": uri, "name": uri }).to_string());
        let accept = |request: PendingRequest| {
            request.succeed(&json!({}));
        };
        let backend = conforming_server("a")
            .protocol(Protocol::Stateful)
            .items("resources", resources)
            .on("resources/subscribe", accept)
            .start();
        let key = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{}.key", redis.port));
        fs::write(&key, "07".repeat(32)).unwrap();
        let yaml = format!(
            "name: tests\n\
             incomingAuth: {{type: anonymous}}\n\
             backends:\n\
             - {{name: a, url: \"{}\", transport: streamable-http}}\n\
             sessionStorage: {{provider: redis, address: \"127.0.0.1:{}\"}}\n",
            backend.url(),
            redis.port
        );
        let mut gateways = Vec::new();
        for _ in 0..3 {
            let arguments = ["--seal-key", key.to_str().unwrap()];
            gateways.push(Gateway::start_with(&yaml, &arguments).await.unwrap());
        }
        let own_sessions = backend.open_sessions();
        Self { gateways, backend, own_sessions }
    }

    /// Subscribes at a server, which may be recovering.
    async fn subscribe(client: &mut Caller, uri: &str) {
        let begun = Instant::now();
        loop {
            let said = client.reply("resources/subscribe", json!({ "uri": uri })).await.unwrap();
            if said.status == 200 && said.message().unwrap().get("result").is_some() {
                return;
            }
            assert!(begun.elapsed() < RECOVERY, "{said:?}");
            sleep(Duration::from_millis(100)).await;
        }
    }

    /// Waits until the backend has this number of sessions of the client.
    async fn until_sessions(&self, expected: usize) {
        let begun = Instant::now();
        while self.backend.open_sessions() != self.own_sessions + expected {
            assert!(begun.elapsed() < RECOVERY, "{} sessions", self.backend.open_sessions());
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// Returns the sessions of the backend in which the client subscribed to a resource, without repetitions.
    fn subscribed_in(&self, uri: &str) -> Vec<String> {
        let requests = self.backend.requests();
        let subscribed = requests.iter().filter(|request| {
            let message = request.message();
            message["method"] == "resources/subscribe" && message["params"]["uri"] == uri
        });
        let mut sessions: Vec<_> = subscribed
            .map(|request| request.headers[SESSION].to_str().unwrap().to_owned())
            .collect();
        sessions.dedup();
        sessions
    }
}

/// Waits for the update of a resource.
async fn hear_update(stream: &mut Events, uri: &str) {
    loop {
        let event = stream.next_within(RECOVERY).await.unwrap().unwrap();
        if event["method"] == "notifications/resources/updated" && event["params"]["uri"] == uri {
            return;
        }
    }
}

/// Loses all records while a client is connected, and checks that the client goes on with one session at the backend.
async fn lose_records(lose: impl AsyncFnOnce(&mut Redis)) {
    let mut redis = Redis::start(&[]).await.unwrap();
    let replicas = Replicas::start(&redis).await;
    let mut client = Caller::stateful(replicas.gateways[0].url()).await.unwrap();
    let [mut second, mut third] =
        [1, 2].map(|number: usize| client.at(replicas.gateways[number].url()));
    Replicas::subscribe(&mut client, URIS[0]).await;
    let mut stream = client.listen().await.unwrap();
    assert_eq!(second.call("a_echo", json!({})).await.unwrap()["_meta"], json!(null));
    replicas.until_sessions(1).await;
    lose(&mut redis).await;
    // This server has never seen the client.
    Replicas::subscribe(&mut third, URIS[1]).await;
    for client in [&mut client, &mut second, &mut third] {
        let result = client.call("a_echo", json!({})).await.unwrap();
        assert_eq!(result["_meta"], json!(null), "it is the session of earlier calls");
    }
    replicas.until_sessions(1).await;
    assert_eq!(replicas.subscribed_in(URIS[0]), replicas.subscribed_in(URIS[1]));
    for uri in URIS {
        replicas.backend.notify("notifications/resources/updated", &json!({ "uri": uri }));
        hear_update(&mut stream, uri).await;
    }
    assert_eq!(third.leave().await.unwrap().status, 204);
    replicas.until_sessions(0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn session_goes_on_after_flush() {
    if skipped() {
        return;
    }
    lose_records(async |redis| drop(redis.cli(&["FLUSHALL"]).await.unwrap())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn session_goes_on_after_restart_without_data() {
    if skipped() {
        return;
    }
    lose_records(async |redis| {
        redis.kill().unwrap();
        sleep(Duration::from_secs(2)).await;
        redis.run().await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn end_after_flush_ends_session_at_backend() {
    if skipped() {
        return;
    }
    let redis = Redis::start(&[]).await.unwrap();
    let replicas = Replicas::start(&redis).await;
    let mut client = Caller::stateful(replicas.gateways[0].url()).await.unwrap();
    client.call("a_echo", json!({})).await.unwrap();
    replicas.until_sessions(1).await;
    redis.cli(&["FLUSHALL"]).await.unwrap();
    let mut third = client.at(replicas.gateways[2].url());
    assert_eq!(third.leave().await.unwrap().status, 204);
    replicas.until_sessions(0).await;
    assert_eq!(client.reply("ping", json!({})).await.unwrap().status, 404);
}
