//! Encryption at rest: a copy of the store reveals no secret.

use std::fmt;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Prk, Salt};
use aws_lc_rs::rand;
use secrecy::zeroize::{Zeroize, Zeroizing};
use secrecy::{ExposeSecret, SecretSlice};

use crate::Ciphertext;

/// Format version, the first byte of every ciphertext.
const FORMAT_VERSION: u8 = 1;
const KEY_ID_LEN: usize = 4;
const SALT_LEN: usize = 16;
const HEADER_LEN: usize = 1 + KEY_ID_LEN + SALT_LEN + NONCE_LEN;

/// Minimum length of a secret in bytes.
const MIN_SECRET_LEN: usize = 32;

/// Encrypts with AES-256-GCM. Each text has its own key, derived (HKDF-SHA-256, RFC 5869) from the
/// first secret and a random salt, so that the number of texts per secret is unlimited. Decrypts
/// texts of all secrets.
#[derive(Clone)]
pub struct EncryptionKeyRing {
    /// Invariant: not empty.
    keys: Vec<Key>,
}

/// Kind and owner of a text, authenticated with it. A text decrypts only in the context that it was
/// encrypted in, so that it cannot be moved to another record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncryptionContext<'a> {
    kind: &'static str,
    identifiers: &'a [&'a str],
}

/// Error of encryption or decryption. Contains no secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncryptionError {
    /// No secret is configured.
    #[error("encryption at rest needs at least one secret")]
    NoSecret,
    /// A secret is too short.
    #[error("secret {position} has {length} bytes: encryption at rest needs at least 32")]
    SecretTooShort {
        /// Position of the secret, starting with 1.
        position: usize,
        /// Length of the secret in bytes.
        length: usize,
    },
    /// The system's random number generator failed.
    #[error("failed to read random numbers from the system")]
    RandomUnavailable,
    /// The text was encrypted with another secret or in another context, or was modified.
    #[error("failed to decrypt a stored value: it was encrypted with another secret, or modified")]
    DecryptionFailed,
}

#[derive(Clone)]
struct Key {
    id: [u8; KEY_ID_LEN],
    prk: Prk,
}

/// Length of a key identifier.
struct KeyIdLength;

// === impl EncryptionKeyRing ===

impl EncryptionKeyRing {
    /// Creates a key ring: the first secret encrypts, all of them decrypt.
    ///
    /// # Errors
    /// `secrets` is empty, or one has fewer than 32 bytes.
    pub fn new<'a>(
        secrets: impl IntoIterator<Item = &'a SecretSlice<u8>>,
    ) -> Result<Self, EncryptionError> {
        let key = |(index, secret): (usize, &SecretSlice<u8>)| {
            let secret = secret.expose_secret();
            if secret.len() < MIN_SECRET_LEN {
                return Err(EncryptionError::SecretTooShort {
                    position: index + 1,
                    length: secret.len(),
                });
            }
            Key::derive(secret).ok_or(EncryptionError::NoSecret)
        };
        let keys: Vec<_> = secrets.into_iter().enumerate().map(key).collect::<Result<_, _>>()?;
        if keys.is_empty() { Err(EncryptionError::NoSecret) } else { Ok(Self { keys }) }
    }

    /// Encrypts `text` in a context.
    ///
    /// # Errors
    /// The system's random number generator failed.
    pub fn seal(
        &self,
        context: EncryptionContext<'_>,
        text: &[u8],
    ) -> Result<Ciphertext, EncryptionError> {
        let key = self.keys.first().ok_or(EncryptionError::NoSecret)?;
        let mut sealed = vec![FORMAT_VERSION];
        sealed.extend_from_slice(&key.id);
        let mut random = [0; SALT_LEN + NONCE_LEN];
        rand::fill(&mut random).map_err(|_| EncryptionError::RandomUnavailable)?;
        sealed.extend_from_slice(&random);
        let (salt, nonce) = random.split_at(SALT_LEN);
        let nonce = Nonce::try_assume_unique_for_key(nonce)
            .map_err(|_| EncryptionError::RandomUnavailable)?;
        let mut text = Zeroizing::new(text.to_vec());
        let tag = key
            .text_key(salt)
            .and_then(|key| {
                let aad = Aad::from(context.associated_data());
                key.seal_in_place_separate_tag(nonce, aad, &mut text).ok()
            })
            .ok_or(EncryptionError::RandomUnavailable)?;
        sealed.extend_from_slice(&text);
        sealed.extend_from_slice(tag.as_ref());
        Ok(Ciphertext::from_bytes(sealed))
    }

    /// Decrypts a text of this context.
    ///
    /// # Errors
    /// The text was encrypted with another secret or in another context, or was modified.
    pub fn open(
        &self,
        context: EncryptionContext<'_>,
        sealed: &Ciphertext,
    ) -> Result<SecretSlice<u8>, EncryptionError> {
        self.decrypt(context, sealed).ok_or(EncryptionError::DecryptionFailed)
    }

    fn decrypt(
        &self,
        context: EncryptionContext<'_>,
        sealed: &Ciphertext,
    ) -> Option<SecretSlice<u8>> {
        let (before, text) = sealed.as_bytes().split_at_checked(HEADER_LEN)?;
        let (version, before) = before.split_first()?;
        let (id, before) = before.split_at(KEY_ID_LEN);
        let (salt, nonce) = before.split_at(SALT_LEN);
        if *version != FORMAT_VERSION {
            return None;
        }
        let key = self.keys.iter().find(|key| key.id == id)?.text_key(salt)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut text = text.to_vec();
        let opened = key.open_in_place(nonce, Aad::from(context.associated_data()), &mut text);
        let length = opened.ok()?.len();
        text.truncate(length);
        let opened = SecretSlice::from(text.clone());
        text.zeroize();
        Some(opened)
    }
}

