//! Permissions of steps that start after a reload, or with another token.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::SystemTime;

use vmcp_aggregate::{CallerAccess, CallerAuthorizer};
use vmcp_core::{
    Authorizer, CallerPermissions, Clock, Decision, Fingerprint, Identity, Item, Rejection,
};

use super::*;

/// Authorizer that hides and denies tools by name.
#[derive(Clone, Default)]
struct Policy {
    hidden: BTreeSet<&'static str>,
    denied: BTreeSet<&'static str>,
}

impl Authorizer for Policy {
    fn is_visible(&self, item: &Item<'_>) -> bool {
        !self.hidden.contains(item.name)
    }

    fn authorize(&self, item: &Item<'_>, _: Option<&[u8]>) -> Decision {
        match (self.hidden.contains(item.name), self.denied.contains(item.name)) {
            (true, _) => Decision::Hide,
            (_, true) => Decision::Deny,
            _ => Decision::Allow,
        }
    }

    fn visibility_key(&self) -> Fingerprint {
        Fingerprint::of(&self.hidden)
    }
}

fn authorizer(policy: Policy) -> CallerAuthorizer {
    CallerAuthorizer::new(move |_| CallerAccess::Restricted(CallerPermissions::new(policy.clone())))
}

/// Two steps, of which the second one starts when the first one has ended.
fn two_steps() -> Value {
    json!([{"name": "two", "description": "before", "steps": [
        {"id": "one", "tool": "be.t"},
        {"id": "two", "tool": "be.look", "dependsOn": ["one"]},
    ]}])
}

impl Scene {
    /// Reloads the configuration with these composite tools.
    async fn reload(&self, definitions: &Value) {
        self.gateway.reload(settings(vec![self.backend.settings(None)], definitions)).await;
    }

    /// Begins the run, changes something during its first step, and returns the messages of the run.
    async fn run_over(&mut self, change: impl AsyncFnOnce(&mut Self)) -> Value {
        let run = self.begin(1, "two");
        let first = self.received().await.pop().unwrap();
        change(self).await;
        assert!(first.answer(&done()));
        for call in self.received().await {
            assert!(call.answer(&done()));
        }
        run.await.unwrap().pop().unwrap()
    }

    /// Returns the number of calls of the second step.
    fn second_steps(&self) -> usize {
        let calls = self.backend.messages("tools/call");
        calls.iter().filter(|call| call["params"]["name"] == "look").count()
    }
}

const BOTH: [Generation; 2] = [Generation::Stateful, Generation::Stateless];

#[tokio::test(start_paused = true)]
async fn reload_without_effect_lets_run_finish() {
    for client in BOTH {
        let mut scene = scene(client, Wire::Stateful, &two_steps()).await;
        let outcome = scene
            .run_over(async |scene| {
                scene.reload(&two_steps()).await;
                scene.gateway.set_caller_authorizer(Some(authorizer(Policy::default())));
            })
            .await;
        assert_eq!(outcome["result"]["content"][0]["text"], "{\"text\":\"done\"}", "{outcome}");
    }
}

