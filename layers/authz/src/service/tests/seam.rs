//! In front of a service that asks the admission itself.

use std::sync::Arc;

use vmcp_core::{Filtered, Hints, ItemKind};

use super::*;
use crate::Admitting;

const LIST: &str = r#"{"jsonrpc":"2.0","id":7,"result":{"tools":[{"name":"secret"}]}}"#;

#[tokio::test]
async fn the_admission_is_handed_in_and_nothing_is_gated() {
    let service = service_fn(|request: Request<()>| async move {
        let admission = request.extensions().get::<Admission>().unwrap();
        let item =
            Item { kind: ItemKind::Tool, name: "secret", hints: Hints::default(), backend: None };
        assert!(!admission.visible(&item));
        assert_eq!(admission.admit(&item, None), Verdict::Hidden);
        Ok::<_, std::io::Error>(passed())
    });
    let service = layer().handing_inward().layer(service);
    for request in [
        request("tools/call", r#"{"name":"secret"}"#),
        request("tasks/get", "{}"),
        Request::get("/mcp").body(()).unwrap(),
    ] {
        let answer = read(service.clone().oneshot(request).await.unwrap()).await;
        assert_eq!(answer, (200, "passed".to_owned()));
    }
}

#[tokio::test]
async fn a_list_without_the_mark_is_not_shown() {
    let inward = layer().handing_inward();
    let (status, body) = ask(&inward, request("tools/list", "{}"), || json(LIST)).await;
    assert!(status == 500 && !body.contains("secret"), "{status} {body}");
    let marked = || {
        let mut response = json(LIST);
        response.extensions_mut().insert(Filtered);
        response
    };
    assert_eq!(ask(&inward, request("tools/list", "{}"), marked).await, (200, LIST.to_owned()));
    let refused = || Rejection::invalid_params("no such cursor").into_response(Some(b"7"));
    assert_eq!(ask(&inward, request("tools/list", "{}"), refused).await.0, 400);
}

/// Fetches for a moment, and fails for the subject `lost`.
struct Slow;

impl Policy for Slow {
    fn admission(self: &Arc<Self>, identity: &Identity, _: u64) -> Admitting {
        let lost = identity.subject() == Some("lost");
        Admitting::Later(Box::pin(async move {
            tokio::task::yield_now().await;
            if lost {
                return Err(Rejection::overloaded("not now", 5));
            }
            Ok(Admission::new(Nothing))
        }))
    }
}

#[tokio::test]
async fn claims_that_cannot_be_had_fail_only_what_needs_them() {
    for layer in [AuthorizeLayer::new(Slow), AuthorizeLayer::new(Slow).handing_inward()] {
        let as_lost = |mut request: Request<()>| {
            request.extensions_mut().insert(Identity::new("i", "lost"));
            request
        };
        for (method, status) in
            [("tools/call", 503), ("tools/list", 503), ("subscriptions/listen", 503), ("ping", 200)]
        {
            let request = as_lost(request(method, r#"{"name":"a"}"#));
            assert_eq!(ask(&layer, request, passed).await.0, status, "{method}");
        }
        let get = as_lost(Request::get("/mcp").body(()).unwrap());
        assert_eq!(ask(&layer, get, passed).await.0, 200);
    }
    let call = request("tools/call", r#"{"name":"a"}"#);
    assert_eq!(ask(&AuthorizeLayer::new(Slow), call, passed).await.0, 400);
}

#[tokio::test]
async fn a_new_layer_is_a_new_epoch() {
    let view = |layer: AuthorizeLayer<_>| async move {
        let service = service_fn(|request: Request<()>| async move {
            let view = request.extensions().get::<Admission>().unwrap().view();
            Ok::<_, std::io::Error>(json(&format!("{view:?}")))
        });
        read(layer.layer(service).oneshot(request("ping", "{}")).await.unwrap()).await.1
    };
    let first = layer();
    let again = first.clone();
    let one = view(first).await;
    assert_eq!(one, view(again).await);
    assert_ne!(one, view(layer()).await);
}
