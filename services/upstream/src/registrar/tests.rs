use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::testing::{Fake, clock, endpoint, now, oauth2, plain};
use crate::{Client, Exposed, Fixed, RegistrationsFuture};

const OPENID: &str = "https://id.example/.well-known/openid-configuration";

/// Keeps registrations as a store does: sealed as text.
#[derive(Default)]
struct Kept {
    text: Mutex<Option<String>>,
    key: Mutex<Option<RegistrationKey>>,
    fails: AtomicBool,
}

impl Registrations for Kept {
    fn get<'a>(&'a self, _: &'a RegistrationKey) -> RegistrationsFuture<'a, Option<Registration>> {
        Box::pin(async {
            if self.fails.load(Ordering::Relaxed) {
                return Err("down".into());
            }
            let text = self.text.lock().unwrap().clone();
            let read = |text: String| serde_json::from_str::<Exposed<Registration>>(&text);
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
            let kept = self.get(key).await?;
            if let Some(kept) = kept.filter(|kept| Some(&*kept.client_id) != instead_of) {
                return Ok(kept);
            }
            *self.text.lock().unwrap() = Some(serde_json::to_string(&Exposed(registration))?);
            Ok(registration.clone())
        })
    }
}

fn discovered() -> Dynamic {
    Dynamic::new(RegistrationPlace::Discovery(endpoint(OPENID))).unwrap()
}

fn at_endpoint() -> Dynamic {
    Dynamic::new(RegistrationPlace::Endpoint(endpoint("https://id.example/register"))).unwrap()
}

fn registrar(fake: &Fake, dynamic: Dynamic, kept: &Arc<Kept>, clock: &Clock) -> Registrar {
    let settings = plain(oauth2(Client::Fixed(Fixed::new("unused", None).unwrap())));
    let webs =
        Webs { configured: Web::new(fake.client(false)), supplied: Web::new(fake.client(true)) };
    let kept: Arc<Kept> = Arc::clone(kept);
    Registrar::new(&settings, dynamic, webs, kept, clock.clone()).unwrap()
}

async fn fault(fake: &Fake, dynamic: Dynamic) -> Fault {
    registrar(fake, dynamic, &Arc::default(), &clock()).current().await.map(|_| ()).unwrap_err()
}

fn body(fake: &Fake) -> Value {
    serde_json::from_str(&fake.asked("/register")[0].body).unwrap()
}

