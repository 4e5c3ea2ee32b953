//! Embedded authorization server (`authServer` in the file, `spec.authServerConfig` in the resource).
//!
//! The type parameter is the location of a secret: [`SecretRef`] in the resource, [`SecretFile`] in the file.

mod storage;
mod upstream;
mod user_info;

pub use crate::secret::{SecretFile, SecretLocation, SecretRef};

pub use self::{
    storage::{Redis, RedisAcl, Storage},
    upstream::{
        Client, Dcr, DcrEndpoint, Oauth2Upstream, OidcUpstream, TokenResponseMapping, Upstream,
        UpstreamKind,
    },
    user_info::{FieldMapping, HttpMethod, UserInfo},
};
use crate::{
    config_value::{Constraint, Rule, section, section_with_default},
    duration::Duration,
    patterns,
    string_types::Issuer,
};

section! {
    /// OAuth 2.1 and OpenID Connect issuer within the server. Users log in through upstream identity providers.
    pub struct AuthServer<S: SecretLocation> {
        /// Issuer identifier: https, or http on loopback; no query, fragment or trailing slash (RFC 8414).
        pub issuer: Issuer;
        /// Base URL of the authorization endpoint in the discovery document. Absent is the issuer.
        pub authorization_endpoint_base_url: Option<Issuer>;
        /// Scopes of every registered client (RFC 7591).
        pub baseline_client_scopes: Vec<String> = Vec::new(), [
            Constraint::MaxItems(10),
            Constraint::EachMatches(&patterns::SCOPE),
        ];
        /// Secrets that sign codes and refresh tokens, at least 32 random bytes each. The first signs, all verify.
        /// Without one, the server generates one at each start, for development.
        pub hmac_secret_refs: Vec<S> = Vec::new();
        /// Keys that sign tokens. The first signs, all verify. Without one, the server generates one at each start, for
        /// development.
        pub signing_key_secret_refs: Vec<S> = Vec::new(), [Constraint::MaxItems(5)];
        /// Storage of the server's state.
        pub storage: Storage<S> = Storage::Memory;
        /// Lifetimes of tokens and codes.
        pub token_lifespans: TokenLifespans = TokenLifespans::default();
        /// Interval at which a refresh by a client makes the server check the user with the first upstream provider. If
        /// the provider rejects the user, the user's sessions end.
        pub upstream_check_interval: Duration = Duration::from_secs(3600), [Constraint::Positive];
        /// Identity providers that users log in at, at least one.
        pub upstream_providers: Vec<Upstream<S>>, [Constraint::MinItems(1)];
    }
    rules [Rule::Unique("upstreamProviders", "name")]
}

section_with_default! {
    /// Lifetimes of tokens and codes.
    pub struct TokenLifespans {
        /// Access tokens.
        pub access_token_lifespan: Duration = Duration::from_secs(3600), [Constraint::Positive];
        /// Authorization codes.
        pub auth_code_lifespan: Duration = Duration::from_secs(600), [Constraint::Positive];
        /// Refresh tokens.
        pub refresh_token_lifespan: Duration = Duration::from_secs(7 * 24 * 3600), [Constraint::Positive];
    }
}
