//! Signing keys.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair,
};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use jsonwebtoken::jwk::{AlgorithmParameters, Jwk, JwkSet, PublicKeyUse, ThumbprintHash};
use jsonwebtoken::{EncodingKey, Header};
use pem::Pem;
use serde::Serialize;
use vmcp_jwt::{Algorithm, KeySet};

/// Maximum number of signing keys: the active one and a few in rotation.
pub const MAX_SIGNING_KEYS: usize = 5;

/// Minimum size of an RSA modulus for signing, in bits (RFC 7518 section 3.3).
const MIN_RSA_BITS: usize = 2048;

/// Signing keys of the issuer: the first signs; all are published and verify.
///
/// To rotate, append the new key; once every replica has it, move it to the front; once the last token of the old key has
/// expired, remove the old key.
#[derive(Clone)]
pub struct SigningKeys {
    signer: Arc<SigningKey>,
    key_set: Arc<KeySet>,
    jwks: Bytes,
    ephemeral: bool,
}

/// Error of a signing key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SigningKeyError {
    /// The PEM text has no `PRIVATE KEY`, `RSA PRIVATE KEY` or `EC PRIVATE KEY` block.
    #[error("no PEM private key found: use unencrypted PKCS#8, PKCS#1 or SEC1")]
    NotPem,
    /// The RSA key is too short.
    #[error("RSA key is too short: use at least {MIN_RSA_BITS} bits")]
    TooShort,
    /// The key is of an unsupported kind, such as P-521 or Ed448.
    #[error("key is damaged or of an unsupported kind: use RSA, P-256, P-384 or Ed25519")]
    Unsupported,
    /// There are more than [`MAX_SIGNING_KEYS`] keys.
    #[error("too many signing keys: use at most {MAX_SIGNING_KEYS}")]
    TooMany,
    /// The list has the same key twice.
    #[error("signing key is repeated: list each key once")]
    Duplicate,
}

/// Private key with its public form.
struct SigningKey {
    key: EncodingKey,
    kid: String,
    jwk: Jwk,
    algorithm: Algorithm,
    /// [`Self::algorithm`] in `jsonwebtoken`.
    header_algorithm: jsonwebtoken::Algorithm,
}

/// Error of a signing operation: the random generator or memory allocation failed.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("failed to sign token")]
pub(crate) struct SignError;

// === impl SigningKeys ===

impl SigningKeys {
    /// Reads one key from each element of `pems`; the first signs. An empty list generates a key, whose tokens become
    /// invalid at a restart.
    ///
    /// # Errors
    /// Returns the index of the invalid key and its error.
    pub fn new<P: AsRef<[u8]>>(pems: &[P]) -> Result<Self, (usize, SigningKeyError)> {
        if pems.len() > MAX_SIGNING_KEYS {
            return Err((MAX_SIGNING_KEYS, SigningKeyError::TooMany));
        }
        let read = |(at, pem): (usize, &P)| {
            SigningKey::from_pem(pem.as_ref()).map_err(|error| (at, error))
        };
        let mut signers = pems.iter().enumerate().map(read).collect::<Result<Vec<_>, _>>()?;
        let ephemeral = signers.is_empty();
        if ephemeral {
            signers.push(SigningKey::generate().map_err(|error| (0, error))?);
        }
        let mut seen = BTreeSet::new();
        if let Some(at) = signers.iter().position(|signer| !seen.insert(signer.kid.clone())) {
            return Err((at, SigningKeyError::Duplicate));
        }
        let jwks = JwkSet { keys: signers.iter().map(|signer| signer.jwk.clone()).collect() };
        let jwks = serde_json::to_vec(&jwks).map_err(|_| (0, SigningKeyError::Unsupported))?;
        // In process, the published keys verify tokens as they do elsewhere.
        let key_set = KeySet::parse(&jwks).map_err(|_| (0, SigningKeyError::Unsupported))?;
        let is_usable = |signer: &SigningKey| {
            key_set.keys().iter().any(|key| key.kid() == Some(signer.kid.as_str()))
        };
        if let Some(at) = signers.iter().position(|signer| !is_usable(signer)) {
            return Err((at, SigningKeyError::Unsupported));
        }
        let signer = Arc::new(signers.swap_remove(0));
        Ok(Self { signer, key_set: Arc::new(key_set), jwks: jwks.into(), ephemeral })
    }

    /// Returns the public keys, for verification in process.
    #[must_use]
    pub fn key_set(&self) -> &Arc<KeySet> {
        &self.key_set
    }

    /// Returns the document at `jwks_uri`.
    #[must_use]
    pub fn jwks(&self) -> &Bytes {
        &self.jwks
    }

    /// Returns `true` if the key was generated at start, so that its tokens end with the process.
    #[must_use]
    pub fn is_ephemeral(&self) -> bool {
        self.ephemeral
    }

    /// Returns the signature algorithm of new tokens.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        self.signer.algorithm
    }

    /// Signs a token of type `typ` with these claims (RFC 7515 section 7.1).
    pub(crate) fn sign(&self, typ: &str, claims: &impl Serialize) -> Result<String, SignError> {
        let header = Header {
            typ: Some(typ.to_owned()),
            kid: Some(self.signer.kid.clone()),
            ..Header::new(self.signer.header_algorithm)
        };
        jsonwebtoken::encode(&header, claims, &self.signer.key).map_err(|_| SignError)
    }
}

