//! The keys that an issuer signs with.

use std::fmt;

use aws_lc_rs::digest;
use aws_lc_rs::signature::ParsedPublicKey;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{Algorithm, Jwk, Key};

/// The largest set that is read, in bytes.
pub const MAX_KEY_SET_SIZE: usize = 1024 * 1024;

/// The most keys that a set may have, usable or not.
pub const MAX_KEYS: usize = 100;

/// How many keys of the same `kid` are tried on one token.
const MAX_KEYS_PER_KID: usize = 4;

/// The usable keys of an issuer (RFC 7517 section 5).
pub struct KeySet {
    keys: Vec<Key>,
    fingerprint: u64,
}

/// Why a document is no key set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeySetError {
    /// It is larger than [`MAX_KEY_SET_SIZE`].
    #[error("the key set is larger than {MAX_KEY_SET_SIZE} bytes")]
    TooLarge,
    /// It has more than [`MAX_KEYS`].
    #[error("the key set has more than {MAX_KEYS} keys")]
    TooManyKeys,
    /// It is no JSON object with an array of objects in `keys`.
    #[error("the document is no JSON Web Key Set")]
    Malformed,
}

#[derive(Deserialize)]
struct Document<'a> {
    #[serde(borrow)]
    keys: Vec<&'a RawValue>,
}

impl KeySet {
    /// The usable keys of the set in `json`. One that verifies nothing, or is malformed, is skipped
    /// with a log line; so the set can turn out empty.
    ///
    /// # Errors
    /// It is too large, has too many keys, or is no set.
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
                tracing::debug!(index, "a key of the set is malformed and skipped");
                return None;
            };
            Key::new(&jwk)
                .inspect_err(|error| {
                    tracing::debug!(index, kid = jwk.kid, %error, "a key of the set is skipped");
                })
                .ok()
        };
        Ok(document.keys.iter().enumerate().filter_map(usable).collect())
    }

    /// The keys.
    #[must_use]
    pub fn keys(&self) -> &[Key] {
        &self.keys
    }

    /// Whether there are none: then no token passes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Two sets with the same fingerprint have the same keys under the same names: what was
    /// verified with the one still holds with the other.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// The keys that a token with this header can have been signed with. Without a `kid` it is the
    /// only key for the algorithm, or none.
    pub(crate) fn candidates(
        &self,
        kid: Option<&str>,
        algorithm: Algorithm,
    ) -> impl Iterator<Item = &ParsedPublicKey> {
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
        let first = hash.as_ref().first_chunk().copied().unwrap_or_default();
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
