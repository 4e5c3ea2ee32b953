//! Client of this server at an identity provider.

use std::fmt;

use secrecy::{ExposeSecret, SecretString};

use crate::{Endpoint, Issuer, SettingsError};

/// Preregistered client. `Debug` omits its secret.
#[derive(Clone)]
pub struct StaticClient {
    pub(crate) id: Box<str>,
    pub(crate) secret: Option<SecretString>,
}

/// Client that registers itself at the provider (RFC 7591).
#[derive(Clone)]
pub struct DynamicClient {
    pub(crate) source: RegistrationSource,
    pub(crate) initial_access_token: Option<SecretString>,
    pub(crate) software_id: Option<Box<str>>,
    pub(crate) software_statement: Option<Box<str>>,
}

/// Source of the registration endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RegistrationSource {
    /// Discovery document at this URL (RFC 8414 section 2).
    Discovery(Endpoint),
    /// Registration endpoint.
    Endpoint(Endpoint),
}

// === impl StaticClient ===

impl StaticClient {
    /// Creates the client `id`; without a secret it is a public client (RFC 6749 section 2.1),
    /// protected by PKCE.
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

/// Returns whether the text matches RFC 6749 appendix A.1 and A.2.
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
    /// Creates a client that registers without an access token.
    ///
    /// # Errors
    /// [`SettingsError::NoDiscovery`].
    pub fn new(source: RegistrationSource) -> Result<Self, SettingsError> {
        if let RegistrationSource::Discovery(url) = &source {
            issuers_of(url)?;
        }
        Ok(Self { source, initial_access_token: None, software_id: None, software_statement: None })
    }

    /// Sets the bearer token of the registration request (RFC 7591 section 3).
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

    /// Sets `software_id` of the registration (RFC 7591 section 2).
    #[must_use]
    pub fn software_id(mut self, id: &str) -> Self {
        self.software_id = Some(id.into());
        self
    }

    /// Sets `software_statement` of the registration, a signed JWT (RFC 7591 section 2.3).
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

/// Returns whether a header can carry the text as a bearer token.
pub(crate) fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Derives the possible issuers from the URL of a discovery document: with and without a trailing
/// slash, which the URL does not show.
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
