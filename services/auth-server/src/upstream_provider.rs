//! Upstream providers as the server knows them: in order, with their names and issuers in the store's types.

use std::sync::Arc;

use url::Url;
use vmcp_auth_store::{ProviderIssuer, ProviderName};

use crate::settings::Settings;
use crate::start_error::StartError;
use crate::upstream::Upstream;

/// Upstream provider with its name and issuer in the store's types.
#[derive(Clone, Debug)]
pub(crate) struct UpstreamProvider {
    /// Index of the provider: the first one identifies the user.
    pub(crate) index: usize,
    pub(crate) name: ProviderName,
    /// Issuer of the provider, independent of its name.
    pub(crate) issuer: ProviderIssuer,
    pub(crate) provider: Arc<dyn Upstream>,
    /// `true` if the redirect URI has another origin than the authorization endpoint, whose origin alone receives the
    /// cookie.
    pub(crate) is_other_origin: bool,
}

/// Upstream providers in the order in which users log in. Invariant: at least one.
#[derive(Clone, Debug)]
pub(crate) struct UpstreamProviders(Arc<[UpstreamProvider]>);

impl UpstreamProviders {
    /// Names the providers, and rejects those whose redirect URI no route or cookie can serve.
    pub(crate) fn new(
        settings: &Settings,
        upstreams: Vec<Arc<dyn Upstream>>,
    ) -> Result<Self, StartError> {
        let taken = settings.fixed_paths();
        let (authorization_origin, served) =
            (settings.authorization_issuer().origin(), settings.origins());
        let back = format!("{}/", settings.return_path());
        let mut providers: Vec<UpstreamProvider> = Vec::new();
        for provider in upstreams {
            let called: Box<str> = provider.name().into();
            let name =
                ProviderName::new(&*called).map_err(|_| StartError::InvalidName(called.clone()))?;
            if providers.iter().any(|upstream| upstream.name == name) {
                return Err(StartError::DuplicateName(called));
            }
            let issuer = ProviderIssuer::new(provider.issuer_id());
            let issuer = issuer.map_err(|_| StartError::InvalidIssuer(called.clone()))?;
            let uri = provider.redirect_uri();
            let callback = match Url::parse(&uri.to_string()) {
                Ok(url) => url.origin().ascii_serialization(),
                Err(_) => uri.to_string(),
            };
            if !served.contains(&callback) {
                let (callback, authorization_origin) =
                    (callback.into(), authorization_origin.into());
                return Err(StartError::ForeignRedirectUri {
                    provider: called,
                    callback,
                    authorization_origin,
                });
            }
            let here = uri.path();
            let odd = here
                .split('/')
                .any(|part| part.starts_with([':', '*']) || part.contains(['{', '}']));
            if odd || taken.contains(here) || here.starts_with(&back) {
                return Err(StartError::RedirectUriPathTaken {
                    provider: called,
                    path: here.into(),
                });
            }
            let is_other_origin = callback != authorization_origin;
            providers.push(UpstreamProvider {
                index: providers.len(),
                name,
                issuer,
                provider,
                is_other_origin,
            });
        }
        if providers.is_empty() { Err(StartError::NoProvider) } else { Ok(Self(providers.into())) }
    }

    /// Returns the provider that identifies the user.
    pub(crate) fn first(&self) -> &UpstreamProvider {
        self.0.first().expect("the constructor rejects an empty list")
    }

    /// Returns the provider after `upstream`, if there is one.
    pub(crate) fn next(&self, upstream: &UpstreamProvider) -> Option<&UpstreamProvider> {
        self.0.get(upstream.index + 1)
    }

    /// Returns the provider at this index.
    pub(crate) fn get(&self, index: usize) -> Option<&UpstreamProvider> {
        self.0.get(index)
    }

    /// Returns the provider of this name.
    pub(crate) fn by_name(&self, name: &str) -> Option<&UpstreamProvider> {
        self.iter().find(|upstream| upstream.name.as_str() == name)
    }

    /// Returns an iterator over the providers, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &UpstreamProvider> {
        self.0.iter()
    }
}
