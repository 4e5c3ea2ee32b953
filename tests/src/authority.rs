//! Identity services of a gateway, reduced to the needs of tests: a token issuer, a token endpoint (RFC 8693), an STS,
//! and two identity providers with logins.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use serde_json::{Value, json};
use vmcp_test_support::SigningKey;

use crate::counterparts::{TestError, parameter};
use vmcp_test_support::{BoxResponse, HttpListener};

/// Token lifetime.
const LIFETIME: Duration = Duration::from_hours(1);

/// A running authority. Its tokens and credentials contain the name of their user.
#[derive(Debug)]
pub struct Authority {
    listening: HttpListener,
    key: Arc<SigningKey>,
}

/// Identity providers for logins. Their tokens are `PROVIDER-access-of-NAME-NUMBER`, each with a distinct number.
pub const PROVIDERS: [&str; 2] = ["corp", "git"];

impl Authority {
    /// Starts an authority.
    ///
    /// # Errors
    /// Returns an error if no port is free.
    pub fn start() -> Result<Self, TestError> {
        let key = Arc::new(SigningKey::ed25519());
        let served = Arc::clone(&key);
        let listening =
            HttpListener::start(0, move |request| answer(Arc::clone(&served), request))?;
        Ok(Self { listening, key })
    }

    /// Returns its issuer.
    #[must_use]
    pub fn issuer(&self) -> String {
        format!("http://127.0.0.1:{}", self.listening.address().port())
    }

    /// Returns the token endpoint, which issues `exchanged-for-NAME`.
    #[must_use]
    pub fn token_url(&self) -> String {
        format!("{}/token", self.issuer())
    }

    /// Returns the STS endpoint. The key id is `ASIA` with the name, the session token `sts-session-of-NAME`.
    #[must_use]
    pub fn sts_url(&self) -> String {
        format!("{}/sts", self.issuer())
    }

    /// Returns a token of the user for an audience; tokens with different `number`s differ.
    #[must_use]
    pub fn token(&self, user: &str, audience: &str, number: u32) -> String {
        self.token_until(user, audience, number, SystemTime::now() + LIFETIME)
    }

    /// As [`Authority::token`], with this expiry.
    #[must_use]
    pub fn token_until(
        &self,
        user: &str,
        audience: &str,
        number: u32,
        until: SystemTime,
    ) -> String {
        let seconds =
            |time: SystemTime| time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let claims = json!({ "iss": self.issuer(), "sub": user, "aud": audience, "jti": number,
            "iat": seconds(until - LIFETIME), "exp": seconds(until) });
        self.key.sign("1", &claims)
    }

    /// Returns the configuration section that trusts its tokens for this audience.
    #[must_use]
    pub fn section(&self, audience: &str) -> String {
        let issuer = self.issuer();
        format!(
            "incomingAuth:\n  type: oidc\n  oidc: {{issuer: \"{issuer}\", clientId: gateway, audience: \"{audience}\", \
             insecureAllowHttp: true}}\n"
        )
    }

    /// Returns the sections of a gateway at this origin with its own authorization server and both providers, whose
    /// access tokens live this many seconds.
    #[must_use]
    pub fn own_section(&self, origin: &str, lifetime: u64) -> String {
        let at = self.issuer();
        let mut section = format!(
            "incomingAuth:\n  type: oidc\n  oidc: {{issuer: \"{origin}\", clientId: gateway, audience: \"{origin}/mcp\", \
             insecureAllowHttp: true, protectedResourceAllowPrivateIp: true, scopes: [tools]}}\n\
             authServer:\n  issuer: \"{origin}\"\n  upstreamProviders:\n"
        );
        for name in PROVIDERS {
            let at = format!("{at}/{name}");
            let _ = writeln!(
                section,
                "  - {{name: {name}, type: oauth2, oauth2Config: {{authorizationEndpoint: \"{at}/authorize\", \
                 tokenEndpoint: \"{at}/token/{lifetime}\", clientId: gateway, \
                 userInfo: {{endpointUrl: \"{at}/me\"}}}}}}"
            );
        }
        section
    }
}

