//! Sealing of state that a stateless client carries between rounds (MCP 2026-07-28, multi round-trip requests). The client can
//! neither read nor modify it, and it is only accepted for the same request and caller, within its lifetime.

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use vmcp_core::Identity;

/// Version prefix of every sealed text, reserved to distinguish future key rings.
const VERSION: &str = "v1.";
const NONCE: usize = 12;

/// Maximum length of a sealed text, in bytes.
const MAX_SEALED_LENGTH: usize = 1 << 20;

/// Key ring: the first key seals, all keys open.
#[derive(Debug)]
pub struct Seal {
    keys: Vec<LessSafeKey>,
    lifetime: Duration,
}

/// The system failed to provide random numbers for a key or nonce.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the system has no random numbers")]
pub struct RandomError;

/// Request to which a sealed text is bound.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Purpose<'a> {
    /// Issuer and subject of the caller; empty for an anonymous caller.
    pub(crate) principal: (&'a str, &'a str),
    pub(crate) backend: &'a str,
    pub(crate) method: &'a str,
    /// Name or URI of the request's target, as JSON.
    pub(crate) target: &'a [u8],
    /// Arguments, exactly as sent by the client.
    pub(crate) arguments: &'a [u8],
}

impl Seal {
    /// Creates a key ring with one random key, which is sufficient for a single replica.
    pub fn ephemeral(lifetime: Duration) -> Result<Self, RandomError> {
        let mut key = [0; 32];
        getrandom::fill(&mut key).map_err(|_| RandomError)?;
        Ok(Self::new(&[key], lifetime))
    }

    /// Creates a key ring. The first key seals, all keys open; sealed texts are valid for `lifetime`.
    #[must_use]
    pub fn new(keys: &[[u8; 32]], lifetime: Duration) -> Self {
        let key = |key: &[u8; 32]| UnboundKey::new(&AES_256_GCM, key).ok().map(LessSafeKey::new);
        Self { keys: keys.iter().filter_map(key).collect(), lifetime }
    }

    /// Seals `text` for a purpose.
    pub(crate) fn seal(&self, text: &str, purpose: Purpose<'_>) -> Result<String, RandomError> {
        self.seal_until(text, purpose, now() + self.lifetime.as_secs())
    }

    /// Seals `text` without expiry: it is valid while its key is in the ring.
    pub(crate) fn seal_for_good(
        &self,
        text: &str,
        purpose: Purpose<'_>,
    ) -> Result<String, RandomError> {
        self.seal_until(text, purpose, u64::MAX)
    }

    /// Seals `text` until a time in seconds since 1970.
    fn seal_until(
        &self,
        text: &str,
        purpose: Purpose<'_>,
        expires: u64,
    ) -> Result<String, RandomError> {
        let mut nonce = [0; NONCE];
        getrandom::fill(&mut nonce).map_err(|_| RandomError)?;
        let key = self.keys.first().ok_or(RandomError)?;
        let mut sealed = expires.to_be_bytes().to_vec();
        sealed.extend_from_slice(text.as_bytes());
        let nonce_value = Nonce::assume_unique_for_key(nonce);
        key.seal_in_place_append_tag(nonce_value, Aad::from(purpose.bind()), &mut sealed)
            .map_err(|_| RandomError)?;
        let mut out = nonce.to_vec();
        out.append(&mut sealed);
        Ok(VERSION.to_owned() + &BASE64_URL_SAFE_NO_PAD.encode(out))
    }

    /// Opens a sealed text if it is bound to this purpose and has not expired.
    pub(crate) fn open(&self, sealed: &str, purpose: Purpose<'_>) -> Option<String> {
        if sealed.len() > MAX_SEALED_LENGTH {
            return None;
        }
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(sealed.strip_prefix(VERSION)?).ok()?;
        let (nonce, sealed) = bytes.split_at_checked(NONCE)?;
        let aad = purpose.bind();
        let opened = self.keys.iter().find_map(|key| {
            let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
            let mut text = sealed.to_vec();
            let length = key.open_in_place(nonce, Aad::from(aad), &mut text).ok()?.len();
            text.truncate(length);
            Some(text)
        })?;
        let (expires, text) = opened.split_at_checked(8)?;
        if u64::from_be_bytes(expires.try_into().ok()?) < now() {
            return None;
        }
        String::from_utf8(text.to_vec()).ok()
    }
}

