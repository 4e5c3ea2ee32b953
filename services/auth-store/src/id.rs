//! Identifiers of records, each kind a type of its own.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

/// Error of a malformed identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} must be {form}")]
pub struct InvalidIdError {
    /// Kind of identifier.
    what: &'static str,
    /// Expected form.
    form: &'static str,
}

/// Defines an identifier of `$length` bytes. Its text form is base64url without padding (RFC 4648
/// section 5).
macro_rules! bytes_id {
    ($(#[$doc:meta])* $name:ident, $length:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name([u8; $length]);

        impl $name {
            /// Creates an identifier from bytes, which must be random if it is new.
            #[must_use]
            pub const fn from_bytes(bytes: [u8; $length]) -> Self {
                Self(bytes)
            }

            /// Returns the bytes.
            #[must_use]
            pub const fn as_bytes(&self) -> &[u8; $length] {
                &self.0
            }

            /// Returns the text form.
            #[must_use]
            pub fn to_text(self) -> String {
                BASE64_URL_SAFE_NO_PAD.encode(self.0)
            }
        }

        impl FromStr for $name {
            type Err = InvalidIdError;

            fn from_str(text: &str) -> Result<Self, InvalidIdError> {
                let wrong = InvalidIdError {
                    what: stringify!($name),
                    form: concat!("base64url of ", $length, " bytes, without padding"),
                };
                let mut bytes = [0; $length];
                match BASE64_URL_SAFE_NO_PAD.decode_slice(text, &mut bytes) {
                    Ok($length) => Ok(Self(bytes)),
                    _ => Err(wrong),
                }
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidIdError;

            fn try_from(text: String) -> Result<Self, InvalidIdError> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.to_text()
            }
        }

        impl fmt::Debug for $name {
            /// Shows enough to distinguish two identifiers, too little to use one.
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let [first, second, ..] = self.0;
                write!(f, concat!(stringify!($name), "({:02x}{:02x}…)"), first, second)
            }
        }
    };
}

/// Defines an identifier of 1 to `$longest` bytes of text without control characters.
macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident, $longest:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Arc<str>);

        impl $name {
            /// Parses an identifier.
            ///
            /// # Errors
            /// The text is empty, too long, or has control characters.
            pub fn new(text: impl Into<Arc<str>>) -> Result<Self, InvalidIdError> {
                let text = text.into();
                if text.is_empty() || text.len() > $longest || text.contains(char::is_control) {
                    return Err(InvalidIdError {
                        what: stringify!($name),
                        form: concat!("1 to ", $longest, " bytes without control characters"),
                    });
                }
                Ok(Self(text))
            }

            /// Returns the text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = InvalidIdError;

            fn from_str(text: &str) -> Result<Self, InvalidIdError> {
                Self::new(text)
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidIdError;

            fn try_from(text: String) -> Result<Self, InvalidIdError> {
                Self::new(text)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.0.as_ref().to_owned()
            }
        }
    };
}

/// Implements `Display` and `Debug` for identifiers that may appear in logs.
macro_rules! displayable_ids {
    ($($name:ident),*) => {
        $(impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        })*
    };
}

bytes_id!(
    /// SHA-256 digest of a secret that identifies a record: a state, a code, a refresh token, a
    /// cookie. The digest does not reveal a secret that was chosen at random.
    Digest, 32
);
bytes_id!(
    /// PKCE code challenge of method `S256` (RFC 7636 section 4.2): the digest of the verifier.
    CodeChallenge, 32
);
bytes_id!(
    /// Identifier of a grant: a family of refresh tokens with their access tokens.
    GrantId, 16
);
bytes_id!(
    /// Identifier of a login session with its upstream tokens; the claim `tsid` of access tokens.
    SessionId, 16
);
bytes_id!(
    /// Owner of a lock, chosen at random for each attempt.
    LockOwner, 16
);
text_id!(
    /// Identifier of a client, or the URL of its metadata document.
    ClientId, 2048
);
text_id!(
    /// Identifier of a user in tokens (`sub`).
    UserId, 255
);
text_id!(
    /// Subject of an upstream provider; for some providers an email address. It is never displayed.
    SubjectName, 1024
);
text_id!(
    /// Name of an upstream provider in the configuration.
    ProviderName, 253
);

text_id!(
    /// Issuer of an upstream provider's users and tokens; a fingerprint of its endpoints if it has
    /// no issuer. Another issuer under the same [`ProviderName`] is another provider.
    ProviderIssuer, 2048
);

displayable_ids!(ClientId, UserId, ProviderName, ProviderIssuer);

impl fmt::Debug for SubjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SubjectName(…)")
    }
}

// === impl Digest ===

impl Digest {
    /// Computes the digest of `secret`.
    #[must_use]
    pub fn of(secret: impl AsRef<[u8]>) -> Self {
        Self(sha256(secret.as_ref()))
    }
}

// === impl CodeChallenge ===

impl CodeChallenge {
    /// Computes the challenge of `verifier`.
    #[must_use]
    pub fn of_verifier(verifier: &str) -> Self {
        Self(sha256(verifier.as_bytes()))
    }
}

fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut out = [0; 32];
    // A SHA-256 digest has 32 bytes.
    out.copy_from_slice(digest(&SHA256, bytes).as_ref());
    out
}

impl UserId {
    /// Returns whether the identifier was derived from a token because the provider reports no
    /// subject. Such a user differs at each login.
    #[must_use]
    pub fn is_synthetic(&self) -> bool {
        self.as_str().starts_with("tk-")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_ids_round_trip_and_reject_others() {
        let id = GrantId::from_bytes([251; 16]);
        assert_eq!(id.to_text(), "-_v7-_v7-_v7-_v7-_v7-w");
        assert_eq!(id.to_text().parse(), Ok(id));
        for wrong in [
            "",
            "-_v7",
            "-_v7-_v7-_v7-_v7-_v7-w==",
            "-_v7-_v7-_v7-_v7-_v7-x",
            "+/v7-_v7-_v7-_v7-_v7-w",
        ] {
            assert!(wrong.parse::<GrantId>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn debug_output_truncates_byte_ids() {
        let printed = format!("{:?}", SessionId::from_bytes([0xab; 16]));
        assert_eq!(printed, "SessionId(abab…)");
    }

    #[test]
    fn text_ids_are_bounded() {
        assert!(ClientId::new("https://client.example/metadata").is_ok());
        assert!(ClientId::new("x".repeat(2048)).is_ok());
        for wrong in [String::new(), "x".repeat(2049), "a\nb".to_owned(), "a\0b".to_owned()] {
            let error = ClientId::new(wrong).unwrap_err().to_string();
            assert_eq!(error, "ClientId must be 1 to 2048 bytes without control characters");
        }
    }

    #[test]
    fn computes_challenge_of_rfc_7636() {
        let challenge = CodeChallenge::of_verifier("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk");
        assert_eq!(challenge.to_text(), "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
    }
}
