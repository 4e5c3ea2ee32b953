//! Authorization codes and refresh tokens: random, authenticated by a MAC, and stored as digests only.
//!
//! ```text
//! vac_<b64url(random 32)>.<b64url(mac)>
//! vrt_<b64url(grant 16 ‖ generation 4 ‖ random 32)>.<b64url(mac)>
//! ```

use std::fmt;

use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use secrecy::{ExposeSecret, SecretSlice, SecretString};
use vmcp_auth_store::{Digest, EncryptionKeyRing};

/// Minimum length of a secret for codes and refresh tokens, in bytes.
pub const MIN_HMAC_SECRET: usize = 32;

const CODE_PREFIX: &str = "vac_";
const REFRESH_PREFIX: &str = "vrt_";

/// Domain separation: every MAC input begins with a label of its purpose, so a MAC is valid for that purpose only.
const CODE_LABEL: &[u8] = b"vmcp code\0";
const REFRESH_LABEL: &[u8] = b"vmcp refresh\0";
const SUCCESSOR_LABEL: &[u8] = b"vmcp successor\0";

/// Maximum length of a token that is parsed, in bytes.
const MAX_TOKEN_LENGTH: usize = 256;

const RANDOM_BYTES: usize = 32;
const GRANT_BYTES: usize = 16;
const GENERATION_BYTES: usize = 4;

/// Secrets of codes and refresh tokens: the first creates, all verify. The keys for encryption in the store are derived
/// from them.
#[derive(Clone)]
pub struct HmacKeyRing {
    keys: Vec<hmac::Key>,
    encryption_keys: EncryptionKeyRing,
    ephemeral: bool,
}

/// Error of a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HmacKeyError {
    /// The secret is shorter than [`MIN_HMAC_SECRET`].
    #[error("secret is too short: it has {0} bytes; use at least {MIN_HMAC_SECRET} random bytes")]
    TooShort(usize),
    /// The system's random generator failed.
    #[error("failed to read random bytes: the system's random generator failed")]
    RandomUnavailable,
}

/// Error of the system's random generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("failed to read random bytes: the system's random generator failed")]
pub(crate) struct RandomUnavailable;

/// Refresh token whose MAC one of this ring's secrets verified.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct RefreshToken {
    /// Grant of the token.
    pub(crate) grant: [u8; GRANT_BYTES],
    /// Number of earlier tokens in the same family.
    pub(crate) generation: u32,
    random: [u8; RANDOM_BYTES],
    /// Index of the secret that verified the token; its successor is derived with the same one.
    key: usize,
}

// === impl HmacKeyRing ===

impl HmacKeyRing {
    /// Creates a ring of these secrets, as raw bytes. An empty list generates a secret, whose tokens become invalid at a
    /// restart.
    ///
    /// # Errors
    /// Returns the index of the invalid secret and its error.
    pub fn new(secrets: &[SecretSlice<u8>]) -> Result<Self, (usize, HmacKeyError)> {
        let secret: [u8; RANDOM_BYTES] =
            random().map_err(|_| (0, HmacKeyError::RandomUnavailable))?;
        let generated = [SecretSlice::from(secret.to_vec())];
        let ephemeral = secrets.is_empty();
        let secrets = if ephemeral { &generated } else { secrets };
        let key = |(at, secret): (usize, &SecretSlice<u8>)| {
            let secret = secret.expose_secret();
            if secret.len() < MIN_HMAC_SECRET {
                return Err((at, HmacKeyError::TooShort(secret.len())));
            }
            Ok(hmac::Key::new(hmac::HMAC_SHA256, secret))
        };
        let keys = secrets.iter().enumerate().map(key).collect::<Result<Vec<_>, _>>()?;
        let encryption_keys =
            EncryptionKeyRing::new(secrets).map_err(|_| (0, HmacKeyError::RandomUnavailable))?;
        Ok(Self { keys, encryption_keys, ephemeral })
    }

    /// Returns the ring of encryption keys for stored data, derived from the same secrets.
    #[must_use]
    pub fn encryption_keys(&self) -> &EncryptionKeyRing {
        &self.encryption_keys
    }

    /// Returns `true` if the secret was generated at start, so that codes and refresh tokens end with the process.
    #[must_use]
    pub fn is_ephemeral(&self) -> bool {
        self.ephemeral
    }

    /// Generates an authorization code.
    pub(crate) fn new_code(&self) -> Result<SecretString, RandomUnavailable> {
        Ok(self.seal(CODE_PREFIX, CODE_LABEL, &random::<RANDOM_BYTES>()?))
    }

    /// Returns the store's key of `code` if its MAC is valid.
    pub(crate) fn verify_code(&self, code: &str) -> Option<Digest> {
        let (payload, _) = self.open(CODE_PREFIX, CODE_LABEL, code)?;
        (payload.len() == RANDOM_BYTES).then(|| Digest::of(&payload))
    }

