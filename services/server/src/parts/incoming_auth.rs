//! `incomingAuth`: authentication and authorization of callers.

mod issuer_client;
mod policies;

use std::future::{Ready, ready};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use http::HeaderMap;
use secrecy::{ExposeSecret, SecretString};
use vmcp_aggregate::{CallerAccess, CallerAuthorizer};
use vmcp_authn::{
    AuthError, AuthenticationLayer, Authenticator, BearerAuthenticator, CachedVerifier,
    IntrospectionClient, JwtOrOpaque, JwtVerifier, LocalAuthenticator, ProtectedResource,
    ResourceError, ResourceOptions, TokenVerifier,
};
use vmcp_authz::{AuthorizationLayer, PermissionsFuture};
use vmcp_cedar::Cedar;
use vmcp_config::{
    Authz, ConfigError, IncomingAuth as IncomingSection, IncomingMethod, Oidc, Warning,
};
use vmcp_core::{Clock, Identity, Rejection};
use vmcp_egress::Egress;
use vmcp_jwt::{JwksSource, ValidationOptions, Verifier};

use self::issuer_client::IssuerClients;
use super::embedded_issuer::{EmbeddedTokenVerifier, IssuerSessions};
use super::environment::Environment;
use crate::memory_gauges::MemoryGauges;

/// Gauge name of the cache of verified tokens.
const VERIFIED_TOKENS: &str = "verified_tokens";

/// Authentication and authorization of callers.
#[derive(Clone, Debug)]
pub struct IncomingAuth {
    /// Authentication layer; `None` treats all callers as anonymous.
    pub authenticate: Option<AuthenticationLayer<Arc<dyn Authenticator>>>,
    /// Protected resource metadata (RFC 9728), which names the authorization servers.
    pub resource: Option<ProtectedResource>,
    /// `None` permits everything.
    pub authorize: Option<AuthorizationLayer<Cedar>>,
    /// Verification of tokens of the embedded authorization server. Until that server is started, all requests are
    /// rejected.
    embedded_issuer: Option<EmbeddedIssuerAuth>,
    gauges: MemoryGauges,
    configured_hosts: Vec<String>,
    source_config: SourceConfig,
}

/// Inputs of the section's conversion. If they are unchanged, fetched keys and cached decisions are reused.
#[derive(Clone, Debug, PartialEq)]
struct SourceConfig {
    /// Name of the server, which policies can read.
    server: String,
    section: IncomingSection,
    /// Digest of the client's secret and of the CA bundle.
    digest: u64,
}

/// Settings for verifying tokens of the embedded authorization server.
#[derive(Clone, Debug)]
struct EmbeddedIssuerAuth {
    issuer: String,
    scopes: Vec<String>,
    resource: ProtectedResource,
}

/// Authentication layer with its protected resource metadata.
type Authentication = (AuthenticationLayer<Arc<dyn Authenticator>>, ProtectedResource);

struct Converter<'a> {
    egress: &'a Egress,
    environment: &'a Environment,
    digest: DefaultHasher,
    gauges: MemoryGauges,
    errors: Vec<ConfigError>,
    warnings: Vec<Warning>,
}

/// Converts the section for the server `name`, which may embed its issuer, and returns the errors.
pub(super) fn convert(
    name: &str,
    incoming: IncomingSection,
    is_issuer: bool,
    egress: &Egress,
    environment: &Environment,
) -> (Option<IncomingAuth>, Vec<ConfigError>, Vec<Warning>) {
    let mut converter = Converter {
        egress,
        environment,
        digest: DefaultHasher::new(),
        gauges: MemoryGauges::default(),
        errors: Vec::new(),
        warnings: Vec::new(),
    };
    let section = incoming.clone();
    let IncomingSection { method, authz } = incoming;
    let mut embedded_issuer = None;
    let authenticated = match method {
        IncomingMethod::Anonymous => Some((None, None)),
        IncomingMethod::Local => {
            let local: Arc<dyn Authenticator> = Arc::new(LocalAuthenticator::new(&user()));
            Some((Some(AuthenticationLayer::new(local)), None))
        }
        IncomingMethod::Oidc(oidc) if is_issuer => {
            converter.embedded_issuer(*oidc).map(|embedded| {
                let resource = embedded.resource.clone();
                let layer = embedded.layer(Arc::new(reject_all));
                embedded_issuer = Some(embedded);
                (Some(layer), Some(resource))
            })
        }
        IncomingMethod::Oidc(oidc) => {
            converter.oidc(*oidc).map(|(layer, resource)| (Some(layer), Some(resource)))
        }
    };
    let authorized = match authz {
        Authz::None => Some(None),
        Authz::Cedar(cedar) => converter.cedar(name, cedar).map(Some),
    };
    let Converter { egress: _, environment: _, digest, gauges, errors, warnings } = converter;
    let source_config = SourceConfig { server: name.to_owned(), section, digest: digest.finish() };
    let incoming_auth =
        authenticated.zip(authorized).map(|((authenticate, resource), authorize)| {
            let configured_hosts = Vec::new();
            IncomingAuth {
                authenticate,
                resource,
                authorize,
                embedded_issuer,
                gauges,
                configured_hosts,
                source_config,
            }
        });
    (incoming_auth, errors, warnings)
}

