//! Servers of other projects as backends.

use std::time::Duration;

use serde_json::json;
use tokio::time::timeout;
use vmcp_tests::counterparts::{Backend, Client, ClientReport, Era, Gateway, Plan, skipped};

/// Prefixes of each backend's tools.
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

async fn call(url: &str, era: Era, tool: &str, arguments: serde_json::Value) -> ClientReport {
    let arguments = arguments.as_object().cloned().unwrap_or_default();
    let plan = Plan { tool: Some(tool.to_owned()), arguments, ..Plan::default() };
    Client::PythonMcp.run(url, era, &plan).await.unwrap()
}

/// Waits until clients of the older generation see tools with these prefixes: a bridge may start slowly, and the gateway
/// lists the others meanwhile, or nothing.
pub(crate) async fn until_tools(gateway: &Gateway, prefixes: &[&str]) {
    let offered = async {
        loop {
            let plan = Plan::default();
            let seen = Client::PythonMcp.run(gateway.url(), Era::Legacy, &plan).await;
            let seen = seen.unwrap_or_default();
            let has = |prefix: &&str| seen.tools.iter().any(|tool| tool.starts_with(*prefix));
            if prefixes.iter().all(has) {
                return;
            }
        }
    };
    timeout(Duration::from_mins(1), offered).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn real_servers_respond_directly() {
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
    // No available client speaks the deprecated transport; the startup check covers it.
    drop(everything_sse);
}

#[tokio::test(flavor = "multi_thread")]
async fn real_servers_respond_through_gateway() {
    if skipped() {
        return;
    }
    let backends = Backends::start().await;
    let gateway = Gateway::start(&backends.config()).await.unwrap();
    until_tools(&gateway, &PREFIXES).await;
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
        // In the newer generation the bridge rejects this server's outdated results, and offers no tools.
        let seen = if era == Era::Legacy {
            let seen = call(gateway.url(), era, "memory_read_graph", json!({})).await;
            assert!(seen.call.as_ref().unwrap().contains("entities"), "{era:?}");
            seen
        } else {
            seen
        };
        // Each generation lists the bridge's tools of that generation.
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
