//! Fake provider for tests: serves requests, signs ID tokens, records requests.

use std::collections::HashMap;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use aws_lc_rs::digest;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, Uri};
use http_body_util::{BodyExt, Full};
use serde_json::{Map, Value, json};
use tower::Service;
use vmcp_core::{Body, Clock};
use vmcp_test_support::SigningKey;

use crate::*;

pub(crate) const ISSUER: &str = "https://id.example";
pub(crate) const CLIENT: &str = "gateway";
pub(crate) const NOW: u64 = 1_785_240_000;

pub(crate) type Form = HashMap<String, String>;

#[derive(Clone)]
pub(crate) struct FakeProvider(Arc<Mutex<State>>);

pub(crate) struct State {
    /// Overrides of the metadata; `null` removes a member.
    pub(crate) metadata: Value,
    /// Overrides of the ID token; `null` removes a claim.
    pub(crate) claims: Value,
    /// Overrides of the token response.
    pub(crate) granted: Value,
    pub(crate) user: Value,
    pub(crate) registered: Value,
    /// `true` if each registration is another client: `dyn-` and the number of requests.
    pub(crate) counts: bool,
    /// Responses by path: status, content type, body.
    pub(crate) odd: HashMap<&'static str, (u16, &'static str, String)>,
    /// Paths that never respond.
    pub(crate) silent: Vec<&'static str>,
    /// `true` if the token endpoint accepts a client secret in the body only.
    pub(crate) in_body_only: bool,
    /// Recorded requests, in order.
    pub(crate) seen: Vec<RecordedRequest>,
    pub(crate) nonce: Option<String>,
    pub(crate) key: SigningKey,
}

#[derive(Clone, Debug)]
pub(crate) struct RecordedRequest {
    /// `true` if the guarded client sent it.
    pub(crate) supplied: bool,
    pub(crate) method: Method,
    pub(crate) uri: Uri,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

#[derive(Clone)]
pub(crate) struct FakeClient {
    fake: FakeProvider,
    supplied: bool,
}

impl RecordedRequest {
    pub(crate) fn form(&self) -> Form {
        let pairs: Vec<_> = form_urlencoded::parse(self.body.as_bytes()).into_owned().collect();
        let form: Form = pairs.iter().cloned().collect();
        assert_eq!(form.len(), pairs.len(), "a parameter stands twice");
        form
    }
}

pub(crate) fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(NOW)
}

pub(crate) fn clock() -> Clock {
    Clock::manual(now())
}

pub(crate) fn endpoint(url: &str) -> Endpoint {
    Endpoint::new(url).unwrap()
}

pub(crate) fn fixed() -> StaticClient {
    StaticClient::new(CLIENT, Some("s3cr3t".into())).unwrap()
}

pub(crate) fn settings(kind: Kind) -> Settings {
    Settings {
        name: "idp".into(),
        kind,
        redirect_uri: endpoint("https://mcp.example/oauth/callback"),
        scopes: Scopes::new(["openid", "offline_access"]).unwrap(),
        params: Params::default(),
        client_name: "vmcp".into(),
    }
}

pub(crate) fn oidc() -> Settings {
    let issuer = Issuer::new(ISSUER).unwrap();
    settings(Kind::Oidc(Box::new(Oidc { issuer, client: fixed(), user_info: None })))
}

pub(crate) fn oauth2(client: Client) -> Oauth2 {
    Oauth2 {
        authorization_endpoint: endpoint("https://id.example/authorize?tenant=1"),
        token_endpoint: endpoint("https://id.example/token"),
        client,
        token_mapping: None,
        user_info: None,
    }
}

pub(crate) fn plain(oauth2: Oauth2) -> Settings {
    settings(Kind::Oauth2(Box::new(oauth2)))
}

pub(crate) fn challenge(verifier: &str) -> String {
    URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, verifier.as_bytes()))
}

/// Merges `members` into a base; `null` removes a member.
pub(crate) fn over(mut base: Value, members: &Value) -> Value {
    for (name, value) in members.as_object().unwrap() {
        let object = base.as_object_mut().unwrap();
        if value.is_null() {
            object.remove(name);
        } else {
            object.insert(name.clone(), value.clone());
        }
    }
    base
}

pub(crate) fn query(uri: &Uri) -> Form {
    form_urlencoded::parse(uri.query().unwrap().as_bytes()).into_owned().collect()
}