impl fmt::Debug for SigningKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys")
            .field("signs", &self.signer.kid)
            .field("algorithm", &self.signer.algorithm)
            .field("keys", &self.key_set.keys().len())
            .field("ephemeral", &self.ephemeral)
            .finish_non_exhaustive()
    }
}

// === impl SigningKey ===

impl SigningKey {
    /// Reads the first private key in PEM text; other sections, such as certificates, are skipped.
    fn from_pem(text: &[u8]) -> Result<Self, SigningKeyError> {
        let sections = pem::parse_many(text).map_err(|_| SigningKeyError::NotPem)?;
        let is_private_key = |section: &&Pem| section.tag().ends_with("PRIVATE KEY");
        let section = sections.iter().find(is_private_key).ok_or(SigningKeyError::NotPem)?;
        // RFC 1421 section 4.6.1.1: the section is encrypted.
        if section.headers().get("Proc-Type").is_some() {
            return Err(SigningKeyError::NotPem);
        }
        match section.tag() {
            "PRIVATE KEY" => Self::from_pkcs8(section),
            "RSA PRIVATE KEY" => Self::from_rsa(EncodingKey::from_rsa_der(section.contents())),
            "EC PRIVATE KEY" => Self::from_sec1(section.contents()),
            _ => Err(SigningKeyError::NotPem),
        }
    }

    fn from_pkcs8(section: &Pem) -> Result<Self, SigningKeyError> {
        let text = pem::encode(section);
        if let Ok(key) = EncodingKey::from_rsa_pem(text.as_bytes()) {
            return Self::from_rsa(key);
        }
        if let Ok(key) = EncodingKey::from_ec_pem(text.as_bytes()) {
            return Self::from_ec(&key);
        }
        // The library reads version 1 of PKCS#8, which has no public key.
        let pair = Ed25519KeyPair::from_pkcs8(section.contents())
            .map_err(|_| SigningKeyError::Unsupported)?;
        let der = pair.to_pkcs8v1().map_err(|_| SigningKeyError::Unsupported)?;
        Self::new(
            EncodingKey::from_ed_der(der.as_ref()),
            Algorithm::EdDsa,
            jsonwebtoken::Algorithm::EdDSA,
        )
    }

    /// Reads an EC key (RFC 5915), of which the library reads the PKCS#8 form.
    fn from_sec1(der: &[u8]) -> Result<Self, SigningKeyError> {
        let pkcs8 = [&ECDSA_P256_SHA256_FIXED_SIGNING, &ECDSA_P384_SHA384_FIXED_SIGNING]
            .into_iter()
            .find_map(|curve| EcdsaKeyPair::from_private_key_der(curve, der).ok())
            .and_then(|pair| pair.to_pkcs8v1().ok())
            .ok_or(SigningKeyError::Unsupported)?;
        Self::from_ec(&EncodingKey::from_ec_der(pkcs8.as_ref()))
    }

    /// Generates a P-256 key for the lifetime of the process.
    fn generate() -> Result<Self, SigningKeyError> {
        let pkcs8 = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING)
            .and_then(|pair| pair.to_pkcs8v1())
            .map_err(|_| SigningKeyError::Unsupported)?;
        Self::from_ec(&EncodingKey::from_ec_der(pkcs8.as_ref()))
    }

    fn from_rsa(key: EncodingKey) -> Result<Self, SigningKeyError> {
        // The library reports a short key as malformed; `TooShort` is the more likely cause.
        let signing = Self::new(key, Algorithm::Rs256, jsonwebtoken::Algorithm::RS256)
            .map_err(|_| SigningKeyError::TooShort)?;
        let AlgorithmParameters::RSA(parameters) = &signing.jwk.algorithm else {
            return Err(SigningKeyError::Unsupported);
        };
        let modulus =
            URL_SAFE_NO_PAD.decode(&parameters.n).map_err(|_| SigningKeyError::Unsupported)?;
        if modulus.len() * 8 < MIN_RSA_BITS {
            return Err(SigningKeyError::TooShort);
        }
        Ok(signing)
    }

    fn from_ec(key: &EncodingKey) -> Result<Self, SigningKeyError> {
        Self::new(key.clone(), Algorithm::Es256, jsonwebtoken::Algorithm::ES256)
            .or_else(|_| Self::new(key.clone(), Algorithm::Es384, jsonwebtoken::Algorithm::ES384))
    }

    /// Derives the public key, with its thumbprint (RFC 7638) as id.
    fn new(
        key: EncodingKey,
        algorithm: Algorithm,
        header_algorithm: jsonwebtoken::Algorithm,
    ) -> Result<Self, SigningKeyError> {
        let mut jwk = Jwk::from_encoding_key(&key, header_algorithm)
            .map_err(|_| SigningKeyError::Unsupported)?;
        let kid =
            jwk.thumbprint(ThumbprintHash::SHA256).map_err(|_| SigningKeyError::Unsupported)?;
        jwk.common.key_id = Some(kid.clone());
        jwk.common.public_key_use = Some(PublicKeyUse::Signature);
        Ok(Self { key, kid, jwk, algorithm, header_algorithm })
    }
}

#[cfg(test)]
mod tests;
