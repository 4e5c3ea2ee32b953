//! Validated AWS names and durations.

use std::fmt;
use std::time::Duration;

use sha2::{Digest, Sha256};

/// AWS region such as `eu-central-1`. It selects the STS endpoint and is part of the credential scope of signatures.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Region(Box<str>);

/// ARN of an IAM role such as `arn:aws:iam::123456789012:role/reader`, in the partition `aws`, `aws-cn` or `aws-us-gov`.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct RoleArn(Box<str>);

/// Service name in the credential scope of signatures. The default is `aws-mcp`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ServiceName(Box<str>);

/// Requested lifetime of credentials: 900 to 43,200 seconds, 3,600 by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SessionDuration(u32);

/// Name of an assumed-role session in AWS logs: 2 to 64 characters out of `A-Z a-z 0-9 _ + = , . @ -`
/// (`RoleSessionName` in the STS API reference).
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct SessionName(Box<str>);

/// Rejected AWS name or duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Invalid region.
    #[error("not an AWS region such as eu-central-1: {0:?}")]
    Region(Box<str>),
    /// Invalid role ARN.
    #[error("not an IAM role such as arn:aws:iam::123456789012:role/name: {0:?}")]
    RoleArn(Box<str>),
    /// Invalid service name.
    #[error("not a service name of 1 to 64 letters, digits, '-', '_' or '.': {0:?}")]
    ServiceName(Box<str>),
    /// Session duration outside 900 to 43,200 seconds.
    #[error("a session lasts 900 to 43200 seconds, not {0}")]
    SessionDuration(u32),
}

// === impl Region ===

impl Region {
    /// Returns the region.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<&str> for Region {
    type Error = NameError;

    fn try_from(text: &str) -> Result<Self, NameError> {
        let mut parts = text.split('-');
        let country =
            parts.next().is_some_and(|part| part.len() == 2 && part.bytes().all(is_lower));
        let number = parts
            .next_back()
            .is_some_and(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()));
        let mut areas = 0;
        let words = parts.all(|part| {
            areas += 1;
            !part.is_empty() && part.bytes().all(is_lower)
        });
        if country && words && areas > 0 && number && text.len() <= 64 {
            Ok(Self(text.into()))
        } else {
            Err(NameError::Region(truncated(text)))
        }
    }
}

// === impl RoleArn ===

impl RoleArn {
    /// Returns the ARN.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<&str> for RoleArn {
    type Error = NameError;

    fn try_from(text: &str) -> Result<Self, NameError> {
        is_role_arn(text)
            .then(|| Self(text.into()))
            .ok_or_else(|| NameError::RoleArn(truncated(text)))
    }
}

impl fmt::Debug for RoleArn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn is_role_arn(text: &str) -> bool {
    // STS accepts up to 2,048 characters.
    let mut parts = text.splitn(6, ':');
    let mut next = || parts.next().unwrap_or_default();
    let (arn, partition, service, region, account, resource) =
        (next(), next(), next(), next(), next(), next());
    text.len() <= 2048
        && arn == "arn"
        && matches!(partition, "aws" | "aws-cn" | "aws-us-gov")
        && service == "iam"
        && region.is_empty()
        && account.len() == 12
        && account.bytes().all(|byte| byte.is_ascii_digit())
        && resource.strip_prefix("role/").is_some_and(|name| {
            !name.is_empty() && name.bytes().all(|byte| byte == b'/' || is_session_byte(byte))
        })
}

// === impl ServiceName ===

impl ServiceName {
    /// Returns the name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for ServiceName {
    fn default() -> Self {
        Self("aws-mcp".into())
    }
}

impl TryFrom<&str> for ServiceName {
    type Error = NameError;

    fn try_from(text: &str) -> Result<Self, NameError> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        if (1..=64).contains(&text.len()) && text.bytes().all(plain) {
            Ok(Self(text.into()))
        } else {
            Err(NameError::ServiceName(truncated(text)))
        }
    }
}

// === impl SessionDuration ===

impl SessionDuration {
    /// Returns the duration in seconds.
    #[must_use]
    pub fn seconds(self) -> u32 {
        self.0
    }
}

impl Default for SessionDuration {
    fn default() -> Self {
        Self(3600)
    }
}

impl TryFrom<u32> for SessionDuration {
    type Error = NameError;

    fn try_from(seconds: u32) -> Result<Self, NameError> {
        if (900..=43_200).contains(&seconds) {
            Ok(Self(seconds))
        } else {
            Err(NameError::SessionDuration(seconds))
        }
    }
}

impl From<SessionDuration> for Duration {
    fn from(duration: SessionDuration) -> Self {
        Self::from_secs(duration.0.into())
    }
}

// === impl SessionName ===

