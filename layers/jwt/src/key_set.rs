//! JSON Web Key Sets.

use std::fmt;

use aws_lc_rs::digest;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::key::VerifyingKey;
use crate::{Algorithm, Jwk, Key};

/// Maximum size of a key set in bytes.
pub const MAX_KEY_SET_SIZE: usize = 1024 * 1024;

/// Maximum number of keys in a set, unusable ones included.
pub const MAX_KEYS: usize = 100;

/// Maximum number of keys with the same `kid` that are tried for one token.
const MAX_KEYS_PER_KID: usize = 4;

/// Usable keys of an issuer (RFC 7517 section 5).
pub struct KeySet {
    keys: Vec<Key>,
    fingerprint: u64,
}

/// The error of an invalid key set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeySetError {
    /// The key set is larger than [`MAX_KEY_SET_SIZE`].
    #[error("the key set is larger than {MAX_KEY_SET_SIZE} bytes")]
    TooLarge,
    /// The key set has more than [`MAX_KEYS`] keys.
    #[error("the key set has more than {MAX_KEYS} keys")]
    TooManyKeys,
    /// The document is not a JSON object with an array of objects in `keys`.
    #[error("the document is not a JSON Web Key Set")]
    Malformed,
}

#[derive(Deserialize)]
struct Document<'a> {
    #[serde(borrow)]
    keys: Vec<&'a RawValue>,
}

impl KeySet {
    /// Parses a key set. Logs and skips unusable and malformed keys, so the result can be empty.
    ///
    /// # Errors
    /// The document is too large, has too many keys, or is not a key set.
    pub fn parse(json: &[u8]) -> Result<Self, KeySetError> {
        if json.len() > MAX_KEY_SET_SIZE {
            return Err(KeySetError::TooLarge);
        }
        let document: Document<'_> =
            serde_json::from_slice(json).map_err(|_| KeySetError::Malformed)?;
        if document.keys.len() > MAX_KEYS {
            return Err(KeySetError::TooManyKeys);
        }
        let usable = |(index, raw): (usize, &&RawValue)| {
            let Ok(jwk) = serde_json::from_str::<Jwk>(raw.get()) else {
                tracing::debug!(index, "malformed key skipped");
                return None;
            };
            Key::new(&jwk)
                .inspect_err(|error| {
                    tracing::debug!(index, kid = jwk.kid, %error, "unusable key skipped");
                })
                .ok()
        };
        Ok(document.keys.iter().enumerate().filter_map(usable).collect())
    }

    /// Returns the keys.
    #[must_use]
    pub fn keys(&self) -> &[Key] {
        &self.keys
    }

    /// Returns `true` if the set has no usable key.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Returns a hash of keys and key ids. Sets with equal fingerprints verify the same tokens.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// Returns the keys that may have signed a token with this header. Without a `kid`, returns the key only if it is
    /// the only one for the algorithm.
    pub(crate) fn candidates(
        &self,
        kid: Option<&str>,
        algorithm: Algorithm,
    ) -> impl Iterator<Item = &VerifyingKey> {
        let matching = move || {
            let has_kid = move |key: &&Key| kid.is_none() || key.kid() == kid;
            self.keys.iter().filter(has_kid).filter_map(move |key| key.for_algorithm(algorithm))
        };
        let ambiguous = kid.is_none() && matching().nth(1).is_some();
        matching().take(if ambiguous { 0 } else { MAX_KEYS_PER_KID })
    }
}

impl FromIterator<Key> for KeySet {
    fn from_iter<I: IntoIterator<Item = Key>>(keys: I) -> Self {
        let keys: Vec<Key> = keys.into_iter().collect();
        let mut names: Vec<String> = keys
            .iter()
            .map(|key| {
                let algorithms: Vec<_> = key.algorithms().collect();
                format!("{:?} {} {algorithms:?}", key.kid(), key.thumbprint())
            })
            .collect();
        names.sort_unstable();
        let hash = digest::digest(&digest::SHA256, names.join("\n").as_bytes());
        let first = hash.as_ref().first_chunk().copied().expect("SHA-256 digests have 32 bytes");
        Self { keys, fingerprint: u64::from_be_bytes(first) }
    }
}

impl fmt::Debug for KeySet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.keys).finish()
    }
}

#[cfg(test)]
mod tests;
