//! Authentication and authorization of callers (`incomingAuth`).

use url::Url;

use crate::{
    config_value::{Constraint, Rule, Variant, keyword_enum, raw_conversion, section},
    context::Context,
    patterns,
    string_types::{EnvName, FilePath, ProviderName},
    tree::Node,
};

/// Authentication and authorization of callers.
#[derive(Clone, Debug, PartialEq)]
pub struct IncomingAuth {
    /// Authentication method.
    pub method: IncomingMethod,
    /// Authorization of authenticated callers.
    pub authz: Authz,
}

/// Authentication method.
#[derive(Clone, Debug, PartialEq)]
pub enum IncomingMethod {
    /// No authentication.
    Anonymous,
    /// As the user of this machine.
    Local,
    /// By the tokens of an OpenID provider.
    Oidc(Box<Oidc>),
}

/// Authorization of authenticated callers.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Authz {
    /// Every action.
    #[default]
    None,
    /// Actions that Cedar policies permit.
    Cedar(Cedar),
}

/// Cedar policies and their data.
#[derive(Clone, Debug, PartialEq)]
pub struct Cedar {
    /// Policies in Cedar's language, at least one.
    pub policies: Vec<String>,
    /// Cedar entities as JSON text, an array.
    pub entities_json: String,
    /// Upstream provider whose access token has the evaluated claims. `None` means the token of the request.
    pub primary_upstream_provider: Option<ProviderName>,
}

section! {
    /// Tokens of an OpenID provider.
    pub struct Oidc {
        /// The issuer of accepted tokens.
        pub issuer: String, [Constraint::Matches(&patterns::HTTP)];
        /// OAuth client identifier of this server at the issuer. Absent is the audience.
        pub client_id: Option<String>;
        /// Required audience of a token.
        pub audience: String, [Constraint::NotEmpty];
        /// Environment variable with the client's secret.
        pub client_secret_env: Option<EnvName>;
        /// Required scopes of a token.
        pub scopes: Vec<String> = Vec::new(), [Constraint::EachMatches(&patterns::SCOPE)];
        /// Resource indicator (RFC 8707) in challenges and metadata (RFC 9728). Absent is the audience.
        pub resource: Option<String>;
        /// RFC 7662 endpoint for opaque tokens.
        pub introspection_url: Option<Url>;
        /// URL of the issuer's keys, instead of the discovered one.
        pub jwks_url: Option<Url>;
        /// Accept an issuer over http. For development.
        pub insecure_allow_http: bool = false;
        /// Fetch discovery documents and keys from private addresses too.
        pub jwks_allow_private_ip: bool = false;
        /// Let the protected resource be on a private address.
        pub protected_resource_allow_private_ip: bool = false;
        /// PEM bundle of certificates to trust for the issuer, besides the system's.
        pub ca_bundle_path: Option<FilePath>;
        /// File with a bearer token for requests for discovery documents and keys, such as a service account's of
        /// Kubernetes. Read for each request. Sent over https only, and over http to this machine.
        pub jwks_auth_token_path: Option<FilePath>;
    }
    rules [Rule::Cel(
        "self.issuer.startsWith('https://') || (has(self.insecureAllowHttp) && self.insecureAllowHttp)",
        "issuer must be https, or insecureAllowHttp true for development",
    ), Rule::Cel("has(self.clientId) && self.clientId != ''", "clientId is required")]
    check Oidc::check
}

keyword_enum! {
    /// Authentication method.
    enum IncomingMethodTag {
        /// By tokens.
        Oidc = "oidc",
        /// As the user of this machine.
        Local = "local",
        /// No authentication.
        Anonymous = "anonymous",
    }
}

keyword_enum! {
    /// Authorization method.
    enum AuthzTag {
        /// Cedar policies.
        Cedar = "cedar",
        /// No authorization.
        None = "none",
    }
}

section! {
    /// Authentication and authorization of callers.
    struct RawIncomingAuth {
        /// Authentication method: by tokens (oidc), as the user of this machine (local), none (anonymous).
        r#type: IncomingMethodTag;
        /// The OpenID provider. Required with `type: oidc`.
        oidc: Option<Oidc>;
        /// Authorization of authenticated callers. Absent permits everything.
        authz: Option<Authz>;
    }
    rules [Rule::Variants {
        tag: "type",
        default: None,
        variants: &[
            Variant { value: "oidc", requires: &["oidc"], forbids: &[] },
            Variant { value: "local", requires: &[], forbids: &["oidc"] },
            Variant { value: "anonymous", requires: &[], forbids: &["oidc"] },
        ],
    }]
}

