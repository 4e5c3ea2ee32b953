//! `incomingAuth`: authentication and authorization of callers.

mod policies;

use std::future::{Ready, ready};
use std::sync::Arc;

use http::HeaderMap;
use secrecy::SecretString;
use vmcp_aggregate::NotificationAuthorizer;
use vmcp_authn::{
    AuthError, AuthenticationLayer, Authenticator, BearerAuthenticator, CachedVerifier,
    IntrospectionClient, JwtOrOpaque, JwtVerifier, LocalAuthenticator, ProtectedResource,
    ResourceError, ResourceOptions, TokenVerifier,
};
use vmcp_authz::{AuthorizationLayer, PermissionsFuture};
use vmcp_cedar::Cedar;
use vmcp_config::{Authz, ConfigError, IncomingAuth, IncomingMethod, Oidc, Warning};
use vmcp_core::{Clock, Identity};
use vmcp_egress::{Egress, FetchAddresses, FetchPolicy, Fetcher};
use vmcp_jwt::{JwksSource, ValidationOptions, Verifier};

use super::embedded_issuer::{Own, Sessions};
use super::environment;
use crate::memory_gauges::Held;

/// Gauge name of the cache of verified tokens.
const VERIFIED: &str = "verified_tokens";

/// Authentication and authorization of callers.
#[derive(Clone, Debug)]
pub struct Guards {
    /// Authentication layer; `None` treats all callers as anonymous.
    pub authenticate: Option<AuthenticationLayer<Arc<dyn Authenticator>>>,
    /// Protected resource metadata (RFC 9728), which names the authorization servers.
    pub resource: Option<ProtectedResource>,
    /// `None` permits everything.
    pub authorize: Option<AuthorizationLayer<Cedar>>,
    /// Verification of tokens of the embedded authorization server. Until that server is started, all requests are
    /// rejected.
    own: Option<OwnDoor>,
    held: Held,
    own_hosts: Vec<String>,
    /// Inputs of this value, with the server's name, which policies can read. If they are unchanged, fetched keys and
    /// cached decisions are reused.
    made_of: (String, IncomingAuth),
}

/// Settings for verifying tokens of the embedded authorization server.
#[derive(Clone, Debug)]
struct OwnDoor {
    issuer: String,
    audience: String,
    scopes: Vec<String>,
    resource: ProtectedResource,
}

/// Authentication layer with its protected resource metadata.
type Authentication = (AuthenticationLayer<Arc<dyn Authenticator>>, ProtectedResource);

struct Converter<'a> {
    egress: &'a Egress,
    held: Held,
    errors: Vec<ConfigError>,
    warnings: Vec<Warning>,
}

/// Converts the section for the server `name`, which may embed its issuer, and returns the errors.
pub(super) fn guards(
    name: &str,
    incoming: IncomingAuth,
    is_issuer: bool,
    egress: &Egress,
) -> (Option<Guards>, Vec<ConfigError>, Vec<Warning>) {
    let mut converter =
        Converter { egress, held: Held::default(), errors: Vec::new(), warnings: Vec::new() };
    let made_of = (name.to_owned(), incoming.clone());
    let IncomingAuth { method, authz } = incoming;
    let mut own = None;
    let authenticated = match method {
        IncomingMethod::Anonymous => Some((None, None)),
        IncomingMethod::Local => {
            let local: Arc<dyn Authenticator> = Arc::new(LocalAuthenticator::new(&user()));
            Some((Some(AuthenticationLayer::new(local)), None))
        }
        IncomingMethod::Oidc(oidc) if is_issuer => converter.own(*oidc).map(|door| {
            let resource = door.resource.clone();
            let layer = door.layer(Arc::new(nobody));
            own = Some(door);
            (Some(layer), Some(resource))
        }),
        IncomingMethod::Oidc(oidc) => {
            converter.oidc(*oidc).map(|(layer, resource)| (Some(layer), Some(resource)))
        }
    };
    let authorized = match authz {
        Authz::None => Some(None),
        Authz::Cedar(cedar) => converter.cedar(name, cedar).map(Some),
    };
    let Converter { egress: _, held, errors, warnings } = converter;
    let guards = authenticated.zip(authorized).map(|((authenticate, resource), authorize)| {
        let own_hosts = Vec::new();
        Guards { authenticate, resource, authorize, own, held, own_hosts, made_of }
    });
    (guards, errors, warnings)
}

