//! Policies that decide by an item's backend and the generation in which the gateway calls it.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;
use vmcp_aggregate::settings::{Conflicts, Limits, PartialFailure, Rules, Settings};
use vmcp_aggregate::{CallerAccess, CallerAuthorizer, Gateway};
use vmcp_core::{
    Authorizer, CallerPermissions, Clock, Decision, Fingerprint, Generation, Item, ItemBackend,
};
use vmcp_seal::KeyRing;

use crate::fake::{Client, FakeBackend, gateway, heard, settings, with};

const BOTH: [Generation; 2] = [Generation::Stateful, Generation::Stateless];

/// Authorizer that shows items of a backend with this name, or one that is called in this generation.
#[derive(Clone, Copy)]
enum BackendFilter {
    Name(&'static str),
    Generation(Generation),
}

impl Authorizer for BackendFilter {
    fn is_visible(&self, item: &Item<'_>) -> bool {
        item.backend.is_some_and(|ItemBackend { name, generation }| match self {
            Self::Name(only) => name == *only,
            Self::Generation(only) => generation == *only,
        })
    }

    fn authorize(&self, item: &Item<'_>, _: Option<&[u8]>) -> Decision {
        if self.is_visible(item) { Decision::Allow } else { Decision::Hide }
    }

    fn visibility_key(&self) -> Fingerprint {
        match self {
            Self::Name(only) => Fingerprint::of(only),
            Self::Generation(only) => Fingerprint::of(only),
        }
    }
}

fn offer(own: &str) -> Value {
    json!({
        "tools": [{"name": "both"}, {"name": own}],
        "prompts": [{"name": "both"}, {"name": own}],
        "resources": [
            {"uri": "x://both", "name": "b"}, {"uri": format!("x://{own}"), "name": "o"},
        ],
        "resourceTemplates": [
            {"uriTemplate": "t://both/{n}", "name": "b"},
            {"uriTemplate": format!("t://{own}/{{n}}"), "name": "o"},
        ],
    })
}

const LISTS: [&str; 4] =
    ["tools/list", "prompts/list", "resources/list", "resources/templates/list"];

async fn listed(client: &Client) -> Vec<String> {
    let mut all = Vec::new();
    for list in LISTS {
        all.extend(client.names(list).await);
    }
    all
}

/// Returns a request for each kind of item with this name.
fn uses(name: &str) -> [(&'static str, Value); 6] {
    let completing =
        |reference: Value| json!({"ref": reference, "argument": {"name": "n", "value": ""}});
    [
        ("tools/call", json!({"name": name, "arguments": {}})),
        ("prompts/get", json!({"name": name})),
        ("resources/read", json!({"uri": format!("x://{name}")})),
        ("resources/read", json!({"uri": format!("t://{name}/1")})),
        ("completion/complete", completing(json!({"type": "ref/prompt", "name": name}))),
        (
            "completion/complete",
            completing(json!({"type": "ref/resource", "uri": format!("t://{name}/{{n}}")})),
        ),
    ]
}

/// Returns the backends that responded, or the error without the requested name.
async fn answers(client: &Client, name: &str) -> Vec<String> {
    let mut said = Vec::new();
    for (method, params) in uses(name) {
        let answer = client.ask(method, params).await;
        said.push(match answer.request_context.backend() {
            Some(backend) => backend.name().to_owned(),
            None => String::from_utf8_lossy(&answer.body).replace(name, "?"),
        });
    }
    said
}

/// Creates a gateway that keeps the backends' names and URIs; the first backend wins conflicts.
async fn conflicting(backends: [&Arc<FakeBackend>; 2]) -> Gateway {
    let order = backends.map(|backend| backend.name.to_owned()).to_vec();
    let rules = Rules { conflicts: Conflicts::Priority(order), ..Rules::default() };
    let backends = backends.map(FakeBackend::settings).to_vec();
    let settings = settings(backends, PartialFailure::BestEffort, None);
    let settings = Settings { rules, ..settings };
    let ring = KeyRing::ephemeral(Clock::system()).unwrap();
    let gateway = Gateway::new(settings, Limits::default(), ring);
    gateway.wait_ready().await;
    gateway
}

#[tokio::test(start_paused = true)]
async fn authorizes_conflicting_names_by_owner() {
    let a = FakeBackend::new("a", BOTH[0]).offer("*", offer("red"));
    let b = FakeBackend::new("b", BOTH[1]).offer("*", offer("blue"));
    for client in BOTH {
        for (order, owner) in [([&a, &b], "a"), ([&b, &a], "b")] {
            let gateway = conflicting(order).await;
            for (only, own, other) in [("a", "red", "blue"), ("b", "blue", "red")] {
                let caller = Client::new(&gateway, client, "c").await;
                let caller = caller.with(CallerPermissions::new(BackendFilter::Name(only)));
                let mut expected = Vec::new();
                for (prefix, suffix) in [("", ""), ("", ""), ("x://", ""), ("t://", "/{n}")] {
                    let owned =
                        [own, "both"].into_iter().filter(|name| *name == own || owner == only);
                    let mut names: Vec<_> =
                        owned.map(|name| format!("{prefix}{name}{suffix}")).collect();
                    names.sort();
                    expected.extend(names);
                }
                assert_eq!(listed(&caller).await, expected, "{only} of {owner}");
                assert_eq!(answers(&caller, own).await, [only; 6]);
                let unknown = answers(&caller, "none").await;
                assert_eq!(answers(&caller, other).await, unknown);
                let both = answers(&caller, "both").await;
                let expected = if owner == only { vec![only.to_owned(); 6] } else { unknown };
                assert_eq!(both, expected, "{only} of {owner}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn reports_generation_used_with_backend() {
    for (client, only) in BOTH.into_iter().flat_map(|client| BOTH.map(|only| (client, only))) {
        let older = FakeBackend::new("older", BOTH[0]).offer("*", offer("red"));
        let newer = FakeBackend::new("newer", BOTH[1]).offer("*", offer("blue"));
        // The backend offers the same to clients of both generations.
        let both = FakeBackend::new("both", BOTH[0])
            .offer("*", offer("green"))
            .and_stateless(offer("green"));
        let gateway = gateway(&[older, newer, both]).await;
        let caller = Client::new(&gateway, client, "c").await;
        let caller = caller.with(CallerPermissions::new(BackendFilter::Generation(only)));
        let mut expected = vec![if only == BOTH[0] { "older" } else { "newer" }];
        expected.extend((client == only).then_some("both"));
        expected.sort_unstable();
        let names = caller.names("tools/list").await;
        let mut backends: Vec<_> =
            names.iter().filter_map(|name| name.strip_suffix("_both")).collect();
        backends.sort_unstable();
        assert_eq!(backends, expected, "{client:?} {only:?}");
        for backend in ["older", "newer", "both"] {
            let said = caller.call(&format!("{backend}_both")).await;
            assert_eq!(
                said.is_some(),
                expected.contains(&backend),
                "{client:?} {only:?} {backend}"
            );
        }
        // The first backend lists it; the second one has items of its own.
        for (uri, backend) in [("x://red", "older"), ("x://blue", "newer"), ("x://green", "both")] {
            let read = caller.ask("resources/read", json!({"uri": uri})).await;
            let by = read.request_context.backend().map(vmcp_core::Backend::name);
            assert_eq!(by, expected.contains(&backend).then_some(backend), "{client:?} {only:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn authorizes_per_caller_catalogs_by_backend() {
    for backend in BOTH {
        let own = FakeBackend::new("own", backend).offer("alice", offer("red"));
        let all = FakeBackend::new("all", BOTH[1]).offer("*", offer("blue"));
        let backends = vec![all.settings(), own.per_caller()];
        let gateway = with(backends, PartialFailure::BestEffort).await;
        for client in BOTH {
            for only in [BackendFilter::Name("own"), BackendFilter::Generation(backend)] {
                let alice = Client::new(&gateway, client, "alice").await;
                let alice = alice.with(CallerPermissions::new(only));
                assert_eq!(alice.call("own_red").await.as_deref(), Some("own:alice"));
                let read = alice.ask("resources/read", json!({"uri": "x://red"})).await;
                assert!(read.request_context.backend().is_some());
                let names = alice.names("tools/list").await;
                assert!(names.contains(&"own_red".to_owned()), "{names:?}");
                let may_use_all = matches!(only, BackendFilter::Generation(Generation::Stateless));
                assert_eq!(alice.call("all_blue").await.is_some(), may_use_all);
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn rejects_calls_authorized_for_other_generation() {
    for client in BOTH {
        let fake = FakeBackend::new("be", BOTH[0]).offer("*", offer("red"));
        let gateway = gateway(&[Arc::clone(&fake)]).await;
        let older = BackendFilter::Generation(Generation::Stateful);
        let before = Client::new(&gateway, client, "b").await.with(CallerPermissions::new(older));
        assert_eq!(before.call("be_red").await.as_deref(), Some("be:b"));
        // This caller has no open session yet.
        let older = Client::new(&gateway, client, "c").await.with(CallerPermissions::new(older));
        let calls = || fake.times("tools/call", "c") + fake.times("resources/read", "c");
        *fake.generation.lock().unwrap() = Generation::Stateless;
        for (method, params) in [
            ("tools/call", json!({"name": "be_red", "arguments": {}})),
            ("resources/read", json!({"uri": "x://red"})),
        ] {
            let said = older.ask(method, params).await.json();
            let message = said["error"]["message"].as_str().unwrap_or_default();
            assert!(message.contains("changed its protocol generation"), "{said}");
        }
        assert_eq!(calls(), 0, "nothing was called under a decision for the other generation");
        sleep(Duration::from_secs(30)).await;
        assert_eq!(listed(&older).await, [""; 0]);
        let newer = older
            .clone()
            .with(CallerPermissions::new(BackendFilter::Generation(Generation::Stateless)));
        assert_eq!(newer.call("be_red").await.as_deref(), Some("be:c"));
    }
}

#[tokio::test(start_paused = true)]
async fn forwards_updates_of_permitted_backends_only() {
    for (client, backend) in BOTH.into_iter().flat_map(|client| BOTH.map(|be| (client, be))) {
        let fake = FakeBackend::new("be", backend).offer("*", offer("red"));
        let gateway = gateway(&[Arc::clone(&fake)]).await;
        let alice = Client::new(&gateway, client, "alice").await;
        let mut stream = if client == Generation::Stateful {
            alice.ask("resources/subscribe", json!({"uri": "x://red"})).await;
            alice.stand().await
        } else {
            let uris = json!({"resourceSubscriptions": ["x://red"]});
            alice.send("subscriptions/listen", json!({"notifications": uris})).await.0.into_body()
        };
        let other = if backend == BOTH[0] { BOTH[1] } else { BOTH[0] };
        for (only, hears) in [
            (BackendFilter::Name("be"), true),
            (BackendFilter::Name("bee"), false),
            (BackendFilter::Generation(backend), true),
            (BackendFilter::Generation(other), false),
        ] {
            gateway.set_caller_authorizer(Some(CallerAuthorizer::new(move |_| {
                CallerAccess::Restricted(CallerPermissions::new(only))
            })));
            sleep(Duration::from_secs(1)).await;
            heard(&mut stream).await;
            let update = json!({"jsonrpc": "2.0", "method": "notifications/resources/updated",
                "params": {"uri": "x://red"}});
            fake.say("alice", &update);
            let said = heard(&mut stream).await;
            assert_eq!(said.contains("x://red"), hears, "{client:?} {backend:?} {said}");
        }
    }
}