section! {
    /// Authorization of authenticated callers.
    struct RawAuthz {
        /// `cedar` for policies, `none` for everything.
        r#type: AuthzTag;
        /// Cedar policies. Required with `type: cedar`.
        policies: Option<Vec<String>>, [Constraint::MinItems(1), Constraint::EachNotEmpty];
        /// Cedar entities as JSON text.
        entities_json: Option<String>;
        /// Upstream provider whose access token has the claims for policies. Absent means the token of the request.
        /// Requires an embedded authorization server with that upstream.
        primary_upstream_provider: Option<ProviderName>;
    }
    rules [Rule::Variants {
        tag: "type",
        default: None,
        variants: &[
            Variant { value: "cedar", requires: &["policies"], forbids: &[] },
            Variant { value: "none", requires: &[], forbids: &["policies", "entitiesJson", "primaryUpstreamProvider"] },
        ],
    }]
}

raw_conversion!(IncomingAuth as RawIncomingAuth, or IncomingAuth::anonymous());
raw_conversion!(Authz as RawAuthz, or Authz::None);

// === impl IncomingAuth ===

impl IncomingAuth {
    /// Returns settings without authentication and authorization.
    #[must_use]
    pub fn anonymous() -> Self {
        Self { method: IncomingMethod::Anonymous, authz: Authz::None }
    }

    fn from_raw(raw: RawIncomingAuth, _: &Node, _: &mut Context) -> Option<Self> {
        let RawIncomingAuth { r#type, oidc, authz } = raw;
        let method = match r#type {
            IncomingMethodTag::Oidc => IncomingMethod::Oidc(Box::new(oidc?)),
            IncomingMethodTag::Local => IncomingMethod::Local,
            IncomingMethodTag::Anonymous => IncomingMethod::Anonymous,
        };
        Some(Self { method, authz: authz.unwrap_or_default() })
    }

    fn to_raw(&self) -> RawIncomingAuth {
        let Self { method, authz } = self.clone();
        let (r#type, oidc) = match method {
            IncomingMethod::Oidc(oidc) => (IncomingMethodTag::Oidc, Some(*oidc)),
            IncomingMethod::Local => (IncomingMethodTag::Local, None),
            IncomingMethod::Anonymous => (IncomingMethodTag::Anonymous, None),
        };
        RawIncomingAuth { r#type, oidc, authz: Some(authz).filter(|authz| *authz != Authz::None) }
    }
}

// === impl Oidc ===

impl Oidc {
    /// Returns the client identifier: `clientId`, or else the audience.
    #[must_use]
    pub fn client_id(&self) -> &str {
        self.client_id.as_deref().unwrap_or(&self.audience)
    }

    /// Returns the resource indicator: `resource`, or else the audience.
    #[must_use]
    pub fn resource(&self) -> &str {
        self.resource.as_deref().unwrap_or(&self.audience)
    }

    fn check(&self, node: &Node, cx: &mut Context) {
        match Url::parse(&self.issuer) {
            Ok(issuer) if issuer.scheme() == "http" && !self.insecure_allow_http => {
                let allowed = "an https:// issuer, or insecureAllowHttp: true for development";
                cx.reject_key(node, "issuer", format!("\"{}\"", self.issuer), allowed);
            }
            Ok(issuer) if issuer.has_host() => {}
            Ok(_) | Err(_) => {
                cx.reject_key(
                    node,
                    "issuer",
                    format!("\"{}\"", self.issuer),
                    patterns::HTTP.meaning,
                );
            }
        }
    }
}

// === impl Authz ===

impl Authz {
    fn from_raw(raw: RawAuthz, node: &Node, cx: &mut Context) -> Option<Self> {
        let RawAuthz { r#type, policies, entities_json, primary_upstream_provider } = raw;
        match r#type {
            AuthzTag::None => Some(Self::None),
            AuthzTag::Cedar => {
                let entities_json = entities_json.unwrap_or_else(|| "[]".to_owned());
                if serde_json::from_str::<Vec<serde_json::Value>>(&entities_json).is_err() {
                    let found = format!("\"{}\"", crate::tree::shorten(&entities_json));
                    cx.reject_key(node, "entitiesJson", found, "a JSON array of Cedar entities");
                    return None;
                }
                Some(Self::Cedar(Cedar {
                    policies: policies?,
                    entities_json,
                    primary_upstream_provider,
                }))
            }
        }
    }

    fn to_raw(&self) -> RawAuthz {
        match self.clone() {
            Self::None => RawAuthz {
                r#type: AuthzTag::None,
                policies: None,
                entities_json: None,
                primary_upstream_provider: None,
            },
            Self::Cedar(Cedar { policies, entities_json, primary_upstream_provider }) => RawAuthz {
                r#type: AuthzTag::Cedar,
                policies: Some(policies),
                entities_json: Some(entities_json),
                primary_upstream_provider,
            },
        }
    }
}
