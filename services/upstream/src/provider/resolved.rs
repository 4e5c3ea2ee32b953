//! What a provider is, by the configuration and by what it says of itself.

use std::sync::Arc;

use vmcp_core::Clock;
use vmcp_jwks::JwksSource;
use vmcp_jwt::KeySource;

use crate::discovery::{Discovery, Metadata};
use crate::provider_http::{ProviderHttp, ProviderHttpPair};
use crate::registrar::Registrar;
use crate::{
    Client, Endpoint, EndpointKind, IdentityError, Issuer, Kind, Oauth2, Oidc, ProviderError,
    Registrations, Settings, SettingsError, StaticClient, TokenMapping, UserInfo, form,
};

/// What a provider speaks, with all that speaking it takes.
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

/// Who this server is to a provider.
pub(super) enum ClientRegistration {
    Static(StaticClient),
    Registered(Registrar),
}

/// The same together with what the provider says of itself now, where that is looked for.
pub(super) enum ResolvedProvider<'a> {
    Oidc(&'a OidcProvider, Arc<Metadata>),
    Oauth2(&'a OAuth2Provider, Option<Arc<Metadata>>),
}

/// Who this server is, while it asks for something.
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

    /// With what the provider says of itself now.
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
    /// Whether `issuer` may be this provider's: a registered client's provider says so itself.
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

    /// The token endpoint, and the client to ask it with.
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

    /// The revocation endpoint, if one is known, and the client to ask it with.
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

    /// Whose answer is to be expected, and whether it says so (RFC 9207).
    pub(super) fn issuer(&self) -> Option<(&str, bool)> {
        self.metadata().map(|metadata| (&*metadata.issuer, metadata.issuer_in_answer))
    }

    /// How clients may authenticate at a place, if the provider says anything of itself.
    pub(super) fn auth_methods(&self, place: EndpointKind) -> AdvertisedAuthMethods<'_> {
        let Some(metadata) = self.metadata() else { return AdvertisedAuthMethods::Unknown };
        let own = metadata.revocation_auth_methods.as_deref();
        let own = own.filter(|_| place == EndpointKind::RevocationOutcome);
        AdvertisedAuthMethods::Known(own.or(metadata.auth_methods.as_deref()))
    }

    /// Whether a login could be begun and ended.
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

/// What a provider says of how clients authenticate.
#[derive(Clone, Copy)]
pub(super) enum AdvertisedAuthMethods<'a> {
    /// Nothing is known of the provider.
    Unknown,
    /// This, or what RFC 8414 section 2 says for those that list nothing.
    Known(Option<&'a [String]>),
}

pub(super) fn keys(metadata: &Metadata) -> Result<&JwksSource, ProviderError> {
    let (_, keys) = metadata
        .keys
        .as_ref()
        .ok_or(ProviderError::ConfigMismatch("its metadata names no keys"))?;
    Ok(keys)
}
