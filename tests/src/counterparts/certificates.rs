//! Certificates for counterparts that use TLS.

use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;

use super::{TestError, folder};

/// Files of a CA, a certificate for the loopback interface, and its key.
#[derive(Debug, Clone)]
pub struct Certificates {
    folder: PathBuf,
}

impl Certificates {
    /// Creates a CA and a certificate for `localhost` and 127.0.0.1. `trusted` are further CAs that the servers trust
    /// among themselves.
    ///
    /// # Errors
    /// Returns an error if the files cannot be written.
    pub fn new(trusted: &[&Self]) -> Result<Self, TestError> {
        let folder = folder("tls")?;
        let mut ca = rcgen::CertificateParams::new(Vec::new())?;
        ca.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        ca.distinguished_name
            .push(rcgen::DnType::CommonName, format!("CA of {}", folder.display()));
        let ca_key = rcgen::KeyPair::generate()?;
        let ca_certificate = ca.self_signed(&ca_key)?;
        let names = ["localhost", "127.0.0.1", "::1"].map(ToOwned::to_owned).to_vec();
        let params = rcgen::CertificateParams::new(names)?;
        let key = rcgen::KeyPair::generate()?;
        let certificate = params.signed_by(&key, &rcgen::Issuer::new(ca, ca_key))?;
        fs::write(folder.join("key.pem"), key.serialize_pem())?;
        fs::write(folder.join("certificate.pem"), certificate.pem())?;
        fs::write(folder.join("ca.pem"), ca_certificate.pem())?;
        let mut all = ca_certificate.pem();
        for other in trusted {
            all += &fs::read_to_string(other.ca())?;
        }
        fs::write(folder.join("trusted.pem"), all)?;
        Ok(Self { folder })
    }

    /// Returns the certificates of this test program, the only ones that its own requests trust.
    ///
    /// # Errors
    /// As [`Certificates::new`].
    pub fn shared() -> Result<&'static Self, TestError> {
        static SHARED: OnceLock<Result<Certificates, String>> = OnceLock::new();
        let shared = SHARED.get_or_init(|| Self::new(&[]).map_err(|fault| fault.to_string()));
        shared.as_ref().map_err(|fault| fault.as_str().into())
    }

    /// Returns the path of the CA certificate.
    #[must_use]
    pub fn ca(&self) -> String {
        self.file("ca.pem")
    }

    /// Returns the CA certificate (PEM).
    ///
    /// # Errors
    /// Returns an error if the file is missing.
    pub fn pem(&self) -> Result<Vec<u8>, TestError> {
        Ok(fs::read(self.folder.join("ca.pem"))?)
    }

    /// Returns the path of the server certificate.
    #[must_use]
    pub fn certificate(&self) -> String {
        self.file("certificate.pem")
    }

    /// Returns the path of the server key.
    #[must_use]
    pub fn key(&self) -> String {
        self.file("key.pem")
    }

    /// Returns the path of all CAs that the servers trust.
    #[must_use]
    pub fn trusted(&self) -> String {
        self.file("trusted.pem")
    }

    fn file(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }
}