impl IncomingAuth {
    /// Treats all callers as anonymous and permits every action.
    #[must_use]
    pub fn none() -> Self {
        let section = IncomingSection::anonymous();
        let source_config = SourceConfig { server: String::new(), section, digest: 0 };
        let (gauges, configured_hosts) = (MemoryGauges::default(), Vec::new());
        let (authenticate, resource, authorize, embedded_issuer) = (None, None, None, None);
        Self {
            authenticate,
            resource,
            authorize,
            embedded_issuer,
            gauges,
            configured_hosts,
            source_config,
        }
    }

    /// Verifies tokens against the sessions of the embedded authorization server, if the configuration uses it.
    #[must_use]
    pub(crate) fn for_sessions(mut self, sessions: Option<&IssuerSessions>) -> Self {
        if let (Some(embedded), Some(sessions)) = (&self.embedded_issuer, sessions)
            && let Some(embedded_issuer) = EmbeddedTokenVerifier::new(sessions)
        {
            let cached = CachedVerifier::verified(embedded_issuer, Clock::system());
            self.gauges.add(VERIFIED_TOKENS, cached.gauge());
            self.authenticate = Some(embedded.layer(bearer(cached)));
        }
        self
    }

    /// Returns the gauges of the caches.
    pub(crate) fn gauges(&self) -> MemoryGauges {
        self.gauges.clone()
    }

    /// Returns the authorizer of messages on open streams and of steps of composite tools.
    pub(crate) fn caller_authorizer(&self) -> CallerAuthorizer {
        let (authorize, needs_token) = (self.authorize.clone(), self.authenticate.is_some());
        CallerAuthorizer::new(move |identity| {
            if needs_token && identity.is_anonymous() {
                // Its run began before a reload that requires tokens.
                return CallerAccess::Rejected(Rejection::token_required());
            }
            match authorize.as_ref().map(|authorize| authorize.permissions(identity)) {
                None => CallerAccess::Unrestricted,
                Some(PermissionsFuture::Ready(permissions)) => {
                    CallerAccess::Restricted(permissions)
                }
                // Messages do not wait for a provider: the first permissions apply until a reload changes the policies,
                // which ends the stream.
                Some(PermissionsFuture::Pending(permissions)) => CallerAccess::Pending(permissions),
            }
        })
    }

    pub(super) fn with_configured_hosts(self, configured_hosts: Vec<String>) -> Self {
        Self { configured_hosts, ..self }
    }

    /// Returns the hosts that the configuration names as this server's.
    pub(crate) fn configured_hosts(&self) -> &[String] {
        &self.configured_hosts
    }

    /// Returns `true` if streams that were opened under `before` may continue. A change of authentication ends them. So
    /// does a change of policies that read claims of an upstream provider, because messages on a stream do not wait for
    /// the provider.
    pub(crate) fn keeps_streams_of(&self, before: &Self) -> bool {
        let SourceConfig { section: now, .. } = &self.source_config;
        let SourceConfig { section: then, .. } = &before.source_config;
        let reads_provider = |incoming: &IncomingSection| match &incoming.authz {
            Authz::Cedar(cedar) => cedar.primary_upstream_provider.is_some(),
            Authz::None => false,
        };
        let has_same_policies =
            now.authz == then.authz || !(reads_provider(now) || reads_provider(then));
        now.method == then.method && has_same_policies
    }

    /// Returns the authentication method.
    pub(crate) fn method(&self) -> &IncomingMethod {
        &self.source_config.section.method
    }

    /// Returns `true` if both were built from the same configuration.
    pub(crate) fn is_same_config(&self, other: &Self) -> bool {
        self.source_config == other.source_config
    }
}

/// Returns the name of the operating system's user.
fn user() -> String {
    let named = |variable| std::env::var(variable).ok().filter(|name| !name.is_empty());
    named("USER").or_else(|| named("LOGNAME")).unwrap_or_default()
}