impl FakeProvider {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new(State {
            metadata: json!({}),
            claims: json!({}),
            granted: json!({}),
            user: json!({"sub": "alice", "name": "Alice", "email": "alice@example.com"}),
            registered: json!({}),
            counts: false,
            odd: HashMap::new(),
            silent: Vec::new(),
            in_body_only: false,
            seen: Vec::new(),
            nonce: None,
            key: SigningKey::ed25519(),
        })))
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    pub(crate) fn odd(&self, path: &'static str, status: u16, kind: &'static str, body: &str) {
        self.state().odd.insert(path, (status, kind, body.to_owned()));
    }

    pub(crate) fn client(&self, supplied: bool) -> FakeClient {
        FakeClient { fake: self.clone(), supplied }
    }

    pub(crate) fn provider(&self, settings: Settings, clock: &Clock) -> Provider {
        self.stored(settings, clock, Arc::new(MemoryRegistrations))
    }

    pub(crate) fn stored(
        &self,
        settings: Settings,
        clock: &Clock,
        registrations: Arc<dyn Registrations>,
    ) -> Provider {
        let (configured, supplied) = (self.client(false), self.client(true));
        Provider::new(settings, configured, supplied, registrations, clock.clone()).unwrap()
    }

    /// Sends a browser to the provider and back with a code.
    pub(crate) async fn login(&self, provider: &Provider) -> Result<Login, ProviderError> {
        let (uri, leg) = provider.begin("st4te").await?;
        self.state().nonce = query(&uri).get("nonce").cloned();
        provider.finish(&leg, answer(None)).await
    }

    pub(crate) fn asked(&self, path: &str) -> Vec<RecordedRequest> {
        self.state().seen.iter().filter(|seen| seen.uri.path() == path).cloned().collect()
    }
}

pub(crate) fn answer(iss: Option<&str>) -> AuthorizationResponse {
    AuthorizationResponse { outcome: Ok("c0de".into()), iss: iss.map(Into::into) }
}

impl State {
    pub(crate) fn id_token(&self) -> String {
        let claims = json!({
            "iss": ISSUER, "aud": CLIENT, "sub": "alice", "exp": NOW + 3600, "iat": NOW,
            "nonce": self.nonce,
        });
        self.sign(&over(claims, &self.claims))
    }

    pub(crate) fn sign(&self, claims: &Value) -> String {
        self.key.sign("1", claims)
    }

    fn response(&self, path: &str) -> (u16, &'static str, String) {
        const JSON: &str = "application/json; charset=utf-8";
        if let Some(odd) = self.odd.get(path) {
            return odd.clone();
        }
        let body = match path {
            "/.well-known/openid-configuration" => over(
                json!({
                    "issuer": ISSUER,
                    "authorization_endpoint": "https://id.example/authorize",
                    "token_endpoint": "https://id.example/token",
                    "userinfo_endpoint": "https://id.example/me",
                    "registration_endpoint": "https://id.example/register",
                    "revocation_endpoint": "https://id.example/revoke",
                    "jwks_uri": "https://id.example/keys",
                    "code_challenge_methods_supported": ["S256"],
                }),
                &self.metadata,
            ),
            "/keys" => {
                json!({"keys": [self.key.jwk("1")]})
            }
            "/token" => {
                let granted = json!({
                    "access_token": "at-1", "token_type": "Bearer", "expires_in": 300,
                    "refresh_token": "rt-1", "id_token": self.id_token(),
                });
                over(granted, &self.granted)
            }
            "/me" => self.user.clone(),
            "/register" => {
                let number = if self.counts { self.seen.len() } else { 1 };
                let id = format!("dyn-{number}");
                over(json!({"client_id": id, "client_secret": "dyn-s3cr3t"}), &self.registered)
            }
            "/revoke" => return (200, "text/plain", String::new()),
            _ => return (404, "text/html", "<h1>nothing here</h1>".to_owned()),
        };
        (200, JSON, body.to_string())
    }
}

impl Service<Request<Body>> for FakeClient {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let Self { fake, supplied } = self.clone();
        Box::pin(async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await.unwrap().to_bytes();
            let body = String::from_utf8(body.to_vec()).unwrap();
            let path = head.uri.path().to_owned();
            let (silent, response) = {
                let mut state = fake.state();
                let refused =
                    path == "/token" && state.in_body_only && !body.contains("client_secret=");
                let seen = RecordedRequest {
                    supplied,
                    method: head.method,
                    uri: head.uri,
                    headers: head.headers,
                    body,
                };
                state.seen.push(seen);
                let response = if refused {
                    (401, "application/json", r#"{"error":"invalid_client"}"#.to_owned())
                } else {
                    state.response(&path)
                };
                (state.silent.contains(&&*path), response)
            };
            if silent {
                std::future::pending::<()>().await;
            }
            // Yields, so that several requests can be in flight.
            tokio::time::sleep(Duration::from_millis(10)).await;
            let (status, kind, body) = response;
            Ok(Response::builder()
                .status(status)
                .header("content-type", kind)
                .header("location", "http://169.254.169.254/latest")
                .body(Full::from(body))
                .unwrap())
        })
    }
}

pub(crate) fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        other => panic!("{other}"),
    }
}
