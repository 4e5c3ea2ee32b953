//! Shared functions of these tests.

use std::fmt::Write;
use std::time::Duration;

use serde_json::Value;
use tokio::time::{Instant, sleep};
use vmcp_test_support::McpBackend;
use vmcp_tests::caller::Caller;
use vmcp_tests::counterparts::{Gateway, TestError};

/// Default timeout.
pub(crate) const SOON: Duration = Duration::from_secs(10);

/// Returns a configuration with these backends and further sections as YAML.
pub(crate) fn config<N: AsRef<str>, U: AsRef<str>>(
    backends: impl IntoIterator<Item = (N, U)>,
    sections: &str,
) -> String {
    let mut yaml = "name: tests\nincomingAuth: {type: anonymous}\nbackends:\n".to_owned();
    for (name, url) in backends {
        let (name, url) = (name.as_ref(), url.as_ref());
        writeln!(yaml, "- {{name: {name}, url: \"{url}\", transport: streamable-http}}").unwrap();
    }
    yaml + sections
}

/// Starts a gateway for these backends with default settings.
pub(crate) async fn gateway(backends: &[&McpBackend]) -> Gateway {
    gateway_with(backends, "").await
}

/// Starts a gateway for these backends with further sections, and waits for their catalogs.
pub(crate) async fn gateway_with(backends: &[&McpBackend], sections: &str) -> Gateway {
    let all = backends.iter().map(|good| (good.name(), good.url()));
    ready(&config(all, sections)).await
}

/// Starts a gateway with this configuration and waits for the catalogs of its backends.
pub(crate) async fn ready(yaml: &str) -> Gateway {
    let gateway = Gateway::start(yaml).await.unwrap();
    until_ready(&gateway).await;
    gateway
}

/// Waits until the gateway has the catalogs of its backends.
pub(crate) async fn until_ready(gateway: &Gateway) {
    let ready = async |status: Value| {
        status["backends"].as_array().unwrap().iter().all(|backend| backend["status"] == "ready")
    };
    until("every backend is ready", async || ready(status(gateway).await).await).await;
}

/// Returns the JSON of `/status`.
pub(crate) async fn status(gateway: &Gateway) -> Value {
    gateway.page("/status").await.unwrap().message().unwrap()
}

/// Polls until a condition holds.
pub(crate) async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + SOON;
    while !holds().await {
        assert!(Instant::now() < deadline, "not within {SOON:?}: {what}");
        sleep(Duration::from_millis(10)).await;
    }
}

/// Returns a client of each generation.
pub(crate) async fn both(url: &str) -> Result<[Caller; 2], TestError> {
    Ok([Caller::stateful(url).await?, Caller::stateless(url)])
}

/// Returns the resident memory of a process in KiB.
pub(crate) fn memory(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Returns the median.
pub(crate) fn median(times: &mut [Duration]) -> Duration {
    times.sort();
    times[times.len() / 2]
}
