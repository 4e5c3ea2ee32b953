//! Permissions of callers in lists and routing.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use tokio::time::Instant;
use vmcp_aggregate::settings::PartialFailure;
use vmcp_core::{
    AlreadyFiltered, Authorizer, CallerPermissions, Decision, Fingerprint, Generation, Item,
    ItemKind, Rejection, ToolAnnotations,
};

use crate::fake::{Behavior, Client, FakeBackend, gateway, with};

const BOTH: [Generation; 2] = [Generation::Stateful, Generation::Stateless];

/// Authorizer that shows names containing one of the words.
struct VisibleWords(&'static [&'static str]);

impl Authorizer for VisibleWords {
    fn is_visible(&self, item: &Item<'_>) -> bool {
        self.0.iter().any(|word| item.name.contains(word))
    }

    fn authorize(&self, item: &Item<'_>, arguments: Option<&[u8]>) -> Decision {
        let forbidden = arguments.is_some_and(|raw| raw == br#"{"force":true}"#);
        match item {
            _ if !self.is_visible(item) => Decision::Hide,
            _ if forbidden && item.kind == ItemKind::Tool => Decision::Deny,
            Item { annotations: ToolAnnotations { destructive: Some(true), .. }, .. } => {
                Decision::InsufficientScope(vec!["danger".into()])
            }
            _ => Decision::Allow,
        }
    }

    fn visibility_key(&self) -> Fingerprint {
        let mut key = [0; 16];
        for (place, word) in self.0.iter().enumerate() {
            key[place] = word.as_bytes()[0];
        }
        Fingerprint(key)
    }
}

/// Authorizer that counts its evaluations, and reads backends if the flag is set.
struct CountingAuthorizer(VisibleWords, Arc<AtomicUsize>, bool);

impl Authorizer for CountingAuthorizer {
    fn is_visible(&self, item: &Item<'_>) -> bool {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.is_visible(item)
    }

    fn authorize(&self, item: &Item<'_>, arguments: Option<&[u8]>) -> Decision {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.authorize(item, arguments)
    }

    fn visibility_key(&self) -> Fingerprint {
        self.0.visibility_key()
    }

    fn reads_backend(&self) -> bool {
        self.2
    }
}

fn sees(words: &'static [&'static str]) -> CallerPermissions {
    CallerPermissions::new(VisibleWords(words))
}

fn offer() -> Value {
    json!({
        "tools": [
            {"name": "red"}, {"name": "green"}, {"name": "blue"},
            {"name": "red_bomb", "annotations": {"destructiveHint": true}},
        ],
        "prompts": [{"name": "red_words"}, {"name": "blue_words"}],
        "resources": [{"uri": "x://red", "name": "r"}, {"uri": "x://blue", "name": "b"}],
        "resourceTemplates": [
            {"uriTemplate": "t://red/{n}", "name": "r"}, {"uriTemplate": "t://any/{n}", "name": "a"},
        ],
    })
}

