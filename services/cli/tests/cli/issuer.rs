//! An identity provider with one key, and what it signs.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use vmcp_test_support::SigningKey;

use crate::effects::encrypted;

/// It serves until the test ends.
#[derive(Clone)]
pub(crate) struct Issuer {
    pub(crate) url: String,
    /// Token that requests for documents and keys have to have, in lower case.
    required: Option<String>,
    key: Arc<SigningKey>,
    forms: Arc<Mutex<Vec<String>>>,
}

/// Returns the subject of the token that a form wants to exchange.
fn subject(form: &str) -> String {
    let token = form.split('&').find_map(|pair| pair.strip_prefix("subject_token="));
    let Some(claims) = token.and_then(|token| token.split('.').nth(1)) else {
        return "the-gateway".to_owned();
    };
    let claims: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).unwrap()).unwrap();
    claims["sub"].as_str().unwrap().to_owned()
}

impl Issuer {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://127.0.0.1:{}", listener.local_addr().unwrap().port());
        Self::serve(listener, url, None)
    }

    /// Starts an issuer with TLS of a private authority, whose certificate comes along as PEM. Documents and keys
    /// require the token.
    pub(crate) fn encrypted(token: &str) -> (Self, String) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (port, authority) = encrypted(listener.local_addr().unwrap().port());
        let url = format!("https://localhost:{port}");
        (Self::serve(listener, url, Some(token.to_ascii_lowercase())), authority)
    }

    fn serve(listener: TcpListener, url: String, required: Option<String>) -> Self {
        let key = Arc::new(SigningKey::ed25519());
        let issuer = Self { url, required, key, forms: Arc::default() };
        let serving = issuer.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                serving.answer(stream);
            }
        });
        issuer
    }

    fn answer(&self, mut stream: TcpStream) {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        let (mut head, mut rest) = (String::new(), String::new());
        while reader.read_line(&mut rest).unwrap() > 2 {
            head += &rest.to_ascii_lowercase();
            rest.clear();
        }
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let mut form = vec![0; length.map_or(0, |length| length.parse().unwrap())];
        reader.read_exact(&mut form).unwrap();
        let known = format!("basic {}", STANDARD.encode("client:s3cret").to_ascii_lowercase());
        let url = &self.url;
        let bearer = self.required.as_ref().map(|token| format!("authorization: bearer {token}"));
        let is_admitted = bearer.is_none_or(|bearer| head.lines().any(|line| line == bearer));
        let document = match line.split(' ').nth(1) {
            Some("/.well-known/openid-configuration" | "/keys") if !is_admitted => json!({}),
            Some("/.well-known/openid-configuration") => {
                json!({"issuer": url, "jwks_uri": format!("{url}/keys")})
            }
            Some("/keys") => {
                json!({"keys": [self.key.jwk("1")]})
            }
            Some("/token") if head.contains(&known) => {
                let form = String::from_utf8(form).unwrap();
                let token = json!(format!("for-{}", subject(&form)));
                self.forms.lock().unwrap().push(form);
                json!({
                    "access_token": token, "token_type": "Bearer", "expires_in": 300,
                    "issued_token_type": "urn:ietf:params:oauth:token-type:access_token",
                })
            }
            Some("/introspect") if head.contains(&known) => {
                let asked = String::from_utf8(form).unwrap();
                let active = asked.contains("token=opaque-alice");
                json!({"active": active, "sub": "alice", "aud": "http://localhost/mcp"})
            }
            _ => json!({}),
        };
        let body = document.to_string();
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close";
        write!(stream, "{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).unwrap();
    }

    /// Returns the forms that the token endpoint received.
    pub(crate) fn forms(&self) -> Vec<String> {
        self.forms.lock().unwrap().clone()
    }

    /// A token for an hour, with `more` claims.
    pub(crate) fn token(&self, subject: &str, more: &Value) -> String {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let mut claims = json!({
            "iss": self.url, "sub": subject, "aud": "http://localhost/mcp", "iat": now, "exp": now + 3600,
        });
        claims.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.key.sign("1", &claims)
    }

    /// The section that trusts it.
    pub(crate) fn section(&self, more: &str) -> String {
        format!(
            "incomingAuth:\n  type: oidc\n  oidc: {{issuer: \"{}\", clientId: client, audience: \"http://localhost/mcp\", \
             insecureAllowHttp: true{more}}}\n",
            self.url
        )
    }
}
