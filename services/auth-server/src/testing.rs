//! Server, providers and browser for tests.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use axum::Router;
use axum::body::Body;
use futures_util::future::BoxFuture;
use http::{Request, Response, StatusCode, Uri};
use secrecy::{ExposeSecret, SecretSlice};
use serde_json::Value;
use tower::ServiceExt;
use url::Url;
use vmcp_auth_store::{CodeChallenge, Limits, MemoryStore, Store};
use vmcp_core::Clock;
use vmcp_upstream::{
    AuthorizationResponse, AuthorizationResponseError, Login, ProviderError, ReauthParams,
    RefreshError, RevocationOutcome, Scopes as UpstreamScopes, Tokens,
};

use crate::{
    Audience, Audiences, AuthServer, HmacKeyRing, IssuerUrl, Rate, RateLimits, Settings,
    SigningKeys, Upstream,
};

pub(crate) use crate::tests::failing_store::FailingStore;

pub(crate) const ISSUER: &str = "https://as.example";
pub(crate) const RESOURCE: &str = "https://mcp.example/mcp";
pub(crate) const APP: &str = "https://app.example/cb";
pub(crate) const LOOPBACK: &str = "http://127.0.0.1/cb";
/// PKCE verifier of the minimum length, 43 characters.
pub(crate) const VERIFIER: &str = "verifier-verifier-verifier-verifier-verifie";
/// 2026-07-28, shortly after noon.
pub(crate) const NOW: u64 = 1_785_240_000;

/// Signing key for tests only.
pub(crate) const PEM: &str = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIDAgBwMh/JTwjXhUWuzfUx73PKxgVdrRviqbAE5Hkgpt\n-----END PRIVATE KEY-----\n";

/// Scripted upstream provider.
pub(crate) struct FakeProvider {
    name: String,
    issuer: String,
    redirect_uri: Uri,
    pub(crate) behavior: Mutex<FakeBehavior>,
    pub(crate) refreshes: AtomicUsize,
    pub(crate) revokes: AtomicUsize,
    /// Reauthentication options of the logins so far.
    pub(crate) reauth_params: Mutex<Vec<ReauthParams>>,
    clock: Clock,
}

/// Behavior of the fake provider.
#[derive(Clone, Debug)]
pub(crate) struct FakeBehavior {
    pub(crate) subject: &'static str,
    pub(crate) client_id: &'static str,
    pub(crate) is_synthetic: bool,
    pub(crate) email_verified: Option<bool>,
    /// Age of the user's authentication, in seconds.
    pub(crate) authenticated: Option<u64>,
    pub(crate) begin: Option<ProviderError>,
    pub(crate) finish: Option<ProviderError>,
    pub(crate) refresh: Option<RefreshError>,
    /// Prefix of refresh tokens that the provider rejects.
    pub(crate) dead: Option<&'static str>,
    pub(crate) refresh_takes: Duration,
    pub(crate) refresh_token: Option<&'static str>,
    pub(crate) expires_in: Option<u64>,
}

/// Server with two providers, `corp` and `git`.
pub(crate) struct TestEnv {
    pub(crate) server: AuthServer,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Clock,
    pub(crate) corp: Arc<FakeProvider>,
    pub(crate) git: Arc<FakeProvider>,
}

/// UserAgent with a cookie jar.
#[derive(Clone, Debug, Default)]
pub(crate) struct UserAgent {
    pub(crate) cookie: Option<String>,
    /// Address of the browser; browsers without one share an address.
    pub(crate) address: Option<SocketAddr>,
}

/// Response to the browser.
#[derive(Debug)]
pub(crate) struct TestResponse {
    pub(crate) status: StatusCode,
    pub(crate) headers: http::HeaderMap,
    pub(crate) text: String,
}

/// Tokens issued to a client.
#[derive(Clone, Debug)]
pub(crate) struct TokenPair {
    pub(crate) access: String,
    pub(crate) refresh: String,
}

impl FakeProvider {
    fn new(name: &str, clock: &Clock) -> Arc<Self> {
        Self::with_issuer(name, &format!("https://{name}.example"), clock)
    }

