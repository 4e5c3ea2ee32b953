use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::testing::{FakeProvider, clock, endpoint, now, oauth2, plain};
use crate::{Client, Plaintext, RegistrationsFuture, StaticClient};

const OPENID: &str = "https://id.example/.well-known/openid-configuration";

/// Store that keeps registrations as text, like a real one.
#[derive(Default)]
struct TextStore {
    text: Mutex<Option<String>>,
    key: Mutex<Option<RegistrationKey>>,
    fails: AtomicBool,
}

impl Registrations for TextStore {
    fn get<'a>(&'a self, _: &'a RegistrationKey) -> RegistrationsFuture<'a, Option<Registration>> {
        Box::pin(async {
            if self.fails.load(Ordering::Relaxed) {
                return Err("down".into());
            }
            let text = self.text.lock().unwrap().clone();
            let read = |text: String| serde_json::from_str::<Plaintext<Registration>>(&text);
            Ok(text.map(read).transpose()?.map(|exposed| exposed.0))
        })
    }

    fn put<'a>(
        &'a self,
        key: &'a RegistrationKey,
        registration: &'a Registration,
        instead_of: Option<&'a str>,
    ) -> RegistrationsFuture<'a, Registration> {
        Box::pin(async move {
            *self.key.lock().unwrap() = Some(key.clone());
            let stored = self.get(key).await?;
            if let Some(stored) = stored.filter(|stored| Some(&*stored.client_id) != instead_of) {
                return Ok(stored);
            }
            *self.text.lock().unwrap() = Some(serde_json::to_string(&Plaintext(registration))?);
            Ok(registration.clone())
        })
    }
}

fn discovered() -> DynamicClient {
    DynamicClient::new(RegistrationSource::Discovery(endpoint(OPENID))).unwrap()
}

fn at_endpoint() -> DynamicClient {
    DynamicClient::new(RegistrationSource::Endpoint(endpoint("https://id.example/register")))
        .unwrap()
}

fn registrar(
    fake: &FakeProvider,
    dynamic: DynamicClient,
    stored: &Arc<TextStore>,
    clock: &Clock,
) -> Registrar {
    let settings = plain(oauth2(Client::Static(StaticClient::new("unused", None).unwrap())));
    let http_clients = ProviderHttpPair {
        configured: ProviderHttp::new(fake.client(false)),
        supplied: ProviderHttp::new(fake.client(true)),
    };
    let stored: Arc<TextStore> = Arc::clone(stored);
    Registrar::new(&settings, dynamic, http_clients, stored, clock.clone()).unwrap()
}

async fn error(fake: &FakeProvider, dynamic: DynamicClient) -> ProviderError {
    registrar(fake, dynamic, &Arc::default(), &clock()).current().await.map(|_| ()).unwrap_err()
}

fn body(fake: &FakeProvider) -> Value {
    serde_json::from_str(&fake.asked("/register")[0].body).unwrap()
}

#[tokio::test(start_paused = true)]
async fn registration_request_has_all_metadata() {
    let fake = FakeProvider::new();
    let dynamic = at_endpoint()
        .initial_access_token("1nitial".into())
        .and_then(|it| it.software_id("vmcp-1").software_statement("a.b.c"))
        .unwrap();
    let registration =
        registrar(&fake, dynamic, &Arc::default(), &clock()).current().await.ok().unwrap();
    assert_eq!(&*registration.client_id, "dyn-1");
    assert_eq!(registration.method, AuthMethod::Basic);
    let wanted = json!({
        "redirect_uris": ["https://mcp.example/oauth/callback"],
        "client_name": "vmcp",
        "application_type": "web",
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "client_secret_basic",
        "scope": "openid offline_access",
        "software_id": "vmcp-1",
        "software_statement": "a.b.c",
    });
    assert_eq!(body(&fake), wanted);
    let asked = &fake.asked("/register")[0];
    assert_eq!(asked.headers[AUTHORIZATION], "Bearer 1nitial");
    assert!(asked.headers[AUTHORIZATION].is_sensitive());
    assert_eq!(asked.headers[CONTENT_TYPE], "application/json");
}

