//! Settings of an identity provider.

use std::collections::BTreeMap;

use aws_lc_rs::digest;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::{DynamicClient, Endpoint, Issuer, StaticClient, TokenMapping, UserInfo};

/// Settings of an identity provider.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Name of the provider, unique in the configuration.
    pub name: Box<str>,
    /// Protocol of the provider.
    pub kind: Kind,
    /// Redirect URI of this server.
    pub redirect_uri: Endpoint,
    /// Scopes to request.
    pub scopes: Scopes,
    /// Additional parameters of the authorization request.
    pub params: Params,
    /// Name of a dynamically registered client (RFC 7591, `client_name`).
    pub client_name: Box<str>,
}

/// Protocol of an identity provider.
#[derive(Clone, Debug)]
pub enum Kind {
    /// OpenID Connect.
    Oidc(Box<Oidc>),
    /// OAuth 2.0 without OpenID Connect.
    Oauth2(Box<Oauth2>),
}

/// OpenID provider with discovery.
#[derive(Clone, Debug)]
pub struct Oidc {
    /// Issuer of the provider.
    pub issuer: Issuer,
    /// Client of this server at the provider.
    pub client: StaticClient,
    /// Userinfo request for the user's identity, in addition to the ID token and in place of the
    /// discovered userinfo endpoint.
    pub user_info: Option<UserInfo>,
}

/// OAuth 2.0 provider without OpenID Connect.
#[derive(Clone, Debug)]
pub struct Oauth2 {
    /// Authorization endpoint.
    pub authorization_endpoint: Endpoint,
    /// Token endpoint.
    pub token_endpoint: Endpoint,
    /// Client of this server at the provider.
    pub client: Client,
    /// Locations of the members in a token response that does not follow RFC 6749.
    pub token_mapping: Option<TokenMapping>,
    /// Userinfo request for the user's identity. `None` derives a subject from the access token.
    pub user_info: Option<UserInfo>,
}

/// Client of this server at a provider.
#[derive(Clone, Debug)]
pub enum Client {
    /// Preregistered client.
    Static(StaticClient),
    /// Client that registers itself (RFC 7591).
    Dynamic(DynamicClient),
}

/// Scopes in the order of the request (RFC 6749 section 3.3).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scopes(Box<[Box<str>]>);

/// Additional parameters of the authorization request.
#[derive(Clone, Debug, Default)]
pub struct Params(BTreeMap<String, String>);

/// Error of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// The URL is relative, or has another scheme, user information, a fragment or, for an issuer,
    /// a query.
    #[error(
        "must be an absolute http(s) URL without user name, fragment and, for an issuer, query"
    )]
    Url,
    /// Secrets, codes and tokens would cross the network unencrypted (RFC 6749 section 3.1.2.1).
    #[error("must be https, or http on loopback")]
    Insecure,
    /// The client identifier or secret is empty or has other characters (RFC 6749 appendix A.1 and
    /// A.2).
    #[error("client id and secret must be one or more printable ASCII characters")]
    Client,
    /// The scope is empty or has other characters (RFC 6749 section 3.3).
    #[error("a scope must be printable ASCII without space, quote and backslash")]
    Scope,
    /// The scope `openid` is missing (OpenID Connect Core 1.0 section 3.1.2.1).
    #[error("an OpenID provider requires the scope openid")]
    NoOpenid,
    /// The authorization request sets this parameter.
    #[error("the parameter {0} is reserved for the authorization request")]
    Reserved(&'static str),
    /// A parameter of the authorization request has no name.
    #[error("a parameter must have a name")]
    Param,
    /// The path does not consist of 1 to 16 names separated by dots, at most 256 bytes.
    #[error("a path must have 1 to 16 names separated by dots, at most 256 bytes")]
    Path,
    /// No field is mapped to the subject.
    #[error("at least one field must be mapped to the subject")]
    NoSubject,
    /// The header is malformed or reserved.
    #[error("a header of the userinfo request is malformed or reserved")]
    Header,
    /// The `software_statement` or initial access token has other characters.
    #[error("a token must be visible ASCII characters")]
    Token,
    /// The URL does not have the form of a discovery document (RFC 8414 section 3).
    #[error("the URL must have the /.well-known/ path of a discovery document")]
    NoDiscovery,
}

