//! Configuration reloads under continuous use.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use vmcp_test_support::McpBackend;
use vmcp_tests::backends::conforming_server;
use vmcp_tests::caller::{Caller, Events};
use vmcp_tests::counterparts::Gateway;
use vmcp_tests::fixture::Generation;

use crate::common::{config, memory, status, until};

/// Number of reloads, unless `VMCP_RELOADS` is set.
const RELOADS: u64 = 100;

/// Number of open streams per generation.
const STREAMS: usize = 50;

/// Maximum memory growth between the first and the last tenth of the reloads, in KiB.
const GROWTH: u64 = 8 << 10;

/// Returns one of two configurations that differ in a description, a timeout and a backend.
fn variant(odd: bool, backends: &[McpBackend], coming: &McpBackend) -> String {
    let (words, wait) = if odd { ("odd", "7s") } else { ("even", "8s") };
    let all = backends.iter().chain(odd.then_some(coming));
    config(
        all.map(|good| (good.name(), good.url())),
        &format!(
            "aggregation:\n  tools:\n  - workload: both\n    overrides: \
             {{echo: {{description: {words}}}}}\noperational:\n  timeouts: \
             {{default: 10s, perWorkload: {{fickle: {wait}}}}}\n"
        ),
    )
}

/// Replaces the file atomically, as editors and Kubernetes do.
fn write(path: &Path, yaml: &str) {
    let new = path.with_extension("new");
    std::fs::write(&new, yaml).unwrap();
    std::fs::rename(&new, path).unwrap();
}

async fn reloads(gateway: &Gateway) -> u64 {
    let status = status(gateway).await;
    let configuration = &status["configuration"];
    assert_eq!(configuration["refused_reloads"], 0, "{configuration}");
    configuration["reloads"].as_u64().unwrap()
}

