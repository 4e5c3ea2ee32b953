//! Encrypted bytes.

use std::fmt;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

/// Encrypted bytes, which the store cannot read.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Ciphertext(Box<[u8]>);

impl Ciphertext {
    /// Wraps bytes that were encrypted elsewhere.
    #[must_use]
    pub fn from_bytes(bytes: impl Into<Box<[u8]>>) -> Self {
        Self(bytes.into())
    }

    /// Returns the encrypted bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl TryFrom<String> for Ciphertext {
    type Error = base64::DecodeError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        BASE64_URL_SAFE_NO_PAD.decode(text).map(Self::from_bytes)
    }
}

impl From<Ciphertext> for String {
    fn from(sealed: Ciphertext) -> Self {
        BASE64_URL_SAFE_NO_PAD.encode(sealed.0)
    }
}

impl fmt::Debug for Ciphertext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ciphertext({} bytes)", self.0.len())
    }
}