// === impl Kind ===

impl Kind {
    /// Returns the issuer, or an identifier of the endpoints.
    pub(crate) fn issuer_id(&self) -> Box<str> {
        match self {
            Self::Oidc(oidc) => oidc.issuer.as_str().into(),
            Self::Oauth2(oauth2) => oauth2.endpoints_id(),
        }
    }
}

// === impl Oauth2 ===

impl Oauth2 {
    /// Returns the token endpoint with a fingerprint of both endpoints and their queries. Issuers
    /// have no fragment, so the result never equals an issuer.
    pub(crate) fn endpoints_id(&self) -> Box<str> {
        let both = [&self.authorization_endpoint, &self.token_endpoint];
        let both = both.map(|endpoint| endpoint.uri().to_string());
        let digest = digest::digest(&digest::SHA256, both.join("\n").as_bytes());
        format!("{}#{}", self.token_endpoint, URL_SAFE_NO_PAD.encode(digest)).into()
    }
}

// === impl Scopes ===

impl Scopes {
    /// Creates a list of scopes without duplicates.
    ///
    /// # Errors
    /// [`SettingsError::Scope`].
    pub fn new<T: AsRef<str>>(scopes: impl IntoIterator<Item = T>) -> Result<Self, SettingsError> {
        let mut list: Vec<Box<str>> = Vec::new();
        for scope in scopes {
            let scope = scope.as_ref();
            let legal = |byte: u8| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\';
            if scope.is_empty() || !scope.bytes().all(legal) {
                return Err(SettingsError::Scope);
            }
            if !list.iter().any(|known| **known == *scope) {
                list.push(scope.into());
            }
        }
        Ok(Self(list.into()))
    }

    /// Iterates over the scopes.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|scope| &**scope)
    }

    /// Returns whether `scope` is in the list.
    #[must_use]
    pub fn contains(&self, scope: &str) -> bool {
        self.iter().any(|known| known == scope)
    }

    /// Returns the scopes separated by spaces; `None` if there are none.
    pub(crate) fn joined(&self) -> Option<String> {
        (!self.0.is_empty()).then(|| self.0.join(" "))
    }
}

// === impl Params ===

/// Parameters that the authorization request sets.
const RESERVED: [&str; 8] = [
    "response_type",
    "client_id",
    "redirect_uri",
    "scope",
    "state",
    "code_challenge",
    "code_challenge_method",
    "nonce",
];

impl Params {
    /// Creates a list of parameters.
    ///
    /// # Errors
    /// [`SettingsError::Reserved`] or [`SettingsError::Param`].
    pub fn new(params: impl IntoIterator<Item = (String, String)>) -> Result<Self, SettingsError> {
        let params: BTreeMap<_, _> = params.into_iter().collect();
        if let Some(own) = RESERVED.into_iter().find(|own| params.contains_key(*own)) {
            return Err(SettingsError::Reserved(own));
        }
        if params.contains_key("") { Err(SettingsError::Param) } else { Ok(Self(params)) }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_keep_order_without_duplicates() {
        let scopes = Scopes::new(["openid", "email", "openid"]).unwrap();
        assert_eq!(scopes.joined().as_deref(), Some("openid email"));
        assert_eq!(Scopes::default().joined(), None);
        for scope in ["", "a b", "a\"", "a\\", "\u{fc}"] {
            assert_eq!(Scopes::new([scope]), Err(SettingsError::Scope), "{scope}");
        }
    }

    #[test]
    fn rejects_reserved_parameters() {
        for own in RESERVED {
            let refused = Params::new([(own.to_owned(), "x".to_owned())]).unwrap_err();
            assert_eq!(refused, SettingsError::Reserved(own));
        }
        assert!(Params::new([(String::new(), "x".to_owned())]).is_err());
        assert!(Params::new([("prompt".to_owned(), "consent".to_owned())]).is_ok());
    }
}