#[tokio::test(start_paused = true)]
async fn requests_safest_advertised_auth_method() {
    for (listed, s256, method) in [
        (json!(null), json!(["S256"]), Some("client_secret_basic")),
        (json!(["none", "client_secret_post"]), json!(["S256"]), Some("client_secret_post")),
        (json!(["private_key_jwt", "none"]), json!(["S256"]), Some("none")),
        (json!(["none"]), json!(["plain"]), None),
        (json!(["private_key_jwt"]), json!(["S256"]), None),
    ] {
        let fake = FakeProvider::new();
        fake.state().metadata = json!({"token_endpoint_auth_methods_supported": listed,
            "code_challenge_methods_supported": s256});
        let outcome = registrar(&fake, discovered(), &Arc::default(), &clock()).current().await;
        if let Some(method) = method {
            assert!(outcome.is_ok());
            assert_eq!(body(&fake)["token_endpoint_auth_method"], method);
        } else {
            assert!(matches!(outcome, Err(ProviderError::ConfigMismatch(_))), "{listed}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn response_overrides_the_request() {
    let fake = FakeProvider::new();
    fake.state().registered = json!({"token_endpoint_auth_method": "client_secret_post"});
    let of = || async {
        registrar(&fake, at_endpoint(), &Arc::default(), &clock()).current().await.ok().unwrap()
    };
    assert_eq!(of().await.method, AuthMethod::Post);
    fake.state().registered = json!({"token_endpoint_auth_method": "none", "client_secret": null, "client_secret_expires_at": 0});
    let registration = of().await;
    assert_eq!((registration.method, registration.expires_at), (AuthMethod::None, None));
    assert!(registration.secret.is_none());
}

#[tokio::test(start_paused = true)]
async fn clamps_expiry_beyond_all_dates() {
    let fake = FakeProvider::new();
    let most = crate::tokens::seconds(now() + MAX_LIFETIME);
    for seconds in [u64::MAX, 1 << 60, 1 << 40, most + 1, most] {
        fake.state().registered = json!({"client_secret_expires_at": seconds});
        let registrar = registrar(&fake, at_endpoint(), &Arc::default(), &clock());
        let expires = registrar.current().await.ok().unwrap().expires_at;
        assert_eq!(expires, Some(now() + MAX_LIFETIME), "{seconds}");
    }
}

#[tokio::test(start_paused = true)]
async fn rejects_unusable_registrations() {
    let fake = FakeProvider::new();
    for odd in
        [json!({"token_endpoint_auth_method": "private_key_jwt"}), json!({"client_secret": null})]
    {
        fake.state().registered = odd.clone();
        assert!(
            matches!(error(&fake, at_endpoint()).await, ProviderError::ConfigMismatch(_)),
            "{odd}"
        );
    }
    for odd in [json!({"client_id": null}), json!({"client_id": ""}), json!({"client_secret": 7})] {
        fake.state().registered = odd.clone();
        let malformed = ProviderError::at(EndpointKind::Registration, EndpointError::Malformed);
        assert_eq!(error(&fake, at_endpoint()).await, malformed, "{odd}");
    }
    fake.odd("/register", 400, "application/json", r#"{"error":"invalid_client_metadata"}"#);
    let refused = error(&fake, at_endpoint()).await;
    let code = "invalid_client_metadata".into();
    assert_eq!(refused, ProviderError::Rejected { endpoint: EndpointKind::Registration, code });
    fake.state().metadata = json!({"registration_endpoint": null});
    assert!(matches!(error(&fake, discovered()).await, ProviderError::ConfigMismatch(_)));
    fake.state().metadata = json!({"issuer": "https://evil.example"});
    assert!(matches!(error(&fake, discovered()).await, ProviderError::ConfigMismatch(_)));
}

#[tokio::test(start_paused = true)]
async fn registration_is_shared_by_replicas_and_restarts() {
    let (fake, stored, clock) = (FakeProvider::new(), Arc::<TextStore>::default(), clock());
    let first = registrar(&fake, discovered(), &stored, &clock);
    let all = futures_util::future::join_all((0..50).map(|_| first.current())).await;
    assert!(all.iter().all(Result::is_ok));
    let second = registrar(&fake, discovered(), &stored, &clock);
    assert_eq!(&*second.current().await.ok().unwrap().client_id, "dyn-1");
    assert!(second.find("dyn-1").await.ok().unwrap().is_some());
    assert!(second.find("dyn-2").await.ok().unwrap().is_none());
    assert_eq!(fake.asked("/register").len(), 1);
    let key = stored.key.lock().unwrap().clone().unwrap();
    assert_eq!((&*key.issuer, &*key.provider), ("https://id.example", "idp"));
    assert_eq!(&*key.redirect_uri, "https://mcp.example/oauth/callback");
}

#[test]
fn scopes_digest_ignores_order() {
    let of = |scopes: &[&str]| scopes_digest(&Scopes::new(scopes).unwrap());
    assert_eq!(of(&["a", "b"]), of(&["b", "a", "b"]));
    assert_ne!(of(&["a", "b"]), of(&["a"]));
    assert_ne!(of(&["ab"]), of(&["a", "b"]));
}

#[tokio::test(start_paused = true)]
async fn registers_again_when_expiring_or_forgotten() {
    let (fake, stored, clock) = (FakeProvider::new(), Arc::<TextStore>::default(), clock());
    let expires = now() + RENEWAL_MARGIN + Duration::from_mins(1);
    fake.state().registered = json!({"client_secret_expires_at": crate::tokens::seconds(expires)});
    let registrar = registrar(&fake, at_endpoint(), &stored, &clock);
    assert!(registrar.current().await.is_ok());
    assert!(registrar.current().await.is_ok());
    assert_eq!(fake.asked("/register").len(), 1);
    clock.advance(Duration::from_mins(1));
    fake.state().registered = json!({"client_id": "dyn-2"});
    assert_eq!(&*registrar.current().await.ok().unwrap().client_id, "dyn-2");
    registrar.refused("dyn-2");
    fake.state().registered = json!({"client_id": "dyn-3"});
    assert_eq!(&*registrar.current().await.ok().unwrap().client_id, "dyn-3");
    assert!(registrar.find("dyn-3").await.ok().unwrap().is_some());
    assert_eq!(fake.asked("/register").len(), 3);
}

#[tokio::test(start_paused = true)]
async fn failing_store_causes_one_registration() {
    let (fake, stored, clock) = (FakeProvider::new(), Arc::<TextStore>::default(), clock());
    let registrar = registrar(&fake, at_endpoint(), &stored, &clock);
    stored.fails.store(true, Ordering::Relaxed);
    assert_eq!(
        registrar.current().await.map(|_| ()).unwrap_err(),
        ProviderError::RegistrationStore
    );
    assert_eq!(fake.asked("/register").len(), 0);
    stored.fails.store(false, Ordering::Relaxed);
    assert!(registrar.current().await.is_ok());
    stored.fails.store(true, Ordering::Relaxed);
    assert!(registrar.current().await.is_ok());
    assert!(registrar.find("dyn-1").await.ok().unwrap().is_some());
    assert_eq!(fake.asked("/register").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn endpoint_from_metadata_uses_guarded_client() {
    let fake = FakeProvider::new();
    fake.state().metadata = json!({"registration_endpoint": "https://elsewhere.example/register"});
    assert!(registrar(&fake, discovered(), &Arc::default(), &clock()).current().await.is_ok());
    assert!(fake.asked("/register")[0].supplied);
}

#[tokio::test(start_paused = true)]
async fn failed_registration_is_not_repeated_per_login() {
    let (fake, clock) = (FakeProvider::new(), clock());
    let registrar = registrar(&fake, at_endpoint(), &Arc::default(), &clock);
    fake.odd("/register", 429, "text/html", "");
    for _ in 0..10 {
        let error = registrar.current().await.map(|_| ()).unwrap_err();
        assert_eq!(
            error,
            ProviderError::at(EndpointKind::Registration, EndpointError::Status(429))
        );
    }
    assert_eq!(fake.asked("/register").len(), 1);
    fake.state().odd.clear();
    clock.advance(RETRY_INTERVAL);
    assert!(registrar.current().await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn concurrent_replicas_share_one_client() {
    let (fake, stored, clock) = (FakeProvider::new(), Arc::<TextStore>::default(), clock());
    let [one, two] = [(); 2].map(|()| registrar(&fake, at_endpoint(), &stored, &clock));
    fake.state().counts = true;
    let (first, second) = futures_util::future::join(one.current(), two.current()).await;
    let (first, second) = (first.ok().unwrap(), second.ok().unwrap());
    assert_eq!(fake.asked("/register").len(), 2, "neither knew of the other");
    assert_eq!(first.client_id, second.client_id);
    assert!(one.find(&second.client_id).await.ok().unwrap().is_some());

    // The same after each replica detects on its own that the provider has forgotten the client.
    for registrar in [&one, &two] {
        registrar.refused(&first.client_id);
    }
    let (third, fourth) = futures_util::future::join(one.current(), two.current()).await;
    let (third, fourth) = (third.ok().unwrap(), fourth.ok().unwrap());
    assert_ne!(third.client_id, first.client_id);
    assert_eq!(third.client_id, fourth.client_id);
    assert_eq!(fake.asked("/register").len(), 4);
}
