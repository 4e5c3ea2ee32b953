//! `outgoingAuth`: credentials for backends.

mod sts;

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use secrecy::{ExposeSecret, SecretString};
use vmcp_aggregate::settings::Sharing;
use vmcp_config::{
    ClientSecret, ConfigError, EnvName, HeaderInjection, HeaderName, HeaderValue, OutgoingAuth,
    ProviderName, Strategy, TokenExchange, TokenType, UpstreamInject,
};
use vmcp_core::Clock;
use vmcp_egress::{FetchAddresses, FetchPolicy, Fetcher};
use vmcp_header_injection::{Credential, CredentialHeader, HeaderInjectionLayer};
use vmcp_token_exchange::{
    EndpointSettings, OAuthClient, TokenEndpoint, TokenExchangeLayer, TokenUrl,
};

use super::PartsBuilder;
use super::environment::Environment;
use super::left_out::{BackendError, LeftOutReason};
use crate::memory_gauges::MemoryGauges;
use crate::stack::Credentials;

/// Strategies for outgoing authentication, by backend.
pub(super) struct Strategies {
    default: Option<ConvertedStrategy>,
    backends: HashMap<String, ConvertedStrategy>,
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

/// Strategy, or the reason why its backends are left out.
struct ConvertedStrategy {
    name: &'static str,
    credentials: Result<BackendCredentials, (LeftOutReason, String)>,
}

/// Converter of strategies, which collects errors.
struct Converter<'a> {
    fetcher: &'a Fetcher,
    /// First provider that users log in at, with an embedded authorization server.
    default_provider: Option<&'a str>,
    environment: &'a Environment,
    gauges: MemoryGauges,
    errors: Vec<ConfigError>,
    /// Reason why the backends of the strategy being converted are left out.
    left_out: Option<(LeftOutReason, String)>,
}

/// Converts all strategies, and returns the errors. `default_provider` is the first provider that users log in at here.
pub(super) fn strategies(
    outgoing: OutgoingAuth,
    default_provider: Option<&str>,
    builder: PartsBuilder<'_>,
) -> (Strategies, Vec<ConfigError>) {
    let PartsBuilder { egress, environment, telemetry: _, is_replica: _ } = builder;
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
        environment,
        gauges: MemoryGauges::default(),
        errors: Vec::new(),
        left_out: None,
    };
    let default = default.and_then(|strategy| converter.strategy("outgoingAuth.default", strategy));
    let backends = backends
        .into_iter()
        .filter_map(|(name, strategy)| {
            let at = format!("outgoingAuth.backends.{name}");
            Some((name, converter.strategy(&at, strategy)?))
        })
        .collect();
    let Converter { fetcher: _, default_provider: _, environment: _, gauges, errors, left_out: _ } =
        converter;
    (Strategies { default, backends, gauges }, errors)
}

impl Strategies {
    /// Returns the strategy of `backend`: its own entry, else the default, else no credentials (seed section 5.2).
    pub(super) fn for_backend(&self, backend: &str) -> Result<BackendCredentials, BackendError> {
        let Some(strategy) = self.find(backend) else { return Ok(BackendCredentials::none()) };
        let credentials = strategy.credentials.clone();
        credentials.map_err(|(reason, message)| BackendError::LeftOut(reason, message))
    }

    /// Returns the name of the strategy of `backend`.
    pub(super) fn name_for_backend(&self, backend: &str) -> &'static str {
        self.find(backend).map_or(BackendCredentials::none().name, |strategy| strategy.name)
    }

    fn find(&self, backend: &str) -> Option<&ConvertedStrategy> {
        self.backends.get(backend).or(self.default.as_ref())
    }
}

impl BackendCredentials {
    fn none() -> Self {
        let (credentials, catalog) = (Credentials::None, Sharing::Shared);
        Self { credentials, name: "none", catalog, digest: 0, header: None }
    }
}

impl<'a> Converter<'a> {
    /// Converts a strategy; `None` after an error.
    fn strategy(&mut self, at: &str, strategy: Strategy) -> Option<ConvertedStrategy> {
        let name = match &strategy {
            Strategy::Unauthenticated => BackendCredentials::none().name,
            Strategy::HeaderInjection(_) => "header_injection",
            Strategy::TokenExchange(_) => "token_exchange",
            Strategy::UpstreamInject(_) => "upstream_inject",
            Strategy::AwsSts(_) => "aws_sts",
        };
        let credentials = self.convert(at, name, strategy);
        let credentials = match self.left_out.take() {
            Some(reason) => Err(reason),
            None => Ok(credentials?),
        };
        Some(ConvertedStrategy { name, credentials })
    }

    fn convert(
        &mut self,
        at: &str,
        name: &'static str,
        strategy: Strategy,
    ) -> Option<BackendCredentials> {
        let mut digest = DefaultHasher::new();
        let header = credential_header(&strategy);
        let (catalog, credentials) = match strategy {
            Strategy::Unauthenticated => return Some(BackendCredentials::none()),
            Strategy::HeaderInjection(settings) => {
                let at = format!("{at}.headerInjection");
                (Sharing::Shared, self.header(&at, settings, &mut digest)?)
            }
            Strategy::TokenExchange(settings) => {
                let at = format!("{at}.tokenExchange");
                (Sharing::PerCaller, self.exchange(&at, settings, &mut digest)?)
            }
            Strategy::UpstreamInject(UpstreamInject { provider_name }) => {
                provider_name.as_str().hash(&mut digest);
                let credential = Credential::upstream(provider_name.as_str());
                let layer = HeaderInjectionLayer::new(credential).retry_on_unauthorized();
                (Sharing::PerCaller, Credentials::Header(layer))
            }
            Strategy::AwsSts(settings) => {
                let at = format!("{at}.awsSts");
                (Sharing::PerCaller, self.sts(&at, settings, &mut digest)?)
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
        let is_named = matches!(value, HeaderValue::Env(_));
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
            let invalid = ConfigError::new(format!("{at}.{key}"), "the secret", allowed);
            self.reject_secret(is_named, invalid);
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
        let is_named = matches!(client_secret, Some(ClientSecret::Env(_)));
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
        let client = self.client(at, client_id.as_deref(), secret.as_ref(), is_named);
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
        is_named: bool,
    ) -> Option<Option<OAuthClient>> {
        let client = match (id, secret) {
            (None, _) => return Some(None),
            (Some(id), None) => OAuthClient::public(id),
            (Some(id), Some(secret)) => OAuthClient::basic(id, secret),
        };
        match client {
            Ok(client) => Some(Some(client)),
            Err(error) => {
                let at = format!("{at}.clientId");
                let invalid = ConfigError::new(at, "an id or secret", error.to_string());
                self.reject_secret(is_named, invalid);
                None
            }
        }
    }

    /// Returns the value of an environment variable.
    fn variable(&mut self, at: &str, name: &EnvName) -> Option<SecretString> {
        let value = self.environment.backend_secret(at, name);
        value.map_err(|error| self.report(error)).ok()
    }

    fn report(&mut self, error: BackendError) {
        match error {
            BackendError::Config(error) => self.errors.push(error),
            BackendError::LeftOut(reason, message) => {
                self.left_out.get_or_insert((reason, message));
            }
        }
    }

    /// Reports a secret with an unusable value, which may be in a file.
    fn reject_secret(&mut self, is_named: bool, error: ConfigError) {
        let message = format!("{}: not {}", error.path, error.allowed);
        self.report(if is_named {
            self.environment.backend_error(error, LeftOutReason::SecretInvalid, message)
        } else {
            BackendError::Config(error)
        });
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
