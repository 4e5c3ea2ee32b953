//! Lookup of clients: registered ones, and those identified by a metadata document.

use std::net::IpAddr;
use std::sync::Arc;

use vmcp_auth_store::{Client, ClientId, Store};

use crate::client_id_metadata::{ClientMetadataCache, ClientMetadataError, is_document_url};
use crate::error::OAuthError;
use crate::redirect_uri::RedirectUri;

/// Directory of clients.
#[derive(Clone)]
pub(crate) struct Clients {
    store: Arc<dyn Store>,
    metadata: Option<Arc<ClientMetadataCache>>,
}

/// Error of a client lookup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ClientLookupError {
    /// The client is not registered, or its registration expired.
    NotRegistered,
    /// The client's metadata document is not usable.
    Document(ClientMetadataError),
    /// The lookup failed; a retry may succeed.
    Unavailable(OAuthError),
}

impl Clients {
    pub(crate) fn new(store: Arc<dyn Store>, metadata: Option<Arc<ClientMetadataCache>>) -> Self {
        Self { store, metadata }
    }

    /// Returns the client of this identifier, for a request from this address.
    pub(crate) async fn find(
        &self,
        id: &str,
        address: IpAddr,
    ) -> Result<Client, ClientLookupError> {
        let name = ClientId::new(id).map_err(|_| ClientLookupError::NotRegistered)?;
        if let Some(metadata) = self.metadata_of(id) {
            return metadata.resolve(&name, address).await.map_err(ClientLookupError::Document);
        }
        let found = self.store.client(&name).await;
        let found = found.map_err(|error| ClientLookupError::Unavailable(error.into()))?;
        found.ok_or(ClientLookupError::NotRegistered)
    }

    /// Returns the cache of metadata documents if the identifier is the URL of one.
    pub(crate) fn metadata_of(&self, id: &str) -> Option<&ClientMetadataCache> {
        self.metadata.as_deref().filter(|_| is_document_url(id))
    }
}

/// Returns the client's redirect URIs, without those that an earlier version accepted and this one rejects.
pub(crate) fn redirect_uris(client: &Client) -> impl Iterator<Item = RedirectUri> {
    client.redirect_uris.iter().filter_map(|uri| RedirectUri::parse(uri).ok())
}