    /// Creates a provider of this issuer, under any name.
    pub(crate) fn with_issuer(name: &str, issuer: &str, clock: &Clock) -> Arc<Self> {
        Arc::new(Self {
            name: name.into(),
            issuer: issuer.into(),
            redirect_uri: Uri::from_static("https://as.example/oauth/callback"),
            behavior: Mutex::new(FakeBehavior {
                subject: "alice",
                client_id: "us",
                is_synthetic: false,
                email_verified: Some(true),
                authenticated: None,
                begin: None,
                finish: None,
                refresh: None,
                dead: None,
                refresh_takes: Duration::ZERO,
                refresh_token: Some("upstream-refresh-canary"),
                expires_in: Some(3600),
            }),
            refreshes: AtomicUsize::new(0),
            revokes: AtomicUsize::new(0),
            reauth_params: Mutex::default(),
            clock: clock.clone(),
        })
    }

    pub(crate) fn set(&self, change: impl FnOnce(&mut FakeBehavior)) {
        change(&mut self.behavior.lock().unwrap());
    }

    fn behavior(&self) -> FakeBehavior {
        self.behavior.lock().unwrap().clone()
    }

    fn tokens(&self, count: usize) -> Tokens {
        let behavior = self.behavior();
        let now = self.clock.now();
        Tokens {
            access: format!("{}-access-canary-{count}", self.name).into(),
            refresh: behavior.refresh_token.map(|text| format!("{text}-{count}").into()),
            id: Some(format!("{}-id-canary", self.name).into()),
            expires_at: behavior.expires_in.map(|seconds| now + Duration::from_secs(seconds)),
            scopes: UpstreamScopes::new(["read"]).unwrap(),
            issuer: self.issuer.clone().into(),
            subject: behavior.subject.into(),
            client_id: behavior.client_id.into(),
        }
    }
}

impl std::fmt::Debug for FakeProvider {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Fake").field(&self.name).finish()
    }
}

impl Upstream for FakeProvider {
    fn name(&self) -> &str {
        &self.name
    }

    fn redirect_uri(&self) -> &Uri {
        &self.redirect_uri
    }

    fn issuer(&self) -> Option<&str> {
        None
    }

    fn issuer_id(&self) -> &str {
        &self.issuer
    }

    fn may_have_issuer(&self, _: &str) -> bool {
        true
    }

    fn begin<'a>(
        &'a self,
        state: &'a str,
        freshness: ReauthParams,
    ) -> BoxFuture<'a, Result<(Uri, SecretSlice<u8>), ProviderError>> {
        Box::pin(async move {
            self.reauth_params.lock().unwrap().push(freshness);
            if let Some(cause) = self.behavior().begin {
                return Err(cause);
            }
            let to = format!("https://{}.example/authorize?state={state}", self.name);
            let stored = format!("{} leg-canary {state}", self.name);
            Ok((to.parse().unwrap(), stored.into_bytes().into()))
        })
    }

    fn finish<'a>(
        &'a self,
        state: &'a SecretSlice<u8>,
        response: AuthorizationResponse,
    ) -> BoxFuture<'a, Result<Login, ProviderError>> {
        Box::pin(async move {
            let behavior = self.behavior();
            if let Some(cause) = behavior.finish {
                return Err(cause);
            }
            // A code is valid for its own login only, as with PKCE.
            let state = String::from_utf8(state.expose_secret().to_vec()).unwrap();
            let code = response.outcome.map_err(ProviderError::Denied)?;
            if code.expose_secret() != format!("code for {state}") {
                return Err(AuthorizationResponseError::WrongIssuer.into());
            }
            Ok(Login {
                subject: behavior.subject.into(),
                name: Some("Alice".into()),
                email: Some("alice@example.com".into()),
                email_verified: behavior.email_verified,
                authenticated: behavior
                    .authenticated
                    .map(|seconds| self.clock.now() - Duration::from_secs(seconds)),
                is_synthetic: behavior.is_synthetic,
                tokens: self.tokens(0),
            })
        })
    }

    fn refresh<'a>(&'a self, tokens: &'a Tokens) -> BoxFuture<'a, Result<Tokens, RefreshError>> {
        Box::pin(async move {
            assert_eq!(&*tokens.client_id, "us");
            let count = self.refreshes.fetch_add(1, Ordering::SeqCst) + 1;
            let behavior = self.behavior();
            tokio::time::sleep(behavior.refresh_takes).await;
            let old = tokens.refresh.as_ref().map(ExposeSecret::expose_secret);
            if behavior.dead.is_some_and(|dead| old.is_some_and(|old| old.starts_with(dead))) {
                return Err(RefreshError::GrantEnded);
            }
            behavior.refresh.map_or_else(|| Ok(self.tokens(count)), Err)
        })
    }

    fn revoke<'a>(
        &'a self,
        _: &'a Tokens,
    ) -> BoxFuture<'a, Result<RevocationOutcome, ProviderError>> {
        self.revokes.fetch_add(1, Ordering::SeqCst);
        Box::pin(async { Ok(RevocationOutcome::Revoked) })
    }
}

