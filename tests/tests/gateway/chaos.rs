//! Backends that hang, reject, send garbage, are slow or die, without effect on the others.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use vmcp_test_support::McpBackend;
use vmcp_test_support::mcp_backend::Behavior;
use vmcp_tests::backends::{ServerFault, conforming_server};
use vmcp_tests::caller::Caller;
use vmcp_tests::counterparts::Gateway;
use vmcp_tests::fixture::Generation;

use crate::common::{both, config, gateway, median, memory, status, until};

/// Minimum timeout of a faulty backend. A request that waits for one takes at least this long.
const SHORTEST: Duration = Duration::from_secs(1);

/// Number of measurements.
const ROUNDS: usize = 50;

/// Maximum memory of a gateway with all of these backends, in KiB.
const MOST_MEMORY: u64 = 256 << 10;

fn sections(mode: &str) -> String {
    format!(
        "operational:\n  timeouts: {{default: 1s, perWorkload: {{slow: 5s}}}}\n  \
         failureHandling: {{partialFailureMode: {mode}}}\n"
    )
}

fn five() -> Vec<McpBackend> {
    let generations = [Generation::Stateful, Generation::Stateless, Generation::Both];
    let all = ["a", "b", "c", "d", "e"].into_iter().zip(generations.into_iter().cycle());
    all.map(|(name, speaks)| conforming_server(name).protocol(speaks).start()).collect()
}

/// Measured requests.
const ASKED: [&str; 6] = [
    "initialize",
    "server/discover",
    "list, session",
    "list, stateless",
    "call, session",
    "call, stateless",
];

/// Durations per measured request.
#[derive(Default)]
struct Times([Vec<Duration>; ASKED.len()]);

/// A gateway with a client of each generation and their measurements.
struct Side {
    gateway: Gateway,
    session: Caller,
    stateless: Caller,
    times: Times,
}

impl Side {
    async fn before(backends: Vec<(String, String)>, mode: &str) -> Self {
        let gateway = Gateway::start(&config(backends, &sections(mode))).await.unwrap();
        // Before the first response of a backend.
        let begun = Instant::now();
        let [session, stateless] = both(gateway.url()).await.unwrap();
        assert!(begun.elapsed() < SHORTEST, "initialize waited {:?}", begun.elapsed());
        Self { gateway, session, stateless, times: Times::default() }
    }

    /// Sends every request once. Lists are skipped if they have to fail.
    async fn round(&mut self, number: usize, lists: bool) {
        let Self { gateway, session, stateless, times: Times(times) } = self;
        let tool = format!("{}_echo", ["a", "b", "c", "d", "e"][number % 5]);
        let begun = Instant::now();
        let mut new = Caller::stateful(gateway.url()).await.unwrap();
        times[0].push(begun.elapsed());
        new.leave().await.unwrap();
        let begun = Instant::now();
        stateless.result("server/discover", json!({})).await.unwrap();
        times[1].push(begun.elapsed());
        for (index, caller) in [session, stateless].into_iter().enumerate() {
            let begun = Instant::now();
            let listed = caller.ask("tools/list", json!({})).await.unwrap();
            times[2 + index].push(begun.elapsed());
            if lists {
                assert_lists(&listed);
            } else {
                assert_names_a_bad_one(&listed);
            }
            let begun = Instant::now();
            let seen = caller.call(&tool, json!({ "number": number })).await.unwrap();
            times[4 + index].push(begun.elapsed());
            assert_eq!(seen["structuredContent"]["params"]["arguments"]["number"], number);
        }
    }
}

fn assert_lists(answer: &Value) {
    let tools = answer["result"]["tools"].as_array().unwrap_or_else(|| panic!("{answer}"));
    for name in ["a", "b", "c", "d", "e"] {
        let echo = format!("{name}_echo");
        assert!(tools.iter().any(|tool| tool["name"] == *echo), "{echo}: {answer}");
    }
}

/// Asserts that the error names the backend and permits a retry.
fn assert_names_a_bad_one(answer: &Value) {
    let error = &answer["error"];
    let said = error["message"].as_str().unwrap_or_else(|| panic!("{answer}"));
    let named = ServerFault::ALL.iter().find(|bad| error["data"]["backend"] == bad.name());
    let named = named.unwrap_or_else(|| panic!("names no backend: {answer}")).name();
    assert!(said.contains(named) && said.contains("partialFailureMode is fail"), "{said}");
    assert_eq!((&error["code"], &error["data"]["retryable"]), (&json!(-32603), &json!(true)));
}

