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
const RSA_BITS: usize = 2048;

/// Signing keys of the issuer: the first signs; all are published and verify.
///
/// To rotate, append the new key; once every replica has it, move it to the front; once the last token of the old key has
/// expired, remove the old key.
#[derive(Clone)]
pub struct Keys {
    signer: Arc<Signer>,
    set: Arc<KeySet>,
    published: Bytes,
    ephemeral: bool,
}

/// Error of a signing key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SigningKeyFault {
    /// The PEM text has no `PRIVATE KEY`, `RSA PRIVATE KEY` or `EC PRIVATE KEY` block.
    #[error("there is no PEM private key in it: PKCS#8, PKCS#1 or SEC1 is needed, unencrypted")]
    NotPem,
    /// The RSA key is too short.
    #[error("the RSA key is shorter than {RSA_BITS} bits")]
    TooShort,
    /// The key is of an unsupported kind, such as P-521 or Ed448.
    #[error("the key is neither RSA, P-256, P-384 nor Ed25519, or it is damaged")]
    Kind,
    /// There are more than [`MAX_SIGNING_KEYS`] keys.
    #[error("there are more than {MAX_SIGNING_KEYS} signing keys")]
    TooMany,
    /// The list has the same key twice.
    #[error("the same key is there twice")]
    Twice,
}

/// Private key with its public form.
struct Signer {
    pair: Pair,
    jwk: Jwk,
    algorithm: Algorithm,
}

enum Pair {
    Rsa(rsa::KeyPair),
    Ec(EcdsaKeyPair),
    Ed(Ed25519KeyPair),
}

/// Document at `jwks_uri` (RFC 7517 section 5).
#[derive(Serialize)]
struct Published<'a> {
    keys: Vec<&'a Jwk>,
}

/// Error of a signing operation: the random generator or memory allocation failed.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("a token cannot be signed")]
pub(crate) struct SignError;

// === impl Keys ===

impl Keys {
    /// Reads one key from each element of `pems`; the first signs. An empty list generates a key, whose tokens become
    /// invalid at a restart.
    ///
    /// # Errors
    /// Returns the index of the invalid key and its error.
    pub fn new<P: AsRef<[u8]>>(pems: &[P]) -> Result<Self, (usize, SigningKeyFault)> {
        if pems.len() > MAX_SIGNING_KEYS {
            return Err((MAX_SIGNING_KEYS, SigningKeyFault::TooMany));
        }
        let read =
            |(at, pem): (usize, &P)| Signer::from_pem(pem.as_ref()).map_err(|fault| (at, fault));
        let mut signers = pems.iter().enumerate().map(read).collect::<Result<Vec<_>, _>>()?;
        let ephemeral = signers.is_empty();
        if ephemeral {
            signers.push(Signer::generate().map_err(|fault| (0, fault))?);
        }
        let mut seen = BTreeSet::new();
        if let Some(at) = signers.iter().position(|signer| !seen.insert(signer.kid().to_owned())) {
            return Err((at, SigningKeyFault::Twice));
        }
        let published = Published { keys: signers.iter().map(|signer| &signer.jwk).collect() };
        let published = serde_json::to_vec(&published).map_err(|_| (0, SigningKeyFault::Kind))?;
        let parsed: Result<Vec<_>, _> =
            signers.iter().map(|signer| Key::new(&signer.jwk)).collect();
        let set = parsed.map_err(|_| (0, SigningKeyFault::Kind))?.into_iter().collect();
        let signer = Arc::new(signers.swap_remove(0));
        Ok(Self { signer, set: Arc::new(set), published: published.into(), ephemeral })
    }

    /// Returns the public keys, for verification in process.
    #[must_use]
    pub fn set(&self) -> &Arc<KeySet> {
        &self.set
    }

    /// Returns the document at `jwks_uri`.
    #[must_use]
    pub fn published(&self) -> &Bytes {
        &self.published
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

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys")
            .field("signs", &self.signer.kid())
            .field("algorithm", &self.signer.algorithm)
            .field("keys", &self.set.keys().len())
            .field("ephemeral", &self.ephemeral)
            .finish_non_exhaustive()
    }
}

// === impl Signer ===

