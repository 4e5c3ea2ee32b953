//! Tokens, signed before the measurement.

use std::fs;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use vmcp_test_support::SigningKey;

use super::dimensions::{TENANTS, USERS};
use crate::BoxError;

/// Audience of the tokens.
pub(super) const AUDIENCE: &str = "http://localhost/mcp";

/// Number of repeated tokens.
const REPEATED: usize = 64;

/// Token lifetime in seconds.
const LIFETIME: u64 = 3_600;

/// Signature algorithm of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Algorithm {
    /// RSA of 2048 bits.
    Rs256,
    /// ECDSA on P-256.
    Es256,
}

/// Keys of the issuer, one per algorithm.
#[derive(Debug)]
pub(super) struct Keys {
    rsa: &'static SigningKey,
    ec: SigningKey,
}

impl Keys {
    pub(super) fn generate() -> Self {
        Self { rsa: SigningKey::rsa(), ec: SigningKey::p256() }
    }

    /// Returns the published key set (RFC 7517).
    pub(super) fn published(&self) -> Value {
        let for_signatures = |mut jwk: Value, alg: &str| {
            jwk["alg"] = alg.into();
            jwk["use"] = "sig".into();
            jwk
        };
        json!({"keys": [
            for_signatures(self.rsa.jwk("rsa"), "RS256"),
            for_signatures(self.ec.jwk("ec"), "ES256"),
        ]})
    }

    fn sign(&self, algorithm: Algorithm, claims: &Value) -> String {
        let (key, header) = match algorithm {
            Algorithm::Rs256 => (self.rsa, r#"{"alg":"RS256","kid":"rsa","typ":"at+jwt"}"#),
            Algorithm::Es256 => (&self.ec, r#"{"alg":"ES256","kid":"ec","typ":"at+jwt"}"#),
        };
        key.sign_text(key.algorithm(), header, &claims.to_string())
    }

    /// Writes one token a line; line `n` is a token of user `n % 16`.
    pub(super) fn write_repeated(&self, issuer: &str, to: &Path) -> Result<(), BoxError> {
        let now = now()?;
        self.write(to, REPEATED, |serial| {
            (Algorithm::Rs256, claims(issuer, serial % USERS, &format!("r{serial}"), now))
        })
    }

    /// Writes `count` tokens of one user that differ only in `iat`, `exp` and `jti`.
    pub(super) fn write_new(
        &self,
        issuer: &str,
        algorithm: Algorithm,
        count: usize,
        to: &Path,
    ) -> Result<(), BoxError> {
        let now = now()?;
        self.write(to, count, |serial| {
            let back = u64::try_from(serial).unwrap_or_default() % 240;
            // The time is part of the id, so that tokens differ between runs.
            (algorithm, claims(issuer, 0, &format!("n{now}-{serial}"), now - back))
        })
    }

    fn write(
        &self,
        to: &Path,
        count: usize,
        token: impl Fn(usize) -> (Algorithm, Value),
    ) -> Result<(), BoxError> {
        let mut lines = String::new();
        for serial in 0..count {
            let (algorithm, claims) = token(serial);
            lines.push_str(&self.sign(algorithm, &claims));
            lines.push('\n');
        }
        Ok(fs::write(to, lines)?)
    }
}

/// Returns typical claims of a company's identity provider.
fn claims(issuer: &str, user: usize, id: &str, begin: u64) -> Value {
    json!({
        "iss": issuer,
        "sub": format!("user-{user}"),
        "aud": AUDIENCE,
        "azp": "desktop",
        "exp": begin + LIFETIME,
        "iat": begin,
        "jti": id,
        "scope": "openid profile email tools",
        "groups": ["staff", format!("team-{user}"), if user.is_multiple_of(4) { "ops" } else { "writers" }],
        "tenant": format!("tenant-{}", user % TENANTS),
        "amr": ["pwd", "mfa"],
        "email": format!("user-{user}@example.com"),
        "email_verified": true,
        "name": format!("User Number {user}"),
        "preferred_username": format!("user{user}"),
    })
}

fn now() -> Result<u64, BoxError> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use base64::Engine;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;

    use super::*;

    fn body(token: &str) -> Value {
        let part = token.split('.').nth(1).unwrap();
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap()
    }

    fn lines(write: impl Fn(&Path) -> Result<(), BoxError>, name: &str) -> Vec<String> {
        let path = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
        write(&path).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        fs::remove_file(&path).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn repeated_tokens_alternate_between_sixteen_users() {
        let keys = Keys::generate();
        let tokens = lines(|path| keys.write_repeated("http://i", path), "repeated");
        assert_eq!(tokens.len(), 64);
        assert_eq!(body(&tokens[3])["sub"], body(&tokens[19])["sub"]);
        let people: BTreeSet<_> =
            tokens.iter().map(|token| body(token)["sub"].to_string()).collect();
        assert_eq!(people.len(), 16);
    }

    #[test]
    fn new_tokens_differ_only_in_time_and_id() {
        let keys = Keys::generate();
        let write = |path: &Path| keys.write_new("http://i", Algorithm::Es256, 300, path);
        let tokens = lines(write, "new");
        let distinct: BTreeSet<_> = tokens.iter().collect();
        assert_eq!(distinct.len(), 300);
        let without = |token: &String| {
            let mut body = body(token);
            for name in ["iat", "exp", "jti"] {
                body.as_object_mut().unwrap().remove(name);
            }
            body
        };
        assert!(tokens.iter().all(|token| without(token) == without(&tokens[0])));
    }
}