pub(crate) fn settings() -> Settings {
    let audiences = Audiences::new(vec![Audience::parse(RESOURCE).unwrap()]).unwrap();
    let hmac = HmacKeyRing::new(&[vec![7; 32].into()]).unwrap();
    let keys = SigningKeys::new::<Vec<u8>>(&[]).unwrap();
    let mut settings = Settings::new(IssuerUrl::parse(ISSUER).unwrap(), audiences, keys, hmac);
    let many = Rate { burst: 100_000, per_second: 1000 };
    settings.rate_limits = RateLimits { pages: many, tokens: many, registration: many };
    settings
}

impl TestEnv {
    pub(crate) fn new() -> Self {
        Self::with(settings(), Limits::default())
    }

    pub(crate) fn with(settings: Settings, limits: Limits) -> Self {
        let clock = Clock::manual(SystemTime::UNIX_EPOCH + Duration::from_secs(NOW));
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new(limits, clock.clone()));
        Self::with_store(settings, store, clock)
    }

    /// Creates a server over an existing store: another replica.
    pub(crate) fn with_store(settings: Settings, store: Arc<dyn Store>, clock: Clock) -> Self {
        let [corp, git] = ["corp", "git"].map(|name| FakeProvider::new(name, &clock));
        let upstreams: Vec<Arc<dyn Upstream>> =
            vec![Arc::clone(&corp) as Arc<dyn Upstream>, Arc::clone(&git) as Arc<dyn Upstream>];
        let server =
            AuthServer::new(settings, Arc::clone(&store), upstreams, clock.clone()).unwrap();
        Self { server, store, clock, corp, git }
    }

    /// Creates a server over the same store with other providers.
    pub(crate) fn with_providers(other: &Self, upstreams: Vec<Arc<dyn Upstream>>) -> Self {
        let (store, clock) = (Arc::clone(&other.store), other.clock.clone());
        let server = AuthServer::new(settings(), Arc::clone(&store), upstreams, clock.clone());
        let [corp, git] = ["corp", "git"].map(|name| FakeProvider::new(name, &clock));
        Self { server: server.unwrap(), store, clock, corp, git }
    }

    pub(crate) fn router(&self) -> Router {
        self.server.router()
    }

    pub(crate) async fn send(&self, request: Request<Body>) -> TestResponse {
        TestResponse::collect(self.router().oneshot(request).await.unwrap()).await
    }

    pub(crate) async fn get(&self, path: &str) -> TestResponse {
        self.send(Request::get(path).body(Body::empty()).unwrap()).await
    }

    pub(crate) async fn post(&self, path: &str, form: &[(&str, &str)]) -> TestResponse {
        self.send(form_request(path, form)).await
    }

    pub(crate) async fn register(&self, document: Value) -> TestResponse {
        let request = Request::post("/oauth/register").header("content-type", "application/json");
        self.send(request.body(document.to_string().into()).unwrap()).await
    }

    /// Registers a client with [`APP`] and [`LOOPBACK`] as redirect URIs, which may refresh.
    pub(crate) async fn client(&self) -> String {
        let response = self
            .register(serde_json::json!({
                "redirect_uris": [APP, LOOPBACK], "client_name": "Editor",
                "grant_types": ["authorization_code", "refresh_token"],
            }))
            .await;
        assert_eq!(response.status, 201, "{}", response.text);
        response.json()["client_id"].as_str().unwrap().to_owned()
    }

    /// Returns the address of an authorization request with these parameters changed; an empty value omits the parameter.
    pub(crate) fn authorize(client: &str, changed: &[(&str, &str)]) -> String {
        let challenge = CodeChallenge::of_verifier(VERIFIER).to_text();
        let mut params = BTreeMap::from([
            ("response_type", "code"),
            ("client_id", client),
            ("redirect_uri", APP),
            ("state", "client-state"),
            ("code_challenge", &challenge),
            ("code_challenge_method", "S256"),
            ("resource", RESOURCE),
        ]);
        params.extend(changed.iter().copied());
        params.retain(|_, value| !value.is_empty());
        let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(params).finish();
        format!("/oauth/authorize?{query}")
    }

    /// Returns the submitted form of the consent page with this decision.
    pub(crate) fn decision(page: &str, decision: &str) -> Request<Body> {
        let field = |name: &str| {
            let from = page.split_once(&format!("name=\"{name}\" value=\"")).unwrap().1;
            from.split_once('"').unwrap().0.to_owned()
        };
        let (id, csrf) = (field("id"), field("csrf"));
        form_request("/oauth/consent", &[("id", &id), ("csrf", &csrf), ("decision", decision)])
    }

    /// Logs in at a provider, and returns the callback's address.
    pub(crate) fn provider_callback(to: &str) -> String {
        let to = Url::parse(to).unwrap();
        let name = to.host_str().unwrap().strip_suffix(".example").unwrap().to_owned();
        let state = to.query_pairs().find(|(name, _)| name == "state").unwrap().1.into_owned();
        let code = format!("code for {name} leg-canary {state}");
        let query = form_urlencoded::Serializer::new(String::new())
            .extend_pairs([("code", code.as_str()), ("state", &state)])
            .finish();
        format!("/oauth/callback?{query}")
    }

    /// Fails to log in at a provider, and returns the callback's address with the error.
    pub(crate) fn provider_error_callback(to: &str, error: &str) -> String {
        let back = Self::provider_callback(to);
        let (_, state) = back.split_once("&state=").unwrap();
        format!("/oauth/callback?error={error}&error_description=canary&state={state}")
    }

    /// Runs a login up to the redirect to the first provider.
    pub(crate) async fn consent(&self, browser: &mut UserAgent, authorize: &str) -> String {
        let page = browser.get(self, authorize).await;
        if page.status == StatusCode::SEE_OTHER {
            return page.location();
        }
        assert_eq!(page.status, 200, "{}", page.text);
        let leave = browser.send(self, Self::decision(&page.text, "allow")).await;
        leave.refresh_target()
    }

    /// Runs a whole login, and returns the redirect to the client.
    pub(crate) async fn log_in_at(&self, browser: &mut UserAgent, authorize: &str) -> Url {
        let corp = self.consent(browser, authorize).await;
        let git = browser.get(self, &Self::provider_callback(&corp)).await.location();
        let done = browser.get(self, &Self::provider_callback(&git)).await;
        Url::parse(&done.location()).unwrap()
    }

    /// Runs a whole login in a new browser, and returns the code.
    pub(crate) async fn code(&self, client: &str) -> String {
        let answer = self.log_in_at(&mut UserAgent::default(), &Self::authorize(client, &[])).await;
        param(&answer, "code").unwrap()
    }

    pub(crate) async fn redeem(
        &self,
        client: &str,
        code: &str,
        changed: &[(&str, &str)],
    ) -> TestResponse {
        let mut form = BTreeMap::from([
            ("grant_type", "authorization_code"),
            ("client_id", client),
            ("code", code),
            ("redirect_uri", APP),
            ("code_verifier", VERIFIER),
        ]);
        form.extend(changed.iter().copied());
        form.retain(|_, value| !value.is_empty());
        let form: Vec<_> = form.into_iter().collect();
        self.post("/oauth/token", &form).await
    }

    pub(crate) async fn refresh(&self, client: &str, token: &str) -> TestResponse {
        let form =
            [("grant_type", "refresh_token"), ("client_id", client), ("refresh_token", token)];
        self.post("/oauth/token", &form).await
    }

    /// Runs a whole login, and returns the tokens.
    pub(crate) async fn tokens(&self, client: &str) -> TokenPair {
        let code = self.code(client).await;
        self.redeem(client, &code, &[]).await.tokens()
    }
}