fn backends(name: &'static str) -> Vec<Arc<FakeBackend>> {
    BOTH.into_iter()
        .map(|generation| FakeBackend::new(name, generation).offer("*", offer()))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn each_caller_gets_own_lists() {
    for backend in backends("be") {
        let gateway = gateway(&[backend]).await;
        for generation in BOTH {
            let red = Client::new(&gateway, generation, "r").await.with(sees(&["red"]));
            let blue = Client::new(&gateway, generation, "b").await.with(sees(&["blue", "any"]));
            let all = Client::new(&gateway, generation, "a").await;
            for _ in 0..3 {
                assert_eq!(red.names("tools/list").await, ["be_red", "be_red_bomb"]);
                assert_eq!(blue.names("tools/list").await, ["be_blue"]);
                assert_eq!(all.names("tools/list").await.len(), 4);
                assert_eq!(red.names("prompts/list").await, ["be_red_words"]);
                assert_eq!(blue.names("prompts/list").await, ["be_blue_words"]);
                assert_eq!(red.names("resources/list").await, ["x://red"]);
                assert_eq!(blue.names("resources/list").await, ["x://blue"]);
                assert_eq!(red.names("resources/templates/list").await, ["t://red/{n}"]);
                assert_eq!(blue.names("resources/templates/list").await, ["t://any/{n}"]);
            }
            let marked = red.ask("tools/list", json!({})).await.response.extensions;
            assert_eq!(marked.get::<AlreadyFiltered>(), Some(&AlreadyFiltered));
            let plain = all.ask("tools/list", json!({})).await.response.extensions;
            assert_eq!(plain.get::<AlreadyFiltered>(), None);
        }
    }
}

/// Returns requests for hidden items, each with one for an item that does not exist.
fn hidden() -> Vec<(&'static str, Value, Value)> {
    let prompt = |name: &str| {
        json!({"ref": {"type": "ref/prompt", "name": name},
        "argument": {"name": "a", "value": ""}})
    };
    let resource = |uri: &str| {
        json!({"ref": {"type": "ref/resource", "uri": uri},
        "argument": {"name": "n", "value": ""}})
    };
    vec![
        (
            "tools/call",
            json!({"name": "be_red", "arguments": {}}),
            json!({"name": "be_rod", "arguments": {}}),
        ),
        ("prompts/get", json!({"name": "be_red_words"}), json!({"name": "be_rod_words"})),
        ("resources/read", json!({"uri": "x://red"}), json!({"uri": "x://rod"})),
        ("resources/read", json!({"uri": "t://red/1"}), json!({"uri": "t://rod/1"})),
        ("completion/complete", prompt("be_red_words"), prompt("be_rod_words")),
        ("completion/complete", resource("x://red"), resource("x://rod")),
        ("completion/complete", resource("t://red/{n}"), resource("t://rod/{n}")),
        ("resources/subscribe", json!({"uri": "x://red"}), json!({"uri": "x://rod"})),
        ("resources/unsubscribe", json!({"uri": "x://red"}), json!({"uri": "x://rod"})),
    ]
}

#[tokio::test(start_paused = true)]
async fn hidden_and_missing_items_get_equal_responses() {
    for backend in backends("be") {
        let gateway = gateway(&[Arc::clone(&backend)]).await;
        for generation in BOTH {
            let blue = Client::new(&gateway, generation, "b").await.with(sees(&["blue"]));
            for (method, hidden, missing) in hidden() {
                if method.ends_with("subscribe") && generation == Generation::Stateless {
                    continue;
                }
                let (hidden, missing) =
                    (blue.ask(method, hidden).await, blue.ask(method, missing).await);
                let told = String::from_utf8_lossy(&hidden.body).replace("red", "rod");
                assert_eq!(told.as_bytes(), missing.body, "{method}");
                assert_eq!(hidden.status, missing.status);
                assert_eq!(
                    format!("{:?}", hidden.response.headers),
                    format!("{:?}", missing.response.headers)
                );
                assert_eq!(hidden.request_context.denied(), Some("hidden from the caller"));
                // Policies decide on a URI before it is looked up, so its existence is unknown.
                let judged = method.starts_with("resources/") || told.contains("://");
                let reason = judged.then_some("hidden from the caller");
                assert_eq!(missing.request_context.denied(), reason, "{method}");
                assert!(hidden.request_context.backend().is_none(), "nobody was asked");
            }
        }
        assert_eq!(backend.times("tools/call", "b"), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn hidden_and_unknown_names_cost_equal_work() {
    for (backend, generation) in backends("be")
        .into_iter()
        .flat_map(|backend| BOTH.map(|generation| (Arc::clone(&backend), generation)))
    {
        let settings = [backend.settings(), backend.per_caller()];
        let both =
            settings.iter().flat_map(|settings| [true, false].map(|reads| (settings, reads)));
        for (settings, reads) in both {
            let settings = settings.clone();
            let gateway = with(vec![settings], PartialFailure::BestEffort).await;
            let asked = Arc::<AtomicUsize>::default();
            let permissions = CallerPermissions::new(CountingAuthorizer(
                VisibleWords(&["blue"]),
                Arc::clone(&asked),
                reads,
            ));
            let blue = Client::new(&gateway, generation, "b").await.with(permissions);
            blue.names("tools/list").await;
            for (method, hidden, missing) in hidden() {
                if method.ends_with("subscribe") && generation == Generation::Stateless {
                    continue;
                }
                let mut work = Vec::new();
                for params in [hidden, missing] {
                    let (start, heard) = (Instant::now(), backend.heard.lock().unwrap().len());
                    asked.store(0, Ordering::Relaxed);
                    blue.ask(method, params).await;
                    let heard = backend.heard.lock().unwrap()[heard..].to_vec();
                    // The paused clock only advances while a request waits.
                    work.push((asked.load(Ordering::Relaxed), heard, start.elapsed()));
                }
                assert!(work[0].0 > 0, "{method}");
                assert_eq!(work[0], work[1], "{method}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn visible_items_require_permitted_arguments_and_scopes() {
    for backend in backends("be") {
        let gateway = gateway(&[backend]).await;
        for generation in BOTH {
            let red = Client::new(&gateway, generation, "r").await.with(sees(&["red"]));
            let called = red.ask("tools/call", json!({"name": "be_red", "arguments": {}})).await;
            assert_eq!(called.json()["result"]["content"][0]["text"], "be:r");
            assert_eq!(called.request_context.backend().map(vmcp_core::Backend::name), Some("be"));
            let forced = json!({"name": "be_red", "arguments": {"force": true}});
            let forced = red.ask("tools/call", forced).await;
            assert_eq!(
                (forced.status, forced.request_context.denied()),
                (403, Some("denied with these arguments"))
            );
            assert_eq!(forced.response.extensions.get(), Some(&Rejection::forbidden()));
            let bomb = red.ask("tools/call", json!({"name": "be_red_bomb", "arguments": {}})).await;
            assert_eq!(
                (bomb.status, bomb.request_context.denied()),
                (403, Some("the token lacks scopes"))
            );
            assert!(bomb.response.extensions.get::<Rejection>().unwrap().challenge().is_some());
            for uri in ["x://red", "t://red/9"] {
                let text = red.ask("resources/read", json!({"uri": uri})).await;
                assert_eq!(text.json()["result"]["asked"]["uri"], uri);
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn limits_listen_stream_to_visible_resources() {
    let gateway = gateway(&backends("be")[1..]).await;
    let red = Client::new(&gateway, Generation::Stateless, "r").await.with(sees(&["red"]));
    let uris = ["x://red", "x://blue", "t://red/1", "t://any/1", "x://none"];
    let wanted =
        json!({"notifications": {"toolsListChanged": true, "resourceSubscriptions": uris}});
    let (response, request_context) = red.send("subscriptions/listen", wanted).await;
    let mut body = response.into_body();
    let first =
        http_body_util::BodyExt::frame(&mut body).await.unwrap().unwrap().into_data().unwrap();
    let first = String::from_utf8(first.to_vec()).unwrap();
    assert!(first.contains(r#""resourceSubscriptions":["t://red/1","x://red"]"#), "{first}");
    assert_eq!(request_context.denied(), Some("hidden from the caller"));
}

#[tokio::test(start_paused = true)]
async fn discovery_and_lists_omit_hidden_items() {
    let gateway = gateway(&backends("be")).await;
    let nobody = sees(&[]);
    let stateless = Client::new(&gateway, Generation::Stateless, "n").await.with(nobody.clone());
    let said = stateless.ask("server/discover", json!({})).await;
    assert!(!String::from_utf8_lossy(&said.body).contains("red"));
    for method in ["tools/list", "prompts/list", "resources/list", "resources/templates/list"] {
        let said = stateless.ask(method, json!({})).await;
        assert!(!String::from_utf8_lossy(&said.body).contains("red"));
        assert_eq!(said.json()["result"].get("nextCursor"), None);
    }
}

#[tokio::test(start_paused = true)]
async fn hidden_tool_stays_unknown_during_backend_failure() {
    for backend in backends("be") {
        let gateway = gateway(&[Arc::clone(&backend)]).await;
        let blue = Client::new(&gateway, Generation::Stateless, "b").await.with(sees(&["blue"]));
        assert_eq!(blue.call("be_blue").await.as_deref(), Some("be:b"));
        *backend.behavior.lock().unwrap() = Behavior::Unreachable;
        let said = blue.ask("tools/call", json!({"name": "be_red"})).await;
        assert_eq!(said.json()["error"]["message"], "unknown tool: be_red");
        let said = blue.ask("tools/call", json!({"name": "be_blue"})).await;
        assert_eq!(said.json()["error"]["message"], "backend be is unreachable");
    }
}
