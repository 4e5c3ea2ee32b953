//! Settings of a client for one backend.

use std::{path::PathBuf, sync::Arc};

use crate::AddressPolicy;

/// Settings of a client for one backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientSettings {
    /// PEM file with certificates to trust in addition to the system's.
    pub ca_bundle: Option<PathBuf>,
    /// Addresses that the client may connect to.
    pub addresses: AddressPolicy,
    /// HTTP versions of the client.
    pub versions: Versions,
    /// Name of the backend's origin in messages; `None` for the origin itself.
    pub display_origin: Option<Arc<str>>,
}

/// HTTP versions of a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Versions {
    /// HTTP/2 or HTTP/1.1 over TLS, as the server chooses; otherwise HTTP/1.1.
    #[default]
    Negotiated,
    /// HTTP/2 only, without TLS by prior knowledge (RFC 9113, 3.3). For gRPC.
    Http2,
}

impl ClientSettings {
    /// Creates settings for untrusted URLs: public addresses and the system's root certificates
    /// only.
    #[must_use]
    pub fn public_only() -> Self {
        Self::reaching(AddressPolicy::PublicOnly)
    }

    /// Creates settings for URLs of users who may reach the private network, but not this machine: public and private
    /// addresses, no loopback and link-local ones.
    #[must_use]
    pub fn private_or_public() -> Self {
        Self::reaching(AddressPolicy::PrivateOrPublic)
    }

    /// Creates settings for configured backends: also connects to loopback, link-local (with the
    /// instance credentials of clouds) and all other private addresses.
    #[must_use]
    pub fn allowing_private_addresses() -> Self {
        Self::reaching(AddressPolicy::Any)
    }

    fn reaching(addresses: AddressPolicy) -> Self {
        Self { ca_bundle: None, addresses, versions: Versions::default(), display_origin: None }
    }

    /// Sets the name of the origin in messages, for URLs whose host may be a secret.
    #[must_use]
    pub fn with_display_origin(self, label: impl Into<Arc<str>>) -> Self {
        Self { display_origin: Some(label.into()), ..self }
    }

    /// Sets the HTTP versions.
    #[must_use]
    pub fn with_versions(self, versions: Versions) -> Self {
        Self { versions, ..self }
    }

    /// Trusts the certificates in the PEM file at `path` in addition to the system's.
    #[must_use]
    pub fn with_ca_bundle(mut self, path: impl Into<PathBuf>) -> Self {
        self.ca_bundle = Some(path.into());
        self
    }
}
