//! Encryption of what a store keeps, so that a copy of the store is of no use.

use std::fmt;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Prk, Salt};
use aws_lc_rs::rand;
use secrecy::zeroize::{Zeroize, Zeroizing};
use secrecy::{ExposeSecret, SecretSlice};

use crate::Sealed;

/// What stands before everything sealed: which format it is.
const VERSION: u8 = 1;
const ID: usize = 4;
const SALT: usize = 16;
const BEFORE: usize = 1 + ID + SALT + NONCE_LEN;

/// The shortest secret, in bytes.
const SHORTEST: usize = 32;

/// Encrypts with AES-256-GCM. Each text has a key of its own, derived (HKDF-SHA-256, RFC 5869) from
/// the first secret and random salt, so that no number of texts wears a secret out. Texts sealed with
/// any of the secrets can be opened.
#[derive(Clone)]
pub struct Vault {
    /// At least one.
    keys: Vec<Key>,
}

/// What a text is and whom it belongs to. It opens under the same label alone, so that nothing can be
/// moved to another place of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label<'a> {
    kind: &'static str,
    names: &'a [&'a str],
}

/// Why something cannot be sealed or opened. Nothing in it is secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VaultError {
    /// There is no secret to encrypt with.
    #[error("encryption at rest needs at least one secret")]
    NoSecret,
    /// A secret can be guessed.
    #[error("secret {position} has {length} bytes: encryption at rest needs at least 32")]
    Short {
        /// Which one, the first being 1.
        position: usize,
        /// How long it is.
        length: usize,
    },
    /// The system has no random numbers.
    #[error("the system has no random numbers")]
    NoRandom,
    /// It was sealed with another secret or under another label, or was changed.
    #[error("what is stored cannot be decrypted: it was encrypted with another secret, or changed")]
    Foreign,
}

#[derive(Clone)]
struct Key {
    id: [u8; ID],
    prk: Prk,
}

/// The length of what is derived to tell keys apart.
struct IdLength;

// === impl Vault ===

impl Vault {
    /// A vault with these secrets: the first one seals, all of them open.
    ///
    /// # Errors
    /// There is none, or one has fewer than 32 bytes.
    pub fn new<'a>(
        secrets: impl IntoIterator<Item = &'a SecretSlice<u8>>,
    ) -> Result<Self, VaultError> {
        let key = |(index, secret): (usize, &SecretSlice<u8>)| {
            let secret = secret.expose_secret();
            if secret.len() < SHORTEST {
                return Err(VaultError::Short { position: index + 1, length: secret.len() });
            }
            Key::derive(secret).ok_or(VaultError::NoSecret)
        };
        let keys: Vec<_> = secrets.into_iter().enumerate().map(key).collect::<Result<_, _>>()?;
        if keys.is_empty() { Err(VaultError::NoSecret) } else { Ok(Self { keys }) }
    }

    /// `text`, encrypted.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn seal(&self, label: Label<'_>, text: &[u8]) -> Result<Sealed, VaultError> {
        let key = self.keys.first().ok_or(VaultError::NoSecret)?;
        let mut sealed = vec![VERSION];
        sealed.extend_from_slice(&key.id);
        let mut random = [0; SALT + NONCE_LEN];
        rand::fill(&mut random).map_err(|_| VaultError::NoRandom)?;
        sealed.extend_from_slice(&random);
        let (salt, nonce) = random.split_at(SALT);
        let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| VaultError::NoRandom)?;
        let mut text = Zeroizing::new(text.to_vec());
        let tag = key
            .of_text(salt)
            .and_then(|key| {
                let aad = Aad::from(label.bytes());
                key.seal_in_place_separate_tag(nonce, aad, &mut text).ok()
            })
            .ok_or(VaultError::NoRandom)?;
        sealed.extend_from_slice(&text);
        sealed.extend_from_slice(tag.as_ref());
        Ok(Sealed::from_bytes(sealed))
    }

    /// What was encrypted under this label.
    ///
    /// # Errors
    /// It was not, not with any of these secrets, or is not the same any more.
    pub fn open(&self, label: Label<'_>, sealed: &Sealed) -> Result<SecretSlice<u8>, VaultError> {
        self.opened(label, sealed).ok_or(VaultError::Foreign)
    }

    fn opened(&self, label: Label<'_>, sealed: &Sealed) -> Option<SecretSlice<u8>> {
        let (before, text) = sealed.as_bytes().split_at_checked(BEFORE)?;
        let (version, before) = before.split_first()?;
        let (id, before) = before.split_at(ID);
        let (salt, nonce) = before.split_at(SALT);
        if *version != VERSION {
            return None;
        }
        let key = self.keys.iter().find(|key| key.id == id)?.of_text(salt)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut text = text.to_vec();
        let opened = key.open_in_place(nonce, Aad::from(label.bytes()), &mut text);
        let length = opened.ok()?.len();
        text.truncate(length);
        let opened = SecretSlice::from(text.clone());
        text.zeroize();
        Some(opened)
    }
}

