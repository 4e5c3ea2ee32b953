//! Catalogs of backends that change, fail or are malicious.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::time::sleep;
use vmcp_aggregate::settings::{Limits, PartialFailure};
use vmcp_core::{
    Authorizer, ByteBudget, CallerPermissions, Decision, Fingerprint, Generation, Item,
};

use crate::fake::{
    Behavior, Client, FakeBackend, Sessions, StreamStart, gateway, heard, settings, with,
    with_limits,
};
use crate::responses::body;
use crate::script::{ScriptedBackend, ScriptedClient, Wire, text as text_of};

const BOTH: [Generation; 2] = [Generation::Stateful, Generation::Stateless];

#[tokio::test(start_paused = true)]
async fn survives_templates_of_thousands_of_expressions() {
    for generation in BOTH {
        let hostile = json!({"resourceTemplates": [
            {"uriTemplate": "{?a}".repeat(19_900), "name": "h"},
            {"uriTemplate": "{+a}{+b}!".repeat(2_000), "name": "h"},
        ]});
        let good = json!({"resourceTemplates": [{"uriTemplate": "t://{n}", "name": "g"}]});
        let hostile = FakeBackend::new("bad", generation).offer("*", hostile);
        let good = FakeBackend::new("good", generation).offer("*", good);
        let gateway = gateway(&[hostile, good]).await;
        for client in BOTH {
            let client = Client::new(&gateway, client, "").await;
            let read = client.ask("resources/read", json!({"uri": "t://1"})).await;
            assert_eq!(read.json()["result"]["content"][0]["text"], "good:nobody", "{read:?}");
            let long = "?".to_owned() + &"a".repeat(100_000);
            let read = client.ask("resources/read", json!({"uri": long})).await;
            let message = read.json()["error"]["message"].to_string();
            assert!(message.contains("unknown resource"), "{message}");
        }
    }
}

/// Authorizer that hides all items.
struct HideAll;

impl Authorizer for HideAll {
    fn is_visible(&self, _: &Item<'_>) -> bool {
        false
    }

    fn authorize(&self, _: &Item<'_>, _: Option<&[u8]>) -> Decision {
        Decision::Hide
    }

    fn visibility_key(&self) -> Fingerprint {
        Fingerprint([0; 16])
    }
}

#[tokio::test(start_paused = true)]
async fn authorizes_resource_before_matching_templates() {
    let hostile = json!({"resourceTemplates": [{"uriTemplate": "{+a}{+b}!", "name": "h"}]});
    let gateway = gateway(&[FakeBackend::new("bad", BOTH[1]).offer("*", hostile)]).await;
    let client = Client::new(&gateway, BOTH[1], "a").await.with(CallerPermissions::new(HideAll));
    let read = client.ask("resources/read", json!({"uri": "x://y"})).await;
    assert_eq!(
        read.request_context.denied(),
        Some("hidden from the caller"),
        "judged before it is found"
    );
}

fn tools(names: &[&str]) -> Value {
    json!({"tools": names.iter().map(|name| json!({"name": name})).collect::<Vec<_>>()})
}

#[tokio::test(start_paused = true)]
async fn fetches_list_that_changed_during_a_call() {
    for (backend, client) in BOTH.into_iter().flat_map(|one| BOTH.map(|other| (one, other))) {
        let fake = FakeBackend::new("be", backend).offer("*", tools(&["touch"]));
        let gateway = gateway(&[Arc::clone(&fake)]).await;
        let client = Client::new(&gateway, client, "c").await;
        let fake = fake.offer("*", tools(&["touch", "new"]));
        client.ask("tools/call", json!({"name": "be_touch", "arguments": {}})).await;
        sleep(Duration::from_secs(1)).await;
        let names = client.names("tools/list").await;
        assert_eq!(names, ["be_new", "be_touch"], "{backend:?} {:?}", client.generation);
        assert_eq!(fake.open_streams("gateway"), usize::from(backend == BOTH[0]));
    }
}