impl Converter<'_> {
    /// Prepares verification of tokens of the embedded authorization server.
    fn embedded_issuer(&mut self, oidc: Oidc) -> Option<EmbeddedIssuerAuth> {
        const AT: &str = "incomingAuth.oidc";
        let resource = self.resource(AT, &oidc);
        // The secret is unused for this method, but a missing variable is still an error.
        _ = self.secret(AT, &oidc);
        let Oidc {
            issuer,
            client_id: _,
            // Tokens have an audience of the authorization server.
            audience: _,
            client_secret_env: _,
            scopes,
            resource: _,
            // Both were compared with the server's own endpoints.
            introspection_url: _,
            jwks_url: _,
            insecure_allow_http: _,
            jwks_allow_private_ip: _,
            protected_resource_allow_private_ip: _,
            // The keys are this server's: a warning says that both have no effect.
            ca_bundle_path: _,
            jwks_auth_token_path: _,
        } = oidc;
        Some(EmbeddedIssuerAuth { issuer, scopes, resource: resource? })
    }

    fn oidc(&mut self, oidc: Oidc) -> Option<Authentication> {
        const AT: &str = "incomingAuth.oidc";
        let rules = ValidationOptions::new(&oidc.issuer, &oidc.audience);
        let secret = self.secret(AT, &oidc);
        let resource = self.resource(AT, &oidc);
        let clients = self.clients(AT, &oidc)?;
        let (configured, supplied) = clients.for_keys();
        let client_id = oidc.client_id().to_owned();
        let Oidc {
            issuer,
            client_id: _,
            audience: _,
            client_secret_env: _,
            scopes,
            resource: _,
            introspection_url,
            jwks_url,
            insecure_allow_http: _,
            jwks_allow_private_ip: _,
            protected_resource_allow_private_ip: _,
            ca_bundle_path: _,
            jwks_auth_token_path: _,
        } = oidc;
        let clock = Clock::system;
        let source = match &jwks_url {
            Some(url) => JwksSource::from_url(url.as_str(), configured, clock()),
            None => JwksSource::discover(&issuer, configured, supplied, clock()),
        };
        let source = source.map_err(|error| {
            let (key, found) =
                jwks_url.as_ref().map_or(("issuer", &*issuer), |url| ("jwksUrl", url.as_str()));
            self.reject(format!("{AT}.{key}"), format!("\"{found}\""), error.to_string());
        });
        let introspection = introspection_url.map(|url| {
            let client = IntrospectionClient::new(url.as_str(), clients.configured, rules.clone());
            let client = client.map_err(|error| {
                let found = format!("\"{url}\"");
                self.reject(format!("{AT}.introspectionUrl"), found, error.to_string());
            });
            client.map(|client| match secret {
                Ok(Some(secret)) => client.credentials(&client_id, &secret),
                Ok(None) | Err(()) => client,
            })
        });
        let jwt =
            CachedVerifier::verified(JwtVerifier::new(Verifier::new(source.ok()?, rules)), clock());
        self.gauges.add(VERIFIED_TOKENS, jwt.gauge());
        let authenticate = match introspection {
            None => bearer(jwt),
            Some(client) => {
                let opaque = CachedVerifier::introspected(client.ok()?, clock());
                self.gauges.add("introspected_tokens", opaque.gauge());
                bearer(JwtOrOpaque::new(jwt, opaque))
            }
        };
        let resource = resource?;
        let layer = AuthenticationLayer::new(authenticate)
            .realm(&issuer)
            .resource(resource.clone())
            .require_scopes(&scopes);
        Some((layer, resource))
    }

    fn clients(&mut self, at: &str, oidc: &Oidc) -> Option<IssuerClients> {
        let clients = IssuerClients::new(at, oidc, self.egress, &mut self.digest);
        clients.map_err(|errors| self.errors.extend(errors)).ok()
    }

    /// Returns the client's secret. Errors are recorded.
    fn secret(&mut self, at: &str, oidc: &Oidc) -> Result<Option<SecretString>, ()> {
        let Some(name) = &oidc.client_secret_env else { return Ok(None) };
        match self.environment.secret(&format!("{at}.clientSecretEnv"), name) {
            Ok(secret) => {
                secret.expose_secret().hash(&mut self.digest);
                Ok(Some(secret))
            }
            Err(error) => {
                self.errors.push(error);
                Err(())
            }
        }
    }

    fn resource(&mut self, at: &str, oidc: &Oidc) -> Option<ProtectedResource> {
        let rules = ResourceOptions {
            allow_http: oidc.insecure_allow_http,
            allow_private_address: oidc.protected_resource_allow_private_ip,
        };
        let resource = ProtectedResource::new(oidc.resource(), &oidc.issuer, &oidc.scopes, rules);
        match resource {
            Ok(resource) => Some(resource),
            Err(error) => {
                let key = match &error {
                    ResourceError::Url | ResourceError::PrivateAddress { .. } => "resource",
                    ResourceError::Scope { .. } => "scopes",
                };
                let found = match &oidc.resource {
                    _ if key == "scopes" => "a scope".to_owned(),
                    Some(given) => format!("\"{given}\""),
                    None => format!("\"{}\", the audience", oidc.audience),
                };
                self.reject(format!("{at}.{key}"), found, error.to_string());
                None
            }
        }
    }

    fn reject(&mut self, path: String, found: String, allowed: String) {
        self.errors.push(ConfigError::new(path, found, allowed));
    }
}

impl EmbeddedIssuerAuth {
    fn layer(
        &self,
        authenticate: Arc<dyn Authenticator>,
    ) -> AuthenticationLayer<Arc<dyn Authenticator>> {
        AuthenticationLayer::new(authenticate)
            .realm(&self.issuer)
            .resource(self.resource.clone())
            .require_scopes(&self.scopes)
    }
}

/// Rejects all requests until the authorization server is started.
fn reject_all(_: &HeaderMap) -> Ready<Result<Identity, AuthError>> {
    ready(Err(AuthError::unavailable()))
}

fn bearer(verifier: impl TokenVerifier) -> Arc<dyn Authenticator> {
    Arc::new(BearerAuthenticator::new(verifier))
}
