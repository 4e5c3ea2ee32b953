//! Tokens, signed before the measurement.

use std::fs;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair, RSA_PKCS1_SHA256, RsaKeyPair,
};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use super::policies::{TENANTS, USERS};
use crate::Fault;

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
    rsa: RsaKeyPair,
    ec: EcdsaKeyPair,
    random: SystemRandom,
}

impl Keys {
    pub(super) fn generate() -> Result<Self, Fault> {
        Ok(Self {
            rsa: RsaKeyPair::generate(KeySize::Rsa2048)?,
            ec: EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING)?,
            random: SystemRandom::new(),
        })
    }

    /// Returns the published key set (RFC 7517).
    pub(super) fn published(&self) -> Value {
        // DER of an RSAPublicKey of 2048 bits: 9 bytes, the modulus, 2 bytes, the exponent.
        let rsa = self.rsa.public_key().as_ref();
        let (n, e) = (encoded(&rsa[9..265]), encoded(&rsa[267..]));
        // SEC 1, uncompressed: a format byte, then two coordinates.
        let point = self.ec.public_key().as_ref();
        let (x, y) = (encoded(&point[1..33]), encoded(&point[33..]));
        json!({"keys": [
            {"kty": "RSA", "kid": "rsa", "alg": "RS256", "use": "sig", "n": n, "e": e},
            {"kty": "EC", "kid": "ec", "alg": "ES256", "use": "sig", "crv": "P-256", "x": x, "y": y},
        ]})
    }

    fn sign(&self, algorithm: Algorithm, claims: &Value) -> Result<String, Fault> {
        let header = match algorithm {
            Algorithm::Rs256 => r#"{"alg":"RS256","kid":"rsa","typ":"at+jwt"}"#,
            Algorithm::Es256 => r#"{"alg":"ES256","kid":"ec","typ":"at+jwt"}"#,
        };
        let claims = claims.to_string();
        let mut token = format!("{}.{}", encoded(header.as_bytes()), encoded(claims.as_bytes()));
        let signature = match algorithm {
            Algorithm::Rs256 => {
                let mut signature = vec![0; self.rsa.public_modulus_len()];
                let signed = token.as_bytes();
                self.rsa.sign(&RSA_PKCS1_SHA256, &self.random, signed, &mut signature)?;
                encoded(&signature)
            }
            Algorithm::Es256 => encoded(self.ec.sign(&self.random, token.as_bytes())?.as_ref()),
        };
        token.push('.');
        token.push_str(&signature);
        Ok(token)
    }

    /// Writes one token a line; line `n` is a token of user `n % 16`.
    pub(super) fn write_repeated(&self, issuer: &str, to: &Path) -> Result<(), Fault> {
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
    ) -> Result<(), Fault> {
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
    ) -> Result<(), Fault> {
        let mut lines = String::new();
        for serial in 0..count {
            let (algorithm, claims) = token(serial);
            lines.push_str(&self.sign(algorithm, &claims)?);
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

fn now() -> Result<u64, Fault> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs())
}

fn encoded(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn body(token: &str) -> Value {
        let part = token.split('.').nth(1).unwrap();
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap()
    }

    fn lines(write: impl Fn(&Path) -> Result<(), Fault>, name: &str) -> Vec<String> {
        let path = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
        write(&path).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        fs::remove_file(&path).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn repeated_tokens_alternate_between_sixteen_users() {
        let keys = Keys::generate().unwrap();
        let tokens = lines(|path| keys.write_repeated("http://i", path), "repeated");
        assert_eq!(tokens.len(), 64);
        assert_eq!(body(&tokens[3])["sub"], body(&tokens[19])["sub"]);
        let people: BTreeSet<_> =
            tokens.iter().map(|token| body(token)["sub"].to_string()).collect();
        assert_eq!(people.len(), 16);
    }

    #[test]
    fn new_tokens_differ_only_in_time_and_id() {
        let keys = Keys::generate().unwrap();
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