#[tokio::test(start_paused = true)]
async fn keeps_session_of_backend_without_get_route() {
    let fake = FakeBackend::new("be", BOTH[0]).offer("*", tools(&["t"]));
    *fake.sessions.lock().unwrap() = Some(Sessions::default());
    *fake.stream_start.lock().unwrap() = StreamStart::Unrouted;
    let gateway = gateway(&[Arc::clone(&fake)]).await;
    let client = Client::new(&gateway, BOTH[0], "c").await;
    let _stream = client.stand().await;
    for _ in 0..10 {
        assert_eq!(client.call("be_t").await.as_deref(), Some("be:c"));
        sleep(Duration::from_secs(30)).await;
    }
    let sessions = fake.sessions.lock().unwrap();
    let sessions = sessions.as_ref().unwrap();
    assert_eq!(
        (&sessions.openers[..], sessions.open.len()),
        (&["gateway".into(), "c".into()][..], 2)
    );
}

#[tokio::test(start_paused = true)]
async fn reopens_session_that_backend_lost() {
    let fake = FakeBackend::new("be", BOTH[0]).offer("*", tools(&["t"]));
    *fake.sessions.lock().unwrap() = Some(Sessions::default());
    let gateway = gateway(&[Arc::clone(&fake)]).await;
    let client = Client::new(&gateway, BOTH[0], "c").await;
    let _stream = client.stand().await;
    assert_eq!(client.call("be_t").await.as_deref(), Some("be:c"));
    sleep(Duration::from_secs(1)).await;
    assert_eq!(fake.open_streams("c"), 1);
    fake.sessions.lock().unwrap().as_mut().unwrap().open.clear();
    fake.streams.lock().unwrap().clear();
    sleep(Duration::from_secs(30)).await;
    assert_eq!((fake.open_streams("c"), fake.open_streams("gateway")), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn ends_session_at_unknown_revision() {
    let fake = FakeBackend::new("be", BOTH[0]).offer("*", tools(&["t"]));
    *fake.sessions.lock().unwrap() = Some(Sessions::default());
    *fake.revision.lock().unwrap() = "1999-01-01";
    let _gateway = gateway(&[Arc::clone(&fake)]).await;
    sleep(Duration::from_millis(50)).await;
    let sessions = fake.sessions.lock().unwrap();
    let sessions = sessions.as_ref().unwrap();
    assert!(!sessions.openers.is_empty() && sessions.open.is_empty(), "{sessions:?}");
}

#[tokio::test(start_paused = true)]
async fn closes_session_of_late_subscriber_to_removed_backend() {
    let offer = json!({"resources": [{"uri": "x://r", "name": "r"}]});
    let fake = FakeBackend::new("be", BOTH[0]).offer("*", offer);
    *fake.sessions.lock().unwrap() = Some(Sessions::default());
    let gateway = gateway(&[Arc::clone(&fake)]).await;
    let client = Client::new(&gateway, BOTH[0], "c").await;
    *fake.behavior.lock().unwrap() = Behavior::Delayed(Duration::from_secs(1));
    let asking = tokio::spawn({
        let client = client.clone();
        async move { client.ask("resources/subscribe", json!({"uri": "x://r"})).await }
    });
    sleep(Duration::from_millis(500)).await;
    gateway.reload(settings(Vec::new(), PartialFailure::BestEffort, None)).await;
    let subscribed = asking.await.unwrap();
    assert_eq!(subscribed.status, 200, "it ends on the configuration that it began with");
    sleep(Duration::from_mins(1)).await;
    assert_eq!(fake.open_streams("c"), 0, "nobody follows it");
    let sessions = fake.sessions.lock().unwrap();
    assert_eq!(sessions.as_ref().unwrap().open.len(), 0, "{sessions:?}");
}

#[tokio::test(start_paused = true)]
async fn incomplete_list_names_missing_backends() {
    let good = FakeBackend::new("good", BOTH[0]).offer("*", tools(&["t"]));
    let dead = FakeBackend::new("dead", BOTH[0]).offer("*", tools(&["t"]));
    let own = FakeBackend::new("own", BOTH[1]).offer("c", tools(&["t"]));
    *dead.behavior.lock().unwrap() = Behavior::Unreachable;
    let all = vec![good.settings(), dead.settings(), own.per_caller()];
    let gateway = with(all, PartialFailure::BestEffort).await;
    for generation in BOTH {
        let missing = |said: &crate::fake::ClientResponse| {
            said.json()["result"]["_meta"]["vmcp.dev/incomplete"].clone()
        };
        let known = Client::new(&gateway, generation, "c").await;
        for method in ["tools/list", "prompts/list", "resources/list", "resources/templates/list"] {
            let said = known.ask(method, json!({})).await;
            let expected = json!([{"backend": "dead", "reason": "is unreachable"}]);
            assert_eq!(missing(&said), expected, "{said:?}");
        }
        let nobody = Client::new(&gateway, generation, "").await;
        let said = missing(&nobody.ask("tools/list", json!({})).await);
        assert_eq!((&said[0]["backend"], &said[1]["backend"]), (&json!("dead"), &json!("own")));
        // Items of an unavailable backend cannot be checked against policies.
        let judged = known.with(CallerPermissions::new(HideAll));
        let said = missing(&judged.ask("tools/list", json!({})).await);
        assert_eq!(said, json!([{"reason": "a backend is unavailable"}]));
    }
    *dead.behavior.lock().unwrap() = Behavior::Normal;
    sleep(Duration::from_secs(10)).await;
    for generation in BOTH {
        let known = Client::new(&gateway, generation, "c").await;
        let said = known.ask("tools/list", json!({})).await.json();
        assert_eq!(said["result"]["_meta"].get("vmcp.dev/incomplete"), None);
        assert_eq!(said["result"].get("_meta").is_some(), generation == BOTH[1]);
    }
}

/// Creates a backend that supports both generations.
fn dual(lists_both: bool) -> Arc<FakeBackend> {
    let fake = FakeBackend::new("be", BOTH[0]).offer("*", tools(&["old", "both"]));
    *fake.lists_both.lock().unwrap() = lists_both;
    fake.and_stateless(tools(&["new", "both"]))
}

#[tokio::test(start_paused = true)]
async fn keeps_one_catalog_per_backend_generation() {
    for (lists_both, per_caller) in [(true, false), (false, false), (true, true)] {
        let fake = dual(lists_both);
        let backend = if per_caller { fake.per_caller() } else { fake.settings() };
        let gateway = with(vec![backend], PartialFailure::Fail).await;
        let stateful = Client::new(&gateway, BOTH[0], "c").await;
        let stateless = Client::new(&gateway, BOTH[1], "c").await;
        assert_eq!(stateful.names("tools/list").await, ["be_both", "be_old"]);
        assert_eq!(stateless.names("tools/list").await, ["be_both", "be_new"]);
        for (client, tool, found) in [
            (&stateful, "be_old", true),
            (&stateful, "be_new", false),
            (&stateful, "be_both", true),
            (&stateless, "be_new", true),
            (&stateless, "be_old", false),
            (&stateless, "be_both", true),
        ] {
            let said = client.call(tool).await;
            assert_eq!(said.as_deref(), found.then_some("be:c"), "{:?} {tool}", client.generation);
        }
        let report = gateway.report();
        assert_eq!(report.backends[0].health(), vmcp_breaker::health::Health::Ready);
        if !per_caller {
            assert_eq!(report.backends[0].revisions, ["2026-07-28", "2025-11-25"]);
            let entries = report.entries.iter().map(|entry| (&*entry.name, entry.generation));
            let expected =
                [("be_both", None), ("be_new", Some(BOTH[1])), ("be_old", Some(BOTH[0]))];
            assert_eq!(entries.collect::<Vec<_>>(), expected);
            assert_eq!(BOTH.map(|generation| report.shown("tool", generation)), [2, 2]);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn notifies_each_generation_of_own_changes() {
    let fake = dual(true);
    let gateway = gateway(&[Arc::clone(&fake)]).await;
    let stateful = Client::new(&gateway, BOTH[0], "c").await;
    let stateless = Client::new(&gateway, BOTH[1], "c").await;
    let mut standing = stateful.stand().await;
    let wanted = json!({"notifications": {"toolsListChanged": true}});
    let mut listening = stateless.send("subscriptions/listen", wanted).await.0.into_body();
    heard(&mut listening).await;
    let changed = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
    // The backend notifies only its older clients; the other offer is fetched too.
    let fake = fake.and_stateless(tools(&["newer", "both"]));
    fake.say("gateway", &changed);
    assert!(heard(&mut listening).await.contains("tools/list_changed"));
    assert_eq!(heard(&mut standing).await, "", "nothing of theirs has changed");
    assert_eq!(stateless.names("tools/list").await, ["be_both", "be_newer"]);
    let fake = fake.offer("*", tools(&["older", "both"]));
    fake.say("gateway", &changed);
    assert!(heard(&mut standing).await.contains("tools/list_changed"));
    assert_eq!(heard(&mut listening).await, "");
    assert_eq!(stateful.names("tools/list").await, ["be_both", "be_older"]);
    assert_eq!(fake.open_streams("gateway"), 1);
}

#[tokio::test(start_paused = true)]
async fn reopens_ended_streams_in_same_session() {
    let fake = dual(true);
    *fake.tells.lock().unwrap() = true;
    let gateway = gateway(&[Arc::clone(&fake)]).await;
    for _ in 0..10 {
        sleep(Duration::from_secs(10)).await;
        assert_eq!(fake.open_streams("gateway"), 2, "one for each generation");
        fake.streams.lock().unwrap().clear();
    }
    assert_eq!(fake.times("initialize", "gateway"), 1);
    let fake = fake.and_stateless(tools(&["newer"]));
    sleep(Duration::from_secs(10)).await;
    let stateless = Client::new(&gateway, BOTH[1], "c").await;
    assert_eq!(stateless.names("tools/list").await, ["be_newer"]);
    assert_eq!(fake.times("initialize", "gateway"), 1);
}

#[tokio::test(start_paused = true)]
async fn serves_generation_while_other_generation_fails() {
    let fake =
        FakeBackend::new("be", BOTH[0]).offer("*", tools(&["old"])).and_stateless(Value::Null);
    let gateway = gateway(&[Arc::clone(&fake)]).await;
    let stateful = Client::new(&gateway, BOTH[0], "c").await;
    let stateless = Client::new(&gateway, BOTH[1], "c").await;
    assert_eq!(stateful.names("tools/list").await, ["be_old"]);
    assert_eq!(stateless.names("tools/list").await, [""; 0]);
    let report = gateway.backends().remove(0);
    assert!(report.offered && report.problem().is_some(), "{report:?}");
    let fake = fake.and_stateless(tools(&["new"]));
    sleep(Duration::from_secs(10)).await;
    assert_eq!(stateless.names("tools/list").await, ["be_new"]);
    assert_eq!(gateway.backends()[0].problem(), None);
    assert_eq!(fake.open_streams("gateway"), 1);
}

#[tokio::test(start_paused = true)]
async fn policies_read_annotations_of_client_generation() {
    let tool = |destructive: bool| json!({"tools": [{"name": "t", "annotations": {"destructiveHint": destructive}}]});
    let fake = FakeBackend::new("be", BOTH[0]).offer("*", tool(false)).and_stateless(tool(true));
    let gateway = gateway(&[fake]).await;
    for (generation, status) in BOTH.into_iter().zip([200, 403]) {
        let client = Client::new(&gateway, generation, "c").await;
        let client = client.with(CallerPermissions::new(DenyDestructive));
        let said = client.ask("tools/call", json!({"name": "be_t", "arguments": {}})).await;
        assert_eq!(said.status, status, "{said:?}");
    }
    let entries = gateway.report().entries;
    let annotations = entries.iter().map(|entry| (entry.generation, entry.annotations.destructive));
    let expected = [(Some(BOTH[0]), Some(false)), (Some(BOTH[1]), Some(true))];
    assert_eq!(annotations.collect::<Vec<_>>(), expected);
}

/// Authorizer that denies destructive tools.
struct DenyDestructive;

impl Authorizer for DenyDestructive {
    fn is_visible(&self, _: &Item<'_>) -> bool {
        true
    }

    fn authorize(&self, item: &Item<'_>, _: Option<&[u8]>) -> Decision {
        if item.annotations.destructive == Some(true) { Decision::Deny } else { Decision::Allow }
    }

    fn visibility_key(&self) -> Fingerprint {
        Fingerprint([1; 16])
    }
}

fn names_of(offer: &ScriptedBackend) -> usize {
    offer.messages("tools/list").len()
}

#[tokio::test(start_paused = true)]
async fn change_burst_causes_few_fetches() {
    for wire in [Wire::Stateful, Wire::Stateless] {
        let (backend, _calls) = ScriptedBackend::new("be", wire);
        let gateway = with(vec![backend.settings(None)], PartialFailure::BestEffort).await;
        sleep(Duration::from_secs(5)).await;
        let client = ScriptedClient::new(&gateway, BOTH[1], "alice").await;
        let before = names_of(&backend);
        let changed = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
        for _ in 0..1000 {
            backend.announce(&changed);
            if wire == Wire::Stateless {
                // The backend has no stream, so each failed call triggers a poll.
                let call = client.begin(1, "missing");
                _ = call.await;
            }
            sleep(Duration::from_millis(10)).await;
        }
        sleep(Duration::from_secs(5)).await;
        let fetched = names_of(&backend) - before;
        // A burst of 32, and then one per second for fifteen seconds.
        assert!((wire == Wire::Stateless || fetched > 8) && fetched <= 48, "{wire:?}: {fetched}");
    }
}

#[tokio::test(start_paused = true)]
async fn limits_bytes_of_backend_catalog() {
    let text = "x".repeat(12 << 20);
    for (kinds, fits) in [(2, true), (3, false)] {
        let (backend, _calls) = ScriptedBackend::new("be", Wire::Stateful);
        {
            let mut offer = backend.offer.lock().unwrap();
            let lists =
                [("tools", "name"), ("resources", "uri"), ("resourceTemplates", "uriTemplate")];
            for (list, key) in lists.into_iter().take(kinds) {
                offer[list] = json!([{key: "x://t", "name": "t", "description": text}]);
            }
        }
        let gateway = with(vec![backend.settings(None)], PartialFailure::BestEffort).await;
        sleep(Duration::from_secs(5)).await;
        let client = ScriptedClient::new(&gateway, BOTH[1], "alice").await;
        let response = client.request(&json!(1), "tools/list", json!({})).await;
        let listed = text_of(response.into_body()).await.contains("be_");
        assert_eq!(listed, fits, "{kinds} lists of 12 MiB");
        let report = format!("{:?}", gateway.report());
        assert_eq!(
            report.contains("returned more than 33554432 bytes of tools"),
            !fits,
            "{report:.2000}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn pages_count_while_they_are_read() {
    for wire in [Wire::Stateful, Wire::Stateless] {
        let (backend, mut calls) = ScriptedBackend::new("be", wire);
        *backend.by_hand.lock().unwrap() = vec!["tools/list"];
        let budget = ByteBudget::new(1 << 20);
        let limits = Limits { byte_budget: Some(budget.clone()), ..Limits::default() };
        let settings = backend.settings(None);
        let starting = tokio::spawn(async move { with_limits(vec![settings], limits).await });
        let call = calls.recv().await.unwrap();
        let page = json!({"jsonrpc": "2.0", "id": call.message["id"], "result": {
            "tools": [{"name": "t", "description": "x".repeat(300_000), "inputSchema": {}}],
            "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}});
        let (sender, body) = body();
        call.respond(200, "application/json", body);
        let page = page.to_string();
        for part in page.as_bytes().chunks(100_000) {
            sender.send(Bytes::copy_from_slice(part)).unwrap();
        }
        sleep(Duration::from_secs(1)).await;
        assert!(budget.counts().held > 300_000, "{wire:?}: {}", budget.counts().held);
        drop(sender);
        let _gateway = starting.await.unwrap();
        sleep(Duration::from_secs(1)).await;
        assert_eq!(budget.counts().held, 0, "{wire:?}");
    }
}

/// Creates a backend whose lists of tools and of resources have this many empty pages each. Returns the number of pages
/// requested, and the report after 20 s.
async fn paged(wire: Wire, pages: usize, next: fn(usize) -> usize) -> (usize, String) {
    let (backend, mut calls) = ScriptedBackend::new("be", wire);
    *backend.by_hand.lock().unwrap() = vec!["tools/list", "resources/list"];
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    tokio::spawn(async move {
        while let Some(call) = calls.recv().await {
            counted.fetch_add(1, Ordering::Relaxed);
            let cursor = call.message["params"]["cursor"].as_str();
            let page: usize = cursor.map_or(0, |cursor| cursor.parse().unwrap());
            let mut result = json!({"tools": [], "resources": [], "resultType": "complete",
                "ttlMs": 0, "cacheScope": "private"});
            if page + 1 < pages {
                result["nextCursor"] = next(page).to_string().into();
            }
            call.answer(&result);
        }
    });
    let gateway = with(vec![backend.settings(None)], PartialFailure::BestEffort).await;
    sleep(Duration::from_secs(20)).await;
    (asked.load(Ordering::Relaxed), format!("{:?}", gateway.report()))
}

#[tokio::test(start_paused = true)]
async fn limits_pages_of_backend_catalog() {
    for wire in [Wire::Stateful, Wire::Stateless] {
        let (asked, report) = paged(wire, 400, |page| page + 1).await;
        assert!(asked >= 800 && !report.contains("pages"), "{wire:?}: {asked}, {report}");
        for pages in [600, usize::MAX] {
            let (asked, report) = paged(wire, pages, |page| page + 1).await;
            let told = report.contains("returned more than 1000 pages");
            assert!(told, "{wire:?}, {pages}: {report}");
            assert!(asked <= 1000, "{wire:?}, {pages}: {asked} requests");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn repeated_cursor_ends_the_list() {
    let (asked, report) = paged(Wire::Stateful, usize::MAX, |page| (page + 1) % 50).await;
    assert!(report.contains("returned the same cursor twice"), "{report}");
    assert!(asked <= 51, "{asked} requests");
}

#[tokio::test(start_paused = true)]
async fn name_of_absent_backend_stays_reserved() {
    for absent in [true, false] {
        let (greedy, mut greedy_calls) = ScriptedBackend::new("a", Wire::Stateful);
        let (other, mut other_calls) = ScriptedBackend::new("a_b", Wire::Stateful);
        greedy.offer.lock().unwrap()["tools"] = json!([{"name": "b_c"}, {"name": "t"}]);
        other.offer.lock().unwrap()["tools"] = json!([{"name": "c"}]);
        other.is_away.store(absent, std::sync::atomic::Ordering::Relaxed);
        let all = vec![greedy.settings(None), other.settings(None)];
        let gateway = with(all, PartialFailure::BestEffort).await;
        sleep(Duration::from_secs(5)).await;
        let client = ScriptedClient::new(&gateway, BOTH[0], "alice").await;
        let call = tokio::spawn(async move {
            let params = json!({"name": "a_b_c", "arguments": {}});
            text_of(client.request(&json!(1), "tools/call", params).await.into_body()).await
        });
        sleep(Duration::from_secs(3)).await;
        assert!(greedy_calls.try_recv().is_err(), "it got the arguments of another one's tool");
        if let Ok(pending) = other_calls.try_recv() {
            pending.answer(&json!({"content": []}));
        }
        let said = call.await.unwrap();
        assert_eq!(said.contains("\"result\""), !absent, "{said}");
    }
}

#[tokio::test(start_paused = true)]
async fn omits_and_reports_items_with_invalid_schema() {
    let schema = json!({"type": "object"});
    let fake = FakeBackend::new("be", Generation::Stateless).offer(
        "*",
        json!({
            "tools": [
                {"name": "good", "inputSchema": schema}, {"name": "none", "inputSchema": null},
                {"name": "text", "inputSchema": "x"}, {"name": "untyped", "inputSchema": {}},
                {"name": "told", "description": 5}, {"name": "noted", "annotations": []},
                {"name": "meta", "_meta": 5}, {"name": "out", "outputSchema": 1},
            ],
            "prompts": [{"name": "p"}, {"name": "asks", "arguments": {}}],
            "resources": [{"uri": "x://r"}, {"uri": "x://named", "name": 5}],
            "resourceTemplates": [{"uriTemplate": "t://{n}"}, {"uriTemplate": "t://a/{n}", "mimeType": 1}],
        }),
    );
    let gateway = with(vec![fake.settings()], PartialFailure::BestEffort).await;
    let client = Client::new(&gateway, Generation::Stateless, "alice").await;
    for (method, member, expected) in [
        ("tools/list", "tools", 1),
        ("prompts/list", "prompts", 1),
        ("resources/list", "resources", 1),
        ("resources/templates/list", "resourceTemplates", 1),
    ] {
        let said = client.ask(method, json!({})).await.json();
        assert_eq!(said["result"][member].as_array().unwrap().len(), expected, "{said}");
    }
    let conflicts = gateway.report().conflicts;
    let settled: Vec<_> = conflicts.iter().map(|it| (&*it.name, &*it.resolution)).collect();
    for (name, text) in [
        ("none", "left out: inputSchema is not a JSON Schema whose type is object"),
        ("told", "left out: description is not a string"),
        ("noted", "left out: annotations is not an object"),
        ("asks", "left out: arguments is not an array"),
        ("x://named", "left out: name is not a string"),
    ] {
        assert!(settled.contains(&(name, text)), "{name}: {settled:?}");
    }
}
