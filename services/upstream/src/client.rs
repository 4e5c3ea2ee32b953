//! Who this server is to an identity provider.

use std::fmt;

use secrecy::{ExposeSecret, SecretString};

use crate::{Endpoint, Issuer, SettingsError};

/// A client that is known at the provider. Its secret is never shown.
#[derive(Clone)]
pub struct StaticClient {
    pub(crate) id: Box<str>,
    pub(crate) secret: Option<SecretString>,
}

/// A client that registers itself at the provider (RFC 7591).
#[derive(Clone)]
pub struct DynamicClient {
    pub(crate) source: RegistrationSource,
    pub(crate) initial_access_token: Option<SecretString>,
    pub(crate) software_id: Option<Box<str>>,
    pub(crate) software_statement: Option<Box<str>>,
}

/// Where to register.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RegistrationSource {
    /// Where the discovery document at this address says (RFC 8414 section 2).
    Discovery(Endpoint),
    /// Here.
    Endpoint(Endpoint),
}

// === impl StaticClient ===

impl StaticClient {
    /// The client `id`; without a secret it is a public one (RFC 6749 section 2.1), which PKCE protects.
    ///
    /// # Errors
    /// [`SettingsError::Client`].
    pub fn new(id: &str, secret: Option<SecretString>) -> Result<Self, SettingsError> {
        let secret_is_legal =
            secret.as_ref().is_none_or(|secret| is_printable(secret.expose_secret()));
        if is_printable(id) && secret_is_legal {
            Ok(Self { id: id.into(), secret })
        } else {
            Err(SettingsError::Client)
        }
    }

    pub(crate) fn is_confidential(&self) -> bool {
        self.secret.is_some()
    }
}

/// RFC 6749 appendix A.1 and A.2.
pub(crate) fn is_printable(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| (b' '..=b'~').contains(&byte))
}

impl fmt::Debug for StaticClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, secret } = self;
        f.debug_struct("Fixed").field("id", id).field("public", &secret.is_none()).finish()
    }
}

// === impl DynamicClient ===

impl DynamicClient {
    /// Registers at `source`, as anybody may.
    ///
    /// # Errors
    /// [`SettingsError::NoDiscovery`].
    pub fn new(source: RegistrationSource) -> Result<Self, SettingsError> {
        if let RegistrationSource::Discovery(url) = &source {
            issuers_of(url)?;
        }
        Ok(Self { source, initial_access_token: None, software_id: None, software_statement: None })
    }

    /// Registers with this bearer token (RFC 7591 section 3).
    ///
    /// # Errors
    /// [`SettingsError::Token`].
    pub fn initial_access_token(mut self, token: SecretString) -> Result<Self, SettingsError> {
        if !is_token(token.expose_secret()) {
            return Err(SettingsError::Token);
        }
        self.initial_access_token = Some(token);
        Ok(self)
    }

    /// `software_id` of the registration (RFC 7591 section 2).
    #[must_use]
    pub fn software_id(mut self, id: &str) -> Self {
        self.software_id = Some(id.into());
        self
    }

    /// `software_statement` of the registration, a signed JWT (RFC 7591 section 2.3).
    ///
    /// # Errors
    /// [`SettingsError::Token`].
    pub fn software_statement(mut self, statement: &str) -> Result<Self, SettingsError> {
        if !is_token(statement) {
            return Err(SettingsError::Token);
        }
        self.software_statement = Some(statement.into());
        Ok(self)
    }
}

/// What a header can carry as a bearer's token.
pub(crate) fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Whose discovery document may be at `url`: what the path says, with and without a slash at the end,
/// which does not show in the path.
pub(crate) fn issuers_of(url: &Endpoint) -> Result<Vec<Issuer>, SettingsError> {
    const WELL_KNOWN_PATHS: [&str; 2] =
        ["/.well-known/openid-configuration", "/.well-known/oauth-authorization-server"];
    let path = url.uri().path();
    let (before, after) = WELL_KNOWN_PATHS
        .iter()
        .find_map(|source| path.split_once(source))
        .ok_or(SettingsError::NoDiscovery)?;
    let own = match (before, after) {
        (before, "" | "/") => before,
        ("", after) if after.starts_with('/') => after,
        _ => return Err(SettingsError::NoDiscovery),
    };
    let own = own.trim_end_matches('/');
    let names = [format!("{}{own}", url.origin()), format!("{}{own}/", url.origin())];
    names.iter().map(|name| Issuer::allowing_http(name)).collect()
}

impl fmt::Debug for DynamicClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { source, initial_access_token: _, software_id, software_statement: _ } = self;
        f.debug_struct("DynamicClient")
            .field("place", source)
            .field("software_id", software_id)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_unprintable_clients() {
        for id in ["", "a\n", "\u{fc}"] {
            assert_eq!(StaticClient::new(id, None).unwrap_err(), SettingsError::Client, "{id}");
        }
        assert_eq!(StaticClient::new("a", Some("".into())).unwrap_err(), SettingsError::Client);
        assert!(StaticClient::new("a", Some("s p:%".into())).is_ok());
    }

    #[test]
    fn derives_issuer_from_metadata_url() {
        let of = |url: &str| -> Vec<String> {
            let issuers = issuers_of(&Endpoint::new(url).unwrap()).unwrap();
            issuers.iter().map(|issuer| issuer.as_str().to_owned()).collect()
        };
        let tenant = ["https://id.example/t1", "https://id.example/t1/"];
        assert_eq!(of("https://id.example/t1/.well-known/openid-configuration"), tenant);
        assert_eq!(of("https://id.example/.well-known/oauth-authorization-server/t1"), tenant);
        let root = ["https://id.example", "https://id.example/"];
        assert_eq!(of("https://id.example/.well-known/oauth-authorization-server"), root);
        for url in [
            "https://id.example/metadata",
            "https://id.example/a/.well-known/openid-configuration/b",
        ] {
            let source = RegistrationSource::Discovery(Endpoint::new(url).unwrap());
            assert_eq!(
                DynamicClient::new(source).unwrap_err(),
                SettingsError::NoDiscovery,
                "{url}"
            );
        }
    }
}