async fn assert_the_good_notice_nothing(mode: &str) {
    let good = five();
    let mut bad = Vec::new();
    for kind in ServerFault::ALL {
        bad.push((kind.name().to_owned(), kind.start().await.unwrap()));
    }
    let names = || good.iter().map(|good| (good.name().to_owned(), good.url()));
    let urls = bad.iter().map(|(name, running)| (name.clone(), running.url()));
    let mut alone = Side::before(names().collect(), mode).await;
    // Faulty backends come first and last: their order must not matter.
    let mut urls: Vec<_> = urls.collect();
    let last = urls.split_off(4);
    let mut among = Side::before(urls.into_iter().chain(names()).chain(last).collect(), mode).await;
    for side in [&mut alone, &mut among] {
        let caller = &mut side.stateless;
        until("all good tools can be called", async || {
            let mut answered = true;
            for good in &good {
                answered &= caller.call(&format!("{}_echo", good.name()), json!({})).await.is_ok();
            }
            // Lists wait until every backend has responded or timed out once.
            _ = caller.ask("tools/list", json!({})).await;
            answered
        })
        .await;
    }
    for number in 0..ROUNDS {
        alone.round(number, true).await;
        among.round(number, mode == "best_effort").await;
    }
    eprintln!("{mode}: with 5 good backends alone, and with {} bad ones among them", bad.len());
    for (index, what) in ASKED.into_iter().enumerate() {
        let without = median(&mut alone.times.0[index]);
        let with = median(&mut among.times.0[index]);
        let worst = *among.times.0[index].iter().max().unwrap();
        let ratio = with.as_secs_f64() / without.as_secs_f64();
        eprintln!("  {what:16} {without:>9.1?} {with:>9.1?}  ratio {ratio:.2}, worst {worst:.1?}");
        assert!(worst < SHORTEST, "{mode}: {what} took {worst:?} once");
    }
    let needs = memory(among.gateway.pid());
    eprintln!("  memory {} KiB and {needs} KiB", memory(alone.gateway.pid()));
    assert!(needs < MOST_MEMORY, "{needs} KiB");
}