impl fmt::Debug for EncryptionKeyRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EncryptionKeyRing").field("secrets", &self.keys.len()).finish()
    }
}

// === impl EncryptionContext ===

impl<'a> EncryptionContext<'a> {
    /// Creates a context from the `kind` of a text and the identifiers of its owner.
    #[must_use]
    pub const fn new(kind: &'static str, identifiers: &'a [&'a str]) -> Self {
        Self { kind, identifiers }
    }

    /// Encodes the context. Each part is preceded by its length, so that no two contexts are equal.
    fn associated_data(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for part in std::iter::once(&self.kind).chain(self.identifiers) {
            bytes.extend_from_slice(&(part.len() as u64).to_be_bytes());
            bytes.extend_from_slice(part.as_bytes());
        }
        bytes
    }
}

// === impl Key ===

impl Key {
    fn derive(secret: &[u8]) -> Option<Self> {
        let prk = Salt::new(HKDF_SHA256, b"vmcp authorization server vault v1").extract(secret);
        let mut id = [0; KEY_ID_LEN];
        prk.expand(&[b"id"], KeyIdLength).ok()?.fill(&mut id).ok()?;
        Some(Self { id, prk })
    }

    fn text_key(&self, salt: &[u8]) -> Option<LessSafeKey> {
        let info = [b"text", salt];
        let key = self.prk.expand(&info, &AES_256_GCM).ok()?;
        Some(LessSafeKey::new(UnboundKey::from(key)))
    }
}

impl KeyType for KeyIdLength {
    fn len(&self) -> usize {
        KEY_ID_LEN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: EncryptionContext<'_> = EncryptionContext::new("row", &["session", "github"]);

    fn secret(byte: u8) -> SecretSlice<u8> {
        SecretSlice::from(vec![byte; 32])
    }

    fn vault(secrets: &[u8]) -> EncryptionKeyRing {
        let secrets: Vec<_> = secrets.iter().map(|byte| secret(*byte)).collect();
        EncryptionKeyRing::new(&secrets).unwrap()
    }

    #[test]
    fn opens_sealed_text_and_redacts_debug_output() {
        let sealed = vault(&[1]).seal(TOKEN, b"canary").unwrap();
        assert!(!sealed.as_bytes().windows(6).any(|bytes| bytes == b"canary"));
        let opened = vault(&[1]).open(TOKEN, &sealed).unwrap();
        assert_eq!(opened.expose_secret(), b"canary");
        assert!(!format!("{opened:?} {:?}", vault(&[1])).contains("canary"));
    }

    #[test]
    fn seals_same_text_differently_each_time() {
        let vault = vault(&[1]);
        assert_ne!(vault.seal(TOKEN, b"text").unwrap(), vault.seal(TOKEN, b"text").unwrap());
    }

    #[test]
    fn opens_with_secrets_of_the_ring_only() {
        let sealed = vault(&[1]).seal(TOKEN, b"text").unwrap();
        assert!(vault(&[2, 1]).open(TOKEN, &sealed).is_ok());
        assert_eq!(
            vault(&[2]).open(TOKEN, &sealed).unwrap_err(),
            EncryptionError::DecryptionFailed
        );
    }

    #[test]
    fn rejects_text_of_another_context() {
        let sealed = vault(&[1]).seal(TOKEN, b"text").unwrap();
        let elsewhere: [EncryptionContext<'_>; 4] = [
            EncryptionContext::new("row", &["session", "gitlab"]),
            EncryptionContext::new("row", &["sessiong", "ithub"]),
            EncryptionContext::new("leg", &["session", "github"]),
            EncryptionContext::new("row", &["session", "github", ""]),
        ];
        for context in elsewhere {
            assert_eq!(
                vault(&[1]).open(context, &sealed).unwrap_err(),
                EncryptionError::DecryptionFailed
            );
        }
    }

    #[test]
    fn rejects_text_with_any_changed_byte() {
        let vault = vault(&[1]);
        let sealed = vault.seal(TOKEN, b"text").unwrap();
        for at in 0..sealed.as_bytes().len() {
            let mut bytes = sealed.as_bytes().to_vec();
            bytes[at] ^= 1;
            assert_eq!(
                vault.open(TOKEN, &Ciphertext::from_bytes(bytes)).unwrap_err(),
                EncryptionError::DecryptionFailed
            );
            let cut = Ciphertext::from_bytes(&sealed.as_bytes()[..at]);
            assert_eq!(vault.open(TOKEN, &cut).unwrap_err(), EncryptionError::DecryptionFailed);
        }
    }

    #[test]
    fn rejects_short_secrets() {
        let secrets = [secret(1), SecretSlice::from(vec![7; 31])];
        let error = EncryptionKeyRing::new(&secrets).unwrap_err();
        assert_eq!(error, EncryptionError::SecretTooShort { position: 2, length: 31 });
        assert_eq!(EncryptionKeyRing::new(&[]).unwrap_err(), EncryptionError::NoSecret);
    }
}
