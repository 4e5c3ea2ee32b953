//! Signing keys.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair,
    EcdsaSigningAlgorithm, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256,
};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject;
use serde::Serialize;
use vmcp_jwt::{Algorithm, Jwk, Key, KeySet};

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
    pair: PrivateKey,
    jwk: Jwk,
    algorithm: Algorithm,
}

enum PrivateKey {
    Rsa(rsa::KeyPair),
    Ec(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

/// Document at `jwks_uri` (RFC 7517 section 5).
#[derive(Serialize)]
struct JwkSet<'a> {
    keys: Vec<&'a Jwk>,
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
        if let Some(at) = signers.iter().position(|signer| !seen.insert(signer.kid().to_owned())) {
            return Err((at, SigningKeyError::Duplicate));
        }
        let jwks = JwkSet { keys: signers.iter().map(|signer| &signer.jwk).collect() };
        let jwks = serde_json::to_vec(&jwks).map_err(|_| (0, SigningKeyError::Unsupported))?;
        let parsed: Result<Vec<_>, _> =
            signers.iter().map(|signer| Key::new(&signer.jwk)).collect();
        let key_set = parsed.map_err(|_| (0, SigningKeyError::Unsupported))?.into_iter().collect();
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
        let header = serde_json::json!({
            "alg": self.signer.algorithm.name(), "kid": self.signer.kid(), "typ": typ,
        });
        let claims = serde_json::to_vec(claims).map_err(|_| SignError)?;
        let mut token = URL_SAFE_NO_PAD.encode(header.to_string());
        token.push('.');
        URL_SAFE_NO_PAD.encode_string(claims, &mut token);
        let signature = self.signer.pair.sign(token.as_bytes())?;
        token.push('.');
        URL_SAFE_NO_PAD.encode_string(signature, &mut token);
        Ok(token)
    }
}

impl fmt::Debug for SigningKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys")
            .field("signs", &self.signer.kid())
            .field("algorithm", &self.signer.algorithm)
            .field("keys", &self.key_set.keys().len())
            .field("ephemeral", &self.ephemeral)
            .finish_non_exhaustive()
    }
}

// === impl SigningKey ===

impl SigningKey {
    fn from_pem(pem: &[u8]) -> Result<Self, SigningKeyError> {
        let der = PrivateKeyDer::from_pem_slice(pem).map_err(|_| SigningKeyError::NotPem)?;
        match &der {
            PrivateKeyDer::Pkcs1(key) => {
                Self::from_rsa(rsa::KeyPair::from_der(key.secret_pkcs1_der()).ok())
            }
            PrivateKeyDer::Sec1(key) => {
                let der = key.secret_sec1_der();
                let pair = |algorithm| EcdsaKeyPair::from_private_key_der(algorithm, der).ok();
                Self::from_ec(pair)
            }
            PrivateKeyDer::Pkcs8(key) => {
                let der = key.secret_pkcs8_der();
                if let Ok(pair) = Ed25519KeyPair::from_pkcs8(der) {
                    return Ok(Self::from_ed25519(pair));
                }
                if let Ok(pair) = rsa::KeyPair::from_pkcs8(der) {
                    return Self::from_rsa(Some(pair));
                }
                Self::from_ec(|algorithm| EcdsaKeyPair::from_pkcs8(algorithm, der).ok())
            }
            _ => Err(SigningKeyError::Unsupported),
        }
    }

    /// Generates a P-256 key for the lifetime of the process.
    fn generate() -> Result<Self, SigningKeyError> {
        Self::from_ec(|algorithm| EcdsaKeyPair::generate(algorithm).ok())
    }

    fn from_rsa(pair: Option<rsa::KeyPair>) -> Result<Self, SigningKeyError> {
        // The library reports a short key as malformed; `TooShort` is the more likely cause.
        let pair = pair.ok_or(SigningKeyError::TooShort)?;
        if pair.public_modulus_len() * 8 < MIN_RSA_BITS {
            return Err(SigningKeyError::TooShort);
        }
        let (n, e) =
            rsa_components(pair.public_key().as_ref()).ok_or(SigningKeyError::Unsupported)?;
        let jwk =
            Jwk { kty: "RSA".into(), n: Some(encode(n)), e: Some(encode(e)), ..Jwk::default() };
        Ok(Self::with_key_id(PrivateKey::Rsa(pair), jwk, Algorithm::Rs256))
    }

