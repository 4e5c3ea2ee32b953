//! Identity providers that users log in at.

use std::collections::BTreeMap;

use url::Url;

use super::{SecretLocation, UserInfo};
use crate::{
    config_value::{Constraint, Rule, Variant, keyword_enum, raw_conversion, section},
    context::Context,
    patterns,
    string_types::{ExactHttpsUrl, ExactUrl, ProviderName},
    tree::Node,
};

/// An identity provider that users log in at.
#[derive(Clone, Debug, PartialEq)]
pub struct Upstream<S: SecretLocation> {
    /// Unique name; routes and sessions refer to it.
    pub name: ProviderName,
    /// Protocol and settings of the provider.
    pub kind: UpstreamKind<S>,
}

/// Protocol and settings of an identity provider.
#[derive(Clone, Debug, PartialEq)]
pub enum UpstreamKind<S: SecretLocation> {
    /// OpenID Connect.
    Oidc(Box<OidcUpstream<S>>),
    /// OAuth 2.0 without OpenID Connect.
    Oauth2(Box<Oauth2Upstream<S>>),
}

section! {
    /// An OpenID provider.
    pub struct OidcUpstream<S: SecretLocation> {
        /// Issuer of the provider, for discovery.
        pub issuer_url: ExactHttpsUrl;
        /// Client identifier of this server at the provider.
        pub client_id: String, [Constraint::NotEmpty];
        /// Client secret. Absent is a public client with PKCE.
        pub client_secret_ref: Option<S>;
        /// Redirect URI for the provider. Absent is `{resourceUrl}/oauth/callback`.
        pub redirect_uri: Option<ExactUrl>;
        /// Requested scopes.
        pub scopes: Vec<String> = vec!["openid".to_owned(), "offline_access".to_owned()], [
            Constraint::EachMatches(&patterns::SCOPE),
        ];
        /// Additional parameters of the authorization request.
        pub additional_authorization_params: BTreeMap<String, String> = BTreeMap::new(), [Constraint::MaxItems(16)];
        /// Source of the user's identity, instead of the discovered userinfo endpoint.
        pub user_info_override: Option<UserInfo>;
    }
    rules [RESERVED_PARAMS_RULE]
    check OidcUpstream::check
}

/// OAuth 2.0 provider without OpenID Connect.
#[derive(Clone, Debug, PartialEq)]
pub struct Oauth2Upstream<S: SecretLocation> {
    /// The authorization endpoint.
    pub authorization_endpoint: Url,
    /// The token endpoint.
    pub token_endpoint: Url,
    /// Client registration at the provider.
    pub client: Client<S>,
    /// Redirect URI for the provider. `None` is `{resourceUrl}/oauth/callback`.
    pub redirect_uri: Option<ExactUrl>,
    /// Requested scopes.
    pub scopes: Vec<String>,
    /// Additional parameters of the authorization request.
    pub additional_authorization_params: BTreeMap<String, String>,
    /// Paths of members in token responses that do not follow RFC 6749.
    pub token_response_mapping: Option<TokenResponseMapping>,
    /// Source of the user's identity. `None` derives a subject from the access token.
    pub user_info: Option<UserInfo>,
}

/// Client registration of this server at an upstream provider.
#[derive(Clone, Debug, PartialEq)]
pub enum Client<S: SecretLocation> {
    /// A client that is registered at the provider.
    Static {
        /// Its identifier.
        id: String,
        /// Its secret. `None` is a public client with PKCE.
        secret: Option<S>,
    },
    /// A client that registers itself (RFC 7591).
    Dynamic(Dcr<S>),
}

/// Dynamic client registration at an upstream provider (RFC 7591).
#[derive(Clone, Debug, PartialEq)]
pub struct Dcr<S: SecretLocation> {
    /// Registration endpoint.
    pub endpoint: DcrEndpoint,
    /// Bearer token of the registration request.
    pub initial_access_token: Option<S>,
    /// `software_id` of the registration.
    pub software_id: Option<String>,
    /// `software_statement` of the registration, a JWT.
    pub software_statement: Option<String>,
}

/// Registration endpoint.
#[derive(Clone, Debug, PartialEq)]
pub enum DcrEndpoint {
    /// Endpoint named by this discovery document (RFC 8414).
    Discovery(ExactHttpsUrl),
    /// This endpoint.
    Registration(Url),
}

section! {
    /// Paths of members in token responses that do not follow RFC 6749, in dot notation.
    pub struct TokenResponseMapping {
        /// The access token.
        pub access_token_path: String, [Constraint::NotEmpty];
        /// Seconds until it expires.
        pub expires_in_path: String = "expires_in".to_owned(), [Constraint::NotEmpty];
        /// The refresh token.
        pub refresh_token_path: String = "refresh_token".to_owned(), [Constraint::NotEmpty];
        /// The granted scopes.
        pub scope_path: String = "scope".to_owned(), [Constraint::NotEmpty];
    }
}

