//! Whom to trust: the system's roots, and the CA bundle that a backend adds to them.

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

use crate::{ConfigError, egress::Shared};

/// A bundle longer than this is not a list of CAs that somebody chose.
const MAX_BUNDLE: u64 = 4 * 1024 * 1024;

/// What ALPN calls HTTP/2 over TLS (RFC 9113, 3.2).
pub(crate) const HTTP2: &[u8] = b"h2";

/// What a client trusts. The configuration is built at the first connection: loading the system's
/// roots takes milliseconds that a process without `https` backends never spends.
pub(crate) struct Trust {
    bundle: Vec<CertificateDer<'static>>,
    config: OnceCell<Arc<ClientConfig>>,
}

/// The system's roots, loaded once per process and shared by all clients.
#[derive(Default)]
pub(crate) struct SystemRoots {
    store: OnceCell<RootCertStore>,
    plain: OnceCell<Arc<ClientConfig>>,
}

impl Trust {
    /// Trust in the system's roots and, if given, in the certificates of a PEM file.
    pub(crate) fn new(bundle: Option<&Path>) -> Result<Self, ConfigError> {
        let bundle = bundle.map(read_bundle).transpose()?.unwrap_or_default();
        Ok(Self { bundle, config: OnceCell::new() })
    }

    /// Whether the bundle holds a certificate that is neither an authority's nor signed by itself: none that a server
    /// shows is signed by it. Read after a failure alone.
    pub(crate) fn has_end_entity_certificate(&self) -> bool {
        self.bundle.iter().any(is_leaf)
    }

    pub(crate) async fn config(&self, shared: &Shared) -> Result<Arc<ClientConfig>, BoxError> {
        let roots = &shared.roots;
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
        tracing::warn!(%error, "a system root certificate could not be loaded");
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
        return Err(invalid(format!("it is longer than {MAX_BUNDLE} bytes")));
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