impl SessionName {
    /// Converts `text` to a session name. If `text` is too short, too long or contains disallowed characters, those
    /// characters become `-`, excess length is truncated, and `-` plus eight hexadecimal digits of the SHA-256 of `text`
    /// are appended, so that different callers have different names. Returns `None` if `text` is empty.
    #[must_use]
    pub fn from_text(text: &str) -> Option<Self> {
        const MAX_LEN: usize = 64;
        const SUFFIX: usize = 9;
        if text.is_empty() {
            return None;
        }
        if (2..=MAX_LEN).contains(&text.len()) && text.bytes().all(is_session_byte) {
            return Some(Self(text.into()));
        }
        let sanitized = text.chars().take(MAX_LEN - SUFFIX).map(|letter| {
            if letter.is_ascii() && is_session_byte(letter as u8) { letter } else { '-' }
        });
        let mut name: String = sanitized.collect();
        name.push('-');
        for byte in &Sha256::digest(text)[..4] {
            for half in [byte >> 4, byte & 15] {
                name.extend(char::from_digit(half.into(), 16));
            }
        }
        Some(Self(name.into()))
    }

    /// Returns the name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SessionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn is_lower(byte: u8) -> bool {
    byte.is_ascii_lowercase()
}

fn is_session_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_+=,.@-".contains(&byte)
}

/// Returns the start of `text`, enough to find it in a configuration.
fn truncated(text: &str) -> Box<str> {
    text.chars().take(128).collect::<String>().into()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn validates_regions() {
        for good in ["eu-central-1", "us-gov-west-1", "cn-north-1", "us-isob-east-12"] {
            assert!(Region::try_from(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "eu",
            "eu-1",
            "EU-central-1",
            "eu-central-",
            "eu--1",
            "e-central-1",
            "eu-central-1/x",
        ] {
            assert!(Region::try_from(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn validates_role_arns() {
        for good in [
            "arn:aws:iam::123456789012:role/reader",
            "arn:aws-cn:iam::123456789012:role/path/a+b=c,d.e@f-g_h",
            "arn:aws-us-gov:iam::123456789012:role/x",
        ] {
            assert!(RoleArn::try_from(good).is_ok(), "{good}");
        }
        for bad in [
            "arn:aws-iso:iam::123456789012:role/x",
            "arn:aws:sts::123456789012:role/x",
            "arn:aws:iam:eu-central-1:123456789012:role/x",
            "arn:aws:iam::12345678901:role/x",
            "arn:aws:iam::12345678901٣:role/x",
            "arn:aws:iam::123456789012:user/x",
            "arn:aws:iam::123456789012:role/",
            "arn:aws:iam::123456789012:role/a:b",
            "arn:aws:iam::123456789012:role/a b",
            "arn:aws:iam::123456789012:role/x\n",
        ] {
            assert!(RoleArn::try_from(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn validates_session_duration() {
        assert!(SessionDuration::try_from(899).is_err());
        assert!(SessionDuration::try_from(900).is_ok());
        assert!(SessionDuration::try_from(43_200).is_ok());
        assert!(SessionDuration::try_from(43_201).is_err());
        assert_eq!(SessionDuration::default().seconds(), 3600);
    }

    #[test]
    fn validates_service_names() {
        assert_eq!(ServiceName::default().as_str(), "aws-mcp");
        assert!(ServiceName::try_from("bedrock-agentcore").is_ok());
        for bad in ["", "a/b", "a b", "ä"] {
            assert!(ServiceName::try_from(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn keeps_valid_session_names() {
        assert_eq!(SessionName::from_text("ada@example.com").unwrap().as_str(), "ada@example.com");
        let longest = "a".repeat(64);
        assert_eq!(SessionName::from_text(&longest).unwrap().as_str(), longest);
        assert!(SessionName::from_text("").is_none());
    }

    #[test]
    fn sanitized_session_names_stay_distinct() {
        let name = SessionName::from_text("auth0|ada").unwrap();
        assert!(name.as_str().starts_with("auth0-ada-"), "{name:?}");
        for other in ["auth0-ada", "auth0#ada", "auth0 ada"] {
            assert_ne!(SessionName::from_text(other).unwrap(), name);
        }
        let (one, two) = ("a".repeat(65), format!("{}b", "a".repeat(64)));
        assert_eq!(SessionName::from_text(&one).unwrap().as_str().len(), 64);
        assert_ne!(SessionName::from_text(&one), SessionName::from_text(&two));
        assert_eq!(SessionName::from_text("a").unwrap().as_str().len(), 10);
    }

    proptest! {
        #[test]
        fn every_text_gives_valid_session_name(text in "\\PC{1,200}") {
            let name = SessionName::from_text(&text).unwrap();
            prop_assert!((2..=64).contains(&name.as_str().len()));
            prop_assert!(name.as_str().bytes().all(is_session_byte));
        }
    }
}
