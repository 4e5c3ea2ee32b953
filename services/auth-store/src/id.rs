//! Names of what is stored: each kind a type of its own, so that none is mistaken for another.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

/// What was given is no such name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} has to be {form}")]
pub struct InvalidIdError {
    /// Which kind of name.
    what: &'static str,
    /// What it looks like.
    form: &'static str,
}

/// A name of `$length` bytes: in text, their base64url without padding (RFC 4648 section 5).
macro_rules! bytes_id {
    ($(#[$doc:meta])* $name:ident, $length:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name([u8; $length]);

        impl $name {
            /// The name that these bytes are. Whoever mints one draws them at random.
            #[must_use]
            pub const fn from_bytes(bytes: [u8; $length]) -> Self {
                Self(bytes)
            }

            /// Its bytes.
            #[must_use]
            pub const fn as_bytes(&self) -> &[u8; $length] {
                &self.0
            }

            /// Its text form.
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
            /// Enough to tell two apart, too little to use one.
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let [first, second, ..] = self.0;
                write!(f, concat!(stringify!($name), "({:02x}{:02x}…)"), first, second)
            }
        }
    };
}

/// A name of 1 to `$longest` bytes of text without control characters.
macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident, $longest:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Arc<str>);

        impl $name {
            /// The name.
            ///
            /// # Errors
            /// It is empty, too long, or has control characters.
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

            /// Its text.
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

/// It may be shown, in a log for example.
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
    /// The SHA-256 digest of a secret that something is looked up by: a state, a code, a refresh
    /// token, a cookie. The secret cannot be had from it, as long as it was drawn at random.
    Digest, 32
);
bytes_id!(
    /// A PKCE challenge made with `S256` (RFC 7636 section 4.2): the digest of the verifier.
    CodeChallenge, 32
);
bytes_id!(
    /// What a code gave: a family of refresh tokens and the access tokens that came with them.
    GrantId, 16
);
bytes_id!(
    /// One login with its tokens of upstream providers; in access tokens the claim `tsid`.
    SessionId, 16
);
bytes_id!(
    /// Who holds a lock: drawn at random for each attempt.
    LockOwner, 16
);
text_id!(
    /// A client's identifier, or the URL of its metadata document.
    ClientId, 2048
);
text_id!(
    /// A person, as tokens name them (`sub`).
    UserId, 255
);
text_id!(
    /// A person, as an upstream provider names them: with some, by their address. It is never shown.
    SubjectName, 1024
);
text_id!(
    /// An upstream provider, as the configuration names it.
    ProviderName, 253
);

text_id!(
    /// The issuer of an upstream provider's users and tokens; a fingerprint of its endpoints where
    /// it has no issuer. Another one under the same [`ProviderName`] is another provider.
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
    /// The digest of `secret`.
    #[must_use]
    pub fn of(secret: impl AsRef<[u8]>) -> Self {
        Self(sha256(secret.as_ref()))
    }
}

// === impl CodeChallenge ===

impl CodeChallenge {
    /// The challenge that `verifier` answers.
    #[must_use]
    pub fn of_verifier(verifier: &str) -> Self {
        Self(sha256(verifier.as_bytes()))
    }
}

fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut out = [0; 32];
    // SHA-256 is 32 bytes long.
    out.copy_from_slice(digest(&SHA256, bytes).as_ref());
    out
}

impl UserId {
    /// Whether it was made up from a token, since the provider says no names: it is another one at each login.
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
            let refused = ClientId::new(wrong).unwrap_err().to_string();
            assert_eq!(refused, "ClientId has to be 1 to 2048 bytes without control characters");
        }
    }

    #[test]
    fn computes_challenge_of_rfc_7636() {
        let challenge = CodeChallenge::of_verifier("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk");
        assert_eq!(challenge.to_text(), "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
    }
}
