//! `sessionStorage: redis` at the start of the server: an outage is waited for, a wrong setting ends the start.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use http::StatusCode;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use vmcp_test_support::McpBackend;
use vmcp_test_support::mcp_backend::Protocol;
use vmcp_tests::caller::Caller;
use vmcp_tests::counterparts::{Certificates, Gateway, Redis, TestError, skipped};

/// Timeout for the recovery of the server.
const SOON: Duration = Duration::from_secs(10);

/// Starts a server with this storage, further fields of its section, and these variables of the environment.
async fn start(
    redis: &Redis,
    fields: &str,
    variables: &[(&str, &str)],
) -> Result<(Gateway, McpBackend), TestError> {
    let key = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!(
        "redis-at-start-{}-{}.key",
        std::process::id(),
        redis.port
    ));
    fs::write(&key, "0123456789abcdef".repeat(4))?;
    let tool = json!({ "name": "echo", "inputSchema": { "type": "object" } }).to_string();
    let backend = McpBackend::builder(Protocol::Both).items("tools", [tool]);
    let backend = backend.on_tool("echo", |call| {
        call.succeed(&json!({ "content": [] }));
    });
    let backend = backend.start();
    let (url, port) = (backend.url(), redis.port);
    let yaml = format!(
        "name: late\n\
         incomingAuth: {{type: anonymous}}\n\
         backends: [{{name: b, url: \"{url}\", transport: streamable-http}}]\n\
         sessionStorage: {{provider: redis, address: \"127.0.0.1:{port}\", dialTimeout: 1s{fields}}}\n"
    );
    let gateway =
        Gateway::start_with_among(&yaml, &["--seal-key", key.to_str().unwrap()], variables).await;
    fs::remove_file(&key)?;
    Ok((gateway?, backend))
}

async fn storage(gateway: &Gateway) -> Value {
    let status: Value = gateway.page("/status").await.unwrap().message().unwrap();
    status["session_storage"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn server_starts_while_redis_is_down() {
    if skipped() {
        return;
    }
    let mut redis = Redis::start(&[]).await.unwrap();
    redis.kill().unwrap();
    let (gateway, _backend) = start(&redis, "", &[]).await.unwrap();
    let ready = gateway.page("/readyz").await.unwrap();
    assert_eq!(ready.status, StatusCode::OK);
    assert_eq!(ready.message().unwrap()["session_storage"], "unavailable");
    let state = storage(&gateway).await;
    for part in ["sessions", "workflows"] {
        assert_eq!(state[part]["status"], "unavailable", "{state}");
        let error = state[part]["last_error"].as_str().unwrap();
        assert!(error.contains("failed to connect to Redis at 127.0.0.1:"), "{error}");
    }
    Caller::stateless(gateway.url()).call("b_echo", json!({})).await.unwrap();
    let error = Caller::stateful(gateway.url()).await.unwrap_err().to_string();
    assert!(error.contains("503"), "{error}");

    redis.run().await.unwrap();
    let begun = Instant::now();
    while gateway.page("/readyz").await.unwrap().message().unwrap()["session_storage"] != "ready" {
        assert!(begun.elapsed() < SOON, "{}", storage(&gateway).await);
        sleep(Duration::from_millis(50)).await;
    }
    let mut caller = Caller::stateful(gateway.url()).await.unwrap();
    caller.call("b_echo", json!({})).await.unwrap();
    let log = gateway.log();
    for line in ["session storage unavailable", "session storage available"] {
        assert_eq!(log.matches(line).count(), 1, "{log}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_redis_settings_end_start() {
    if skipped() {
        return;
    }
    let redis = Redis::start(&["--requirepass", "right"]).await.unwrap();
    redis
        .cli(&["-a", "right", "ACL", "SETUSER", "poor", "on", ">right", "~*", "&*", "+ping"])
        .await
        .unwrap();
    let password = |password| ("VMCP_SESSION_REDIS_PASSWORD", password);
    let poor = ("VMCP_SESSION_REDIS_USERNAME", "poor");
    for (fields, variables, message) in [
        ("", vec![password("wrong")], "rejected the user or password"),
        ("", vec![], "rejected the user or password"),
        ("", vec![password("right"), poor], "the ACL of the Redis user denies EVALSHA"),
        (", db: 99", vec![password("right")], "rejected a command"),
        (", clusterMode: true", vec![password("right")], "is not in cluster mode"),
    ] {
        let error = start(&redis, fields, &variables).await.unwrap_err().to_string();
        assert!(error.contains("sessionStorage: ") && error.contains(message), "{fields}: {error}");
    }
    start(&redis, "", &[password("right")]).await.unwrap();

    let certificates = Certificates::new(&[]).unwrap();
    let arguments = certificates.arguments();
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let redis = Redis::start(&arguments).await.unwrap();
    // The system does not know its CA.
    let error = start(&redis, ", tls: {}", &[]).await.unwrap_err().to_string();
    assert!(error.contains("sessionStorage: failed to establish TLS with Redis"), "{error}");
}
