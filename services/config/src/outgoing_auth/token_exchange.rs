//! Exchange of the caller's token for one that the backend accepts (RFC 8693).

use url::Url;

use crate::{
    config_value::{Constraint, Rule, keyword_enum, raw_conversion, section},
    context::Context,
    patterns,
    string_types::{EnvName, HeaderName, ProviderName, Secret},
    tree::Node,
};

/// Token exchange for the caller's token.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenExchange {
    /// The token endpoint.
    pub token_url: Url,
    /// Audience of the new token.
    pub audience: Option<String>,
    /// OAuth client identifier of the request.
    pub client_id: Option<String>,
    /// Secret of the client.
    pub client_secret: Option<ClientSecret>,
    /// Requested scopes.
    pub scopes: Vec<String>,
    /// Type of the subject token.
    pub subject_token_type: TokenType,
    /// Upstream provider whose token is exchanged instead of the caller's.
    pub subject_provider_name: Option<ProviderName>,
    /// The header for the new token. `None` is `Authorization: Bearer`.
    pub external_token_header_name: Option<HeaderName>,
}

/// Location of a client's secret.
#[derive(Clone, Debug, PartialEq)]
pub enum ClientSecret {
    /// In the document.
    Literal(Secret),
    /// In an environment variable.
    Env(EnvName),
}

keyword_enum! {
    /// Type of a token (RFC 8693, section 3).
    pub enum TokenType {
        /// An access token.
        AccessToken = "urn:ietf:params:oauth:token-type:access_token" | "access_token" | "",
        /// An OpenID Connect ID token.
        IdToken = "urn:ietf:params:oauth:token-type:id_token" | "id_token",
        /// Any JWT.
        Jwt = "urn:ietf:params:oauth:token-type:jwt" | "jwt",
    }
}

section! {
    /// Exchanges the caller's token for one that the backend accepts (RFC 8693).
    struct RawTokenExchange {
        /// The token endpoint.
        token_url: Url;
        /// Audience of the new token.
        audience: Option<String>;
        /// OAuth client identifier of the request.
        client_id: Option<String>;
        /// Secret of the client. Prefer `clientSecretEnv`.
        client_secret: Option<Secret>, [Constraint::NotEmpty];
        /// Environment variable with the secret of the client.
        client_secret_env: Option<EnvName>;
        /// Requested scopes.
        scopes: Vec<String> = Vec::new(), [Constraint::EachMatches(&patterns::SCOPE)];
        /// Type of the subject token.
        subject_token_type: TokenType = TokenType::AccessToken;
        /// Upstream provider whose token is exchanged instead of the caller's. Absent with an embedded authorization
        /// server means its first upstream.
        subject_provider_name: Option<ProviderName>;
        /// Header for the new token. Absent replaces Authorization.
        external_token_header_name: Option<HeaderName>;
    }
    rules [
        Rule::AtMostOne(&["clientSecret", "clientSecretEnv"]),
        Rule::Requires("clientSecret", "clientId"),
        Rule::Requires("clientSecretEnv", "clientId"),
    ]
}

raw_conversion!(TokenExchange as RawTokenExchange);

// === impl TokenExchange ===

impl TokenExchange {
    #[allow(clippy::unnecessary_wraps)] // The signature is that of every raw conversion.
    fn from_raw(raw: RawTokenExchange, _: &Node, _: &mut Context) -> Option<Self> {
        let RawTokenExchange {
            token_url,
            audience,
            client_id,
            client_secret,
            client_secret_env,
            scopes,
            subject_token_type,
            subject_provider_name,
            external_token_header_name,
        } = raw;
        let client_secret = client_secret
            .map(ClientSecret::Literal)
            .or_else(|| client_secret_env.map(ClientSecret::Env));
        Some(Self {
            token_url,
            audience,
            client_id,
            client_secret,
            scopes,
            subject_token_type,
            subject_provider_name,
            external_token_header_name,
        })
    }

    fn to_raw(&self) -> RawTokenExchange {
        let Self {
            token_url,
            audience,
            client_id,
            client_secret,
            scopes,
            subject_token_type,
            subject_provider_name,
            external_token_header_name,
        } = self.clone();
        let (client_secret, client_secret_env) = match client_secret {
            Some(ClientSecret::Literal(secret)) => (Some(secret), None),
            Some(ClientSecret::Env(env)) => (None, Some(env)),
            None => (None, None),
        };
        RawTokenExchange {
            token_url,
            audience,
            client_id,
            client_secret,
            client_secret_env,
            scopes,
            subject_token_type,
            subject_provider_name,
            external_token_header_name,
        }
    }
}
