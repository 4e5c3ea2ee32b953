//! `outgoingAuth`: credentials for backends.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use http::Uri;
use secrecy::{ExposeSecret, SecretString};
use vmcp_aggregate::settings::Sharing;
use vmcp_aws_sts::{
    AwsStsLayer, NameError, RoleArn, RoleMapping, RoleMappings, RoleMappingsError, Sts, Subject,
};
use vmcp_config::{
    AwsSts, ClientSecret, ConfigError, EnvName, HeaderInjection, HeaderName, HeaderValue,
    OutgoingAuth, ProviderName, RoleMatch, Strategy, TokenExchange, TokenType, UpstreamInject,
};
use vmcp_core::Clock;
use vmcp_egress::{Egress, FetchAddresses, FetchPolicy, Fetcher};
use vmcp_header_injection::{Credential, CredentialHeader, HeaderInjectionLayer};
use vmcp_token_exchange::{
    EndpointSettings, OAuthClient, TokenEndpoint, TokenExchangeLayer, TokenUrl,
};

use super::environment;
use crate::memory_gauges::MemoryGauges;
use crate::stack::Credentials;

/// Maximum number of callers whose credentials are cached per strategy.
const MAX_CACHED_CALLERS: usize = 10_000;

/// Environment variable that overrides the regional STS endpoint, as in the AWS tools.
const STS_ENDPOINT: &str = "AWS_ENDPOINT_URL_STS";

/// Strategies for outgoing authentication, by backend.
pub(super) struct Strategies {
    default: Option<BackendCredentials>,
    backends: HashMap<String, BackendCredentials>,
    /// Gauges of the credential caches.
    pub(super) gauges: MemoryGauges,
}

/// Converted strategy.
#[derive(Clone)]
pub(super) struct BackendCredentials {
    pub(super) credentials: Credentials,
    /// Name of the strategy in the configuration.
    pub(super) name: &'static str,
    /// Scope of the backend's catalog. Credentials that depend on the caller make the catalog specific to that caller.
    pub(super) catalog: Sharing,
    /// Digest of all inputs, secrets included. A different digest means a different backend.
    pub(super) digest: u64,
    /// Header of the credential, if the strategy sets one.
    pub(super) header: Option<http::HeaderName>,
}

/// Converter of strategies, which collects errors.
struct Converter<'a> {
    fetcher: &'a Fetcher,
    /// First provider that users log in at, with an embedded authorization server.
    default_provider: Option<&'a str>,
    gauges: MemoryGauges,
    errors: Vec<ConfigError>,
}

/// Converts all strategies, and returns the errors. `default_provider` is the first provider that users log in at here.
pub(super) fn strategies(
    outgoing: OutgoingAuth,
    default_provider: Option<&str>,
    egress: &Egress,
) -> (Strategies, Vec<ConfigError>) {
    let OutgoingAuth { source: _, default, backends } = outgoing;
    // The operator configures these servers, so they may be on any network. The check of their URLs permits plain HTTP
    // on loopback only.
    let policy =
        FetchPolicy { addresses: FetchAddresses::Any, http: true, ..FetchPolicy::supplied() };
    let Ok(fetcher) = Fetcher::new(egress.clone(), policy) else {
        // Without a CA bundle this cannot fail.
        let empty =
            Strategies { default: None, backends: HashMap::new(), gauges: MemoryGauges::default() };
        return (empty, Vec::new());
    };
    let mut converter = Converter {
        fetcher: &fetcher,
        default_provider,
        gauges: MemoryGauges::default(),
        errors: Vec::new(),
    };
    let default = default.and_then(|strategy| converter.convert("outgoingAuth.default", strategy));
    let backends = backends
        .into_iter()
        .filter_map(|(name, strategy)| {
            let at = format!("outgoingAuth.backends.{name}");
            Some((name, converter.convert(&at, strategy)?))
        })
        .collect();
    let Converter { fetcher: _, default_provider: _, gauges, errors } = converter;
    (Strategies { default, backends, gauges }, errors)
}

impl Strategies {
    /// Returns the strategy of `backend`: its own entry, else the default, else no credentials (seed section 5.2).
    pub(super) fn for_backend(&self, backend: &str) -> BackendCredentials {
        let shown = self.backends.get(backend).or(self.default.as_ref());
        shown.cloned().unwrap_or_else(BackendCredentials::none)
    }
}

