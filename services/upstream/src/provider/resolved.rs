//! Provider with its configuration and its current metadata.

use std::sync::Arc;

use vmcp_core::Clock;
use vmcp_jwt::{JwksSource, KeySource};

use crate::discovery::{Discovery, Metadata};
use crate::provider_http::{ProviderHttp, ProviderHttpPair};
use crate::registrar::Registrar;
use crate::{
    Client, Endpoint, EndpointKind, IdentityError, Issuer, Kind, Oauth2, Oidc, ProviderError,
    Registrations, Settings, SettingsError, StaticClient, TokenMapping, UserInfo, form,
};

/// Configuration of a provider by protocol.
pub(super) enum Protocol {
    Oidc(OidcProvider),
    Oauth2(OAuth2Provider),
}

pub(super) struct OidcProvider {
    pub(super) issuer: Issuer,
    client: StaticClient,
    pub(super) user_info: Option<UserInfo>,
    pub(super) discovery: Discovery,
}

pub(super) struct OAuth2Provider {
    authorization: Endpoint,
    token: Endpoint,
    client: ClientRegistration,
    mapping: Option<TokenMapping>,
    pub(super) user_info: Option<UserInfo>,
    http_client: ProviderHttp,
}

/// Client of this server at a provider.
pub(super) enum ClientRegistration {
    Static(StaticClient),
    Registered(Registrar),
}