#[tokio::test(start_paused = true)]
async fn registers_with_all_that_the_provider_has_to_know() {
    let fake = Fake::new();
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
async fn asks_for_the_safest_way_to_authenticate_that_is_listed() {
    for (listed, s256, method) in [
        (json!(null), json!(["S256"]), Some("client_secret_basic")),
        (json!(["none", "client_secret_post"]), json!(["S256"]), Some("client_secret_post")),
        (json!(["private_key_jwt", "none"]), json!(["S256"]), Some("none")),
        (json!(["none"]), json!(["plain"]), None),
        (json!(["private_key_jwt"]), json!(["S256"]), None),
    ] {
        let fake = Fake::new();
        fake.state().metadata = json!({"token_endpoint_auth_methods_supported": listed,
            "code_challenge_methods_supported": s256});
        let outcome = registrar(&fake, discovered(), &Arc::default(), &clock()).current().await;
        if let Some(method) = method {
            assert!(outcome.is_ok());
            assert_eq!(body(&fake)["token_endpoint_auth_method"], method);
        } else {
            assert!(matches!(outcome, Err(Fault::Misfit(_))), "{listed}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_the_provider_made_of_the_request_counts() {
    let fake = Fake::new();
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
    let fake = Fake::new();
    let most = crate::tokens::seconds(now() + LIFETIME);
    for seconds in [u64::MAX, 1 << 60, 1 << 40, most + 1, most] {
        fake.state().registered = json!({"client_secret_expires_at": seconds});
        let registrar = registrar(&fake, at_endpoint(), &Arc::default(), &clock());
        let expires = registrar.current().await.ok().unwrap().expires_at;
        assert_eq!(expires, Some(now() + LIFETIME), "{seconds}");
    }
}

#[tokio::test(start_paused = true)]
async fn refuses_registrations_that_cannot_be_used() {
    let fake = Fake::new();
    for odd in
        [json!({"token_endpoint_auth_method": "private_key_jwt"}), json!({"client_secret": null})]
    {
        fake.state().registered = odd.clone();
        assert!(matches!(fault(&fake, at_endpoint()).await, Fault::Misfit(_)), "{odd}");
    }
    for odd in [json!({"client_id": null}), json!({"client_id": ""}), json!({"client_secret": 7})] {
        fake.state().registered = odd.clone();
        let malformed = Fault::at(Place::Registration, Outage::Malformed);
        assert_eq!(fault(&fake, at_endpoint()).await, malformed, "{odd}");
    }
    fake.odd("/register", 400, "application/json", r#"{"error":"invalid_client_metadata"}"#);
    let refused = fault(&fake, at_endpoint()).await;
    let code = "invalid_client_metadata".into();
    assert_eq!(refused, Fault::Refused { place: Place::Registration, code });
    fake.state().metadata = json!({"registration_endpoint": null});
    assert!(matches!(fault(&fake, discovered()).await, Fault::Misfit(_)));
    fake.state().metadata = json!({"issuer": "https://evil.example"});
    assert!(matches!(fault(&fake, discovered()).await, Fault::Misfit(_)));
}

#[tokio::test(start_paused = true)]
async fn a_registration_serves_all_replicas_and_restarts() {
    let (fake, kept, clock) = (Fake::new(), Arc::<Kept>::default(), clock());
    let first = registrar(&fake, discovered(), &kept, &clock);
    let all = futures_util::future::join_all((0..50).map(|_| first.current())).await;
    assert!(all.iter().all(Result::is_ok));
    let second = registrar(&fake, discovered(), &kept, &clock);
    assert_eq!(&*second.current().await.ok().unwrap().client_id, "dyn-1");
    assert!(second.named("dyn-1").await.ok().unwrap().is_some());
    assert!(second.named("dyn-2").await.ok().unwrap().is_none());
    assert_eq!(fake.asked("/register").len(), 1);
    let key = kept.key.lock().unwrap().clone().unwrap();
    assert_eq!((&*key.issuer, &*key.provider), ("https://id.example", "idp"));
    assert_eq!(&*key.redirect_uri, "https://mcp.example/oauth/callback");
}

#[test]
fn scopes_are_the_same_in_any_order_and_no_others() {
    let of = |scopes: &[&str]| digest_of(&Scopes::new(scopes).unwrap());
    assert_eq!(of(&["a", "b"]), of(&["b", "a", "b"]));
    assert_ne!(of(&["a", "b"]), of(&["a"]));
    assert_ne!(of(&["ab"]), of(&["a", "b"]));
}

#[tokio::test(start_paused = true)]
async fn registers_anew_before_the_secret_expires_and_when_the_provider_forgot_it() {
    let (fake, kept, clock) = (Fake::new(), Arc::<Kept>::default(), clock());
    let expires = now() + MARGIN + Duration::from_secs(60);
    fake.state().registered = json!({"client_secret_expires_at": crate::tokens::seconds(expires)});
    let registrar = registrar(&fake, at_endpoint(), &kept, &clock);
    assert!(registrar.current().await.is_ok());
    assert!(registrar.current().await.is_ok());
    assert_eq!(fake.asked("/register").len(), 1);
    clock.advance(Duration::from_secs(60));
    fake.state().registered = json!({"client_id": "dyn-2"});
    assert_eq!(&*registrar.current().await.ok().unwrap().client_id, "dyn-2");
    registrar.refused("dyn-2");
    fake.state().registered = json!({"client_id": "dyn-3"});
    assert_eq!(&*registrar.current().await.ok().unwrap().client_id, "dyn-3");
    assert!(registrar.named("dyn-3").await.ok().unwrap().is_some());
    assert_eq!(fake.asked("/register").len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_does_not_register_again_and_again() {
    let (fake, kept, clock) = (Fake::new(), Arc::<Kept>::default(), clock());
    let registrar = registrar(&fake, at_endpoint(), &kept, &clock);
    kept.fails.store(true, Ordering::Relaxed);
    assert_eq!(registrar.current().await.map(|_| ()).unwrap_err(), Fault::Registrations);
    assert_eq!(fake.asked("/register").len(), 0);
    kept.fails.store(false, Ordering::Relaxed);
    assert!(registrar.current().await.is_ok());
    kept.fails.store(true, Ordering::Relaxed);
    assert!(registrar.current().await.is_ok());
    assert!(registrar.named("dyn-1").await.ok().unwrap().is_some());
    assert_eq!(fake.asked("/register").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_address_that_only_metadata_names_is_asked_as_such() {
    let fake = Fake::new();
    fake.state().metadata = json!({"registration_endpoint": "https://elsewhere.example/register"});
    assert!(registrar(&fake, discovered(), &Arc::default(), &clock()).current().await.is_ok());
    assert!(fake.asked("/register")[0].supplied);
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_registers_nobody_is_not_asked_for_each_login() {
    let (fake, clock) = (Fake::new(), clock());
    let registrar = registrar(&fake, at_endpoint(), &Arc::default(), &clock);
    fake.odd("/register", 429, "text/html", "");
    for _ in 0..10 {
        let fault = registrar.current().await.map(|_| ()).unwrap_err();
        assert_eq!(fault, Fault::at(Place::Registration, Outage::Status(429)));
    }
    assert_eq!(fake.asked("/register").len(), 1);
    fake.state().odd.clear();
    clock.advance(RETRY);
    assert!(registrar.current().await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn replicas_that_register_at_once_go_on_as_one_client() {
    let (fake, kept, clock) = (Fake::new(), Arc::<Kept>::default(), clock());
    let [one, two] = [(); 2].map(|()| registrar(&fake, at_endpoint(), &kept, &clock));
    fake.state().counts = true;
    let (first, second) = futures_util::future::join(one.current(), two.current()).await;
    let (first, second) = (first.ok().unwrap(), second.ok().unwrap());
    assert_eq!(fake.asked("/register").len(), 2, "neither knew of the other");
    assert_eq!(first.client_id, second.client_id);
    assert!(one.named(&second.client_id).await.ok().unwrap().is_some());

    // The same when the provider forgot it and each finds that out by itself.
    for registrar in [&one, &two] {
        registrar.refused(&first.client_id);
    }
    let (third, fourth) = futures_util::future::join(one.current(), two.current()).await;
    let (third, fourth) = (third.ok().unwrap(), fourth.ok().unwrap());
    assert_ne!(third.client_id, first.client_id);
    assert_eq!(third.client_id, fourth.client_id);
    assert_eq!(fake.asked("/register").len(), 4);
}
