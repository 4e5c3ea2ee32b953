//! TLS key of a process.

use std::fmt;
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::rand::{self, SystemRandom};
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair};
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs as provider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::AlwaysResolvesServerRawPublicKeys;
use rustls::sign::CertifiedKey;
use rustls::version::TLS13;

/// SHA-256 of a public key (`SubjectPublicKeyInfo`).
pub(crate) type KeyHash = [u8; 32];

/// Random number of a process.
pub(crate) type ProcessId = [u8; 16];

/// Random TLS key of this process. It is used as a raw public key (RFC 7250): there is no certificate that could expire.
#[derive(Clone)]
pub struct PeerIdentity {
    pub(crate) server: Arc<ServerConfig>,
    pub(crate) key: KeyHash,
    pub(crate) process: ProcessId,
}

/// Error of the cryptographic library, such as a lack of random numbers.
#[derive(Debug, thiserror::Error)]
#[error("failed to create the TLS key of the peer listener: {0}")]
pub struct IdentityError(&'static str);

impl PeerIdentity {
    /// Creates a key.
    ///
    /// # Errors
    /// [`IdentityError`] if the system has no random numbers.
    pub fn generate() -> Result<Self, IdentityError> {
        let error = |_| IdentityError("no key could be generated");
        let document =
            EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &SystemRandom::new())
                .map_err(error)?;
        let private = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(document.as_ref()));
        let signing = provider::sign::any_ecdsa_type(&private)
            .map_err(|_| IdentityError("the key cannot sign"))?;
        let public = signing.public_key().ok_or(IdentityError("the key has no public part"))?;
        let mut key = KeyHash::default();
        key.copy_from_slice(digest(&SHA256, public.as_ref()).as_ref());
        let mut process = ProcessId::default();
        rand::fill(&mut process).map_err(error)?;
        let chain = vec![CertificateDer::from(public.as_ref().to_vec())];
        let resolver =
            AlwaysResolvesServerRawPublicKeys::new(Arc::new(CertifiedKey::new(chain, signing)));
        let crypto = Arc::new(provider::default_provider());
        let mut server = ServerConfig::builder_with_provider(crypto)
            .with_protocol_versions(&[&TLS13])
            .map_err(|_| IdentityError("TLS 1.3 is not available"))?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(resolver));
        // Each connection proves the key.
        server.send_tls13_tickets = 0;
        Ok(Self { server: Arc::new(server), key, process })
    }
}

impl fmt::Debug for PeerIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PeerIdentity").finish_non_exhaustive()
    }
}
