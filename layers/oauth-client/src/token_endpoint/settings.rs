//! Settings of a token endpoint and its client.

use std::fmt;
use std::net::Ipv4Addr;
use std::time::Duration;

use http::{HeaderValue, Uri};
use secrecy::{ExposeSecret, SecretString};

use crate::basic_credentials;
use crate::token_endpoint::TokenType;

/// Default timeout of a request.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

/// Settings of token requests.
///
/// # Defaults
/// No client, audience, scopes or resource; the subject token is an access token; 10 s timeout.
#[derive(Clone, Debug)]
pub struct EndpointSettings {
    pub(crate) url: TokenUrl,
    pub(crate) client: Option<OAuthClient>,
    pub(crate) audience: Option<Box<str>>,
    /// Separated by spaces.
    pub(crate) scope: Option<Box<str>>,
    pub(crate) resource: Option<Box<str>>,
    pub(crate) subject_token_type: TokenType,
    pub(crate) timeout: Duration,
}

/// URL of a token endpoint: absolute, without user info and fragment (RFC 6749 section 3.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenUrl(pub(crate) Uri);

/// OAuth client (RFC 6749 section 2). Its secret is hidden in `Debug` output.
#[derive(Clone)]
pub struct OAuthClient {
    pub(crate) id: Box<str>,
    pub(crate) secret: ClientSecret,
}

#[derive(Clone)]
pub(crate) enum ClientSecret {
    None,
    /// The complete `Authorization` header.
    Basic(HeaderValue),
    Post(SecretString),
}

/// The error of invalid settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EndpointSettingsError {
    /// The URL is not absolute, has another scheme, user info or a fragment.
    #[error("use an absolute http(s) token URL without user info and fragment")]
    Url,
    /// The URL would transmit secrets and tokens unencrypted (RFC 6749 section 3.2).
    #[error("the token URL is not https")]
    Insecure,
    /// The client id or secret is invalid (RFC 6749 appendix A.1 and A.2).
    #[error("use one or more printable ASCII characters for client id and secret")]
    Client,
    /// A scope is invalid (RFC 6749 section 3.3).
    #[error("use printable ASCII characters other than space, quote and backslash in a scope")]
    Scope,
    /// The resource is invalid (RFC 8707 section 2).
    #[error("use an absolute URI without a fragment as resource")]
    Resource,
    /// The token type is unknown (RFC 8693 section 3).
    #[error("use access_token, id_token, jwt or the URN of one of them as subject token type")]
    TokenType,
}

// === impl EndpointSettings ===

impl EndpointSettings {
    /// Creates settings for the endpoint at `url`, without a client.
    #[must_use]
    pub fn new(url: TokenUrl) -> Self {
        Self {
            url,
            client: None,
            audience: None,
            scope: None,
            resource: None,
            subject_token_type: TokenType::default(),
            timeout: DEFAULT_TIMEOUT,
        }
    }

    /// Sets the client.
    #[must_use]
    pub fn client(mut self, client: OAuthClient) -> Self {
        self.client = Some(client);
        self
    }

    /// Sets the audience of the new token (RFC 8693 section 2.1, `audience`). An empty one is not sent.
    #[must_use]
    pub fn audience(mut self, audience: &str) -> Self {
        self.audience = (!audience.is_empty()).then(|| audience.into());
        self
    }

    /// Sets the scopes of the new token. Without scopes, the authorization server decides.
    ///
    /// # Errors
    /// [`EndpointSettingsError::Scope`].
    pub fn scopes<T: AsRef<str>>(
        mut self,
        scopes: impl IntoIterator<Item = T>,
    ) -> Result<Self, EndpointSettingsError> {
        let mut joined = String::new();
        for scope in scopes {
            let scope = scope.as_ref();
            let legal = |byte: u8| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\';
            if scope.is_empty() || !scope.bytes().all(legal) {
                return Err(EndpointSettingsError::Scope);
            }
            if !joined.is_empty() {
                joined.push(' ');
            }
            joined.push_str(scope);
        }
        self.scope = (!joined.is_empty()).then(|| joined.into());
        Ok(self)
    }

    /// Sets the target service of the new token (RFC 8707, `resource`).
    ///
    /// # Errors
    /// [`EndpointSettingsError::Resource`].
    pub fn resource(mut self, resource: &str) -> Result<Self, EndpointSettingsError> {
        let absolute = resource
            .split_once(':')
            .is_some_and(|(scheme, rest)| !rest.is_empty() && is_scheme(scheme));
        let legal = resource.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#');
        if !absolute || !legal {
            return Err(EndpointSettingsError::Resource);
        }
        self.resource = Some(resource.into());
        Ok(self)
    }

    /// Sets the type of the subject token.
    #[must_use]
    pub fn subject_token_type(mut self, kind: TokenType) -> Self {
        self.subject_token_type = kind;
        self
    }

    /// Sets the timeout of a request, from connecting to the last byte.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }
}

/// Returns `true` for a valid scheme (RFC 3986 section 3.1).
fn is_scheme(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
}

// === impl TokenUrl ===

