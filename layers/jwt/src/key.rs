//! Verification keys.

use std::fmt;

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ECDSA_P521_SHA512_FIXED, ED25519,
    ParsedPublicKey, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, VerificationAlgorithm,
};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::DecodingKey;
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve};

use crate::{Algorithm, Jwk};

/// Supported lengths of the modulus in bits (RFC 7518 section 3.3).
const RSA_BITS: std::ops::RangeInclusive<usize> = 2048..=8192;

/// Algorithms of an RSA key.
const RSA: [Algorithm; 6] = [
    Algorithm::Rs256,
    Algorithm::Rs384,
    Algorithm::Rs512,
    Algorithm::Ps256,
    Algorithm::Ps384,
    Algorithm::Ps512,
];

/// Public verification key, parsed once, for the algorithms that its `alg`, `use` and `key_ops` allow.
pub struct Key {
    kid: Option<Box<str>>,
    thumbprint: Box<str>,
    /// One entry for each allowed algorithm.
    verifying_keys: Vec<(Algorithm, VerifyingKey)>,
}

/// Key for the signatures of one algorithm.
pub(crate) enum VerifyingKey {
    /// Key of an algorithm that `jsonwebtoken` supports.
    Library(jsonwebtoken::Algorithm, DecodingKey),
    /// Key on P-521, which `jsonwebtoken` does not support.
    P521(ParsedPublicKey),
}

/// The error of a key that cannot verify signatures. A key set skips such keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// `use` is not `sig`, or `key_ops` lacks `verify`.
    #[error("the key's use or key_ops do not allow verifying signatures")]
    Usage,
    /// The key is symmetric, or its type or curve is not supported.
    #[error("the key's kty or crv is not supported")]
    Kind,
    /// `alg` is not a supported signature algorithm, or does not fit the key type.
    #[error("the key's alg is not supported or does not fit its kty")]
    Algorithm,
    /// A parameter is missing, not base64url, of the wrong length, or not a point of the curve.
    #[error("the key's parameters are malformed or out of range")]
    Numbers,
}

impl Key {
    /// Creates a verification key from `jwk`.
    ///
    /// # Errors
    /// See [`KeyError`].
    pub fn new(jwk: &Jwk) -> Result<Self, KeyError> {
        let is_signature_key = jwk.usage.as_deref().is_none_or(|usage| usage == "sig")
            && jwk.key_ops.as_ref().is_none_or(|ops| ops.iter().any(|op| op == "verify"));
        if !is_signature_key {
            return Err(KeyError::Usage);
        }
        let mut verifying_keys = verifying_keys(&jwk.to_library()?)?;
        if let Some(alg) = jwk.alg.as_deref() {
            let alg = Algorithm::from_name(alg).ok_or(KeyError::Algorithm)?;
            verifying_keys.retain(|(algorithm, _)| *algorithm == alg);
        }
        if verifying_keys.is_empty() {
            return Err(KeyError::Algorithm);
        }
        let kid = jwk.kid.as_deref().map(Box::from);
        Ok(Self { kid, thumbprint: jwk.thumbprint()?.into(), verifying_keys })
    }

    /// Returns the key id.
    #[must_use]
    pub fn kid(&self) -> Option<&str> {
        self.kid.as_deref()
    }

    /// Returns the SHA-256 thumbprint (RFC 7638).
    #[must_use]
    pub fn thumbprint(&self) -> &str {
        &self.thumbprint
    }

    /// Returns the algorithms of the key.
    pub fn algorithms(&self) -> impl Iterator<Item = Algorithm> {
        self.verifying_keys.iter().map(|(algorithm, _)| *algorithm)
    }

    /// Returns the key for `algorithm`, if the key allows it.
    pub(crate) fn for_algorithm(&self, algorithm: Algorithm) -> Option<&VerifyingKey> {
        self.verifying_keys.iter().find(|(known, _)| *known == algorithm).map(|(_, key)| key)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key")
            .field("kid", &self.kid)
            .field("thumbprint", &self.thumbprint)
            .finish_non_exhaustive()
    }
}