impl Signer {
    fn from_pem(pem: &[u8]) -> Result<Self, SigningKeyFault> {
        let der = PrivateKeyDer::from_pem_slice(pem).map_err(|_| SigningKeyFault::NotPem)?;
        match &der {
            PrivateKeyDer::Pkcs1(key) => {
                Self::rsa(rsa::KeyPair::from_der(key.secret_pkcs1_der()).ok())
            }
            PrivateKeyDer::Sec1(key) => {
                let der = key.secret_sec1_der();
                let pair = |algorithm| EcdsaKeyPair::from_private_key_der(algorithm, der).ok();
                Self::ec(pair)
            }
            PrivateKeyDer::Pkcs8(key) => {
                let der = key.secret_pkcs8_der();
                if let Ok(pair) = Ed25519KeyPair::from_pkcs8(der) {
                    return Ok(Self::ed(pair));
                }
                if let Ok(pair) = rsa::KeyPair::from_pkcs8(der) {
                    return Self::rsa(Some(pair));
                }
                Self::ec(|algorithm| EcdsaKeyPair::from_pkcs8(algorithm, der).ok())
            }
            _ => Err(SigningKeyFault::Kind),
        }
    }

    /// Generates a P-256 key for the lifetime of the process.
    fn generate() -> Result<Self, SigningKeyFault> {
        Self::ec(|algorithm| EcdsaKeyPair::generate(algorithm).ok())
    }

    fn rsa(pair: Option<rsa::KeyPair>) -> Result<Self, SigningKeyFault> {
        // The library reports a short key as malformed; `TooShort` is the more likely cause.
        let pair = pair.ok_or(SigningKeyFault::TooShort)?;
        if pair.public_modulus_len() * 8 < RSA_BITS {
            return Err(SigningKeyFault::TooShort);
        }
        let (n, e) = rsa_numbers(pair.public_key().as_ref()).ok_or(SigningKeyFault::Kind)?;
        let jwk =
            Jwk { kty: "RSA".into(), n: Some(encode(n)), e: Some(encode(e)), ..Jwk::default() };
        Ok(Self::named(Pair::Rsa(pair), jwk, Algorithm::Rs256))
    }

    fn ec(
        pair: impl Fn(&'static EcdsaSigningAlgorithm) -> Option<EcdsaKeyPair>,
    ) -> Result<Self, SigningKeyFault> {
        let curves = [
            (&ECDSA_P256_SHA256_FIXED_SIGNING, Algorithm::Es256, "P-256"),
            (&ECDSA_P384_SHA384_FIXED_SIGNING, Algorithm::Es384, "P-384"),
        ];
        let found = curves
            .iter()
            .find_map(|(signing, algorithm, crv)| Some((pair(signing)?, *algorithm, *crv)));
        let (pair, algorithm, crv) = found.ok_or(SigningKeyFault::Kind)?;
        // Uncompressed point (SEC 1 section 2.3.3): 4, x, y.
        let point = pair.public_key().as_ref().get(1..).ok_or(SigningKeyFault::Kind)?;
        let (x, y) = point.split_at(point.len() / 2);
        let jwk = Jwk {
            kty: "EC".into(),
            crv: Some(crv.into()),
            x: Some(encode(x)),
            y: Some(encode(y)),
            ..Jwk::default()
        };
        Ok(Self::named(Pair::Ec(pair), jwk, algorithm))
    }

    fn ed(pair: Ed25519KeyPair) -> Self {
        let x = encode(pair.public_key().as_ref());
        let jwk =
            Jwk { kty: "OKP".into(), crv: Some("Ed25519".into()), x: Some(x), ..Jwk::default() };
        Self::named(Pair::Ed(pair), jwk, Algorithm::EdDsa)
    }

    fn named(pair: Pair, jwk: Jwk, algorithm: Algorithm) -> Self {
        let jwk = Jwk {
            kid: Some(jwk.thumbprint()),
            alg: Some(algorithm.name().into()),
            usage: Some("sig".into()),
            ..jwk
        };
        Self { pair, jwk, algorithm }
    }

    fn kid(&self) -> &str {
        self.jwk.kid.as_deref().unwrap_or_default()
    }
}

// === impl Pair ===

impl Pair {
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
            Self::Ed(pair) => Ok(pair.sign(message).as_ref().to_vec()),
        }
    }
}

fn encode(number: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(number)
}

/// Returns modulus and exponent of a DER `RSAPublicKey` (RFC 8017 appendix A.1.1), without leading zeros.
fn rsa_numbers(der: &[u8]) -> Option<(&[u8], &[u8])> {
    let (sequence, _) = der_value(der, 0x30)?;
    let (n, rest) = der_value(sequence, 0x02)?;
    let (e, _) = der_value(rest, 0x02)?;
    let trim = |number: &[u8]| number.iter().take_while(|byte| **byte == 0).count();
    Some((n.get(trim(n)..)?, e.get(trim(e)..)?))
}

/// Returns the value of the DER element with this tag, and the bytes after the element.
fn der_value(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
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