impl fmt::Debug for Vault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Vault").field("secrets", &self.keys.len()).finish()
    }
}

// === impl Label ===

impl<'a> Label<'a> {
    /// The label of a `kind` of text that belongs to what has these names.
    #[must_use]
    pub const fn new(kind: &'static str, names: &'a [&'a str]) -> Self {
        Self { kind, names }
    }

    /// Each part is preceded by its length, so that no two labels are alike.
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for part in std::iter::once(&self.kind).chain(self.names) {
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
        let mut id = [0; ID];
        prk.expand(&[b"id"], IdLength).ok()?.fill(&mut id).ok()?;
        Some(Self { id, prk })
    }

    fn of_text(&self, salt: &[u8]) -> Option<LessSafeKey> {
        let info = [b"text", salt];
        let key = self.prk.expand(&info, &AES_256_GCM).ok()?;
        Some(LessSafeKey::new(UnboundKey::from(key)))
    }
}

impl KeyType for IdLength {
    fn len(&self) -> usize {
        ID
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROW: Label<'_> = Label::new("row", &["session", "github"]);

    fn secret(byte: u8) -> SecretSlice<u8> {
        SecretSlice::from(vec![byte; 32])
    }

    fn vault(secrets: &[u8]) -> Vault {
        let secrets: Vec<_> = secrets.iter().map(|byte| secret(*byte)).collect();
        Vault::new(&secrets).unwrap()
    }

    #[test]
    fn what_was_sealed_opens_and_is_not_to_be_seen() {
        let sealed = vault(&[1]).seal(ROW, b"canary").unwrap();
        assert!(!sealed.as_bytes().windows(6).any(|bytes| bytes == b"canary"));
        let opened = vault(&[1]).open(ROW, &sealed).unwrap();
        assert_eq!(opened.expose_secret(), b"canary");
        assert!(!format!("{opened:?} {:?}", vault(&[1])).contains("canary"));
    }

    #[test]
    fn the_same_text_is_sealed_differently_each_time() {
        let vault = vault(&[1]);
        assert_ne!(vault.seal(ROW, b"text").unwrap(), vault.seal(ROW, b"text").unwrap());
    }

    #[test]
    fn any_secret_of_the_ring_opens_and_none_besides() {
        let sealed = vault(&[1]).seal(ROW, b"text").unwrap();
        assert!(vault(&[2, 1]).open(ROW, &sealed).is_ok());
        assert_eq!(vault(&[2]).open(ROW, &sealed).unwrap_err(), VaultError::Foreign);
    }

    #[test]
    fn what_was_moved_does_not_open() {
        let sealed = vault(&[1]).seal(ROW, b"text").unwrap();
        let elsewhere: [Label<'_>; 4] = [
            Label::new("row", &["session", "gitlab"]),
            Label::new("row", &["sessiong", "ithub"]),
            Label::new("leg", &["session", "github"]),
            Label::new("row", &["session", "github", ""]),
        ];
        for label in elsewhere {
            assert_eq!(vault(&[1]).open(label, &sealed).unwrap_err(), VaultError::Foreign);
        }
    }

    #[test]
    fn no_changed_byte_goes_unnoticed() {
        let vault = vault(&[1]);
        let sealed = vault.seal(ROW, b"text").unwrap();
        for at in 0..sealed.as_bytes().len() {
            let mut bytes = sealed.as_bytes().to_vec();
            bytes[at] ^= 1;
            assert_eq!(
                vault.open(ROW, &Sealed::from_bytes(bytes)).unwrap_err(),
                VaultError::Foreign
            );
            let cut = Sealed::from_bytes(&sealed.as_bytes()[..at]);
            assert_eq!(vault.open(ROW, &cut).unwrap_err(), VaultError::Foreign);
        }
    }

    #[test]
    fn a_secret_that_can_be_guessed_is_refused() {
        let secrets = [secret(1), SecretSlice::from(vec![7; 31])];
        let refused = Vault::new(&secrets).unwrap_err();
        assert_eq!(refused, VaultError::Short { position: 2, length: 31 });
        assert_eq!(Vault::new(&[]).unwrap_err(), VaultError::NoSecret);
    }
}