impl UserAgent {
    pub(crate) fn at(address: &str) -> Self {
        Self { cookie: None, address: Some(SocketAddr::new(address.parse().unwrap(), 443)) }
    }

    pub(crate) async fn get(&mut self, env: &TestEnv, address: &str) -> TestResponse {
        self.send(env, Request::get(address).body(Body::empty()).unwrap()).await
    }

    pub(crate) async fn send(&mut self, env: &TestEnv, mut request: Request<Body>) -> TestResponse {
        if let Some(cookie) = &self.cookie {
            request.headers_mut().insert("cookie", cookie.parse().unwrap());
        }
        if let Some(address) = self.address {
            request.extensions_mut().insert(address);
        }
        let response = env.send(request).await;
        if let Some(set) = response.headers.get("set-cookie") {
            let set = set.to_str().unwrap();
            self.cookie = Some(set.split(';').next().unwrap().to_owned());
        }
        response
    }
}

impl TestResponse {
    async fn collect(response: Response<Body>) -> Self {
        let (parts, body) = response.into_parts();
        let bytes = axum::body::to_bytes(body, 1 << 20).await.unwrap();
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        Self { status: parts.status, headers: parts.headers, text }
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("{self:?}"))
    }

    /// Returns the error code, from JSON or from the redirect to the client.
    pub(crate) fn error(&self) -> String {
        if self.headers.get("content-type").is_some_and(|media| media == "application/json") {
            return self.json()["error"].as_str().unwrap_or_default().to_owned();
        }
        param(&self.client_redirect(), "error").unwrap_or_default()
    }

    /// Returns the error redirect to the client: a redirect, or a link on a page.
    pub(crate) fn client_redirect(&self) -> Url {
        let address = if self.status == StatusCode::SEE_OTHER {
            self.location()
        } else {
            assert!(!self.text.contains("http-equiv"), "{self:?}");
            let from = self.text.split_once("<a href=\"").unwrap_or_else(|| panic!("{self:?}")).1;
            from.split_once('"').unwrap().0.replace("&amp;", "&")
        };
        Url::parse(&address).unwrap()
    }

    pub(crate) fn location(&self) -> String {
        assert_eq!(self.status, StatusCode::SEE_OTHER, "{}", self.text);
        self.headers["location"].to_str().unwrap().to_owned()
    }

    /// Returns the address to which a page redirects the browser.
    pub(crate) fn refresh_target(&self) -> String {
        let from = self.text.split_once("content=\"0;url=").unwrap_or_else(|| panic!("{self:?}")).1;
        from.split_once('"').unwrap().0.replace("&amp;", "&")
    }

    pub(crate) fn tokens(&self) -> TokenPair {
        assert_eq!(self.status, 200, "{}", self.text);
        let text = |name: &str| self.json()[name].as_str().unwrap_or_default().to_owned();
        TokenPair { access: text("access_token"), refresh: text("refresh_token") }
    }
}

pub(crate) fn form_request(path: &str, form: &[(&str, &str)]) -> Request<Body> {
    let text = form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish();
    Request::post(path)
        .header("content-type", "application/x-www-form-urlencoded")
        .body(text.into())
        .unwrap()
}

pub(crate) fn param(address: &Url, name: &str) -> Option<String> {
    address.query_pairs().find(|(known, _)| known == name).map(|(_, value)| value.into_owned())
}