impl BackendCredentials {
    fn none() -> Self {
        let (credentials, catalog) = (Credentials::None, Sharing::Shared);
        Self { credentials, name: "none", catalog, digest: 0, header: None }
    }
}

impl<'a> Converter<'a> {
    fn convert(&mut self, at: &str, strategy: Strategy) -> Option<BackendCredentials> {
        let mut digest = DefaultHasher::new();
        let header = credential_header(&strategy);
        let (name, catalog, credentials) = match strategy {
            Strategy::Unauthenticated => return Some(BackendCredentials::none()),
            Strategy::HeaderInjection(settings) => {
                let at = format!("{at}.headerInjection");
                ("header_injection", Sharing::Shared, self.header(&at, settings, &mut digest)?)
            }
            Strategy::TokenExchange(settings) => {
                let at = format!("{at}.tokenExchange");
                ("token_exchange", Sharing::PerCaller, self.exchange(&at, settings, &mut digest)?)
            }
            Strategy::UpstreamInject(UpstreamInject { provider_name }) => {
                provider_name.as_str().hash(&mut digest);
                let credential = Credential::upstream(provider_name.as_str());
                let layer = HeaderInjectionLayer::new(credential).retry_on_unauthorized();
                ("upstream_inject", Sharing::PerCaller, Credentials::Header(layer))
            }
            Strategy::AwsSts(settings) => {
                let at = format!("{at}.awsSts");
                ("aws_sts", Sharing::PerCaller, self.sts(&at, settings, &mut digest)?)
            }
        };
        name.hash(&mut digest);
        Some(BackendCredentials { credentials, name, catalog, digest: digest.finish(), header })
    }

    fn header(
        &mut self,
        at: &str,
        settings: HeaderInjection,
        digest: &mut DefaultHasher,
    ) -> Option<Credentials> {
        let HeaderInjection { header_name, value } = settings;
        let (key, secret) = match value {
            HeaderValue::Literal(secret) => ("headerValue", Some(secret.secret().clone())),
            HeaderValue::Env(name) => {
                ("headerValueEnv", self.variable(&format!("{at}.headerValueEnv"), &name))
            }
        };
        let header = header_name.as_str().parse::<CredentialHeader>().map_err(|error| {
            let found = format!("\"{header_name}\"");
            self.reject(format!("{at}.headerName"), found, format!("another header ({error})"));
        });
        let secret = secret?;
        let credential = Credential::fixed(&secret).map_err(|error| {
            let allowed = format!("text that can stand in a header ({error})");
            self.reject(format!("{at}.{key}"), "the secret".to_owned(), allowed);
        });
        (header_name.as_str(), secret.expose_secret()).hash(digest);
        let layer = HeaderInjectionLayer::new(credential.ok()?).header(header.ok()?);
        Some(Credentials::Header(layer.retry_on_unauthorized()))
    }

    fn exchange(
        &mut self,
        at: &str,
        settings: TokenExchange,
        digest: &mut DefaultHasher,
    ) -> Option<Credentials> {
        let TokenExchange {
            token_url,
            audience,
            client_id,
            client_secret,
            scopes,
            subject_token_type,
            subject_provider_name,
            external_token_header_name,
        } = settings;
        let is_missing_allowed = client_secret.is_none();
        let secret = match client_secret {
            None => None,
            Some(ClientSecret::Literal(secret)) => Some(secret.secret().clone()),
            Some(ClientSecret::Env(name)) => self.variable(&format!("{at}.clientSecretEnv"), &name),
        };
        let kind = match subject_token_type {
            TokenType::AccessToken => vmcp_token_exchange::TokenType::AccessToken,
            TokenType::IdToken => vmcp_token_exchange::TokenType::IdToken,
            TokenType::Jwt => vmcp_token_exchange::TokenType::Jwt,
        };
        // Defaults to the first provider, if users log in here (seed section 2.9.6).
        let provider = self.provider(subject_provider_name.as_ref());
        let header = external_token_header_name.as_ref().map(HeaderName::as_str);
        let shown = secret.as_ref().map(ExposeSecret::expose_secret);
        (token_url.as_str(), &audience, &client_id, shown, &scopes).hash(digest);
        (kind.urn(), provider, header).hash(digest);
        let url = TokenUrl::new(token_url.as_str()).map_err(|error| {
            let allowed = format!("an https:// URL, or http:// on this machine ({error})");
            self.reject(format!("{at}.tokenUrl"), format!("\"{token_url}\""), allowed);
        });
        let client = self.client(at, client_id.as_deref(), secret.as_ref());
        let header = self.external_header(at, header);
        // The errors are recorded above, all of them.
        let (client, header) = (client?, header.ok()?);
        if secret.is_none() && !is_missing_allowed {
            return None;
        }
        let mut settings = EndpointSettings::new(url.ok()?).subject_token_type(kind);
        settings = settings.audience(audience.as_deref().unwrap_or_default());
        settings = client.into_iter().fold(settings, EndpointSettings::client);
        let settings = settings.scopes(&scopes).map_err(|error| {
            self.reject(format!("{at}.scopes"), format!("{scopes:?}"), error.to_string());
        });
        let endpoint = TokenEndpoint::new(self.fetcher.clone(), settings.ok()?, Clock::system());
        let exchange = vmcp_token_exchange::CachedExchange::new(endpoint, Clock::system());
        self.gauges.add("exchanged_tokens", exchange.gauge());
        let mut layer = TokenExchangeLayer::new(exchange).retry_on_unauthorized();
        if let Some(header) = header {
            layer = layer.header(header);
        }
        if let Some(provider) = provider {
            layer = layer.upstream(provider, kind.upstream_kind());
        }
        Some(Credentials::Exchange(layer))
    }