impl Guards {
    /// Treats all callers as anonymous and permits every action.
    #[must_use]
    pub fn none() -> Self {
        let made_of = (String::new(), IncomingAuth::anonymous());
        let (held, own_hosts) = (Held::default(), Vec::new());
        let (authenticate, resource, authorize, own) = (None, None, None, None);
        Self { authenticate, resource, authorize, own, held, own_hosts, made_of }
    }

    /// Verifies tokens against the sessions of the embedded authorization server, if the configuration uses it.
    #[must_use]
    pub(crate) fn for_sessions(mut self, sessions: Option<&Sessions>) -> Self {
        if let (Some(door), Some(sessions)) = (&self.own, sessions)
            && let Some(own) = Own::new(sessions, &door.audience)
        {
            let cached = CachedVerifier::verified(own, Clock::system());
            self.held.add(VERIFIED, cached.gauge());
            self.authenticate = Some(door.layer(bearer(cached)));
        }
        self
    }

    /// Returns the gauges of the caches.
    pub(crate) fn held(&self) -> Held {
        self.held.clone()
    }

    /// Returns the authorizer of notifications on open streams.
    pub(crate) fn admissions(&self) -> Option<NotificationAuthorizer> {
        let authorize = self.authorize.clone()?;
        Some(NotificationAuthorizer::new(move |identity| match authorize.permissions(identity) {
            PermissionsFuture::Ready(permissions) => Some(permissions),
            // Messages do not wait for a provider: the first permissions apply until a reload changes the policies,
            // which ends the stream.
            PermissionsFuture::Pending(_) => None,
        }))
    }

    pub(super) fn with_own_hosts(self, own_hosts: Vec<String>) -> Self {
        Self { own_hosts, ..self }
    }

    /// Returns the hosts that the configuration names as this server's.
    pub(crate) fn own_hosts(&self) -> &[String] {
        &self.own_hosts
    }

    /// Returns `true` if streams that were opened under `before` may continue. A change of authentication ends them. So
    /// does a change of policies that read claims of an upstream provider, because messages on a stream do not wait for
    /// the provider.
    pub(crate) fn keep_streams_of(&self, before: &Self) -> bool {
        let (_, now) = &self.made_of;
        let (_, then) = &before.made_of;
        let reads_provider = |incoming: &IncomingAuth| match &incoming.authz {
            Authz::Cedar(cedar) => cedar.primary_upstream_provider.is_some(),
            Authz::None => false,
        };
        let is_judged_the_same =
            now.authz == then.authz || !(reads_provider(now) || reads_provider(then));
        now.method == then.method && is_judged_the_same
    }

    /// Returns the authentication method.
    pub(crate) fn method(&self) -> &IncomingMethod {
        &self.made_of.1.method
    }

    /// Returns `true` if both were built from the same configuration.
    pub(crate) fn same(&self, other: &Self) -> bool {
        self.made_of == other.made_of
    }
}

/// Returns the name of the operating system's user.
fn user() -> String {
    let named = |variable| std::env::var(variable).ok().filter(|name| !name.is_empty());
    named("USER").or_else(|| named("LOGNAME")).unwrap_or_default()
}