/// Provider with its current metadata, if metadata is discovered.
pub(super) enum ResolvedProvider<'a> {
    Oidc(&'a OidcProvider, Arc<Metadata>),
    Oauth2(&'a OAuth2Provider, Option<Arc<Metadata>>),
}

/// Client of this server for one request.
#[derive(Clone, Copy)]
pub(super) enum ClientRef<'a> {
    Static(&'a StaticClient),
    Registered(&'a Registrar),
}

// === impl Protocol ===

impl Protocol {
    pub(super) fn new(
        settings: &Settings,
        http_clients: ProviderHttpPair,
        registrations: Arc<dyn Registrations>,
        clock: Clock,
    ) -> Result<Self, SettingsError> {
        match &settings.kind {
            Kind::Oidc(oidc) => {
                if !settings.scopes.contains("openid") {
                    return Err(SettingsError::NoOpenid);
                }
                let Oidc { issuer, client, user_info } = (**oidc).clone();
                let discovery = Discovery::for_issuer(&issuer, http_clients, clock);
                Ok(Self::Oidc(OidcProvider { issuer, client, user_info, discovery }))
            }
            Kind::Oauth2(oauth2) => {
                let Oauth2 {
                    authorization_endpoint: authorization,
                    token_endpoint: token,
                    client,
                    token_mapping: mapping,
                    user_info,
                } = (**oauth2).clone();
                let http_client = http_clients.configured.clone();
                let client = match client {
                    Client::Static(fixed) => ClientRegistration::Static(fixed),
                    Client::Dynamic(dynamic) => {
                        let registrar =
                            Registrar::new(settings, dynamic, http_clients, registrations, clock)?;
                        ClientRegistration::Registered(registrar)
                    }
                };
                let oauth2 = OAuth2Provider {
                    authorization,
                    token,
                    client,
                    mapping,
                    user_info,
                    http_client,
                };
                Ok(Self::Oauth2(oauth2))
            }
        }
    }

    /// Fetches the current metadata.
    pub(super) async fn resolve(&self) -> Result<ResolvedProvider<'_>, ProviderError> {
        match self {
            Self::Oidc(oidc) => Ok(ResolvedProvider::Oidc(oidc, oidc.discovery.get().await?)),
            Self::Oauth2(oauth2) => {
                Ok(ResolvedProvider::Oauth2(oauth2, oauth2.client.metadata().await?))
            }
        }
    }
}

// === impl OAuth2Provider ===

impl OAuth2Provider {
    /// Returns whether `issuer` may be that of this provider. With a registered client, the
    /// metadata decides.
    pub(super) fn may_be(&self, issuer: &str) -> bool {
        let at = |endpoint: &Endpoint| {
            Endpoint::new(issuer).is_ok_and(|issuer| issuer.origin() == endpoint.origin())
        };
        matches!(self.client, ClientRegistration::Registered(_))
            || at(&self.authorization)
            || at(&self.token)
    }
}

// === impl ClientRegistration ===

impl ClientRegistration {
    async fn metadata(&self) -> Result<Option<Arc<Metadata>>, ProviderError> {
        match self {
            Self::Registered(registrar) => registrar.metadata().await,
            Self::Static(_) => Ok(None),
        }
    }
}

// === impl ResolvedProvider ===

impl ResolvedProvider<'_> {
    fn metadata(&self) -> Option<&Metadata> {
        match self {
            Self::Oidc(_, metadata) => Some(metadata),
            Self::Oauth2(_, metadata) => metadata.as_deref(),
        }
    }

    pub(super) fn authorization(&self) -> Result<&Endpoint, ProviderError> {
        match self {
            Self::Oauth2(oauth2, _) => Ok(&oauth2.authorization),
            Self::Oidc(_, metadata) => metadata.authorization.as_ref().ok_or(
                ProviderError::ConfigMismatch("its metadata names no authorization endpoint"),
            ),
        }
    }

    /// Returns the token endpoint and the HTTP client for it.
    pub(super) fn token(&self) -> Result<(&Endpoint, &ProviderHttp), ProviderError> {
        match self {
            Self::Oauth2(oauth2, _) => Ok((&oauth2.token, &oauth2.http_client)),
            Self::Oidc(oidc, metadata) => {
                let token = metadata.token.as_ref();
                let token = token
                    .ok_or(ProviderError::ConfigMismatch("its metadata names no token endpoint"))?;
                Ok((token, oidc.discovery.http_client(token)))
            }
        }
    }

    /// Returns the revocation endpoint, if one is known, and the HTTP client for it.
    pub(super) fn revocation(&self) -> Option<(&Endpoint, &ProviderHttp)> {
        let endpoint = self.metadata()?.revocation.as_ref()?;
        let discovery = match self {
            Self::Oidc(oidc, _) => &oidc.discovery,
            Self::Oauth2(oauth2, _) => match &oauth2.client {
                ClientRegistration::Registered(registrar) => registrar.discovery()?,
                ClientRegistration::Static(_) => return None,
            },
        };
        Some((endpoint, discovery.http_client(endpoint)))
    }

    pub(super) fn client(&self) -> ClientRef<'_> {
        match self {
            Self::Oidc(oidc, _) => ClientRef::Static(&oidc.client),
            Self::Oauth2(oauth2, _) => match &oauth2.client {
                ClientRegistration::Static(fixed) => ClientRef::Static(fixed),
                ClientRegistration::Registered(registrar) => ClientRef::Registered(registrar),
            },
        }
    }

    pub(super) fn mapping(&self) -> Option<&TokenMapping> {
        match self {
            Self::Oidc(..) => None,
            Self::Oauth2(oauth2, _) => oauth2.mapping.as_ref(),
        }
    }

    /// Returns the expected issuer, and whether responses name it (RFC 9207).
    pub(super) fn issuer(&self) -> Option<(&str, bool)> {
        self.metadata().map(|metadata| (&*metadata.issuer, metadata.issuer_in_answer))
    }

    /// Returns the client authentication methods of an endpoint, if metadata is available.
    pub(super) fn auth_methods(&self, place: EndpointKind) -> AdvertisedAuthMethods<'_> {
        let Some(metadata) = self.metadata() else { return AdvertisedAuthMethods::Unknown };
        let own = metadata.revocation_auth_methods.as_deref();
        let own = own.filter(|_| place == EndpointKind::RevocationOutcome);
        AdvertisedAuthMethods::Known(own.or(metadata.auth_methods.as_deref()))
    }

    /// Checks that a login could start and finish.
    pub(super) async fn check(&self) -> Result<(), ProviderError> {
        self.authorization()?;
        self.token()?;
        match self {
            Self::Oidc(oidc, metadata) => {
                form::method(oidc.client.is_confidential(), metadata.auth_methods.as_deref())?;
                let keys = keys(metadata)?.load(None).await;
                keys.map_err(|error| IdentityError::InvalidIdToken(error.into()))?;
            }
            Self::Oauth2(_, Some(metadata)) if metadata.registration.is_none() => {
                return Err(ProviderError::ConfigMismatch(
                    "its metadata names no registration endpoint",
                ));
            }
            Self::Oauth2(..) => {}
        }
        Ok(())
    }
}

/// Client authentication methods of a provider.
#[derive(Clone, Copy)]
pub(super) enum AdvertisedAuthMethods<'a> {
    /// No metadata is available.
    Unknown,
    /// Methods in the metadata; `None` means the default of RFC 8414 section 2.
    Known(Option<&'a [String]>),
}

pub(super) fn keys(metadata: &Metadata) -> Result<&JwksSource, ProviderError> {
    let (_, keys) = metadata
        .keys
        .as_ref()
        .ok_or(ProviderError::ConfigMismatch("its metadata names no keys"))?;
    Ok(keys)
}
