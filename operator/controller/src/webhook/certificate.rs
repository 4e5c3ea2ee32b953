//! Certificate of the webhook, and the authority that signs it alone.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::{SignedDuration, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256,
};
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use secrecy::{ExposeSecret, SecretString};
use vmcp_lease::Environment;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer;

use crate::apply::hexadecimal;

/// Time for which a certificate is valid.
pub(super) const LIFETIME: SignedDuration = SignedDuration::from_hours(90 * 24);

/// Time after which another certificate is made: two thirds of the lifetime.
pub(super) const ROTATION_AGE: SignedDuration = SignedDuration::from_hours(60 * 24);

/// Time for which an authority is valid, longer than its certificate.
const AUTHORITY_LIFETIME: SignedDuration = SignedDuration::from_hours(120 * 24);

/// Time before its making from which a certificate is valid, for clocks that are late.
const BACKDATE: SignedDuration = SignedDuration::from_hours(1);

/// Name of the subject of certificates.
const SUBJECT: &str = "vmcp-operator-webhook";

/// Certificate with its key, and the authority that signed it.
#[derive(Clone, Debug)]
pub(super) struct Pair {
    pub(super) certificate: String,
    pub(super) key: SecretString,
    pub(super) authority: Authority,
    pub(super) validity: Validity,
}

/// Certificate of an authority. Its key was dropped when it had signed one certificate.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Authority {
    pub(super) pem: String,
    /// Encoded name of the subject, which differs between authorities.
    subject: Vec<u8>,
    validity: Validity,
}

/// Time in which a certificate is valid.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Validity {
    pub(super) start: Timestamp,
    pub(super) end: Timestamp,
}