    /// Generates the first refresh token of a grant.
    pub(crate) fn new_refresh_token(
        grant: [u8; GRANT_BYTES],
    ) -> Result<RefreshToken, RandomUnavailable> {
        Ok(RefreshToken { grant, generation: 0, random: random()?, key: 0 })
    }

    /// Returns the refresh token as text for the client.
    pub(crate) fn encode_refresh_token(&self, token: &RefreshToken) -> SecretString {
        self.seal(REFRESH_PREFIX, REFRESH_LABEL, &token.payload())
    }

    /// Parses a refresh token and verifies its MAC.
    pub(crate) fn verify_refresh_token(&self, text: &str) -> Option<RefreshToken> {
        let (payload, key) = self.open(REFRESH_PREFIX, REFRESH_LABEL, text)?;
        let (grant, rest) = payload.split_first_chunk()?;
        let (generation, rest) = rest.split_first_chunk()?;
        let random = rest.try_into().ok()?;
        Some(RefreshToken {
            grant: *grant,
            generation: u32::from_be_bytes(*generation),
            random,
            key,
        })
    }

    /// Derives the successor of `parent`. The result is deterministic, so a response that was lost can be repeated.
    pub(crate) fn successor(&self, parent: &RefreshToken) -> Option<RefreshToken> {
        let key = self.keys.get(parent.key)?;
        let made = mac(key, SUCCESSOR_LABEL, &parent.payload());
        let generation = parent.generation.checked_add(1)?;
        let random = made.as_ref().try_into().expect("HMAC-SHA256 has 32 bytes");
        Some(RefreshToken { generation, random, ..*parent })
    }

    fn seal(&self, prefix: &str, label: &[u8], payload: &[u8]) -> SecretString {
        let mut text = String::with_capacity(prefix.len() + payload.len() * 2 + 48);
        text.push_str(prefix);
        URL_SAFE_NO_PAD.encode_string(payload, &mut text);
        text.push('.');
        let key = self.keys.first().expect("the constructor generates a secret for an empty list");
        URL_SAFE_NO_PAD.encode_string(mac(key, label, payload), &mut text);
        text.into()
    }

    fn open(&self, prefix: &str, label: &[u8], text: &str) -> Option<(Vec<u8>, usize)> {
        if text.len() > MAX_TOKEN_LENGTH {
            return None;
        }
        let (payload, tag) = text.strip_prefix(prefix)?.split_once('.')?;
        let payload = URL_SAFE_NO_PAD.decode(payload).ok()?;
        let tag = URL_SAFE_NO_PAD.decode(tag).ok()?;
        let covered = [label, &payload].concat();
        let verifies = |key: &hmac::Key| hmac::verify(key, &covered, &tag).is_ok();
        let key = self.keys.iter().position(verifies)?;
        Some((payload, key))
    }
}

impl fmt::Debug for HmacKeyRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HmacRing")
            .field("secrets", &self.keys.len())
            .field("ephemeral", &self.ephemeral)
            .finish_non_exhaustive()
    }
}

// === impl RefreshToken ===

impl RefreshToken {
    /// Returns the digest that the record of its family is compared with.
    pub(crate) fn digest(&self) -> Digest {
        Digest::of(self.payload())
    }

    fn payload(&self) -> [u8; GRANT_BYTES + GENERATION_BYTES + RANDOM_BYTES] {
        let mut payload = [0; GRANT_BYTES + GENERATION_BYTES + RANDOM_BYTES];
        let (grant, rest) = payload.split_at_mut(GRANT_BYTES);
        let (generation, random) = rest.split_at_mut(GENERATION_BYTES);
        grant.copy_from_slice(&self.grant);
        generation.copy_from_slice(&self.generation.to_be_bytes());
        random.copy_from_slice(&self.random);
        payload
    }
}

impl fmt::Debug for RefreshToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RefreshToken").field("generation", &self.generation).finish_non_exhaustive()
    }
}

/// Returns random bytes of the operating system.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], RandomUnavailable> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|_| RandomUnavailable)?;
    Ok(bytes)
}

/// Returns 43 random characters, for values that pass through a browser: `state`, cookies, form tokens.
pub(crate) fn nonce() -> Result<String, RandomUnavailable> {
    Ok(URL_SAFE_NO_PAD.encode(random::<RANDOM_BYTES>()?))
}

