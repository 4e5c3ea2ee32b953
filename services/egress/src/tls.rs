//! TLS trust anchors: the system's root certificates, and the CA bundle of a backend.

use std::{fs::File, io::Read, net::IpAddr, path::Path, sync::Arc};

use rustls::{
    ClientConfig, RootCertStore,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, InvalidDnsNameError, ServerName, pem::PemObject},
    version::{TLS12, TLS13},
};
use tokio::sync::OnceCell;
use url::Host;
use vmcp_core::BoxError;
use x509_parser::{certificate::X509Certificate, prelude::FromDer};

use crate::ConfigError;

/// Maximum size of a bundle in bytes: a larger file is not a list of selected CAs.
const MAX_BUNDLE: u64 = 4 * 1024 * 1024;

/// ALPN identifier of HTTP/2 over TLS (RFC 9113, 3.2).
pub(crate) const HTTP2: &[u8] = b"h2";

/// Trust anchors of a client. The configuration is built for the first connection: loading the
/// system's root certificates takes milliseconds, which a process without `https` backends saves.
pub(crate) struct Trust {
    bundle: Vec<CertificateDer<'static>>,
    config: OnceCell<Arc<ClientConfig>>,
}

/// Root certificates of the system, loaded once per process and shared by all clients.
#[derive(Default)]
pub(crate) struct SystemRoots {
    store: OnceCell<RootCertStore>,
    plain: OnceCell<Arc<ClientConfig>>,
}

impl Trust {
    /// Trusts the system's root certificates and those of an optional PEM file.
    pub(crate) fn new(bundle: Option<&Path>) -> Result<Self, ConfigError> {
        let bundle = bundle.map(read_bundle).transpose()?.unwrap_or_default();
        Ok(Self { bundle, config: OnceCell::new() })
    }

    /// Returns whether the bundle has a certificate that is neither an authority's nor self-signed,
    /// and so cannot sign another. Called only after a failed handshake.
    pub(crate) fn has_end_entity_certificate(&self) -> bool {
        self.bundle.iter().any(is_leaf)
    }

    pub(crate) async fn config(&self, roots: &SystemRoots) -> Result<Arc<ClientConfig>, BoxError> {
        let cell = if self.bundle.is_empty() { &roots.plain } else { &self.config };
        let config = cell
            .get_or_try_init(|| async {
                let system = roots.store.get_or_try_init(load_system_roots).await?;
                client_config(system, &self.bundle)
            })
            .await?;
        Ok(Arc::clone(config))
    }
}

pub(crate) fn server_name(host: &Host) -> Result<ServerName<'static>, InvalidDnsNameError> {
    match host {
        Host::Domain(name) => ServerName::try_from(name.clone()),
        Host::Ipv4(v4) => Ok(ServerName::from(IpAddr::from(*v4))),
        Host::Ipv6(v6) => Ok(ServerName::from(IpAddr::from(*v6))),
    }
}

fn is_leaf(certificate: &CertificateDer<'_>) -> bool {
    X509Certificate::from_der(certificate)
        .is_ok_and(|(_, it)| !it.is_ca() && it.subject() != it.issuer())
}

async fn load_system_roots() -> Result<RootCertStore, BoxError> {
    let found = tokio::task::spawn_blocking(rustls_native_certs::load_native_certs).await?;
    for error in &found.errors {
        tracing::warn!(%error, "failed to load a system root certificate");
    }
    let mut store = RootCertStore::empty();
    let (_, ignored) = store.add_parsable_certificates(found.certs);
    tracing::debug!(roots = store.len(), ignored, "system root certificates loaded");
    Ok(store)
}

fn client_config(
    system: &RootCertStore,
    bundle: &[CertificateDer<'static>],
) -> Result<Arc<ClientConfig>, BoxError> {
    let mut roots = system.clone();
    for certificate in bundle {
        roots.add(certificate.clone())?;
    }
    if roots.is_empty() {
        return Err(
            "the system has no root certificates; install them or configure a CA bundle".into()
        );
    }
    let provider = Arc::new(aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13, &TLS12])?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![HTTP2.to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn read_bundle(path: &Path) -> Result<Vec<CertificateDer<'static>>, ConfigError> {
    let unreadable = |source| ConfigError::CaBundleUnreadable { path: path.to_owned(), source };
    let invalid = |reason| ConfigError::CaBundleInvalid { path: path.to_owned(), reason };

    let mut pem = Vec::new();
    File::open(path)
        .and_then(|file| file.take(MAX_BUNDLE + 1).read_to_end(&mut pem))
        .map_err(unreadable)?;
    if pem.len() as u64 > MAX_BUNDLE {
        return Err(invalid(format!("larger than {MAX_BUNDLE} bytes")));
    }
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(&pem)
        .collect::<Result<_, _>>()
        .map_err(|error| invalid(error.to_string()))?;
    if certificates.is_empty() {
        return Err(ConfigError::CaBundleEmpty { path: path.to_owned() });
    }
    let mut scratch = RootCertStore::empty();
    for certificate in &certificates {
        scratch.add(certificate.clone()).map_err(|error| invalid(error.to_string()))?;
    }
    Ok(certificates)
}