/// Changes the file and waits until the gateway has reloaded it.
pub(crate) async fn change(gateway: &Gateway, yaml: &str) {
    let before = reloads(gateway).await;
    write(gateway.config(), yaml);
    gateway.signal("HUP").await.unwrap();
    let begun = Instant::now();
    while reloads(gateway).await == before {
        assert!(begun.elapsed() < Duration::from_secs(5), "{}", gateway.log());
        sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn audit_reload_keeps_events_of_running_calls() {
    let good = conforming_server("good").start();
    let gateway = crate::common::gateway(&[&good]).await;
    // Other runs share the directory.
    let file = |name: &str| gateway.config().with_file_name(format!("{name}-{}", gateway.pid()));
    for name in ["first", "second"] {
        _ = std::fs::remove_file(file(name));
    }
    let with = |name: &str| {
        let audit = format!("audit: {{enabled: true, logFile: {:?}}}\n", file(name));
        config([(good.name(), good.url())], &audit)
    };
    change(&gateway, &with("first")).await;
    let mut caller = Caller::stateless(gateway.url());
    let call = tokio::spawn(async move {
        caller.call("good_slow", json!({ "ms": 4000 })).await.unwrap();
    });
    sleep(Duration::from_millis(300)).await;
    change(&gateway, &with("second")).await;
    until("the second file is there", async || file("second").exists()).await;
    assert!(!call.is_finished(), "the call is over before the reload");
    call.await.unwrap();
    let calls = || std::fs::read_to_string(file("first")).unwrap().matches("good_slow").count();
    until("the call is on record", async || calls() > 0).await;
}

/// State shared by all clients.
#[derive(Default)]
struct Load {
    over: AtomicBool,
    requests: AtomicU64,
    told: AtomicU64,
}

impl Load {
    fn goes_on(&self) -> bool {
        self.requests.fetch_add(1, Ordering::Relaxed);
        !self.over.load(Ordering::Relaxed)
    }
}

/// Calls permanent tools in one session.
async fn work(mut caller: Caller, load: Arc<Load>) {
    let mut known: [Option<Value>; 3] = Default::default();
    let mut number = 0;
    while load.goes_on() {
        number += 1;
        let index = number % 3;
        let name = ["stateful", "both", "fickle"][index];
        let tool = format!("{name}_{}", ["slow", "echo", "stream", "echo"][number % 4]);
        let params = json!({ "name": tool, "arguments": { "ms": 20, "number": number } });
        let answer = caller.ask("tools/call", params).await.unwrap();
        let seen = &answer["result"]["structuredContent"];
        assert_eq!(seen["params"]["arguments"]["number"], number, "{tool}: {answer}");
        if caller.session().is_some() {
            let session = known[index].get_or_insert_with(|| seen["session"].clone());
            assert_eq!(*session, seen["session"], "{tool}: not the session that it had");
        }
        let tools = caller.tools().await.unwrap();
        for name in ["stateful_echo", "stateless_echo", "both_echo", "fickle_echo"] {
            assert!(tools.iter().any(|tool| tool == name), "no {name}: {tools:?}");
        }
    }
}

/// Connects, calls and disconnects repeatedly.
async fn visit(url: String, load: Arc<Load>) {
    while load.goes_on() {
        let mut caller = Caller::stateful(&url).await.unwrap();
        caller.call("stateful_echo", json!({})).await.unwrap();
        caller.call("stateless_slow", json!({ "ms": 5 })).await.unwrap();
        assert_eq!(caller.leave().await.unwrap().status, 204);
    }
}

/// Calls a tool that exists in every other configuration: it succeeds, or is unknown.
async fn try_coming(mut caller: Caller, load: Arc<Load>) {
    while load.goes_on() {
        for tool in ["coming_slow", "coming_stream"] {
            let params = json!({ "name": tool, "arguments": { "ms": 15 } });
            let answer = caller.ask("tools/call", params).await.unwrap();
            let fine = answer["result"]["structuredContent"]["backend"] == "coming";
            let unknown = answer["error"]["message"] == format!("unknown tool: {tool}");
            assert!(fine || unknown, "{answer}");
        }
    }
}

/// Reads a stream that must not end before all other clients have finished.
async fn hear(mut events: Events, _caller: Caller, load: Arc<Load>) -> u64 {
    let mut told = 0;
    loop {
        match events.next_within(Duration::from_millis(200)).await {
            Ok(Some(message)) => {
                let method = message["method"].as_str().unwrap_or_default();
                assert!(method.ends_with("/list_changed"), "{message}");
                told += 1;
                load.told.fetch_add(1, Ordering::Relaxed);
            }
            Ok(None) => panic!("the stream ended after {told} messages"),
            Err(_) if load.over.load(Ordering::Relaxed) => return told,
            Err(fault) => assert!(fault.to_string().contains("nothing"), "{fault}"),
        }
    }
}

async fn start_load(url: &str, load: &Arc<Load>) -> (Vec<JoinHandle<()>>, Vec<JoinHandle<u64>>) {
    let mut working = Vec::new();
    let mut listening = Vec::new();
    for _ in 0..2 {
        let session = Caller::stateful(url).await.unwrap();
        working.push(tokio::spawn(work(session, Arc::clone(load))));
        working.push(tokio::spawn(work(Caller::stateless(url), Arc::clone(load))));
        working.push(tokio::spawn(visit(url.to_owned(), Arc::clone(load))));
        let session = Caller::stateful(url).await.unwrap();
        working.push(tokio::spawn(try_coming(session, Arc::clone(load))));
        working.push(tokio::spawn(try_coming(Caller::stateless(url), Arc::clone(load))));
    }
    for _ in 0..STREAMS {
        let mut session = Caller::stateful(url).await.unwrap();
        // The backend's notification stream feeds the client's.
        session.call("stateful_echo", json!({})).await.unwrap();
        for mut caller in [session, Caller::stateless(url)] {
            let events = caller.listen().await.unwrap();
            listening.push(tokio::spawn(hear(events, caller, Arc::clone(load))));
        }
    }
    (working, listening)
}

#[tokio::test(flavor = "multi_thread")]
async fn constant_reloads_do_not_disturb_clients() {
    let number = std::env::var("VMCP_RELOADS").ok().and_then(|number| number.parse().ok());
    let number = number.unwrap_or(RELOADS);
    let speaking = |name, generation| conforming_server(name).protocol(generation).start();
    let backends = [
        speaking("stateful", Generation::Stateful),
        speaking("stateless", Generation::Stateless),
        speaking("both", Generation::Both),
        speaking("fickle", Generation::Stateful),
    ];
    let coming = speaking("coming", Generation::Stateful);
    let variants = [false, true].map(|odd| variant(odd, &backends, &coming));
    let gateway = Gateway::start(&variants[0]).await.unwrap();
    until("all are known", async || status(&gateway).await["offered"]["tools"] == 16).await;
    let load = Arc::new(Load::default());
    let (working, listening) = start_load(gateway.url(), &load).await;
    let begun = Instant::now();
    let mut sizes = Vec::new();
    for round in 1..=number {
        change(&gateway, &variants[usize::from(round % 2 == 1)]).await;
        assert!(working.iter().all(|worker| !worker.is_finished()), "somebody failed");
        assert!(listening.iter().all(|listener| !listener.is_finished()), "a stream ended");
        if round % (number / 10).max(1) == 0 {
            sizes.push(memory(gateway.pid()));
        }
    }
    let took = begun.elapsed();
    // Listeners keep their streams.
    let told = load.told.load(Ordering::Relaxed);
    backends[0].add_tool("last");
    until("every stream is told", async || {
        load.told.load(Ordering::Relaxed) >= told + 2 * STREAMS as u64
    })
    .await;
    load.over.store(true, Ordering::Relaxed);
    for worker in working {
        worker.await.unwrap();
    }
    for listener in listening {
        assert!(listener.await.unwrap() > 0);
    }
    let status = status(&gateway).await;
    eprintln!(
        "{number} changes in {took:.1?}: {} requests, {} notifications on {} streams, KiB {sizes:?}",
        load.requests.load(Ordering::Relaxed),
        load.told.load(Ordering::Relaxed),
        2 * STREAMS,
    );
    assert_eq!(status["configuration"]["refused_reloads"], 0, "{status}");
    let (first, last) = (sizes[0], sizes[sizes.len() - 1]);
    assert!(last < first + GROWTH, "{sizes:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn rejects_and_reports_invalid_reload() {
    let good = conforming_server("a").start();
    let gateway = crate::common::gateway(&[&good]).await;
    let mut caller = Caller::stateful(gateway.url()).await.unwrap();
    let mut stream = caller.listen().await.unwrap();
    write(gateway.config(), "name: tests\nbakends: []\n");
    gateway.signal("HUP").await.unwrap();
    until("the mistake is told", async || {
        let status = status(&gateway).await;
        let told = status["configuration"]["last_error"].as_str().unwrap_or_default().to_owned();
        told.contains("bakends") && told.contains("backends")
    })
    .await;
    caller.call("a_echo", json!({})).await.unwrap();
    write(gateway.config(), &config([("a", good.url())], "aggregation: {excludeAllTools: true}\n"));
    // Without a signal: the gateway polls the file.
    let told = stream.next().await.unwrap().unwrap();
    assert_eq!(told["method"], "notifications/tools/list_changed");
    assert!(caller.tools().await.unwrap().is_empty());
    // Clients are notified shortly before the outcome is recorded.
    until("the mistake is forgotten", async || {
        status(&gateway).await["configuration"]["last_error"] == Value::Null
    })
    .await;
}
