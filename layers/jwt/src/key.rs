//! Verification keys.

use std::fmt;

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ECDSA_P521_SHA512_FIXED, ED25519,
    ParsedPublicKey, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384,
    RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256, RSA_PSS_2048_8192_SHA384,
    RSA_PSS_2048_8192_SHA512, RsaParameters, RsaPublicKeyComponents, VerificationAlgorithm,
};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::{Algorithm, Jwk};

/// Supported lengths of the modulus in bits (RFC 7518 section 3.3).
const RSA_BITS: std::ops::RangeInclusive<usize> = 2048..=8192;

/// Public verification key, parsed once, for the algorithms that its `alg`, `use` and `key_ops` allow.
pub struct Key {
    kid: Option<Box<str>>,
    thumbprint: Box<str>,
    /// One parsed key for each allowed algorithm, so that verification needs no preparation.
    verifying_keys: Vec<(Algorithm, ParsedPublicKey)>,
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
        let mut verifying_keys = match (jwk.kty.as_str(), jwk.crv.as_deref()) {
            ("RSA", _) => rsa(jwk)?,
            ("EC", Some("P-256")) => ec(jwk, Algorithm::Es256, &ECDSA_P256_SHA256_FIXED, 32)?,
            ("EC", Some("P-384")) => ec(jwk, Algorithm::Es384, &ECDSA_P384_SHA384_FIXED, 48)?,
            ("EC", Some("P-521")) => ec(jwk, Algorithm::Es512, &ECDSA_P521_SHA512_FIXED, 66)?,
            ("OKP", Some("Ed25519")) => ed25519(jwk)?,
            _ => return Err(KeyError::Kind),
        };
        if let Some(alg) = jwk.alg.as_deref() {
            let alg = Algorithm::from_name(alg).ok_or(KeyError::Algorithm)?;
            verifying_keys.retain(|(algorithm, _)| *algorithm == alg);
        }
        if verifying_keys.is_empty() {
            return Err(KeyError::Algorithm);
        }
        let kid = jwk.kid.as_deref().map(Box::from);
        Ok(Self { kid, thumbprint: jwk.thumbprint().into(), verifying_keys })
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

    /// Returns the parsed key for `algorithm`, if the key allows it.
    pub(crate) fn for_algorithm(&self, algorithm: Algorithm) -> Option<&ParsedPublicKey> {
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

fn rsa(jwk: &Jwk) -> Result<Vec<(Algorithm, ParsedPublicKey)>, KeyError> {
    const ALGORITHMS: [(Algorithm, &RsaParameters); 6] = [
        (Algorithm::Rs256, &RSA_PKCS1_2048_8192_SHA256),
        (Algorithm::Rs384, &RSA_PKCS1_2048_8192_SHA384),
        (Algorithm::Rs512, &RSA_PKCS1_2048_8192_SHA512),
        (Algorithm::Ps256, &RSA_PSS_2048_8192_SHA256),
        (Algorithm::Ps384, &RSA_PSS_2048_8192_SHA384),
        (Algorithm::Ps512, &RSA_PSS_2048_8192_SHA512),
    ];
    let (n, e) = (decode_member(jwk.n.as_deref())?, decode_member(jwk.e.as_deref())?);
    let n = strip_leading_zeros(&n);
    let bits = n.first().map_or(0, |first| n.len() * 8 - first.leading_zeros() as usize);
    if !RSA_BITS.contains(&bits) {
        return Err(KeyError::Numbers);
    }
    let components = RsaPublicKeyComponents { n, e: strip_leading_zeros(&e) };
    let for_parameters = |(algorithm, parameters)| {
        let key = components.to_parsed_public_key(parameters).map_err(|_| KeyError::Numbers)?;
        Ok((algorithm, key))
    };
    ALGORITHMS.into_iter().map(for_parameters).collect()
}

fn ec(
    jwk: &Jwk,
    algorithm: Algorithm,
    verification: &'static dyn VerificationAlgorithm,
    coordinate: usize,
) -> Result<Vec<(Algorithm, ParsedPublicKey)>, KeyError> {
    let (x, y) = (decode_member(jwk.x.as_deref())?, decode_member(jwk.y.as_deref())?);
    if x.len() != coordinate || y.len() != coordinate {
        return Err(KeyError::Numbers);
    }
    // An uncompressed point (SEC 1 section 2.3.3).
    let point = [&[4], x.as_slice(), &y].concat();
    let key = ParsedPublicKey::new(verification, point).map_err(|_| KeyError::Numbers)?;
    Ok(vec![(algorithm, key)])
}

fn ed25519(jwk: &Jwk) -> Result<Vec<(Algorithm, ParsedPublicKey)>, KeyError> {
    let x = decode_member(jwk.x.as_deref())?;
    if x.len() != 32 {
        return Err(KeyError::Numbers);
    }
    let key = ParsedPublicKey::new(&ED25519, x).map_err(|_| KeyError::Numbers)?;
    Ok(vec![(Algorithm::EdDsa, key)])
}

fn decode_member(member: Option<&str>) -> Result<Vec<u8>, KeyError> {
    let text = member.ok_or(KeyError::Numbers)?;
    URL_SAFE_NO_PAD.decode(text).map_err(|_| KeyError::Numbers)
}

fn strip_leading_zeros(decode_member: &[u8]) -> &[u8] {
    let zeros = decode_member.iter().take_while(|byte| **byte == 0).count();
    &decode_member[zeros..]
}

#[cfg(test)]
mod tests;
