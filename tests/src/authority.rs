//! Who a gateway trusts, as small as a test can use it: an issuer of tokens, a token endpoint that exchanges them, and an
//! STS.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::{HeaderValue, Request, Response, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use serde_json::{Value, json};

use crate::backends::{Answer, Listening};
use crate::counterparts::Fault;

/// How long tokens count.
const LIFETIME: Duration = Duration::from_secs(3600);

/// An authority that is running. What it gives out names whom it was given for.
#[derive(Debug)]
pub struct Authority {
    listening: Listening,
    pair: Arc<Ed25519KeyPair>,
}

impl Authority {
    /// Starts one.
    ///
    /// # Errors
    /// When there is no port left, or no randomness.
    pub fn start() -> Result<Self, Fault> {
        let pair = Arc::new(Ed25519KeyPair::generate().map_err(|_| "no key")?);
        let behind = Arc::clone(&pair);
        let listening = Listening::start(0, move |request| answer(Arc::clone(&behind), request))?;
        Ok(Self { listening, pair })
    }

    /// Its issuer.
    #[must_use]
    pub fn issuer(&self) -> String {
        format!("http://127.0.0.1:{}", self.listening.port())
    }

    /// Where it exchanges tokens: for `exchanged-for-NAME`.
    #[must_use]
    pub fn token_url(&self) -> String {
        format!("{}/token", self.issuer())
    }

    /// Where its STS is. The key id is `ASIA` with the name, the session token `sts-session-of-NAME`.
    #[must_use]
    pub fn sts_url(&self) -> String {
        format!("{}/sts", self.issuer())
    }

    /// A token of the user for an audience; another `number` makes another token.
    #[must_use]
    pub fn token(&self, user: &str, audience: &str, number: u32) -> String {
        self.token_until(user, audience, number, SystemTime::now() + LIFETIME)
    }

    /// As [`Authority::token`], good until then.
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
        let part = |value: &Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", part(&json!({ "alg": "EdDSA", "kid": "1" })), part(&claims));
        let signature = BASE64_URL_SAFE_NO_PAD.encode(self.pair.sign(signed.as_bytes()));
        format!("{signed}.{signature}")
    }

    /// The section of a configuration that trusts it, for this audience.
    #[must_use]
    pub fn section(&self, audience: &str) -> String {
        let issuer = self.issuer();
        format!(
            "incomingAuth:\n  type: oidc\n  oidc: {{issuer: \"{issuer}\", clientId: gateway, audience: \"{audience}\", \
             insecureAllowHttp: true}}\n"
        )
    }
}

async fn answer(pair: Arc<Ed25519KeyPair>, request: Request<Incoming>) -> Answer {
    let (parts, body) = request.into_parts();
    let host = parts.headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let issuer = format!("http://{}", host.unwrap_or_default());
    let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let form = String::from_utf8_lossy(&body).into_owned();
    match parts.uri.path() {
        "/.well-known/openid-configuration" => {
            json_page(&json!({ "issuer": issuer, "jwks_uri": format!("{issuer}/keys") }))
        }
        "/keys" => {
            let x = BASE64_URL_SAFE_NO_PAD.encode(pair.public_key());
            json_page(&json!({ "keys": [{ "kty": "OKP", "crv": "Ed25519", "kid": "1", "x": x }] }))
        }
        "/token" => json_page(&json!({
            "access_token": format!("exchanged-for-{}", subject(&form, "subject_token")),
            "issued_token_type": "urn:ietf:params:oauth:token-type:access_token",
            "token_type": "Bearer",
            "expires_in": LIFETIME.as_secs(),
        })),
        "/sts" | "/sts/" => page("text/xml", assumed(&subject(&form, "WebIdentityToken"))),
        _ => json_page(&json!({})),
    }
}

/// The subject of the token in this field of a form.
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

fn json_page(value: &Value) -> Answer {
    page("application/json", value.to_string())
}

fn page(media: &'static str, body: String) -> Answer {
    let mut response = Response::new(Full::new(Bytes::from(body)).map_err(Into::into).boxed());
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
    response
}