impl VerifyingKey {
    /// Returns `true` if `signature`, in base64url, is the key's signature of `message`.
    pub(crate) fn verifies(&self, message: &[u8], signature: &str) -> bool {
        match self {
            // An error is a malformed signature, or a key that does not fit the algorithm.
            Self::Library(algorithm, key) => {
                jsonwebtoken::crypto::verify(signature, message, key, *algorithm).unwrap_or(false)
            }
            Self::P521(key) => URL_SAFE_NO_PAD
                .decode(signature)
                .is_ok_and(|signature| key.verify_sig(message, &signature).is_ok()),
        }
    }
}

/// Returns a key for each algorithm of the key type and curve.
///
/// The library accepts any bytes as key and fails at the first signature. Keys are therefore parsed here as well, with
/// the library's own backend.
fn verifying_keys(
    jwk: &jsonwebtoken::jwk::Jwk,
) -> Result<Vec<(Algorithm, VerifyingKey)>, KeyError> {
    match &jwk.algorithm {
        AlgorithmParameters::RSA(parameters) => {
            let (n, e) = (decode(&parameters.n)?, decode(&parameters.e)?);
            let (n, e) = (strip_leading_zeros(&n), strip_leading_zeros(&e));
            let bits = n.first().map_or(0, |first| n.len() * 8 - first.leading_zeros() as usize);
            if !RSA_BITS.contains(&bits) {
                return Err(KeyError::Numbers);
            }
            let components = RsaPublicKeyComponents { n, e };
            components
                .to_parsed_public_key(&RSA_PKCS1_2048_8192_SHA256)
                .map_err(|_| KeyError::Numbers)?;
            Ok(library_keys(&RSA, &DecodingKey::from_rsa_raw_components(n, e)))
        }
        AlgorithmParameters::EllipticCurve(parameters) => {
            let (x, y) = (decode(&parameters.x)?, decode(&parameters.y)?);
            let (algorithm, verification, coordinate): (_, &'static dyn VerificationAlgorithm, _) =
                match parameters.curve {
                    EllipticCurve::P256 => (Algorithm::Es256, &ECDSA_P256_SHA256_FIXED, 32),
                    EllipticCurve::P384 => (Algorithm::Es384, &ECDSA_P384_SHA384_FIXED, 48),
                    EllipticCurve::P521 => (Algorithm::Es512, &ECDSA_P521_SHA512_FIXED, 66),
                    _ => return Err(KeyError::Kind),
                };
            if x.len() != coordinate || y.len() != coordinate {
                return Err(KeyError::Numbers);
            }
            // An uncompressed point (SEC 1 section 2.3.3).
            let point = [&[4], x.as_slice(), &y].concat();
            let parsed =
                ParsedPublicKey::new(verification, &point).map_err(|_| KeyError::Numbers)?;
            if algorithm == Algorithm::Es512 {
                return Ok(vec![(algorithm, VerifyingKey::P521(parsed))]);
            }
            Ok(library_keys(&[algorithm], &DecodingKey::from_ec_der(&point)))
        }
        AlgorithmParameters::OctetKeyPair(parameters) => {
            let x = decode(&parameters.x)?;
            if x.len() != 32 {
                return Err(KeyError::Numbers);
            }
            ParsedPublicKey::new(&ED25519, &x).map_err(|_| KeyError::Numbers)?;
            Ok(library_keys(&[Algorithm::EdDsa], &DecodingKey::from_ed_der(&x)))
        }
        _ => Err(KeyError::Kind),
    }
}

fn library_keys(algorithms: &[Algorithm], key: &DecodingKey) -> Vec<(Algorithm, VerifyingKey)> {
    let for_algorithm = |algorithm: &Algorithm| {
        let key = VerifyingKey::Library(algorithm.to_library()?, key.clone());
        Some((*algorithm, key))
    };
    algorithms.iter().filter_map(for_algorithm).collect()
}

fn decode(member: &str) -> Result<Vec<u8>, KeyError> {
    URL_SAFE_NO_PAD.decode(member).map_err(|_| KeyError::Numbers)
}

fn strip_leading_zeros(number: &[u8]) -> &[u8] {
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    &number[zeros..]
}

#[cfg(test)]
mod tests;
