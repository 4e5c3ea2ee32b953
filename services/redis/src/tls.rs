//! TLS settings.

use std::fmt;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

/// TLS 1.2 or 1.3 settings of a client. Clones share the certificates.
#[derive(Clone)]
pub struct Tls(pub(crate) Arc<ClientConfig>);

/// Error of TLS settings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TlsError {
    /// The system has no root certificates.
    #[error("the system has no root certificates; install them or configure a CA certificate")]
    NoSystemRoots,
    /// The bundle is not valid PEM, or one of its certificates is invalid.
    #[error("failed to read the CA certificate: {0}")]
    InvalidCertificate(String),
    /// The bundle contains no certificate.
    #[error("the CA file contains no PEM certificate")]
    NoCertificate,
    /// The TLS library rejected the settings.
    #[error("failed to set up TLS: {0}")]
    Library(String),
}

/// Certificate verifier that accepts any certificate.
#[derive(Debug)]
struct NoCertificateVerification(Arc<CryptoProvider>);

// === impl Tls ===

impl Tls {
    /// Trusts the root certificates of the system.
    ///
    /// # Errors
    /// The system has no root certificates.
    pub fn system() -> Result<Self, TlsError> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if roots.is_empty() {
            return Err(TlsError::NoSystemRoots);
        }
        Self::with_roots(roots)
    }

    /// Trusts only the certificates of this PEM bundle.
    ///
    /// # Errors
    /// The bundle contains no certificate or an invalid one.
    pub fn with_ca(pem: &[u8]) -> Result<Self, TlsError> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let invalid =
                |error: &dyn fmt::Display| TlsError::InvalidCertificate(error.to_string());
            let certificate = certificate.map_err(|error| invalid(&error))?;
            roots.add(certificate).map_err(|error| invalid(&error))?;
        }
        if roots.is_empty() {
            return Err(TlsError::NoCertificate);
        }
        Self::with_roots(roots)
    }

    /// Accepts any certificate: an attacker on the network can read and change the traffic.
    ///
    /// # Errors
    /// The TLS library rejected the settings.
    pub fn insecure_skip_verify() -> Result<Self, TlsError> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&TLS13, &TLS12])
            .map_err(|error| TlsError::Library(error.to_string()))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(NoCertificateVerification(provider)))
            .with_no_client_auth();
        Ok(Self(Arc::new(config)))
    }

    fn with_roots(roots: RootCertStore) -> Result<Self, TlsError> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13, &TLS12])
            .map_err(|error| TlsError::Library(error.to_string()))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self(Arc::new(config)))
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}

// === impl NoCertificateVerification ===

impl ServerCertVerifier for NoCertificateVerification {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_bundle_without_certificate() {
        assert_eq!(Tls::with_ca(b"no pem").unwrap_err(), TlsError::NoCertificate);
        let broken = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        assert!(matches!(Tls::with_ca(broken).unwrap_err(), TlsError::InvalidCertificate(_)));
    }
}