/// Reason for which a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CertificateError {
    #[error("failed to make a certificate: {0}")]
    Generation(#[from] rcgen::Error),
    #[error("{0} is not a PEM certificate of an X.509 certificate")]
    Unreadable(&'static str),
    #[error("{0} is missing")]
    Missing(&'static str),
    #[error("the certificate is not one for {0}")]
    OtherName(String),
    #[error("no authority of ca.crt signed the certificate")]
    NoAuthority,
    #[error("the key does not fit the certificate: {0}")]
    Key(rustls::Error),
}

// === impl Pair ===

impl Pair {
    /// Makes a certificate for a DNS name, with an authority of its own.
    pub(super) fn generate(
        name: &str,
        environment: &Environment,
    ) -> Result<Self, CertificateError> {
        let start = shifted(environment.now(), -BACKDATE);
        let mut authority = params(start, AUTHORITY_LIFETIME);
        let id = hexadecimal(&environment.random::<16>());
        authority.distinguished_name.push(DnType::CommonName, format!("{SUBJECT} CA {id}"));
        authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let authority = CertifiedIssuer::self_signed(authority, new_key()?)?;
        let mut leaf = params(start, LIFETIME);
        leaf.subject_alt_names = CertificateParams::new(vec![name.to_owned()])?.subject_alt_names;
        leaf.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        leaf.use_authority_key_identifier_extension = true;
        leaf.distinguished_name.push(DnType::CommonName, SUBJECT);
        let key = new_key()?;
        let certificate = leaf.signed_by(&key, &authority)?.pem();
        let authorities = [Authority::parse(&authority.pem())?];
        Self::parse(certificate, key.serialize_pem().into(), &authorities, name)
    }

    /// Reads a certificate for a DNS name with its key, and finds its authority.
    pub(super) fn parse(
        certificate: String,
        key: SecretString,
        authorities: &[Authority],
        name: &str,
    ) -> Result<Self, CertificateError> {
        let unreadable = || CertificateError::Unreadable("tls.crt");
        let der =
            CertificateDer::from_pem_slice(certificate.as_bytes()).map_err(|_| unreadable())?;
        let (_, parsed) = X509Certificate::from_der(&der).map_err(|_| unreadable())?;
        if !is_for(&parsed, name) {
            return Err(CertificateError::OtherName(name.to_owned()));
        }
        let issuer = parsed.issuer().as_raw();
        let authority = authorities.iter().find(|authority| authority.subject == issuer);
        let authority = authority.ok_or(CertificateError::NoAuthority)?.clone();
        let validity = validity(&parsed).ok_or_else(unreadable)?;
        let pair = Self { certificate, key, authority, validity };
        pair.server_config()?;
        Ok(pair)
    }

    /// Returns the settings of TLS with this certificate.
    pub(super) fn server_config(&self) -> Result<Arc<ServerConfig>, CertificateError> {
        let certificates = CertificateDer::pem_slice_iter(self.certificate.as_bytes());
        let certificates = certificates.collect::<Result<Vec<_>, _>>();
        let certificates = certificates.map_err(|_| CertificateError::Unreadable("tls.crt"))?;
        let key = PrivateKeyDer::from_pem_slice(self.key.expose_secret().as_bytes());
        let key = key.map_err(|_| CertificateError::Unreadable("tls.key"))?;
        let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(CertificateError::Key)?
            .with_no_client_auth()
            .with_single_cert(certificates, key)
            .map_err(CertificateError::Key)?;
        Ok(Arc::new(config))
    }

    /// Returns whether the certificate has come to its end.
    pub(super) fn is_expired(&self, now: Timestamp) -> bool {
        now >= self.validity.end
    }
}

// === impl Authority ===

impl Authority {
    pub(super) fn parse(pem: &str) -> Result<Self, CertificateError> {
        let der = CertificateDer::from_pem_slice(pem.as_bytes());
        let der = der.map_err(|_| CertificateError::Unreadable("ca.crt"))?;
        Self::of(&der).ok_or(CertificateError::Unreadable("ca.crt"))
    }

    /// Reads the authorities of a bundle. Others than certificates are left out.
    pub(super) fn parse_all(bundle: &[u8]) -> Vec<Self> {
        let certificates = CertificateDer::pem_slice_iter(bundle).filter_map(Result::ok);
        certificates.filter_map(|der| Self::of(&der)).collect()
    }

    /// Returns whether a certificate of the authority may still be valid.
    pub(super) fn is_needed(&self, now: Timestamp) -> bool {
        now < shifted(self.validity.start, LIFETIME)
    }

    fn of(der: &CertificateDer<'_>) -> Option<Self> {
        let (_, parsed) = X509Certificate::from_der(der).ok()?;
        let (subject, validity) = (parsed.subject().as_raw().to_vec(), validity(&parsed)?);
        Some(Self { pem: to_pem(der), subject, validity })
    }
}

fn new_key() -> Result<KeyPair, rcgen::Error> {
    KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)
}

fn params(start: Timestamp, lifetime: SignedDuration) -> CertificateParams {
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    let date = |time: Timestamp| {
        epoch + Duration::from_secs(u64::try_from(time.as_second()).unwrap_or_default())
    };
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.not_before = date(start);
    params.not_after = date(shifted(start, lifetime));
    params
}

/// Returns another time, or the last one that there is.
fn shifted(time: Timestamp, by: SignedDuration) -> Timestamp {
    time.saturating_add(by).unwrap_or(time)
}

fn is_for(certificate: &X509Certificate<'_>, name: &str) -> bool {
    let names = certificate.subject_alternative_name().ok().flatten();
    names.is_some_and(|names| {
        names
            .value
            .general_names
            .iter()
            .any(|one| matches!(one, GeneralName::DNSName(found) if *found == name))
    })
}

fn validity(certificate: &X509Certificate<'_>) -> Option<Validity> {
    let validity = certificate.validity();
    let time = |time: x509_parser::time::ASN1Time| Timestamp::from_second(time.timestamp()).ok();
    Some(Validity { start: time(validity.not_before)?, end: time(validity.not_after)? })
}

/// Writes a certificate as PEM (RFC 7468).
fn to_pem(der: &CertificateDer<'_>) -> String {
    let text = STANDARD.encode(der);
    let mut pem = "-----BEGIN CERTIFICATE-----\n".to_owned();
    let mut rest = text.as_str();
    while !rest.is_empty() {
        // Base64 is ASCII.
        let (line, more) = rest.split_at(rest.len().min(64));
        pem.extend([line, "\n"]);
        rest = more;
    }
    pem.push_str("-----END CERTIFICATE-----\n");
    pem
}