keyword_enum! {
    /// Protocol of an identity provider.
    enum UpstreamTag {
        /// OpenID Connect.
        Oidc = "oidc",
        /// OAuth 2.0 without OpenID Connect.
        Oauth2 = "oauth2",
    }
}

section! {
    /// An identity provider that users log in at.
    struct RawUpstream<S: SecretLocation> {
        /// Unique name; routes and sessions refer to it.
        name: ProviderName;
        /// oidc for OpenID Connect, oauth2 for OAuth 2.0 without it.
        r#type: UpstreamTag;
        /// Required with `type: oidc`.
        oidc_config: Option<OidcUpstream<S>>;
        /// Required with `type: oauth2`.
        oauth2_config: Option<Oauth2Upstream<S>>;
    }
    rules [Rule::Variants {
        tag: "type",
        default: None,
        variants: &[
            Variant { value: "oidc", requires: &["oidcConfig"], forbids: &["oauth2Config"] },
            Variant { value: "oauth2", requires: &["oauth2Config"], forbids: &["oidcConfig"] },
        ],
    }]
}

section! {
    /// OAuth 2.0 provider without OpenID Connect.
    struct RawOauth2Upstream<S: SecretLocation> {
        /// The authorization endpoint.
        authorization_endpoint: Url;
        /// The token endpoint.
        token_endpoint: Url;
        /// Client identifier of this server at the provider. Instead of `dcrConfig`.
        client_id: Option<String>, [Constraint::NotEmpty];
        /// Client secret. Absent is a public client with PKCE.
        client_secret_ref: Option<S>;
        /// Registers a client at the provider (RFC 7591). Instead of `clientId`.
        dcr_config: Option<Dcr<S>>;
        /// Redirect URI for the provider. Absent is `{resourceUrl}/oauth/callback`.
        redirect_uri: Option<ExactUrl>;
        /// Requested scopes.
        scopes: Vec<String> = Vec::new(), [Constraint::EachMatches(&patterns::SCOPE)];
        /// Additional parameters of the authorization request.
        additional_authorization_params: BTreeMap<String, String> = BTreeMap::new(), [Constraint::MaxItems(16)];
        /// Paths of members in token responses that do not follow RFC 6749.
        token_response_mapping: Option<TokenResponseMapping>;
        /// Source of the user's identity. Absent derives a subject from the access token.
        user_info: Option<UserInfo>;
    }
    rules [
        Rule::ExactlyOne(&["clientId", "dcrConfig"]),
        Rule::AtMostOne(&["clientSecretRef", "dcrConfig"]),
        RESERVED_PARAMS_RULE,
    ]
}

section! {
    /// Dynamic client registration at an upstream provider (RFC 7591).
    struct RawDcr<S: SecretLocation> {
        /// Discovery document that names the registration endpoint (RFC 8414).
        discovery_url: Option<ExactHttpsUrl>, [Constraint::Matches(&patterns::DISCOVERY), Constraint::MaxLength(2048)];
        /// The registration endpoint itself.
        registration_endpoint: Option<Url>, [Constraint::MaxLength(2048)];
        /// Bearer token of the registration request.
        initial_access_token_ref: Option<S>;
        /// `software_id` of the registration.
        software_id: Option<String>, [Constraint::MaxLength(255)];
        /// `software_statement` of the registration, a JWT.
        software_statement: Option<String>, [Constraint::MaxLength(16384)];
    }
    rules [Rule::ExactlyOne(&["discoveryUrl", "registrationEndpoint"])]
}

raw_conversion!(Upstream<S: SecretLocation> as RawUpstream<S>);
raw_conversion!(Oauth2Upstream<S: SecretLocation> as RawOauth2Upstream<S>);
raw_conversion!(Dcr<S: SecretLocation> as RawDcr<S>);

/// Parameters that the authorization request sets itself.
const RESERVED_PARAMS: [&str; 8] = [
    "response_type",
    "client_id",
    "redirect_uri",
    "scope",
    "state",
    "code_challenge",
    "code_challenge_method",
    "nonce",
];

const RESERVED_PARAMS_RULE: Rule = Rule::Cel(
    "!has(self.additionalAuthorizationParams) || self.additionalAuthorizationParams.all(name, !(name in ['response_type', \
     'client_id', 'redirect_uri', 'scope', 'state', 'code_challenge', 'code_challenge_method', 'nonce']))",
    "additionalAuthorizationParams must not name a parameter that the authorization request sets: response_type, client_id, \
     redirect_uri, scope, state, code_challenge, code_challenge_method, nonce",
);

