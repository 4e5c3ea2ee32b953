//! The authorization server between real clients and real identity providers.

use std::sync::Arc;

use secrecy::ExposeSecret;
use tokio::net::TcpListener;
use vmcp_auth_server::{
    Audience, Audiences, AuthServer, HmacKeyRing, IssuerUrl, Settings, SigningKeys,
    StoredRegistrations, Upstream,
};
use vmcp_auth_store::{CodeChallenge, Limits, MemoryStore, Store};
use vmcp_core::{Body, BoxError, Clock, UpstreamError, UpstreamKind};
use vmcp_egress::{Egress, FetchPolicy, Fetcher};
use vmcp_tests::counterparts::{
    Person, Reply, Status, UpstreamProvider, post, post_form, run_authorization_suite, skipped,
};
use vmcp_upstream::{
    Client, DynamicClient, Endpoint, FieldMapping, Issuer, Kind, Oauth2, Oidc, Params, Provider,
    RegistrationSource, Scopes, StaticClient, UserInfo,
};

pub(super) const VERIFIER: &str = "verifier-verifier-verifier-verifier-verifie";

/// A server with two providers, of which the second rotates refresh tokens.
pub(super) struct AuthServerEnv {
    pub(super) issuer: String,
    resource: String,
    server: AuthServer,
    first: UpstreamProvider,
    second: UpstreamProvider,
}

impl AuthServerEnv {
    pub(super) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let issuer = format!("http://{}", listener.local_addr().unwrap());
        let callback = format!("{issuer}/oauth/callback");
        let first = UpstreamProvider::start_for(&callback, false).await.unwrap();
        let second = UpstreamProvider::start_for(&callback, true).await.unwrap();
        let resource = format!("{issuer}/mcp");
        let audiences = Audiences::new(vec![Audience::parse(&resource).unwrap()]).unwrap();
        let url = IssuerUrl::parse(&issuer).unwrap();
        let keys = SigningKeys::new::<Vec<u8>>(&[]).unwrap();
        let hmac = HmacKeyRing::new(&[vec![7; 32].into()]).unwrap();
        let clock = Clock::system();
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new(Limits::default(), clock.clone()));
        let upstreams: Vec<Arc<dyn Upstream>> = vec![
            Arc::new(oidc(&first, &callback, &store, &hmac)),
            Arc::new(oauth2(&second, &callback, &store, &hmac)),
        ];
        let settings = Settings::new(url, audiences, keys, hmac);
        // No client of these tests uses a metadata document, although the server announces support.
        let documents = tower::service_fn(|_: http::Request<Body>| async {
            Err::<http::Response<Body>, BoxError>("no documents here".into())
        });
        let server = AuthServer::new(settings, store, upstreams, clock)
            .unwrap()
            .with_client_metadata(documents);
        let router = server.router();
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { issuer, resource, server, first, second }
    }

    /// Returns the issuer of the first provider.
    pub(super) fn first(&self) -> String {
        self.first.issuer()
    }

    /// Returns the issuer of the second provider.
    pub(super) fn second(&self) -> String {
        self.second.issuer()
    }

    pub(super) async fn register(&self) -> String {
        self.register_as("Editor").await
    }

    /// Registers a client with this name.
    pub(super) async fn register_as(&self, name: &str) -> String {
        register(&self.issuer, name).await
    }
}

/// Registers a client with this name.
pub(super) async fn register(issuer: &str, name: &str) -> String {
    let document = serde_json::json!({
        "redirect_uris": ["http://127.0.0.1/callback"], "client_name": name,
        "grant_types": ["authorization_code", "refresh_token"],
    });
    let url = format!("{issuer}/oauth/register");
    let reply = post(&url, &http::HeaderMap::new(), &document).await.unwrap();
    json(&reply)["client_id"].as_str().unwrap().to_owned()
}

pub(super) async fn token(issuer: &str, form: &[(&str, &str)]) -> serde_json::Value {
    let text = form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish();
    json(&post_form(&format!("{issuer}/oauth/token"), &text).await.unwrap())
}

fn json(reply: &Reply) -> serde_json::Value {
    serde_json::from_slice(&reply.body).unwrap_or_else(|_| panic!("{reply:?}"))
}

fn provider(
    settings: vmcp_upstream::Settings,
    store: &Arc<dyn Store>,
    hmac: &HmacKeyRing,
) -> Provider {
    let fetcher = |policy| Fetcher::new(Egress::default(), policy).unwrap();
    let (ours, theirs) = (fetcher(FetchPolicy::configured()), fetcher(FetchPolicy::supplied()));
    let clock = Clock::system();
    let registrations = StoredRegistrations::new(Arc::clone(store), hmac, clock.clone());
    Provider::new(settings, ours, theirs, Arc::new(registrations), clock).unwrap()
}

