use std::sync::atomic::{AtomicUsize, Ordering};

use vmcp_core::{Authorizer, Backend, BoxError, Decision, Generation, ToolAnnotations};

use super::*;
use crate::backend::BackendHandle;
use crate::catalog::{ByGeneration, CatalogInput, Items, Offer, combine};
use crate::settings::{
    BackendService, BackendSettings, CredentialAdvice, Rules, ServiceWrapper, Sharing, Transport,
};

const CLIENT: Generation = Generation::Stateless;

/// Authorizer that shows names with one of these endings; counts its evaluations.
struct Sees(&'static str, Arc<AtomicUsize>);

impl Authorizer for Sees {
    fn is_visible(&self, item: &Item<'_>) -> bool {
        self.1.fetch_add(1, Ordering::Relaxed);
        assert_ne!(self.0, "!", "a policy that is broken");
        item.name.ends_with(|last| self.0.contains(last))
            || self.0 == "read"
                && item.annotations
                    == ToolAnnotations { read_only: Some(true), ..ToolAnnotations::default() }
    }

    fn authorize(&self, _: &Item<'_>, _: Option<&[u8]>) -> Decision {
        Decision::Hide
    }

    fn visibility_key(&self) -> Fingerprint {
        let mut key = [0; 16];
        key[..self.0.len()].copy_from_slice(self.0.as_bytes());
        Fingerprint(key)
    }
}

fn catalog(count: usize) -> Arc<BackendCatalog> {
    let definition = |number: usize| {
        let hint =
            if number.is_multiple_of(2) { r#","annotations":{"readOnlyHint":true}"# } else { "" };
        format!(r#"{{"name":"t{number:04}"{hint}}}"#)
    };
    let tools: Vec<_> = (0..count).map(definition).collect();
    let tools: Vec<_> = tools.iter().map(String::as_str).collect();
    let offer = Offer { tools: Items::of(Kind::Tools, &tools), ..Offer::default() };
    let stack = |_| async { Err::<http::Response<vmcp_core::Body>, _>(BoxError::from("unused")) };
    let settings = BackendSettings {
        backend: Backend::new("be"),
        uri: http::Uri::from_static("http://be.test/mcp"),
        transport: Transport::StreamableHttp,
        catalog: Sharing::Shared,
        service: BackendService::new(tower::service_fn(stack)),
        wrapper: ServiceWrapper::default(),
        breaker: None,
        credential_advice: CredentialAdvice::default(),
        message_timeout: std::time::Duration::MAX,
        fingerprint: 0,
        service_revision: 0,
    };
    let backend = BackendHandle::new(settings, None);
    let offers = ByGeneration::both(&offer);
    let catalogs = combine(
        &[CatalogInput { name: "be", backend, offers, only: None }],
        &[],
        &Rules::default(),
    );
    Arc::clone(catalogs.of(Generation::Stateless))
}

fn permissions(sees: &'static str) -> (CallerPermissions, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    (CallerPermissions::new(Sees(sees, Arc::clone(&asked))), asked)
}

async fn names(
    views: &Arc<Views>,
    catalog: &Arc<BackendCatalog>,
    sees: &'static str,
) -> Vec<String> {
    let view = views.of(catalog, Kind::Tools, &permissions(sees).0, CLIENT).await.unwrap();
    let mut names = Vec::new();
    let mut cursor = None;
    loop {
        let list = catalog.list(Kind::Tools);
        let page = view.list(list).page(Kind::Tools, cursor.as_deref()).unwrap();
        let items = [b"[", &page.items[..], b"]"].concat();
        let items: Vec<serde_json::Value> = serde_json::from_slice(&items).unwrap();
        names.extend(items.iter().map(|item| item["name"].as_str().unwrap().to_owned()));
        cursor = page.next;
        if cursor.is_none() {
            return names;
        }
    }
}

#[tokio::test]
async fn pages_contain_exactly_visible_items() {
    let (views, catalog) = (Arc::new(Views::new()), catalog(2500));
    let odd = names(&views, &catalog, "13579").await;
    let expected: Vec<_> =
        (0..2500).filter(|n| n % 2 == 1).map(|n| format!("be_t{n:04}")).collect();
    assert_eq!(odd, expected);
    assert_eq!(names(&views, &catalog, "0123456789").await.len(), 2500);
    assert!(names(&views, &catalog, "x").await.is_empty());
}

#[tokio::test]
async fn cursor_does_not_reveal_hidden_items() {
    let (views, catalog) = (Arc::new(Views::new()), catalog(2500));
    let view = views.of(&catalog, Kind::Tools, &permissions("0").0, CLIENT).await.unwrap();
    let page = |cursor: &str| {
        let cursor = base64::Engine::encode(
            &base64::prelude::BASE64_URL_SAFE_NO_PAD,
            format!("tools\nbe_{cursor}"),
        );
        view.list(catalog.list(Kind::Tools)).page(Kind::Tools, Some(&cursor)).unwrap()
    };
    assert_eq!(page("t0011"), page("t0011-that-never-was"));
}

#[tokio::test]
async fn computes_view_once_for_concurrent_requests() {
    let (views, catalog) = (Arc::new(Views::new()), catalog(500));
    let (permissions, asked) = permissions("13579");
    let of = || views.of(&catalog, Kind::Tools, &permissions, CLIENT);
    let all = futures_util::future::join_all((0..100).map(|_| of())).await;
    assert!(all.iter().all(Option::is_some));
    assert_eq!(asked.load(Ordering::Relaxed), 500);
    of().await.unwrap();
    assert_eq!(asked.load(Ordering::Relaxed), 500, "it is kept");
}

#[tokio::test]
async fn equal_visibility_shares_list() {
    let (views, catalog) = (Arc::new(Views::new()), catalog(100));
    let of =
        async |sees| views.of(&catalog, Kind::Tools, &permissions(sees).0, CLIENT).await.unwrap();
    let (one, other) = (of("02468").await, of("read").await);
    assert!(Arc::ptr_eq(&one.0, &other.0), "the ones that only read are the even ones");
    assert!(of("0123456789").await.0.is_none(), "who sees everything needs no list");
    assert_eq!(lock(&views.kept).len(), 3);
}

#[tokio::test]
async fn drops_views_with_catalog() {
    let (views, old) = (Arc::new(Views::new()), catalog(3));
    names(&views, &old, "1").await;
    let new = catalog(5);
    names(&views, &new, "1").await;
    drop(old);
    views.sweep();
    assert_eq!(lock(&views.kept).len(), 1);
    assert_eq!(names(&views, &new, "1").await, ["be_t0001"]);
}

#[tokio::test]
async fn panicking_policy_fails_list() {
    let (views, catalog) = (Arc::new(Views::new()), catalog(100));
    assert!(views.of(&catalog, Kind::Tools, &permissions("!").0, CLIENT).await.is_none());
}