    fn from_ec(
        pair: impl Fn(&'static EcdsaSigningAlgorithm) -> Option<EcdsaKeyPair>,
    ) -> Result<Self, SigningKeyError> {
        let curves = [
            (&ECDSA_P256_SHA256_FIXED_SIGNING, Algorithm::Es256, "P-256"),
            (&ECDSA_P384_SHA384_FIXED_SIGNING, Algorithm::Es384, "P-384"),
        ];
        let found = curves
            .iter()
            .find_map(|(signing, algorithm, crv)| Some((pair(signing)?, *algorithm, *crv)));
        let (pair, algorithm, crv) = found.ok_or(SigningKeyError::Unsupported)?;
        // Uncompressed point (SEC 1 section 2.3.3): 4, x, y.
        let point = pair.public_key().as_ref().get(1..).ok_or(SigningKeyError::Unsupported)?;
        let (x, y) = point.split_at(point.len() / 2);
        let jwk = Jwk {
            kty: "EC".into(),
            crv: Some(crv.into()),
            x: Some(encode(x)),
            y: Some(encode(y)),
            ..Jwk::default()
        };
        Ok(Self::with_key_id(PrivateKey::Ec(pair), jwk, algorithm))
    }

    fn from_ed25519(pair: Ed25519KeyPair) -> Self {
        let x = encode(pair.public_key().as_ref());
        let jwk =
            Jwk { kty: "OKP".into(), crv: Some("Ed25519".into()), x: Some(x), ..Jwk::default() };
        Self::with_key_id(PrivateKey::Ed25519(pair), jwk, Algorithm::EdDsa)
    }

    fn with_key_id(pair: PrivateKey, jwk: Jwk, algorithm: Algorithm) -> Self {
        let jwk = Jwk {
            kid: Some(jwk.thumbprint()),
            alg: Some(algorithm.name().into()),
            usage: Some("sig".into()),
            ..jwk
        };
        Self { pair, jwk, algorithm }
    }

    fn kid(&self) -> &str {
        self.jwk.kid.as_deref().expect("`with_key_id` sets the key's id")
    }
}

// === impl PrivateKey ===

impl PrivateKey {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, SignError> {
        let random = SystemRandom::new();
        match self {
            Self::Rsa(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature)
                    .map_err(|_| SignError)?;
                Ok(signature)
            }
            Self::Ec(pair) => pair
                .sign(&random, message)
                .map(|made| made.as_ref().to_vec())
                .map_err(|_| SignError),
            Self::Ed25519(pair) => Ok(pair.sign(message).as_ref().to_vec()),
        }
    }
}

fn encode(number: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(number)
}

/// Returns modulus and exponent of a DER `RSAPublicKey` (RFC 8017 appendix A.1.1), without leading zeros.
fn rsa_components(der: &[u8]) -> Option<(&[u8], &[u8])> {
    let (sequence, _) = split_der_element(der, 0x30)?;
    let (n, rest) = split_der_element(sequence, 0x02)?;
    let (e, _) = split_der_element(rest, 0x02)?;
    let trim = |number: &[u8]| number.iter().take_while(|byte| **byte == 0).count();
    Some((n.get(trim(n)..)?, e.get(trim(e)..)?))
}

/// Returns the value of the DER element with this tag, and the bytes after the element.
fn split_der_element(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (first, rest) = der.split_first()?;
    let (length, rest) = rest.split_first()?;
    let (length, rest) = if *length < 0x80 {
        (usize::from(*length), rest)
    } else {
        let (bytes, rest) = rest.split_at_checked(usize::from(length & 0x7f))?;
        (bytes.iter().fold(0, |sum: usize, byte| (sum << 8) | usize::from(*byte)), rest)
    };
    (*first == tag).then(|| rest.split_at_checked(length)).flatten()
}

#[cfg(test)]
mod tests;