fn check_params(params: &BTreeMap<String, String>, node: &Node, cx: &mut Context) {
    let here = node.get("additionalAuthorizationParams").unwrap_or(node);
    cx.at_key("additionalAuthorizationParams", |cx| {
        for name in params.keys().filter(|name| RESERVED_PARAMS.contains(&name.as_str())) {
            let allowed = format!(
                "parameters other than {}",
                crate::config_value::join_list(&RESERVED_PARAMS, "and")
            );
            cx.reject_key(here, name, "a parameter that the authorization request sets", allowed);
        }
    });
}

// === impl Upstream ===

impl<S: SecretLocation> Upstream<S> {
    fn from_raw(raw: RawUpstream<S>, _: &Node, _: &mut Context) -> Option<Self> {
        let RawUpstream { name, r#type, oidc_config, oauth2_config } = raw;
        let kind = match r#type {
            UpstreamTag::Oidc => UpstreamKind::Oidc(Box::new(oidc_config?)),
            UpstreamTag::Oauth2 => UpstreamKind::Oauth2(Box::new(oauth2_config?)),
        };
        Some(Self { name, kind })
    }

    fn to_raw(&self) -> RawUpstream<S> {
        let Self { name, kind } = self.clone();
        let (r#type, oidc_config, oauth2_config) = match kind {
            UpstreamKind::Oidc(config) => (UpstreamTag::Oidc, Some(*config), None),
            UpstreamKind::Oauth2(config) => (UpstreamTag::Oauth2, None, Some(*config)),
        };
        RawUpstream { name, r#type, oidc_config, oauth2_config }
    }
}

// === impl OidcUpstream ===

impl<S: SecretLocation> OidcUpstream<S> {
    fn check(&self, node: &Node, cx: &mut Context) {
        check_params(&self.additional_authorization_params, node, cx);
    }
}

// === impl Oauth2Upstream ===

impl<S: SecretLocation> Oauth2Upstream<S> {
    fn from_raw(raw: RawOauth2Upstream<S>, node: &Node, cx: &mut Context) -> Option<Self> {
        let RawOauth2Upstream {
            authorization_endpoint,
            token_endpoint,
            client_id,
            client_secret_ref: secret,
            dcr_config,
            redirect_uri,
            scopes,
            additional_authorization_params,
            token_response_mapping,
            user_info,
        } = raw;
        let before = cx.count();
        check_params(&additional_authorization_params, node, cx);
        if cx.count() > before {
            return None;
        }
        let client = match (client_id, dcr_config) {
            (Some(id), None) => Client::Static { id, secret },
            (None, Some(dcr)) => Client::Dynamic(dcr),
            (Some(_), Some(_)) | (None, None) => return None,
        };
        Some(Self {
            authorization_endpoint,
            token_endpoint,
            client,
            redirect_uri,
            scopes,
            additional_authorization_params,
            token_response_mapping,
            user_info,
        })
    }

    fn to_raw(&self) -> RawOauth2Upstream<S> {
        let Self {
            authorization_endpoint,
            token_endpoint,
            client,
            redirect_uri,
            scopes,
            additional_authorization_params,
            token_response_mapping,
            user_info,
        } = self.clone();
        let (client_id, client_secret_ref, dcr_config) = match client {
            Client::Static { id, secret } => (Some(id), secret, None),
            Client::Dynamic(dcr) => (None, None, Some(dcr)),
        };
        RawOauth2Upstream {
            authorization_endpoint,
            token_endpoint,
            client_id,
            client_secret_ref,
            dcr_config,
            redirect_uri,
            scopes,
            additional_authorization_params,
            token_response_mapping,
            user_info,
        }
    }
}

// === impl Dcr ===

impl<S: SecretLocation> Dcr<S> {
    fn from_raw(raw: RawDcr<S>, _: &Node, _: &mut Context) -> Option<Self> {
        let RawDcr {
            discovery_url,
            registration_endpoint,
            initial_access_token_ref,
            software_id,
            software_statement,
        } = raw;
        let endpoint = match (discovery_url, registration_endpoint) {
            (Some(url), None) => DcrEndpoint::Discovery(url),
            (None, Some(url)) => DcrEndpoint::Registration(url),
            (Some(_), Some(_)) | (None, None) => return None,
        };
        Some(Self {
            endpoint,
            initial_access_token: initial_access_token_ref,
            software_id,
            software_statement,
        })
    }

    fn to_raw(&self) -> RawDcr<S> {
        let Self { endpoint, initial_access_token, software_id, software_statement } = self.clone();
        let (discovery_url, registration_endpoint) = match endpoint {
            DcrEndpoint::Discovery(url) => (Some(url), None),
            DcrEndpoint::Registration(url) => (None, Some(url)),
        };
        RawDcr {
            discovery_url,
            registration_endpoint,
            initial_access_token_ref: initial_access_token,
            software_id,
            software_statement,
        }
    }
}