#[tokio::test(flavor = "multi_thread")]
async fn faulty_backends_leave_others_unaffected_best_effort() {
    assert_the_good_notice_nothing("best_effort").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn faulty_backends_leave_others_unaffected_fail() {
    assert_the_good_notice_nothing("fail").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn list_fails_immediately_for_known_down_backend() {
    let slow =
        conforming_server("slow").behavior(Behavior::Delayed(Duration::from_secs(2))).start();
    let down = ServerFault::Refusing.start().await.unwrap();
    let all = [("slow", slow.url()), ("refusing", down.url())];
    let gateway = Gateway::start(&config(all, &sections("fail"))).await.unwrap();
    until("the one is known to be down", async || {
        status(&gateway).await["backends"][1]["message"].is_string()
    })
    .await;
    let begun = Instant::now();
    for mut caller in both(gateway.url()).await.unwrap() {
        let reply = caller.reply("tools/list", json!({})).await.unwrap();
        // Clients treat other statuses as the end of their connection.
        assert_eq!(reply.status, 200, "{reply:?}");
        assert_names_a_bad_one(&reply.message().unwrap());
    }
    assert!(begun.elapsed() < SHORTEST, "{:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn dying_backend_fails_only_its_call() {
    for generation in [Generation::Stateful, Generation::Stateless] {
        for tool in ["slow", "stream"] {
            let dying = conforming_server("dying").protocol(generation).start();
            let fine = conforming_server("fine").start();
            let gateway = gateway(&[&dying, &fine]).await;
            let mut cut = Vec::new();
            let mut fine = Vec::new();
            let callers = both(gateway.url()).await.unwrap().into_iter();
            for mut caller in callers.chain(both(gateway.url()).await.unwrap()) {
                let dies = cut.len() < 2;
                let name = format!("{}_{tool}", if dies { "dying" } else { "fine" });
                let calls = tokio::spawn(async move {
                    let params = json!({ "name": name, "arguments": { "ms": 600 } });
                    caller.ask("tools/call", params).await
                });
                if dies { cut.push(calls) } else { fine.push(calls) }
            }
            until("the calls have arrived", async || dying.count("tools/call") == 2).await;
            sleep(Duration::from_millis(50)).await;
            drop(dying);
            for (call, who) in cut.into_iter().zip(["a session", "a stateless client"]) {
                let what = format!("{generation:?}, {tool}, {who}");
                let answer = call.await.unwrap().unwrap_or_else(|fault| panic!("{what}: {fault}"));
                let error = &answer["error"];
                assert_eq!(error["code"], -32603, "{what}: {answer}");
                assert_eq!(error["data"]["backend"], "dying", "{what}: {answer}");
                // The tool has no annotations, so it may have had side effects.
                assert_eq!(error["data"]["retryable"], false, "{what}: {answer}");
                let message = error["message"].as_str().unwrap();
                assert!(message.contains("may have acted"), "{what}: {answer}");
                assert_eq!(answer["id"], 1, "{what}: {answer}");
            }
            for call in fine {
                let answer = call.await.unwrap().unwrap();
                assert_eq!(answer["result"]["structuredContent"]["backend"], "fine", "{answer}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_of_faulty_backend_end_in_time() {
    for bad in [
        ServerFault::HungAfterAccept,
        ServerFault::Html,
        ServerFault::Nonsense,
        ServerFault::Endless,
        ServerFault::Refusing,
    ] {
        let good = conforming_server("odd").start();
        let other = conforming_server("fine").start();
        let all = [("odd", good.url()), ("fine", other.url())];
        let gateway = Gateway::start(&config(all, &sections("best_effort"))).await.unwrap();
        let callers = both(gateway.url()).await.unwrap();
        let port = good.port();
        let mut known = Caller::stateless(gateway.url());
        until("it is known", async || known.call("odd_echo", json!({})).await.is_ok()).await;
        drop(good);
        // The catalog is remembered; calls get the backend's current error.
        let _now = bad.start_at(port).await.unwrap();
        for mut caller in callers {
            let begun = Instant::now();
            let params = json!({ "name": "odd_echo", "arguments": {} });
            let reply = caller.reply("tools/call", params).await.unwrap();
            let answer = reply.message().unwrap_or_else(|fault| panic!("{bad:?}: {fault}"));
            assert_eq!(answer["error"]["data"]["backend"], "odd", "{bad:?}: {answer}");
            assert_eq!(answer["error"]["code"], -32603, "{bad:?}: {answer}");
            let took = begun.elapsed();
            assert!(took < 3 * SHORTEST, "{bad:?}: {took:?}");
            caller.call("fine_echo", json!({})).await.unwrap();
            assert!(caller.tools().await.unwrap().contains(&"odd_echo".to_owned()), "{bad:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn returning_backend_is_used_immediately() {
    let away = conforming_server("away").start();
    let port = away.port();
    let all = [("away", away.url())];
    let gateway = Gateway::start(&config(all, &sections("best_effort"))).await.unwrap();
    let mut caller = Caller::stateful(gateway.url()).await.unwrap();
    until("it is known", async || caller.call("away_echo", json!({})).await.is_ok()).await;
    drop(away);
    let refused = caller.ask("tools/call", json!({ "name": "away_echo" })).await.unwrap();
    assert_eq!(refused["error"]["data"]["backend"], "away", "{refused}");
    sleep(Duration::from_millis(500)).await;
    let back = conforming_server("away").port(port).start();
    back.add_tool("new");
    let begun = Instant::now();
    caller.call("away_echo", json!({})).await.unwrap();
    eprintln!("called again after {:?}", begun.elapsed());
    until("what is new is offered", async || {
        caller.tools().await.unwrap().contains(&"away_new".to_owned())
    })
    .await;
    eprintln!("listed anew after {:?}", begun.elapsed());
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_backend_that_starts_after_gateway() {
    let Ok(vmcp_tests::backends::FaultyServer::Away(port)) = ServerFault::Refusing.start().await
    else {
        panic!("somebody listens");
    };
    let all = [("late", format!("http://127.0.0.1:{port}/mcp"))];
    let gateway = Gateway::start(&config(all, &sections("best_effort"))).await.unwrap();
    let mut caller = Caller::stateful(gateway.url()).await.unwrap();
    let mut stream = caller.listen().await.unwrap();
    assert!(caller.tools().await.unwrap().is_empty());
    sleep(Duration::from_millis(700)).await;
    let _late = conforming_server("late").port(port).start();
    let begun = Instant::now();
    let told = stream.next().await.unwrap().unwrap();
    assert_eq!(told["method"], "notifications/tools/list_changed");
    assert!(caller.tools().await.unwrap().contains(&"late_echo".to_owned()));
    eprintln!("offered after {:?}", begun.elapsed());
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn bounds_memory_for_flooding_backend_and_idle_client() {
    for generation in [Generation::Stateful, Generation::Stateless] {
        let chatty = conforming_server("chatty").protocol(generation).start();
        let gateway = gateway(&[&chatty]).await;
        let mut callers = both(gateway.url()).await.unwrap();
        let before = memory(gateway.pid());
        let mut streams = Vec::new();
        for caller in &mut callers {
            let meta = json!({ "io.modelcontextprotocol/logLevel": "info" });
            let params =
                json!({ "name": "chatty_stream", "arguments": { "flood": 10_000 }, "_meta": meta });
            streams.push(caller.stream("tools/call", params).await.unwrap());
        }
        let mut most = 0;
        for _ in 0..20 {
            sleep(Duration::from_millis(50)).await;
            most = most.max(memory(gateway.pid()));
            callers[0].result("ping", json!({})).await.unwrap();
        }
        let grown = most.saturating_sub(before);
        eprintln!("{generation:?}: {grown} KiB more while nobody reads 10 MiB");
        assert!(grown < 8 << 10, "{grown} KiB");
        for mut stream in streams {
            let mut messages = 0;
            let result = loop {
                let message =
                    stream.next().await.unwrap().expect("the stream ended without a result");
                if message.get("id").is_some() {
                    break message;
                }
                messages += 1;
            };
            assert_eq!(result["result"]["structuredContent"]["backend"], "chatty", "{result}");
            assert!(messages > 0);
        }
    }
}