#[tokio::test(start_paused = true)]
async fn policy_of_reload_applies_to_next_step() {
    for client in BOTH {
        for (name, hides) in [("be_look", false), ("be_look", true), ("two", false), ("two", true)]
        {
            let mut scene = scene(client, Wire::Stateful, &two_steps()).await;
            scene.gateway.set_caller_authorizer(Some(authorizer(Policy::default())));
            let mut policy = Policy::default();
            if hides { &mut policy.hidden } else { &mut policy.denied }.insert(name);
            let outcome = scene
                .run_over(async |scene| {
                    scene.reload(&two_steps()).await;
                    scene.gateway.set_caller_authorizer(Some(authorizer(policy)));
                })
                .await;
            let text = outcome.to_string();
            assert!(text.contains("the configuration was reloaded during the run"), "{text}");
            if hides {
                assert!(text.contains("unknown tool"), "{text}");
            } else {
                assert_eq!(outcome["error"]["code"], 403, "{text}");
            }
            assert_eq!(scene.second_steps(), 0);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn removed_tool_and_backend_fail_next_step() {
    for client in BOTH {
        let mut scene = scene(client, Wire::Stateful, &two_steps()).await;
        let outcome = scene
            .run_over(async |scene| {
                scene.gateway.reload(settings(Vec::new(), &two_steps())).await;
            })
            .await;
        let text = outcome["result"]["content"][0]["text"].as_str().unwrap();
        assert!(text.contains("unknown tool: be_look: the configuration was reloaded"), "{text}");
        assert_eq!(scene.second_steps(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn changed_definition_ends_run() {
    let mut changed = two_steps();
    changed[0]["description"] = "after".into();
    for client in BOTH {
        for definitions in [&json!([]), &changed] {
            let mut scene = scene(client, Wire::Stateful, &two_steps()).await;
            let outcome = scene.run_over(async |scene| scene.reload(definitions).await).await;
            let text = outcome["result"]["content"][0]["text"].as_str().unwrap();
            assert!(text.contains("a reload changed or removed the composite tool"), "{text}");
            assert_eq!(scene.second_steps(), 0);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn expired_token_denies_next_step() {
    for client in BOTH {
        for renewed in [false, true] {
            let clock = Clock::manual(SystemTime::now());
            let limits = Limits { clock: clock.clone(), ..Limits::default() };
            let token = |seconds: u64| {
                let expires_at = clock.now() + Duration::from_secs(seconds);
                Identity::builder("https://idp.test", "alice").expires_at(expires_at).build()
            };
            let mut scene = scene_with(client, Wire::Stateful, &two_steps(), limits).await;
            scene.client.identity = token(60);
            let new = token(600);
            let outcome = scene
                .run_over(async |scene| {
                    clock.advance(Duration::from_secs(61));
                    if renewed {
                        scene.client.identity = new;
                        scene.client.request(&json!(2), "tools/list", json!({})).await;
                    }
                })
                .await;
            let is_current = renewed && client == Generation::Stateful;
            assert_eq!(outcome.get("error").is_none(), is_current, "{client:?} {outcome}");
            if !is_current {
                let message = outcome["error"]["message"].as_str().unwrap();
                assert!(message.contains("the token expired"), "{message}");
            }
            assert_eq!(scene.second_steps(), usize::from(is_current));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn permissions_of_newer_token_apply() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let known = Arc::clone(&seen);
    let mut scene = scene(Generation::Stateful, Wire::Stateful, &two_steps()).await;
    let access = CallerAuthorizer::new(move |identity| {
        let claims = identity.claims().map(vmcp_core::Claims::object);
        let is_reader = claims.is_some_and(|claims| claims.contains_key("role"));
        known.lock().unwrap().push(is_reader);
        let mut policy = Policy::default();
        if is_reader {
            policy.denied.insert("be_look");
        }
        // A provider that takes time is waited for.
        CallerAccess::Pending(Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(10)).await;
            Ok(CallerPermissions::new(policy))
        }))
    });
    scene.gateway.set_caller_authorizer(Some(access));
    let outcome = scene
        .run_over(async |scene| {
            let mut claims = serde_json::Map::new();
            claims.insert("role".to_owned(), "reader".into());
            let identity = Identity::builder("https://idp.test", "alice").claims(claims).build();
            scene.client.identity = identity;
            scene.client.request(&json!(2), "tools/list", json!({})).await;
        })
        .await;
    assert_eq!(outcome["error"]["code"], 403, "{outcome}");
    assert_eq!(*seen.lock().unwrap(), [false, true]);
}

/// Authorizer that requires a scope with the name of the tool.
struct Scopes;

impl Authorizer for Scopes {
    fn is_visible(&self, _: &Item<'_>) -> bool {
        true
    }

    fn authorize(&self, item: &Item<'_>, _: Option<&[u8]>) -> Decision {
        match item.name {
            "be_t" | "be_look" => Decision::InsufficientScope(vec![item.name.into()]),
            _ => Decision::Allow,
        }
    }

    fn visibility_key(&self) -> Fingerprint {
        Fingerprint([0; 16])
    }
}

#[tokio::test(start_paused = true)]
async fn run_names_scopes_of_step_that_failed_it() {
    let definition = json!([{"name": "two", "steps": [
        {"id": "aborts", "tool": "be.t"},
        {"id": "continues", "tool": "be.look", "onError": {"action": "continue"}},
    ]}]);
    let scene = scene(Generation::Stateless, Wire::Stateful, &definition).await;
    let scopes = |_: &Identity| CallerAccess::Restricted(CallerPermissions::new(Scopes));
    scene.gateway.set_caller_authorizer(Some(CallerAuthorizer::new(scopes)));
    let outcome = scene.begin(1, "two").await.unwrap().pop().unwrap();
    assert_eq!(outcome["error"]["message"], "the token needs the scopes be_t", "{outcome}");
}

#[tokio::test(start_paused = true)]
async fn caller_that_needs_token_fails_step() {
    let mut scene = scene(Generation::Stateless, Wire::Stateful, &two_steps()).await;
    let outcome = scene
        .run_over(async |scene| {
            let rejected = |_: &Identity| CallerAccess::Rejected(Rejection::token_required());
            scene.gateway.set_caller_authorizer(Some(CallerAuthorizer::new(rejected)));
        })
        .await;
    assert!(outcome["error"]["message"].to_string().contains("a token is required"), "{outcome}");
}
