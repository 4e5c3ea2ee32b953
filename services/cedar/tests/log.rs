//! Log output. A separate test binary: tracing caches the interest in events for all threads.

use std::fmt;
use std::sync::{Arc, Mutex};

use serde_json::json;
use vmcp_authz::{PermissionsFuture, Policy};
use vmcp_cedar::Cedar;
use vmcp_core::{Decision, Identity, Item, ItemKind, ToolAnnotations};

#[test]
fn logs_contain_no_token_or_arguments() {
    let log = Arc::new(Log::default());
    tracing::subscriber::with_default(Arc::clone(&log), || {
        let policies = [
            "permit(principal, action, resource);",
            "forbid(principal, action, resource) when { ip(context.arg_ip).isLoopback() || principal.claim_odd == 1 };",
        ];
        let cedar = Arc::new(Cedar::new("s", &policies, "").unwrap());
        let claims = json!({"odd": 0.000_001, "email": "canary"}).as_object().cloned().unwrap();
        let who = Identity::builder("i", "canary").claims(claims).build();
        let PermissionsFuture::Ready(permissions) = cedar.permissions(&who, 1) else {
            panic!("not at once")
        };
        let item = Item {
            kind: ItemKind::Tool,
            name: "canary",
            annotations: ToolAnnotations::default(),
            backend: None,
        };
        for arguments in [r#"{"ip":"canary"}"#, "{}", r#"{"ip":1,"IP":"canary"}"#] {
            let decision = permissions.authorize(&item, Some(arguments.as_bytes()));
            assert_eq!(decision, Decision::Deny);
        }
    });
    let log = log.0.lock().unwrap().join("\n");
    assert!(log.contains("a failed extension function") && log.contains("odd"), "{log}");
    assert!(!log.contains("canary"), "{log}");
}

/// Subscriber that records all events as text.
#[derive(Default)]
struct Log(Mutex<Vec<String>>);

impl tracing::Subscriber for Log {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn event(&self, event: &tracing::Event<'_>) {
        let Ok(mut log) = self.0.lock() else { return };
        event.record(&mut |field: &tracing::field::Field, value: &dyn fmt::Debug| {
            log.push(format!("{field}={value:?}"));
        });
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}