impl Purpose<'_> {
    /// Returns a fixed-size digest. Each part is preceded by its length, so different purposes yield different inputs.
    fn bind(&self) -> [u8; 32] {
        let parts = [
            self.principal.0.as_bytes(),
            self.principal.1.as_bytes(),
            self.backend.as_bytes(),
            self.method.as_bytes(),
            self.target,
            self.arguments,
        ];
        let mut all = Vec::new();
        for part in parts {
            all.extend_from_slice(&(part.len() as u64).to_be_bytes());
            all.extend_from_slice(part);
        }
        let mut bound = [0; 32];
        bound.copy_from_slice(digest(&SHA256, &all).as_ref());
        bound
    }
}

/// Returns the issuer and subject of a caller; empty for an anonymous caller.
pub(crate) fn principal(identity: &Identity) -> (&str, &str) {
    (identity.issuer().unwrap_or(""), identity.subject().unwrap_or(""))
}

/// Returns the seconds since 1970. Replicas have to agree on the expiry, so this is wall-clock time.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PURPOSE: Purpose<'_> = Purpose {
        principal: ("iss", "sub"),
        backend: "be",
        method: "tools/call",
        target: b"x",
        arguments: b"{}",
    };

    fn seal(keys: &[[u8; 32]]) -> Seal {
        Seal::new(keys, Duration::from_mins(1))
    }

    #[test]
    fn opens_sealed_text_only_for_same_purpose() {
        let seal = seal(&[[1; 32]]);
        let sealed = seal.seal("state", PURPOSE).unwrap();
        assert_eq!(seal.open(&sealed, PURPOSE).as_deref(), Some("state"));
        for other in [
            Purpose { principal: ("iss", "other"), ..PURPOSE },
            Purpose { principal: ("is", "ssub"), ..PURPOSE },
            Purpose { backend: "other", ..PURPOSE },
            Purpose { method: "prompts/get", ..PURPOSE },
            Purpose { target: b"y", ..PURPOSE },
            Purpose { arguments: b"{\"a\":1}", ..PURPOSE },
        ] {
            assert_eq!(seal.open(&sealed, other), None);
        }
    }

    #[test]
    fn rejects_tampered_text() {
        let seal = seal(&[[1; 32]]);
        let sealed = seal.seal("state", PURPOSE).unwrap();
        assert_eq!(seal.open(&format!("{sealed}-TAMPERED"), PURPOSE), None);
        for at in 0..sealed.len() {
            let mut changed = sealed.clone().into_bytes();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            assert_eq!(seal.open(&String::from_utf8(changed).unwrap(), PURPOSE), None, "{at}");
        }
        assert_eq!(seal.open("v1.", PURPOSE), None);
    }

    #[test]
    fn seals_with_first_key_and_opens_with_all() {
        let old = seal(&[[1; 32]]).seal("state", PURPOSE).unwrap();
        let both = seal(&[[2; 32], [1; 32]]);
        assert_eq!(both.open(&old, PURPOSE).as_deref(), Some("state"));
        let new = both.seal("state", PURPOSE).unwrap();
        assert_eq!(seal(&[[1; 32]]).open(&new, PURPOSE), None);
    }

    #[test]
    fn rejects_expired_text() {
        let seal = Seal::new(&[[1; 32]], Duration::ZERO);
        let sealed = seal.seal("state", PURPOSE).unwrap();
        assert_eq!(seal.open(&sealed, PURPOSE).as_deref(), Some("state"), "good in its second");
        let mut late = BASE64_URL_SAFE_NO_PAD.decode(&sealed[3..]).unwrap();
        late.truncate(NONCE);
        assert_eq!(
            seal.open(&(VERSION.to_owned() + &BASE64_URL_SAFE_NO_PAD.encode(late)), PURPOSE),
            None
        );
    }
}