async fn answer(key: Arc<SigningKey>, request: Request<Incoming>) -> BoxResponse {
    let (parts, body) = request.into_parts();
    let host = parts.headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let issuer = format!("http://{}", host.unwrap_or_default());
    let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let form = String::from_utf8_lossy(&body).into_owned();
    match parts.uri.path() {
        "/.well-known/openid-configuration" => {
            json_page(&json!({ "issuer": issuer, "jwks_uri": format!("{issuer}/keys") }))
        }
        "/keys" => json_page(&json!({ "keys": [key.jwk("1")] })),
        "/token" => json_page(&json!({
            "access_token": format!("exchanged-for-{}", subject(&form, "subject_token")),
            "issued_token_type": "urn:ietf:params:oauth:token-type:access_token",
            "token_type": "Bearer",
            "expires_in": LIFETIME.as_secs(),
        })),
        "/sts" | "/sts/" => page("text/xml", assumed(&subject(&form, "WebIdentityToken"))),
        path => {
            let provider = PROVIDERS.into_iter().find_map(|name| {
                Some((name, path.strip_prefix('/')?.strip_prefix(name)?.strip_prefix('/')?))
            });
            let Some((name, place)) = provider else { return json_page(&json!({})) };
            at_provider(name, place, &parts, &form)
        }
    }
}

/// Handles a request to one of the providers: the user submits a name and gets a code that contains it.
fn at_provider(name: &str, place: &str, parts: &http::request::Parts, form: &str) -> BoxResponse {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let value = |field: &str| parameter(&format!("?{form}"), field).unwrap_or_default();
    if let Some(lifetime) = place.strip_prefix("token/") {
        let user = match value("code") {
            code if code.is_empty() => user_of(&value("refresh_token")),
            code => code,
        };
        return json_page(&json!({
            "access_token": format!("{name}-access-of-{user}-{number}"),
            "refresh_token": format!("{name}-refresh-of-{user}-{number}"),
            "token_type": "Bearer",
            "expires_in": lifetime.parse().unwrap_or(0_u64),
        }));
    }
    let url = parts.uri.to_string();
    match (place, &parts.method) {
        ("authorize", &Method::POST) => {
            let back = parameter(&url, "redirect_uri").unwrap_or_default();
            let state = parameter(&url, "state").unwrap_or_default();
            let mut response = page("text/plain", String::new());
            *response.status_mut() = http::StatusCode::SEE_OTHER;
            let place = format!("{back}?code={}&state={state}", value("login"));
            let place = HeaderValue::try_from(place).unwrap_or(HeaderValue::from_static("/"));
            response.headers_mut().insert(header::LOCATION, place);
            response
        }
        ("authorize", _) => page(
            "text/html",
            format!(
                "<form method=post action=\"{}\"><input name=\"prompt\" value=\"login\"></form>",
                url.replace('&', "&amp;")
            ),
        ),
        _ => {
            let shown = parts.headers.get(header::AUTHORIZATION);
            let shown = shown.and_then(|shown| shown.to_str().ok()).unwrap_or_default();
            json_page(&json!({ "sub": user_of(shown) }))
        }
    }
}

/// Returns the user of a provider's token.
fn user_of(token: &str) -> String {
    let user = token.split_once("-of-").and_then(|(_, rest)| rest.split('-').next());
    user.unwrap_or("nobody").to_owned()
}

/// Returns the subject of the token in this field of a form.
fn subject(form: &str, field: &str) -> String {
    let token = form.split('&').find_map(|pair| pair.strip_prefix(field)?.strip_prefix('='));
    let claims =
        token.and_then(|token| BASE64_URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?).ok());
    let claims: Value = serde_json::from_slice(&claims.unwrap_or_default()).unwrap_or_default();
    claims["sub"].as_str().unwrap_or("nobody").to_owned()
}

fn assumed(user: &str) -> String {
    format!(
        "<AssumeRoleWithWebIdentityResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\">\
         <AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>ASIA{}</AccessKeyId>\
         <SecretAccessKey>sts-secret-of-{user}</SecretAccessKey><SessionToken>sts-session-of-{user}</SessionToken>\
         <Expiration>2099-01-01T00:00:00Z</Expiration></Credentials></AssumeRoleWithWebIdentityResult>\
         </AssumeRoleWithWebIdentityResponse>",
        user.to_ascii_uppercase()
    )
}

fn json_page(value: &Value) -> BoxResponse {
    page("application/json", value.to_string())
}

fn page(media: &'static str, body: String) -> BoxResponse {
    let mut response = Response::new(Full::new(Bytes::from(body)).map_err(Into::into).boxed());
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
    response
}