fn settings(name: &str, callback: &str, kind: Kind) -> vmcp_upstream::Settings {
    let consent = [("prompt".to_owned(), "consent".to_owned())];
    vmcp_upstream::Settings {
        name: name.into(),
        kind,
        redirect_uri: Endpoint::new(callback).unwrap(),
        scopes: Scopes::new(["openid", "profile", "email", "offline_access"]).unwrap(),
        params: Params::new(consent).unwrap(),
        client_name: "vmcp".into(),
    }
}

fn oidc(
    idp: &UpstreamProvider,
    callback: &str,
    store: &Arc<dyn Store>,
    hmac: &HmacKeyRing,
) -> Provider {
    let issuer = Issuer::new(&idp.issuer()).unwrap();
    let client = StaticClient::new("basic", Some("basic: s3cr3t+/%".into())).unwrap();
    let kind = Kind::Oidc(Box::new(Oidc { issuer, client, user_info: None }));
    provider(settings("corp", callback, kind), store, hmac)
}

/// Configures a provider with dynamic registration.
fn oauth2(
    idp: &UpstreamProvider,
    callback: &str,
    store: &Arc<dyn Store>,
    hmac: &HmacKeyRing,
) -> Provider {
    let at = |path: &str| Endpoint::new(&format!("{}{path}", idp.issuer())).unwrap();
    let fields = FieldMapping::new(vec!["sub"], vec!["name"], vec!["email"]).unwrap();
    let place = RegistrationSource::Discovery(at("/.well-known/openid-configuration"));
    let dynamic =
        DynamicClient::new(place).unwrap().initial_access_token("1nitial".into()).unwrap();
    let kind = Kind::Oauth2(Box::new(Oauth2 {
        authorization_endpoint: at("/auth"),
        token_endpoint: at("/token"),
        client: Client::Dynamic(dynamic),
        token_mapping: None,
        user_info: Some(UserInfo { fields, ..UserInfo::new(at("/me")) }),
    }));
    provider(settings("git", callback, kind), store, hmac)
}

#[tokio::test(flavor = "multi_thread")]
async fn login_at_two_providers_yields_both_tokens() {
    if skipped() {
        return;
    }
    let world = AuthServerEnv::start().await;
    let client = world.register().await;
    let challenge = CodeChallenge::of_verifier(VERIFIER).to_text();
    let redirect = "http://127.0.0.1:5/callback";
    let page = format!(
        "{}/oauth/authorize?response_type=code&client_id={client}&redirect_uri={redirect}&state=s\
         &code_challenge={challenge}&code_challenge_method=S256&resource={}",
        world.issuer, world.resource
    );
    let mut person = Person::named("alice");
    let back = person.logs_in(&page).await.unwrap();
    assert!(back.contains("&state=s&iss=http%3A%2F%2F127.0.0.1"), "{back}");
    let code = back.split_once("?code=").unwrap().1.split('&').next().unwrap();
    let form = [
        ("grant_type", "authorization_code"),
        ("client_id", &client),
        ("code", code),
        ("redirect_uri", redirect),
        ("code_verifier", VERIFIER),
    ];
    let got = token(&world.issuer, &form).await;
    let access = got["access_token"].as_str().unwrap_or_else(|| panic!("{got}"));
    let own = world.server.verifier(&world.resource).unwrap().verify(access).unwrap();
    assert_eq!(own.claims.text("email"), Some("alice@example.com"));

    let tokens = world.server.upstream_tokens(own.session);
    let [corp, git] = ["corp", "git"].map(|name| tokens.token(name, UpstreamKind::Access));
    let (corp, git) = (corp.await.unwrap(), git.await.unwrap());
    assert_ne!(corp.value.expose_secret(), git.value.expose_secret());
    assert!(
        tokens.token("corp", UpstreamKind::Id).await.unwrap().value.expose_secret().contains('.')
    );

    // The client keeps its session, whatever happens to the providers.
    let refresh = got["refresh_token"].as_str().unwrap();
    world.first.kill().await.unwrap();
    world.second.kill().await.unwrap();
    let form =
        [("grant_type", "refresh_token"), ("client_id", &client), ("refresh_token", refresh)];
    let again = token(&world.issuer, &form).await;
    assert!(again["access_token"].is_string(), "{again}");
    world.server.end_session(own.session).await.unwrap();
    let gone = tokens.token("git", UpstreamKind::Access).await;
    assert!(matches!(gone, Err(UpstreamError::NotLinked)));
}

#[tokio::test(flavor = "multi_thread")]
async fn authorization_server_passes_conformance_suite() {
    if skipped() {
        return;
    }
    let world = AuthServerEnv::start().await;
    let client = world.register().await;
    let person = Person::named("alice");
    let checks = run_authorization_suite(&world.issuer, &client, person).await.unwrap();
    let unmet: Vec<_> = checks.iter().filter(|check| check.status != Status::Success).collect();
    assert!(unmet.is_empty(), "{unmet:?}");
    assert_eq!(checks.len(), 3);
}
