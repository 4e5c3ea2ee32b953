//! String types with a format, such as names, paths and ARNs. The reader checks the format once.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use secrecy::{ExposeSecret, SecretString};
use serde::Serialize;

use crate::{
    config_value::{ConfigValue, deserialize, values},
    context::Context,
    patterns,
    tree::Node,
};

/// Defines a string type with the format of `$pattern`.
macro_rules! string_type {
    (
        $(#[doc = $doc:literal])*
        $name:ident, $pattern:expr, such as $sample:literal $(, and $also:expr)? $(, max $max:literal)?
    ) => {
        $(#[doc = $doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(String);

        impl $name {
            /// Returns the text as written.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// Returns the value, or `None` if `text` has another format.
            #[must_use]
            pub fn new(text: &str) -> Option<Self> {
                let good = $pattern.matches(text) $(&& $also(text))? $(&& text.chars().nth($max).is_none())?;
                good.then(|| Self(text.to_owned()))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl ConfigValue for $name {
            fn read(node: &Node, cx: &mut Context) -> Option<Self> {
                let text = values::text(node, false, cx)?;
                let value = Self::new(text);
                if value.is_none() {
                    let allowed = $pattern.meaning.to_owned() $(+ concat!(", at most ", $max, " characters"))?;
                    cx.reject(node, allowed);
                }
                value
            }

            fn is_text() -> bool {
                true
            }

            fn placeholder() -> Option<Self> {
                Self::new($sample)
            }
        }

        impl Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserialize(deserializer)
            }
        }

        impl schemars::JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": "string", "pattern": $pattern.regex $(, "maxLength": $max)? })
            }
        }
    };
}

string_type! {
    /// Name of an environment variable. The configuration contains the names of secrets, not their values.
    EnvName, patterns::ENV_NAME, such as "PLACEHOLDER"
}

string_type! {
    /// Name of an HTTP header field (RFC 9110, section 5.1), as written.
    HeaderName, patterns::HEADER_NAME, such as "X-Placeholder"
}

string_type! {
    /// Issuer identifier (RFC 8414): https, or http on loopback. Peers compare it as text, so the text is kept
    /// unchanged.
    Issuer, patterns::ISSUER, such as "https://placeholder.invalid", and is_secure_issuer
}

string_type! {
    /// The name of an upstream identity provider: a DNS label of at most 63 characters.
    ProviderName, patterns::DNS_LABEL, such as "placeholder", max 63
}

string_type! {
    /// An http:// or https:// URL that peers compare as text, so the text is kept unchanged.
    ExactUrl, patterns::HTTP, such as "https://placeholder.invalid", and has_host
}

string_type! {
    /// An https:// URL that peers compare as text, so the text is kept unchanged.
    ExactHttpsUrl, patterns::HTTPS, such as "https://placeholder.invalid", and has_host
}

string_type! {
    /// An AWS region.
    Region, patterns::REGION, such as "eu-central-1"
}

string_type! {
    /// The ARN of an IAM role.
    RoleArn, patterns::ROLE_ARN, such as "arn:aws:iam::000000000000:role/placeholder"
}

string_type! {
    /// The address of a TCP server, `host:port`; IPv6 addresses in brackets.
    HostPort, patterns::HOST_PORT, such as "placeholder.invalid:1", and has_valid_port
}

/// Absolute path of a file, without `..`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FilePath(PathBuf);

/// Secret in the configuration itself. `Debug` hides it; `to_yaml` writes it.
#[derive(Clone)]
pub struct Secret(SecretString);

fn has_host(text: &str) -> bool {
    url::Url::parse(text).is_ok_and(|url| url.has_host())
}

fn is_secure_issuer(text: &str) -> bool {
    let Ok(url) = url::Url::parse(text) else { return false };
    let plain = url.username().is_empty() && url.password().is_none();
    plain && (url.scheme() == "https" || is_loopback(&url))
}

/// Returns `true` if `url` names this machine: `localhost` or a loopback address.
pub(crate) fn is_loopback(url: &url::Url) -> bool {
    match url.host() {
        Some(url::Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

fn has_valid_port(text: &str) -> bool {
    text.rsplit_once(':')
        .and_then(|(_, port)| port.parse::<u16>().ok())
        .is_some_and(|port| port > 0)
}

// === impl FilePath ===

impl FilePath {
    /// Returns the path.
    #[must_use]
    pub fn as_path(&self) -> &Path {
        &self.0
    }
}

impl ConfigValue for FilePath {
    fn read(node: &Node, cx: &mut Context) -> Option<Self> {
        let text = values::text(node, false, cx)?;
        let climbs = text.split('/').any(|part| part == "..");
        if !patterns::ABSOLUTE_PATH.matches(text) || climbs || text.chars().any(char::is_control) {
            cx.reject(node, patterns::ABSOLUTE_PATH.meaning);
            return None;
        }
        let path = PathBuf::from(text);
        cx.add_file_reference(&path);
        Some(Self(path))
    }

    fn is_text() -> bool {
        true
    }

    fn placeholder() -> Option<Self> {
        Some(Self(PathBuf::from("/placeholder")))
    }
}

impl Serialize for FilePath {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> serde::Deserialize<'de> for FilePath {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserialize(deserializer)
    }
}

impl schemars::JsonSchema for FilePath {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "FilePath".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "pattern": patterns::ABSOLUTE_PATH.regex })
    }
}

// === impl Secret ===

impl Secret {
    /// Returns the secret, for the layer that sends it.
    #[must_use]
    pub fn secret(&self) -> &SecretString {
        &self.0
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.0.expose_secret() == other.0.expose_secret()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl ConfigValue for Secret {
    fn read(node: &Node, cx: &mut Context) -> Option<Self> {
        values::text(node, true, cx).map(|text| Self(SecretString::from(text)))
    }

    fn is_secret() -> bool {
        true
    }

    fn is_text() -> bool {
        true
    }

    fn placeholder() -> Option<Self> {
        Some(Self(SecretString::from("placeholder")))
    }
}

impl Serialize for Secret {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.expose_secret())
    }
}

impl<'de> serde::Deserialize<'de> for Secret {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserialize(deserializer)
    }
}

impl schemars::JsonSchema for Secret {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Secret".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string" })
    }
}

#[cfg(test)]
mod tests;
