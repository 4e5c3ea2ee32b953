//! Servers that somebody else wrote, as backends.

use std::time::Duration;

use serde_json::json;
use tokio::time::timeout;
use vmcp_tests::counterparts::{Backend, Client, Era, Gateway, Plan, Seen, skipped};

/// How the names of each backend's tools begin.
const PREFIXES: [&str; 4] = ["everything_", "oldthing_", "time_", "memory_"];

struct Backends {
    everything_http: Backend,
    everything_sse: Backend,
    time: Backend,
    memory: Backend,
}

impl Backends {
    async fn start() -> Self {
        let everything_http = Backend::everything_http();
        let (everything_http, everything_sse, time, memory) = tokio::join!(
            everything_http,
            Backend::everything_sse(),
            Backend::time(),
            Backend::memory()
        );
        Self {
            everything_http: everything_http.unwrap(),
            everything_sse: everything_sse.unwrap(),
            time: time.unwrap(),
            memory: memory.unwrap(),
        }
    }

    fn config(&self) -> String {
        let backend = |name: &str, backend: &Backend, transport: &str| {
            format!("- {{name: {name}, url: \"{}\", transport: {transport}}}\n", backend.url())
        };
        [
            "name: tests\nincomingAuth: {type: anonymous}\nbackends:\n".to_owned(),
            backend("everything", &self.everything_http, "streamable-http"),
            backend("oldthing", &self.everything_sse, "sse"),
            backend("time", &self.time, "streamable-http"),
            backend("memory", &self.memory, "streamable-http"),
        ]
        .concat()
    }
}

async fn call(url: &str, era: Era, tool: &str, arguments: serde_json::Value) -> Seen {
    let arguments = arguments.as_object().cloned().unwrap_or_default();
    let plan = Plan { tool: Some(tool.to_owned()), arguments, ..Plan::default() };
    Client::PythonMcp.run(url, era, &plan).await.unwrap()
}

/// Waits until clients of the older generation are offered something of each backend: on a busy machine
/// a bridge takes its time, and meanwhile the others are offered without it.
async fn until_all_are_offered(gateway: &Gateway) {
    let offered = async {
        loop {
            let plan = Plan::default();
            let seen = Client::PythonMcp.run(gateway.url(), Era::Legacy, &plan).await.unwrap();
            let has = |prefix: &&str| seen.tools.iter().any(|tool| tool.starts_with(*prefix));
            if PREFIXES.iter().all(has) {
                return;
            }
        }
    };
    timeout(Duration::from_secs(60), offered).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn real_servers_answer_directly() {
    if skipped() {
        return;
    }
    let Backends { everything_http, everything_sse, time, memory } = Backends::start().await;
    let seen = call(everything_http.url(), Era::Auto, "echo", json!({ "message": "hello" })).await;
    assert_eq!(seen.call.as_deref(), Some("Echo: hello"));
    let seen =
        call(time.url(), Era::Modern, "get_current_time", json!({ "timezone": "UTC" })).await;
    assert!(seen.call.unwrap().contains("\"UTC\""));
    let seen = call(memory.url(), Era::Legacy, "read_graph", json!({})).await;
    assert!(seen.call.unwrap().contains("entities"));
    // No client of ours speaks the deprecated transport; that it listens is checked at its start.
    drop(everything_sse);
}

#[tokio::test(flavor = "multi_thread")]
async fn real_servers_answer_through_the_gateway() {
    if skipped() {
        return;
    }
    let backends = Backends::start().await;
    let gateway = Gateway::start(&backends.config()).await.unwrap();
    until_all_are_offered(&gateway).await;
    for era in [Era::Legacy, Era::Modern] {
        for backend in ["everything", "oldthing"] {
            let seen =
                call(gateway.url(), era, &format!("{backend}_echo"), json!({ "message": backend }))
                    .await;
            assert_eq!(seen.call, Some(format!("Echo: {backend}")), "{era:?}");
        }
        let seen =
            call(gateway.url(), era, "time_get_current_time", json!({ "timezone": "UTC" })).await;
        assert!(seen.call.as_ref().unwrap().contains("\"UTC\""), "{era:?}");
        // In the newer generation the bridge checks this server's answers by a model that they are too
        // old for, and has no tools to offer.
        let seen = if era == Era::Legacy {
            let seen = call(gateway.url(), era, "memory_read_graph", json!({})).await;
            assert!(seen.call.as_ref().unwrap().contains("entities"), "{era:?}");
            seen
        } else {
            seen
        };
        // Each generation is listed as the bridge offers it there.
        let listed = PREFIXES.iter().filter(|prefix| era == Era::Legacy || **prefix != "memory_");
        for prefix in listed {
            assert!(
                seen.tools.iter().any(|tool| tool.starts_with(*prefix)),
                "{era:?}: {:?}",
                seen.tools
            );
        }
    }
}
