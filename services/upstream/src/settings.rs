//! What an identity provider is asked, and as whom.

use std::collections::BTreeMap;

use aws_lc_rs::digest;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::{DynamicClient, Endpoint, Issuer, StaticClient, TokenMapping, UserInfo};

/// An identity provider, and what it is asked for.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Its name here, unique among the providers.
    pub name: Box<str>,
    /// What it speaks.
    pub kind: Kind,
    /// Where it sends users back to.
    pub redirect_uri: Endpoint,
    /// What is asked for.
    pub scopes: Scopes,
    /// More parameters of the authorization request.
    pub params: Params,
    /// What a dynamic client is called (RFC 7591, `client_name`).
    pub client_name: Box<str>,
}

/// What an identity provider speaks.
#[derive(Clone, Debug)]
pub enum Kind {
    /// OpenID Connect.
    Oidc(Box<Oidc>),
    /// OAuth 2.0 alone.
    Oauth2(Box<Oauth2>),
}

/// An OpenID provider, found by discovery.
#[derive(Clone, Debug)]
pub struct Oidc {
    /// Its issuer.
    pub issuer: Issuer,
    /// The client that this server is there.
    pub client: StaticClient,
    /// Asked for who the user is, besides the id token and instead of the endpoint that discovery names.
    pub user_info: Option<UserInfo>,
}

/// A provider that speaks OAuth 2.0 alone.
#[derive(Clone, Debug)]
pub struct Oauth2 {
    /// Where users are sent to.
    pub authorization_endpoint: Endpoint,
    /// Where codes become tokens.
    pub token_endpoint: Endpoint,
    /// The client that this server is there.
    pub client: Client,
    /// Where a token answer that is not RFC 6749's has its members.
    pub token_mapping: Option<TokenMapping>,
    /// Asked for who the user is. `None` makes up a subject from the access token.
    pub user_info: Option<UserInfo>,
}

/// Who this server is to a provider.
#[derive(Clone, Debug)]
pub enum Client {
    /// A client that is known there.
    Static(StaticClient),
    /// One that registers itself (RFC 7591).
    Dynamic(DynamicClient),
}

/// Scopes in the order in which they are asked for (RFC 6749 section 3.3).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scopes(Box<[Box<str>]>);

/// Parameters of the authorization request beside those that it always has.
#[derive(Clone, Debug, Default)]
pub struct Params(BTreeMap<String, String>);

/// What a provider cannot be set up with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// Not absolute, another scheme, user information or a fragment; for an issuer, a query.
    #[error("it is no absolute http(s) URL without user name, fragment and, for an issuer, query")]
    Url,
    /// Secrets, codes and tokens would cross the network unencrypted (RFC 6749 section 3.1.2.1).
    #[error("it is neither https nor http on loopback")]
    Insecure,
    /// RFC 6749 appendix A.1 and A.2.
    #[error("client id and secret are one or more printable ASCII characters")]
    Client,
    /// RFC 6749 section 3.3.
    #[error("a scope is one or more printable ASCII characters but blank, quote and backslash")]
    Scope,
    /// OpenID Connect Core 1.0 section 3.1.2.1.
    #[error("an OpenID provider has to be asked for the scope openid")]
    NoOpenid,
    /// The authorization request sets it itself.
    #[error("the authorization request sets {0} itself")]
    Reserved(&'static str),
    /// A parameter of the authorization request without a name.
    #[error("a parameter needs a name")]
    Param,
    /// Not names of members with dots between them: 1 to 16 names, 256 bytes at most.
    #[error("a path is 1 to 16 names with dots between them, 256 bytes at most")]
    Path,
    /// No name that means the subject.
    #[error("at least one field has to say who the user is")]
    NoSubject,
    /// No HTTP header, or one that is the request's own.
    #[error("a header of the userinfo request is malformed or the request's own")]
    Header,
    /// A `software_statement` or an initial access token that no request can carry.
    #[error("it is no token of visible ASCII characters")]
    Token,
    /// The URL is no place of a discovery document (RFC 8414 section 3).
    #[error("the URL has no /.well-known/ path of a discovery document")]
    NoDiscovery,
}

// === impl Kind ===

impl Kind {
    /// The issuer, or what the endpoints amount to.
    pub(crate) fn issuer_id(&self) -> Box<str> {
        match self {
            Self::Oidc(oidc) => oidc.issuer.as_str().into(),
            Self::Oauth2(oauth2) => oauth2.endpoints_id(),
        }
    }
}

// === impl Oauth2 ===

impl Oauth2 {
    /// The token endpoint, and a fingerprint of both endpoints with their queries. Issuers have no fragment,
    /// so it is never one.
    pub(crate) fn endpoints_id(&self) -> Box<str> {
        let both = [&self.authorization_endpoint, &self.token_endpoint];
        let both = both.map(|endpoint| endpoint.uri().to_string());
        let digest = digest::digest(&digest::SHA256, both.join("\n").as_bytes());
        format!("{}#{}", self.token_endpoint, URL_SAFE_NO_PAD.encode(digest)).into()
    }
}

// === impl Scopes ===

impl Scopes {
    /// These scopes; one that stands twice is asked for once.
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

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|scope| &**scope)
    }

    /// Whether `scope` is among them.
    #[must_use]
    pub fn contains(&self, scope: &str) -> bool {
        self.iter().any(|known| known == scope)
    }

    /// As a request carries them: with blanks between. `None` if there are none.
    pub(crate) fn joined(&self) -> Option<String> {
        (!self.0.is_empty()).then(|| self.0.join(" "))
    }
}

// === impl Params ===

/// Parameters that the authorization request sets itself.
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
    /// These parameters, each with its value.
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