impl Converter<'_> {
    /// Prepares verification of tokens of the embedded authorization server.
    fn own(&mut self, oidc: Oidc) -> Option<OwnDoor> {
        const AT: &str = "incomingAuth.oidc";
        let resource = self.resource(AT, &oidc);
        // The secret is unused for this method, but a missing variable is still an error.
        _ = self.secret(AT, &oidc);
        let Oidc {
            issuer,
            client_id: _,
            audience,
            client_secret_env: _,
            scopes,
            resource: _,
            // Both were compared with the server's own endpoints.
            introspection_url: _,
            jwks_url: _,
            insecure_allow_http: _,
            jwks_allow_private_ip: _,
            protected_resource_allow_private_ip: _,
        } = oidc;
        Some(OwnDoor { issuer, audience, scopes, resource: resource? })
    }

    fn oidc(&mut self, oidc: Oidc) -> Option<Authentication> {
        const AT: &str = "incomingAuth.oidc";
        let rules = ValidationOptions::new(&oidc.issuer, &oidc.audience);
        let secret = self.secret(AT, &oidc);
        let resource = self.resource(AT, &oidc);
        let (configured, supplied) = self.fetchers(AT, &oidc)?;
        let Oidc {
            issuer,
            client_id,
            audience: _,
            client_secret_env: _,
            scopes,
            resource: _,
            introspection_url,
            jwks_url,
            insecure_allow_http: _,
            jwks_allow_private_ip: _,
            protected_resource_allow_private_ip: _,
        } = oidc;
        let clock = Clock::system;
        let source = match &jwks_url {
            Some(url) => JwksSource::from_url(url.as_str(), configured.clone(), clock()),
            None => JwksSource::discover(&issuer, configured.clone(), supplied, clock()),
        };
        let source = source.map_err(|error| {
            let (key, found) =
                jwks_url.as_ref().map_or(("issuer", &*issuer), |url| ("jwksUrl", url.as_str()));
            self.refuse(format!("{AT}.{key}"), format!("\"{found}\""), error.to_string());
        });
        let introspection = introspection_url.map(|url| {
            let asked = IntrospectionClient::new(url.as_str(), configured, rules.clone());
            let asked = asked.map_err(|error| {
                let found = format!("\"{url}\"");
                self.refuse(format!("{AT}.introspectionUrl"), found, error.to_string());
            });
            asked.map(|asked| match secret {
                Ok(Some(secret)) => asked.credentials(&client_id, &secret),
                Ok(None) | Err(()) => asked,
            })
        });
        let jwt =
            CachedVerifier::verified(JwtVerifier::new(Verifier::new(source.ok()?, rules)), clock());
        self.held.add(VERIFIED, jwt.gauge());
        let authenticate = match introspection {
            None => bearer(jwt),
            Some(asked) => {
                let opaque = CachedVerifier::introspected(asked.ok()?, clock());
                self.held.add("introspected_tokens", opaque.gauge());
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

    /// Creates one fetcher for the configured issuer, and one for the URLs in its documents.
    fn fetchers(&mut self, at: &str, oidc: &Oidc) -> Option<(Fetcher, Fetcher)> {
        let configured = opened(FetchPolicy::configured(), oidc);
        let mut reachable = true;
        for (key, url) in
            [("jwksUrl", &oidc.jwks_url), ("introspectionUrl", &oidc.introspection_url)]
        {
            let Some(url) = url else { continue };
            if let Err(error) = configured.check(url) {
                reachable = false;
                self.refuse(format!("{at}.{key}"), format!("\"{url}\""), error.to_string());
            }
        }
        let fetcher = |policy| Fetcher::new(self.egress.clone(), policy).ok();
        let supplied = opened(FetchPolicy::supplied(), oidc);
        fetcher(configured).zip(fetcher(supplied)).filter(|_| reachable)
    }

    /// Returns the client's secret. Errors are recorded.
    fn secret(&mut self, at: &str, oidc: &Oidc) -> Result<Option<SecretString>, ()> {
        let Some(name) = &oidc.client_secret_env else { return Ok(None) };
        match environment::secret(&format!("{at}.clientSecretEnv"), name) {
            Ok(secret) => Ok(Some(secret)),
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
                self.refuse(format!("{at}.{key}"), found, error.to_string());
                None
            }
        }
    }

    fn refuse(&mut self, path: String, found: String, allowed: String) {
        self.errors.push(ConfigError::new(path, found, allowed));
    }
}

impl OwnDoor {
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
fn nobody(_: &HeaderMap) -> Ready<Result<Identity, AuthError>> {
    ready(Err(AuthError::unavailable()))
}

/// Extends a fetch policy by the exceptions of the section.
fn opened(policy: FetchPolicy, oidc: &Oidc) -> FetchPolicy {
    let private = oidc.jwks_allow_private_ip;
    FetchPolicy {
        http: oidc.insecure_allow_http,
        addresses: if private { FetchAddresses::Any } else { policy.addresses },
        ..policy
    }
}

fn bearer(inspect: impl TokenVerifier) -> Arc<dyn Authenticator> {
    Arc::new(BearerAuthenticator::new(inspect))
}

#[cfg(test)]
mod tests {
    use vmcp_config::{File, Format};

    use super::*;

    #[test]
    fn fetches_private_or_http_addresses_only_if_allowed() {
        let of = |fields: &str| {
            let text = format!(
                "name: x\nincomingAuth: {{type: oidc, oidc: {{issuer: \"https://a.test\", \
                 clientId: c, audience: b{fields}}}}}\n"
            );
            let method = File::parse(&text, Format::Yaml).unwrap().incoming_auth.method;
            let IncomingMethod::Oidc(oidc) = method else { panic!("{method:?}") };
            opened(FetchPolicy::supplied(), &oidc)
        };
        assert_eq!(of(""), FetchPolicy::supplied());
        assert_eq!(of(", jwksAllowPrivateIp: true").addresses, FetchAddresses::Any);
        assert!(of(", insecureAllowHttp: true").http);
    }
}
