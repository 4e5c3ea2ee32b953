//! What a provider is, by the configuration and by what it says of itself.

use std::sync::Arc;

use vmcp_core::Clock;
use vmcp_jwks::JwksSource;
use vmcp_jwt::KeySource;

use crate::discovery::{Discovery, Metadata};
use crate::registrar::Registrar;
use crate::web::{Web, Webs};
use crate::{
    Client, Endpoint, Fault, Fixed, IdentityFault, Issuer, Kind, Oauth2, Oidc, Place,
    Registrations, Settings, SettingsError, TokenMapping, UserInfo, form,
};

/// What a provider speaks, with all that speaking it takes.
pub(super) enum Speaks {
    Oidc(OpenId),
    Oauth2(Plain),
}

pub(super) struct OpenId {
    pub(super) issuer: Issuer,
    client: Fixed,
    pub(super) user_info: Option<UserInfo>,
    pub(super) discovery: Discovery,
}

pub(super) struct Plain {
    authorization: Endpoint,
    token: Endpoint,
    client: Party,
    mapping: Option<TokenMapping>,
    pub(super) user_info: Option<UserInfo>,
    web: Web,
}

/// Who this server is to a provider.
pub(super) enum Party {
    Fixed(Fixed),
    Registered(Registrar),
}

/// The same together with what the provider says of itself now, where that is looked for.
pub(super) enum Ground<'a> {
    Oidc(&'a OpenId, Arc<Metadata>),
    Oauth2(&'a Plain, Option<Arc<Metadata>>),
}

/// Who this server is, while it asks for something.
#[derive(Clone, Copy)]
pub(super) enum PartyRef<'a> {
    Fixed(&'a Fixed),
    Registered(&'a Registrar),
}

// === impl Speaks ===

impl Speaks {
    pub(super) fn new(
        settings: &Settings,
        webs: Webs,
        registrations: Arc<dyn Registrations>,
        clock: Clock,
    ) -> Result<Self, SettingsError> {
        match &settings.kind {
            Kind::Oidc(oidc) => {
                if !settings.scopes.contains("openid") {
                    return Err(SettingsError::NoOpenid);
                }
                let Oidc { issuer, client, user_info } = (**oidc).clone();
                let discovery = Discovery::of(&issuer, webs, clock);
                Ok(Self::Oidc(OpenId { issuer, client, user_info, discovery }))
            }
            Kind::Oauth2(oauth2) => {
                let Oauth2 {
                    authorization_endpoint: authorization,
                    token_endpoint: token,
                    client,
                    token_mapping: mapping,
                    user_info,
                } = (**oauth2).clone();
                let web = webs.configured.clone();
                let client = match client {
                    Client::Fixed(fixed) => Party::Fixed(fixed),
                    Client::Dynamic(dynamic) => {
                        let registrar =
                            Registrar::new(settings, dynamic, webs, registrations, clock)?;
                        Party::Registered(registrar)
                    }
                };
                let plain = Plain { authorization, token, client, mapping, user_info, web };
                Ok(Self::Oauth2(plain))
            }
        }
    }

    /// With what the provider says of itself now.
    pub(super) async fn ground(&self) -> Result<Ground<'_>, Fault> {
        match self {
            Self::Oidc(oidc) => Ok(Ground::Oidc(oidc, oidc.discovery.get().await?)),
            Self::Oauth2(plain) => Ok(Ground::Oauth2(plain, plain.client.metadata().await?)),
        }
    }
}

// === impl Plain ===

impl Plain {
    /// Whether `issuer` may be this provider's: a registered client's provider says so itself.
    pub(super) fn may_be(&self, issuer: &str) -> bool {
        let at = |endpoint: &Endpoint| {
            Endpoint::new(issuer).is_ok_and(|issuer| issuer.origin() == endpoint.origin())
        };
        matches!(self.client, Party::Registered(_)) || at(&self.authorization) || at(&self.token)
    }
}

// === impl Party ===

impl Party {
    async fn metadata(&self) -> Result<Option<Arc<Metadata>>, Fault> {
        match self {
            Self::Registered(registrar) => registrar.metadata().await,
            Self::Fixed(_) => Ok(None),
        }
    }
}

// === impl Ground ===

impl Ground<'_> {
    fn metadata(&self) -> Option<&Metadata> {
        match self {
            Self::Oidc(_, metadata) => Some(metadata),
            Self::Oauth2(_, metadata) => metadata.as_deref(),
        }
    }

    pub(super) fn authorization(&self) -> Result<&Endpoint, Fault> {
        match self {
            Self::Oauth2(plain, _) => Ok(&plain.authorization),
            Self::Oidc(_, metadata) => metadata
                .authorization
                .as_ref()
                .ok_or(Fault::Misfit("its metadata names no authorization endpoint")),
        }
    }

    /// The token endpoint, and the client to ask it with.
    pub(super) fn token(&self) -> Result<(&Endpoint, &Web), Fault> {
        match self {
            Self::Oauth2(plain, _) => Ok((&plain.token, &plain.web)),
            Self::Oidc(oidc, metadata) => {
                let token = metadata.token.as_ref();
                let token = token.ok_or(Fault::Misfit("its metadata names no token endpoint"))?;
                Ok((token, oidc.discovery.web(token)))
            }
        }
    }

    /// The revocation endpoint, if one is known, and the client to ask it with.
    pub(super) fn revocation(&self) -> Option<(&Endpoint, &Web)> {
        let endpoint = self.metadata()?.revocation.as_ref()?;
        let discovery = match self {
            Self::Oidc(oidc, _) => &oidc.discovery,
            Self::Oauth2(plain, _) => match &plain.client {
                Party::Registered(registrar) => registrar.discovery()?,
                Party::Fixed(_) => return None,
            },
        };
        Some((endpoint, discovery.web(endpoint)))
    }

    pub(super) fn party(&self) -> PartyRef<'_> {
        match self {
            Self::Oidc(oidc, _) => PartyRef::Fixed(&oidc.client),
            Self::Oauth2(plain, _) => match &plain.client {
                Party::Fixed(fixed) => PartyRef::Fixed(fixed),
                Party::Registered(registrar) => PartyRef::Registered(registrar),
            },
        }
    }

    pub(super) fn mapping(&self) -> Option<&TokenMapping> {
        match self {
            Self::Oidc(..) => None,
            Self::Oauth2(plain, _) => plain.mapping.as_ref(),
        }
    }

    /// Whose answer is to be expected, and whether it says so (RFC 9207).
    pub(super) fn issuer(&self) -> Option<(&str, bool)> {
        self.metadata().map(|metadata| (&*metadata.issuer, metadata.issuer_in_answer))
    }

    /// How clients may authenticate at a place, if the provider says anything of itself.
    pub(super) fn auth_methods(&self, place: Place) -> Listed<'_> {
        let Some(metadata) = self.metadata() else { return Listed::Unsaid };
        let own = metadata.revocation_auth_methods.as_deref();
        let own = own.filter(|_| place == Place::Revocation);
        Listed::Said(own.or(metadata.auth_methods.as_deref()))
    }

    /// Whether a login could be begun and ended.
    pub(super) async fn check(&self) -> Result<(), Fault> {
        self.authorization()?;
        self.token()?;
        match self {
            Self::Oidc(oidc, metadata) => {
                form::method(oidc.client.is_confidential(), metadata.auth_methods.as_deref())?;
                let keys = keys(metadata)?.load(None).await;
                keys.map_err(|fault| IdentityFault::Token(fault.into()))?;
            }
            Self::Oauth2(_, Some(metadata)) if metadata.registration.is_none() => {
                return Err(Fault::Misfit("its metadata names no registration endpoint"));
            }
            Self::Oauth2(..) => {}
        }
        Ok(())
    }
}

/// What a provider says of how clients authenticate.
#[derive(Clone, Copy)]
pub(super) enum Listed<'a> {
    /// Nothing is known of the provider.
    Unsaid,
    /// This, or what RFC 8414 section 2 says for those that list nothing.
    Said(Option<&'a [String]>),
}

pub(super) fn keys(metadata: &Metadata) -> Result<&JwksSource, Fault> {
    let (_, keys) = metadata.keys.as_ref().ok_or(Fault::Misfit("its metadata names no keys"))?;
    Ok(keys)
}
