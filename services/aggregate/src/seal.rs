//! Sealing of state that a stateless client carries between rounds (MCP 2026-07-28, multi round-trip requests). The client can
//! neither read nor modify it, and it is only accepted for the same request and caller, within its lifetime.

use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use vmcp_core::{Clock, Identity};
use vmcp_seal::{KeyRing, RandomError, SealPurpose};

/// Version prefix of every sealed text.
const VERSION: &str = "v2.";

/// Maximum length of a sealed text, in bytes.
const MAX_SEALED_LENGTH: usize = 1 << 20;

/// Seal of texts that clients carry.
#[derive(Debug)]
pub(crate) struct Seal {
    ring: KeyRing,
    lifetime: Duration,
    /// Replicas have to agree on the expiry, so this is wall-clock time.
    clock: Clock,
}

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
    /// Creates a seal whose texts are valid for `lifetime`.
    pub(crate) fn new(ring: KeyRing, lifetime: Duration, clock: Clock) -> Self {
        Self { ring, lifetime, clock }
    }

    /// Seals `text` for a purpose.
    pub(crate) fn seal(&self, text: &str, purpose: Purpose<'_>) -> Result<String, RandomError> {
        self.seal_until(text, purpose, self.clock.unix() + self.lifetime.as_secs())
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
        let mut value = expires.to_be_bytes().to_vec();
        value.extend_from_slice(text.as_bytes());
        let sealed = self.ring.seal(SealPurpose::ClientState, &value, &purpose.bind())?;
        Ok(VERSION.to_owned() + &BASE64_URL_SAFE_NO_PAD.encode(sealed))
    }

    /// Opens a sealed text if it is bound to this purpose and has not expired.
    pub(crate) fn open(&self, sealed: &str, purpose: Purpose<'_>) -> Option<String> {
        if sealed.len() > MAX_SEALED_LENGTH {
            return None;
        }
        let sealed = BASE64_URL_SAFE_NO_PAD.decode(sealed.strip_prefix(VERSION)?).ok()?;
        let opened = self.ring.open(SealPurpose::ClientState, &sealed, &purpose.bind())?;
        let (expires, text) = opened.split_at_checked(8)?;
        if u64::from_be_bytes(expires.try_into().ok()?) < self.clock.unix() {
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

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use vmcp_seal::SealKey;

    use super::*;

    const PURPOSE: Purpose<'_> = Purpose {
        principal: ("iss", "sub"),
        backend: "be",
        method: "tools/call",
        target: b"x",
        arguments: b"{}",
    };

    fn seal_at(clock: &Clock) -> Seal {
        let ring = KeyRing::new("", &[SealKey::from_bytes([1; 32])], clock.clone()).unwrap();
        Seal::new(ring, Duration::from_mins(1), clock.clone())
    }

    fn seal() -> Seal {
        seal_at(&Clock::system())
    }

    #[test]
    fn opens_sealed_text_only_for_same_purpose() {
        let seal = seal();
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
        let seal = seal();
        let sealed = seal.seal("state", PURPOSE).unwrap();
        assert_eq!(seal.open(&format!("{sealed}-TAMPERED"), PURPOSE), None);
        for at in 0..sealed.len() {
            let mut changed = sealed.clone().into_bytes();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            assert_eq!(seal.open(&String::from_utf8(changed).unwrap(), PURPOSE), None, "{at}");
        }
        assert_eq!(seal.open("v1.", PURPOSE), None);
        assert_eq!(seal.open("v2.", PURPOSE), None);
    }

    #[test]
    fn rejects_expired_text() {
        let clock = Clock::manual(SystemTime::UNIX_EPOCH);
        let seal = seal_at(&clock);
        let sealed = seal.seal("state", PURPOSE).unwrap();
        let lasting = seal.seal_for_good("id", PURPOSE).unwrap();
        clock.advance(Duration::from_mins(1));
        assert_eq!(seal.open(&sealed, PURPOSE).as_deref(), Some("state"), "good in its second");
        clock.advance(Duration::from_secs(1));
        assert_eq!(seal.open(&sealed, PURPOSE), None);
        assert_eq!(seal.open(&lasting, PURPOSE).as_deref(), Some("id"));
    }
}