    fn external_header(
        &mut self,
        at: &str,
        name: Option<&str>,
    ) -> Result<Option<http::HeaderName>, ()> {
        let Some(header) = name else { return Ok(None) };
        let parsed = header.parse::<CredentialHeader>().map_err(|error| {
            let allowed = format!("another header ({error})");
            self.reject(format!("{at}.externalTokenHeaderName"), format!("\"{header}\""), allowed);
        })?;
        Ok(Some(parsed.name().clone()))
    }

    /// Returns the named provider, or else the first one that users log in at.
    fn provider<'p>(&self, name: Option<&'p ProviderName>) -> Option<&'p str>
    where
        'a: 'p,
    {
        name.map(ProviderName::as_str).or(self.default_provider)
    }

    /// Returns the OAuth client of the gateway; `None` after an error.
    #[expect(clippy::option_option, reason = "no client is as good as one; a wrong one is not")]
    fn client(
        &mut self,
        at: &str,
        id: Option<&str>,
        secret: Option<&SecretString>,
    ) -> Option<Option<OAuthClient>> {
        let client = match (id, secret) {
            (None, _) => return Some(None),
            (Some(id), None) => OAuthClient::public(id),
            (Some(id), Some(secret)) => OAuthClient::basic(id, secret),
        };
        match client {
            Ok(client) => Some(Some(client)),
            Err(error) => {
                let found = "an id or secret".to_owned();
                self.reject(format!("{at}.clientId"), found, error.to_string());
                None
            }
        }
    }

    fn sts(
        &mut self,
        at: &str,
        settings: AwsSts,
        digest: &mut DefaultHasher,
    ) -> Option<Credentials> {
        let AwsSts {
            region,
            fallback_role_arn,
            role_claim,
            role_mappings,
            service,
            session_duration,
            session_name_claim,
            subject_provider_name,
        } = settings;
        (region.as_str(), fallback_role_arn.as_ref().map(vmcp_config::RoleArn::as_str))
            .hash(digest);
        (&role_claim, &service, session_duration, &session_name_claim).hash(digest);
        // Defaults as for a token exchange (seed 001 section 2.6).
        let provider = self.provider(subject_provider_name.as_ref());
        provider.hash(digest);
        let mut mappings = Vec::with_capacity(role_mappings.len());
        for mapping in role_mappings {
            let vmcp_config::RoleMapping { role_arn, matches, priority } = mapping;
            let matches = match matches {
                RoleMatch::Claim(claim) => vmcp_aws_sts::RoleMatch::Claim(claim),
                RoleMatch::Matcher(matcher) => vmcp_aws_sts::RoleMatch::Matcher(matcher),
            };
            (role_arn.as_str(), priority, format!("{matches:?}")).hash(digest);
            let role = RoleArn::try_from(role_arn.as_str());
            let role = self.accept(format!("{at}.roleMappings"), role_arn.as_str(), role)?;
            mappings.push(RoleMapping { role, matches, priority });
        }
        let fallback = match &fallback_role_arn {
            Some(arn) => {
                let role = RoleArn::try_from(arn.as_str());
                Some(self.accept(format!("{at}.fallbackRoleArn"), arn.as_str(), role)?)
            }
            None => None,
        };
        let roles = RoleMappings::new(fallback, mappings, &role_claim);
        let roles = roles.map_err(|error| self.reject_roles(at, &error));
        let service = vmcp_aws_sts::ServiceName::try_from(service.as_str()).map_err(|error| {
            self.reject(format!("{at}.service"), format!("\"{service}\""), error.to_string());
        });
        let named = vmcp_aws_sts::Region::try_from(region.as_str());
        let region = self.accept(format!("{at}.region"), region.as_str(), named)?;
        let duration = vmcp_aws_sts::SessionDuration::try_from(session_duration);
        let seconds = session_duration.to_string();
        let duration = self.accept(format!("{at}.sessionDuration"), &seconds, duration)?;
        let sts = self.sts_endpoint(at, &region, digest)?;
        let assume = vmcp_aws_sts::CredentialCache::new(sts, MAX_CACHED_CALLERS, Clock::system());
        self.gauges.add("aws_credentials", assume.gauge());
        let subject = provider.map_or(Subject::Caller, |name| Subject::Upstream(name.into()));
        let layer = AwsStsLayer::new(region, roles.ok()?, assume)
            .service(service.ok()?)
            .subject(subject)
            .session_name_claim(&session_name_claim)
            .session_duration(duration);
        self.gauges.add("aws_roles", layer.gauge());
        Some(Credentials::Sts(layer))
    }

    /// Returns the value. A parsed section has only valid ones; one that was built in code may not.
    fn accept<T>(&mut self, at: String, found: &str, value: Result<T, NameError>) -> Option<T> {
        value.map_err(|error| self.reject(at, found.to_owned(), error.to_string())).ok()
    }

    /// Returns the STS endpoint of a region, or the one that the environment names; `None` after an error.
    fn sts_endpoint(
        &mut self,
        at: &str,
        region: &vmcp_aws_sts::Region,
        digest: &mut DefaultHasher,
    ) -> Option<Sts> {
        let client = self.fetcher.clone();
        let Ok(endpoint) = std::env::var(STS_ENDPOINT) else {
            return Some(Sts::new(region, client));
        };
        endpoint.hash(digest);
        // Callers' tokens are sent here, so the URL must meet the requirements for a token endpoint.
        let uri: Option<Uri> = TokenUrl::new(&endpoint).ok().and_then(|_| endpoint.parse().ok());
        let Some(uri) = uri else {
            let allowed = "an https:// URL, or http:// on this machine".to_owned();
            self.reject(at.to_owned(), format!("{STS_ENDPOINT}=\"{endpoint}\""), allowed);
            return None;
        };
        Some(Sts::with_endpoint(&uri, region, client))
    }

    fn reject_roles(&mut self, at: &str, error: &RoleMappingsError) {
        let RoleMappingsError::Mappings(mappings) = error else {
            let found = "no usable roles".to_owned();
            return self.reject(format!("{at}.roleMappings"), found, error.to_string());
        };
        for mapping in mappings {
            let path = format!("{at}.roleMappings[{}].matcher", mapping.index);
            let allowed = format!("a CEL expression over claims ({})", mapping.problem);
            self.reject(path, "the expression".to_owned(), allowed);
        }
    }

    /// Returns the value of an environment variable.
    fn variable(&mut self, at: &str, name: &EnvName) -> Option<SecretString> {
        environment::secret(at, name).map_err(|error| self.errors.push(error)).ok()
    }

    fn reject(&mut self, path: String, found: String, allowed: String) {
        self.errors.push(ConfigError::new(path, found, allowed));
    }
}

/// Returns the header that holds the credential of a strategy.
fn credential_header(strategy: &Strategy) -> Option<http::HeaderName> {
    let named = match strategy {
        Strategy::Unauthenticated => return None,
        Strategy::HeaderInjection(settings) => Some(&settings.header_name),
        Strategy::TokenExchange(settings) => settings.external_token_header_name.as_ref(),
        Strategy::UpstreamInject(_) | Strategy::AwsSts(_) => None,
    };
    let named = named.and_then(|name| name.as_str().parse().ok());
    Some(named.unwrap_or(http::header::AUTHORIZATION))
}