impl TokenUrl {
    /// Creates an https URL, or an http URL on loopback (`localhost`, 127.0.0.0/8, `[::1]`).
    ///
    /// # Errors
    /// [`EndpointSettingsError::Url`] or [`EndpointSettingsError::Insecure`].
    pub fn new(url: &str) -> Result<Self, EndpointSettingsError> {
        let url = Self::allow_http(url)?;
        let host = url.0.host().unwrap_or_default();
        let v4 = host.parse::<Ipv4Addr>().is_ok_and(|address| address.is_loopback());
        let local = v4 || host == "localhost" || host == "[::1]";
        if local || url.0.scheme_str() == Some("https") {
            Ok(url)
        } else {
            Err(EndpointSettingsError::Insecure)
        }
    }

    /// Creates an https or http URL. Over http, secrets and tokens can be read in transit.
    ///
    /// # Errors
    /// [`EndpointSettingsError::Url`].
    pub fn allow_http(url: &str) -> Result<Self, EndpointSettingsError> {
        let uri = Uri::try_from(url).map_err(|_| EndpointSettingsError::Url)?;
        let http = matches!(uri.scheme_str(), Some("https" | "http"));
        let host = uri.authority().is_some_and(|authority| {
            !authority.host().is_empty() && !authority.as_str().contains('@')
        });
        // `Uri` drops the fragment silently.
        if http && host && !url.contains('#') {
            Ok(Self(uri))
        } else {
            Err(EndpointSettingsError::Url)
        }
    }
}

// === impl OAuthClient ===

impl OAuthClient {
    /// Creates a client without a secret, whose id is sent in the body (RFC 6749 section 3.2.1).
    ///
    /// # Errors
    /// [`EndpointSettingsError::Client`].
    pub fn public(id: &str) -> Result<Self, EndpointSettingsError> {
        Self::with_secret(id, ClientSecret::None)
    }

    /// Creates a client that authenticates with HTTP Basic (RFC 6749 section 2.3.1, `client_secret_basic`), the usual
    /// method.
    ///
    /// # Errors
    /// [`EndpointSettingsError::Client`].
    pub fn basic(id: &str, secret: &SecretString) -> Result<Self, EndpointSettingsError> {
        check_printable(secret.expose_secret())?;
        Self::with_secret(id, ClientSecret::Basic(basic_credentials(id, secret)))
    }

    /// Creates a client that sends its secret in the body (`client_secret_post`).
    ///
    /// # Errors
    /// [`EndpointSettingsError::Client`].
    pub fn post(id: &str, secret: &SecretString) -> Result<Self, EndpointSettingsError> {
        check_printable(secret.expose_secret())?;
        Self::with_secret(id, ClientSecret::Post(secret.clone()))
    }

    fn with_secret(id: &str, secret: ClientSecret) -> Result<Self, EndpointSettingsError> {
        Ok(Self { id: check_printable(id)?.into(), secret })
    }
}

fn check_printable(text: &str) -> Result<&str, EndpointSettingsError> {
    let legal = !text.is_empty() && text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    legal.then_some(text).ok_or(EndpointSettingsError::Client)
}

impl fmt::Debug for OAuthClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OAuthClient").field("id", &self.id).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::prelude::BASE64_STANDARD;

    use super::*;

    #[test]
    fn requires_https_unless_allowed() {
        for url in ["https://idp.example/token?x=1", "http://127.0.0.1:9/t", "http://[::1]/t"] {
            assert!(TokenUrl::new(url).is_ok(), "{url}");
        }
        let plain = "http://idp.example/token";
        assert_eq!(TokenUrl::new(plain), Err(EndpointSettingsError::Insecure));
        assert!(TokenUrl::allow_http(plain).is_ok());
    }

    #[test]
    fn rejects_invalid_token_urls() {
        for url in [
            "",
            "/token",
            "idp.example",
            "ftp://idp.example/",
            "https://user:pw@idp.example/",
            "https://idp.example/#f",
            "https://",
        ] {
            assert_eq!(TokenUrl::allow_http(url), Err(EndpointSettingsError::Url), "{url}");
        }
    }

    #[test]
    fn rejects_invalid_scopes_and_resources() {
        let settings = || EndpointSettings::new(TokenUrl::new("https://idp.example/").unwrap());
        for scope in ["", "a b", "a\"", "a\\", "ü"] {
            assert_eq!(
                settings().scopes([scope]).unwrap_err(),
                EndpointSettingsError::Scope,
                "{scope}"
            );
        }
        for resource in ["", "/mcp", "https://a/#f", "https:", "ht tp://a", "1a:b"] {
            let error = settings().resource(resource).unwrap_err();
            assert_eq!(error, EndpointSettingsError::Resource, "{resource}");
        }
        assert!(settings().resource("urn:example:files").is_ok());
    }

    #[test]
    fn basic_encodes_id_and_secret_separately() {
        // The colon in the id must be encoded.
        let client = OAuthClient::basic("a:b", &"s p%".to_owned().into()).unwrap();
        let ClientSecret::Basic(header) = &client.secret else { panic!() };
        let encoded = header.to_str().unwrap().strip_prefix("Basic ").unwrap();
        assert_eq!(BASE64_STANDARD.decode(encoded).unwrap(), b"a%3Ab:s+p%25");
        assert!(header.is_sensitive());
    }
}
