//! Logins at the embedded authorization server: providers, a browser and a client, all by hand.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use aws_lc_rs::digest;
use aws_lc_rs::signature::Ed25519KeyPair;
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};

use crate::http::{Answer, request};

/// Resource that clients request tokens for.
const RESOURCE: &str = "http://localhost/mcp";

const VERIFIER: &str = "verifier-verifier-verifier-verifier-verifie";
const REDIRECT_URI: &str = "http://127.0.0.1:9/back";

/// An OAuth 2.0 provider whose tokens have its name in them.
#[derive(Clone)]
pub(crate) struct Provider {
    pub(crate) name: &'static str,
    url: String,
    state: Arc<State>,
}

struct State {
    /// Lifetime of access tokens.
    expires_in: u64,
    dead: AtomicBool,
    count: AtomicU64,
    forms: Mutex<Vec<String>>,
}

/// A client and the browser of its user.
pub(crate) struct Client {
    port: u16,
    id: String,
    cookie: String,
    pub(crate) access: String,
    pub(crate) refresh: String,
}

impl Provider {
    pub(crate) fn start(name: &'static str, expires_in: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://127.0.0.1:{}", listener.local_addr().unwrap().port());
        let state = State {
            expires_in,
            dead: AtomicBool::default(),
            count: AtomicU64::default(),
            forms: Mutex::default(),
        };
        let provider = Self { name, url, state: Arc::new(state) };
        let serving = provider.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                serving.answer(stream);
            }
        });
        provider
    }

    /// From now on it knows no grant any more.
    pub(crate) fn forgets(&self) {
        self.state.dead.store(true, Ordering::Relaxed);
    }

    /// Returns the forms that the token endpoint received.
    pub(crate) fn forms(&self) -> Vec<String> {
        self.state.forms.lock().unwrap().clone()
    }

    /// Its entry in `upstreamProviders`; `more` are further keys.
    pub(crate) fn entry(&self, more: &str) -> String {
        let Self { name, url, .. } = self;
        format!(
            "  - {{name: {name}, type: oauth2, oauth2Config: {{authorizationEndpoint: \"{url}/auth\", \
             tokenEndpoint: \"{url}/token\", clientId: gateway, \
             userInfo: {{endpointUrl: \"{url}/me\"}}{more}}}}}\n"
        )
    }

    /// One that says nothing, but of the provider that says who is in which group.
    fn access(&self, count: u64) -> String {
        if self.name != "speaking" {
            return format!("{}-access-{count}", self.name);
        }
        let part = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let claims = json!({"sub": "alice", "groups": ["eng"]});
        format!("{}.{}.c2ln", part(json!({"alg": "RS256"})), part(claims))
    }

    /// Its token endpoint.
    pub(crate) fn token_url(&self) -> String {
        format!("{}/token", self.url)
    }

    fn answer(&self, mut stream: TcpStream) {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let (mut head, mut line) = (String::new(), String::new());
        while reader.read_line(&mut line).unwrap_or(0) > 2 {
            head += &line;
            line.clear();
        }
        let lower = head.to_ascii_lowercase();
        let length = lower.lines().find_map(|line| line.strip_prefix("content-length: "));
        let mut form = vec![0; length.map_or(0, |length| length.parse().unwrap())];
        reader.read_exact(&mut form).unwrap();
        let dead = self.state.dead.load(Ordering::Relaxed);
        let (status, document) = if !head.starts_with("POST /token") {
            (200, json!({"sub": format!("{}-alice", self.name), "name": "Alice"}))
        } else if dead {
            (400, json!({"error": "invalid_grant"}))
        } else {
            self.state.forms.lock().unwrap().push(String::from_utf8(form).unwrap());
            let count = self.state.count.fetch_add(1, Ordering::Relaxed) + 1;
            (
                200,
                json!({
                    "access_token": self.access(count), "token_type": "Bearer",
                "issued_token_type": "urn:ietf:params:oauth:token-type:access_token",
                    "refresh_token": format!("{}-refresh-{count}", self.name),
                    "expires_in": self.state.expires_in,
                }),
            )
        };
        let body = document.to_string();
        let head =
            format!("HTTP/1.1 {status} X\r\ncontent-type: application/json\r\nconnection: close");
        // The client may have disconnected.
        _ = write!(stream, "{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    }
}

/// The sections of a server that is its own issuer, with `more` keys of `authServer`.
pub(crate) fn sections(providers: &[&Provider], more: &str) -> String {
    let entries: String = providers.iter().map(|provider| provider.entry("")).collect();
    format!(
        "incomingAuth:\n  type: oidc\n  oidc: {{issuer: \"http://localhost\", clientId: x, \
         audience: \"http://localhost/mcp\", insecureAllowHttp: true, scopes: [tools]}}\n\
         authServer:\n  issuer: \"http://localhost\"\n{more}  upstreamProviders:\n{entries}"
    )
}

/// A signing key, as `openssl genpkey -algorithm ed25519` writes one.
pub(crate) fn signing_key() -> String {
    let pair = Ed25519KeyPair::generate().unwrap().to_pkcs8v1().unwrap();
    let der = STANDARD.encode(pair.as_ref());
    format!("-----BEGIN PRIVATE KEY-----\n{der}\n-----END PRIVATE KEY-----\n")
}

impl Client {
    /// A client that knows the port alone, and finds out the rest.
    pub(crate) fn register(port: u16) -> Self {
        let found = document(port, "/.well-known/oauth-protected-resource");
        assert_eq!(found["authorization_servers"], json!(["http://localhost"]));
        let metadata = document(port, "/.well-known/oauth-authorization-server");
        let asked = json!({
            "client_name": "Tests", "redirect_uris": [REDIRECT_URI], "token_endpoint_auth_method": "none",
            "grant_types": ["authorization_code", "refresh_token"],
        });
        let headers = [("content-type", "application/json")];
        let at = path(metadata["registration_endpoint"].as_str().unwrap());
        let answer = request(port, "POST", &at, &headers, &asked.to_string());
        assert_eq!(answer.status, 201);
        let id = answer.message()["client_id"].as_str().unwrap().to_owned();
        let empty = String::new;
        Self { port, id, cookie: empty(), access: empty(), refresh: empty() }
    }

    /// Registers and logs in.
    pub(crate) fn logged_in(port: u16) -> Self {
        Self::logged_in_for(port, RESOURCE)
    }

    /// Registers, and logs in with a request for tokens of `resource`.
    pub(crate) fn logged_in_for(port: u16, resource: &str) -> Self {
        let mut client = Self::register(port);
        client.logs_in_for(resource);
        client
    }

    /// The user allows what it asks for, and every provider that the browser is sent to lets the user in.
    pub(crate) fn logs_in(&mut self) {
        self.logs_in_for(RESOURCE);
    }

    fn logs_in_for(&mut self, resource: &str) {
        let challenge = digest::digest(&digest::SHA256, VERIFIER.as_bytes());
        let challenge = URL_SAFE_NO_PAD.encode(challenge);
        let asked = format!(
            "/oauth/authorize?response_type=code&client_id={}&redirect_uri={REDIRECT_URI}&state=s7ate-s7ate\
             &code_challenge={challenge}&code_challenge_method=S256&scope=tools+offline_access\
             &resource={resource}",
            self.id
        );
        let mut next = self.browse("GET", &asked, "");
        assert!(next.is_some(), "nobody was asked");
        for _ in 0..5 {
            let to = next.take().unwrap();
            if let Some(query) = to.strip_prefix(REDIRECT_URI) {
                let query = pairs(query.trim_start_matches('?'));
                assert_eq!(query["state"], "s7ate-s7ate");
                let form = format!(
                    "grant_type=authorization_code&code={}&code_verifier={VERIFIER}\
                     &client_id={}&redirect_uri={REDIRECT_URI}",
                    query["code"], self.id
                );
                return self.keep(&self.token(&form).message());
            }
            // The provider sends the browser back at once.
            let query = pairs(to.split_once('?').unwrap().1);
            let back = path(&query["redirect_uri"]);
            let back = format!("{back}?code=c&state={}", query["state"]);
            next = self.browse("GET", &back, "");
        }
        panic!("still not logged in");
    }

    /// Requests a page, submits any form on it, and returns the redirect target.
    fn browse(&mut self, method: &str, at: &str, form: &str) -> Option<String> {
        let cookie = self.cookie.clone();
        let headers = [("cookie", &*cookie), ("content-type", "application/x-www-form-urlencoded")];
        let answer = request(self.port, method, at, &headers, form);
        if let Some(set) = answer.header("set-cookie") {
            set.split(';').next().unwrap().clone_into(&mut self.cookie);
        }
        if let Some(to) = answer.header("location") {
            return Some(to.to_owned());
        }
        let status = answer.status;
        let mut page = String::new();
        answer.read(&mut page);
        let page = page.replace("&amp;", "&");
        let field = |name: &str| between(&page, &format!("name=\"{name}\" value=\""), "\"");
        if let (Some(id), Some(csrf)) = (field("id"), field("csrf")) {
            let form = format!("id={id}&csrf={csrf}&decision=allow");
            return self.browse("POST", "/oauth/consent", &form);
        }
        let to = between(&page, "href=\"http", "\"");
        Some(format!("http{}", to.unwrap_or_else(|| panic!("{method} {at}: {status} {page}"))))
    }

    /// Returns the client identifier.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Renews its tokens.
    pub(crate) fn refreshes(&mut self) -> u16 {
        let form = format!(
            "grant_type=refresh_token&refresh_token={}&client_id={}",
            self.refresh, self.id
        );
        let answer = self.token(&form);
        let status = answer.status;
        if status == 200 {
            self.keep(&answer.message());
        }
        status
    }

    /// Gives its tokens back.
    pub(crate) fn revokes(&self) {
        let form = format!("token={}&client_id={}", self.refresh, self.id);
        let headers = [("content-type", "application/x-www-form-urlencoded")];
        assert_eq!(request(self.port, "POST", "/oauth/revoke", &headers, &form).status, 200);
    }

    fn token(&self, form: &str) -> Answer {
        let headers = [("content-type", "application/x-www-form-urlencoded")];
        request(self.port, "POST", "/oauth/token", &headers, form)
    }

    fn keep(&mut self, answer: &Value) {
        let text = |name: &str| {
            answer[name].as_str().unwrap_or_else(|| panic!("no {name}: {answer}")).to_owned()
        };
        (self.access, self.refresh) = (text("access_token"), text("refresh_token"));
    }
}

/// The JSON document at a path, wherever a browser's page may be.
fn document(port: u16, at: &str) -> Value {
    let answer = request(port, "GET", at, &[], "");
    assert_eq!(answer.status, 200, "{at}");
    answer.message()
}

/// The path of a URL: the server is reached by its port here, and known by another name.
fn path(url: &str) -> String {
    format!("/{}", url.splitn(4, '/').nth(3).unwrap_or_default())
}

fn pairs(query: &str) -> HashMap<String, String> {
    let decoded = |value: &str| value.replace("%3A", ":").replace("%2F", "/");
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, value)| (name.to_owned(), decoded(value))).collect()
}

fn between<'a>(text: &'a str, start: &str, end: &str) -> Option<&'a str> {
    Some(text.split_once(start)?.1.split_once(end)?.0)
}
