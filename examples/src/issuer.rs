//! Token issuer of the examples, in place of an identity provider.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use vmcp_core::BoxError;
use vmcp_jwt::{Jwk, Key, KeySet, ValidationOptions, Verifier};

/// Lifetime of a token.
const LIFE: Duration = Duration::from_hours(1);

/// Signs tokens with a key that exists only in memory.
///
/// With a real identity provider, a `vmcp_jwt::JwksSource` fetches its keys instead.
#[derive(Debug)]
pub struct Issuer {
    key: Ed25519KeyPair,
    published: Arc<KeySet>,
    audience: Box<str>,
}

impl Issuer {
    /// The `iss` claim of its tokens.
    pub const NAME: &str = "https://id.example.com";

    /// Creates an issuer of tokens for `audience`, the resource that accepts them.
    ///
    /// # Errors
    /// Returns an error if key generation fails.
    pub fn new(audience: &str) -> Result<Self, BoxError> {
        let key = Ed25519KeyPair::generate()?;
        let mut public = Jwk {
            kty: "OKP".to_owned(),
            crv: Some("Ed25519".to_owned()),
            x: Some(URL_SAFE_NO_PAD.encode(key.public_key())),
            ..Jwk::default()
        };
        public.kid = Some(public.thumbprint()?);
        let published = Arc::new(KeySet::from_iter([Key::new(&public)?]));
        Ok(Self { key, published, audience: audience.into() })
    }

    /// Returns the verifier of its tokens.
    #[must_use]
    pub fn verifier(&self) -> Verifier<Arc<KeySet>> {
        Verifier::new(
            Arc::clone(&self.published),
            ValidationOptions::new(Self::NAME, &self.audience),
        )
    }

    /// Returns a token of `subject` with these groups, valid for one hour.
    ///
    /// # Errors
    /// Returns an error if the system clock is set to a time before 1970.
    pub fn token(&self, subject: &str, groups: &[&str]) -> Result<String, BoxError> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_secs();
        let kid = self.published.keys().first().and_then(Key::kid);
        let head = json!({"alg": "EdDSA", "typ": "at+jwt", "kid": kid});
        let claims = json!({
            "iss": Self::NAME, "aud": self.audience, "sub": subject, "groups": groups,
            "iat": now, "exp": now + LIFE.as_secs(),
        });
        let encode = |part: &Value| URL_SAFE_NO_PAD.encode(part.to_string());
        let signed = format!("{}.{}", encode(&head), encode(&claims));
        let signature = URL_SAFE_NO_PAD.encode(self.key.sign(signed.as_bytes()));
        Ok(format!("{signed}.{signature}"))
    }
}