/// Returns a random UUID (RFC 9562 section 5.4).
pub(crate) fn uuid() -> Result<String, RandomUnavailable> {
    let mut bytes: [u8; 16] = random()?;
    bytes[6] = (bytes[6] & 0x0f) | 0x40;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    let bits = u128::from_be_bytes(bytes);
    Ok(format!(
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        bits >> 96,
        (bits >> 80) & 0xffff,
        (bits >> 64) & 0xffff,
        (bits >> 48) & 0xffff,
        bits & 0xffff_ffff_ffff,
    ))
}

fn mac(key: &hmac::Key, label: &[u8], payload: &[u8]) -> hmac::Tag {
    let mut context = hmac::Context::with_key(key);
    context.update(label);
    context.update(payload);
    context.sign()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ring(secrets: &[u8]) -> HmacKeyRing {
        let secrets: Vec<SecretSlice<u8>> =
            secrets.iter().map(|byte| vec![*byte; 32].into()).collect();
        HmacKeyRing::new(&secrets).unwrap()
    }

    #[test]
    fn rejects_short_secret_with_index() {
        let secrets = [vec![1; 32].into(), vec![1; 31].into()];
        assert_eq!(HmacKeyRing::new(&secrets).unwrap_err(), (1, HmacKeyError::TooShort(31)));
        assert!(HmacKeyRing::new(&[]).unwrap().is_ephemeral());
        assert!(!ring(&[1]).is_ephemeral());
    }

    #[test]
    fn verifies_with_rotated_secret_until_removed() {
        let code = ring(&[1]).new_code().unwrap();
        assert!(ring(&[2, 1]).verify_code(code.expose_secret()).is_some());
        assert!(ring(&[2]).verify_code(code.expose_secret()).is_none());
    }

    #[test]
    fn codes_and_refresh_tokens_are_not_interchangeable() {
        let ring = ring(&[1]);
        let refresh = ring.encode_refresh_token(&HmacKeyRing::new_refresh_token([7; 16]).unwrap());
        let renamed = refresh.expose_secret().replace(REFRESH_PREFIX, CODE_PREFIX);
        assert!(ring.verify_code(&renamed).is_none());
        let code = ring.new_code().unwrap().expose_secret().replace(CODE_PREFIX, REFRESH_PREFIX);
        assert!(ring.verify_refresh_token(&code).is_none());
    }

    #[test]
    fn rejects_truncated_or_modified_token() {
        let ring = ring(&[1]);
        let (one, two) = (ring.new_code().unwrap(), ring.new_code().unwrap());
        let (one, two) = (one.expose_secret(), two.expose_secret());
        for length in 0..one.len() {
            assert!(ring.verify_code(&one[..length]).is_none(), "{length}");
        }
        let swapped =
            format!("{}.{}", one.split_once('.').unwrap().0, two.split_once('.').unwrap().1);
        assert!(ring.verify_code(&swapped).is_none());
        assert!(ring.verify_code(&format!("{one}=")).is_none());
        assert!(ring.verify_code(&format!("{one}.{one}")).is_none());
    }

    #[test]
    fn derives_same_successor_after_rotation() {
        let old = ring(&[1]);
        let parent = HmacKeyRing::new_refresh_token([7; 16]).unwrap();
        let next = old.successor(&parent).unwrap();
        assert_eq!((next.grant, next.generation), (parent.grant, 1));
        let rotated = ring(&[2, 1]);
        let written = old.encode_refresh_token(&parent);
        let again = rotated.verify_refresh_token(written.expose_secret()).unwrap();
        assert_eq!(rotated.successor(&again).unwrap().digest(), next.digest());
        assert_ne!(next.digest(), parent.digest());
    }

    #[test]
    fn debug_output_omits_tokens() {
        let ring = ring(&[1]);
        let token = HmacKeyRing::new_refresh_token([7; 16]).unwrap();
        let written = ring.encode_refresh_token(&token);
        let shown = format!("{ring:?} {token:?} {written:?}");
        assert!(!shown.contains(&written.expose_secret()[4..20]), "{shown}");
    }

    proptest! {
        #[test]
        fn refresh_token_round_trips(grant: [u8; 16], steps in 0_u32..5) {
            let ring = ring(&[1, 2]);
            let mut token = HmacKeyRing::new_refresh_token(grant).unwrap();
            for _ in 0..steps {
                token = ring.successor(&token).unwrap();
            }
            let written = ring.encode_refresh_token(&token);
            let read = ring.verify_refresh_token(written.expose_secret()).unwrap();
            prop_assert_eq!((read.digest(), read.generation, read.grant), (token.digest(), steps, grant));
        }

        #[test]
        fn rejects_forged_tokens(text in "(vac_|vrt_)?[A-Za-z0-9_-]{0,90}\\.?[A-Za-z0-9_-]{0,50}") {
            prop_assert!(ring(&[1]).verify_code(&text).is_none());
            prop_assert!(ring(&[1]).verify_refresh_token(&text).is_none());
        }
    }
}
