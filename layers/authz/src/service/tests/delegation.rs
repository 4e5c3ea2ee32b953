//! Tests with a service that checks permissions itself.

use std::sync::Arc;

use vmcp_core::{AlreadyFiltered, ItemKind, ToolAnnotations};

use super::*;
use crate::PermissionsFuture;

const LIST: &str = r#"{"jsonrpc":"2.0","id":7,"result":{"tools":[{"name":"secret"}]}}"#;

#[tokio::test]
async fn delegation_inserts_permissions_without_gating() {
    let service = service_fn(|request: Request<()>| async move {
        let permissions = request.extensions().get::<CallerPermissions>().unwrap();
        let item = Item {
            kind: ItemKind::Tool,
            name: "secret",
            annotations: ToolAnnotations::default(),
            backend: None,
        };
        assert!(!permissions.is_visible(&item));
        assert_eq!(permissions.authorize(&item, None), Decision::Hide);
        Ok::<_, std::io::Error>(inner_response())
    });
    let service = layer().delegate_to_inner().layer(service);
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
async fn delegation_rejects_unfiltered_lists() {
    let inward = layer().delegate_to_inner();
    let (status, body) = send(&inward, request("tools/list", "{}"), || json(LIST)).await;
    assert!(status == 500 && !body.contains("secret"), "{status} {body}");
    let marked = || {
        let mut response = json(LIST);
        response.extensions_mut().insert(AlreadyFiltered);
        response
    };
    assert_eq!(send(&inward, request("tools/list", "{}"), marked).await, (200, LIST.to_owned()));
    let refused = || Rejection::invalid_params("no such cursor").into_response(Some(b"7"));
    assert_eq!(send(&inward, request("tools/list", "{}"), refused).await.0, 400);
}

/// Policy with asynchronous permissions; fails for the subject `lost`.
struct Slow;

impl Policy for Slow {
    fn permissions(self: &Arc<Self>, identity: &Identity, _: u64) -> PermissionsFuture {
        let lost = identity.subject() == Some("lost");
        PermissionsFuture::Pending(Box::pin(async move {
            tokio::task::yield_now().await;
            if lost {
                return Err(Rejection::overloaded("not now", 5));
            }
            Ok(CallerPermissions::new(DenyAll))
        }))
    }
}

#[tokio::test]
async fn unavailable_claims_fail_only_restricted_methods() {
    for layer in [AuthorizationLayer::new(Slow), AuthorizationLayer::new(Slow).delegate_to_inner()]
    {
        let as_lost = |mut request: Request<()>| {
            request.extensions_mut().insert(Identity::new("i", "lost"));
            request
        };
        for (method, status) in
            [("tools/call", 503), ("tools/list", 503), ("subscriptions/listen", 503), ("ping", 200)]
        {
            let request = as_lost(request(method, r#"{"name":"a"}"#));
            assert_eq!(send(&layer, request, inner_response).await.0, status, "{method}");
        }
        let get = as_lost(Request::get("/mcp").body(()).unwrap());
        assert_eq!(send(&layer, get, inner_response).await.0, 200);
    }
    let call = request("tools/call", r#"{"name":"a"}"#);
    assert_eq!(send(&AuthorizationLayer::new(Slow), call, inner_response).await.0, 400);
}

#[tokio::test]
async fn new_layer_has_new_epoch() {
    let view = |layer: AuthorizationLayer<_>| async move {
        let service = service_fn(|request: Request<()>| async move {
            let view = request.extensions().get::<CallerPermissions>().unwrap().visibility_key();
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

#[tokio::test]
async fn failed_policy_hides_all_items() {
    let service = service_fn(|request: Request<()>| async move {
        let permissions = request.extensions().get::<CallerPermissions>().unwrap();
        let annotations = ToolAnnotations::default();
        let item = Item { kind: ItemKind::Tool, name: "a", annotations, backend: None };
        assert!(!permissions.is_visible(&item) && !permissions.reads_backend());
        assert_eq!(permissions.authorize(&item, None), Decision::Hide);
        Ok::<_, std::io::Error>(inner_response())
    });
    let mut request = request("ping", "{}");
    request.extensions_mut().insert(Identity::new("i", "lost"));
    let response = AuthorizationLayer::new(Slow).layer(service).oneshot(request).await.unwrap();
    assert_eq!(response.status(), 200);
}
