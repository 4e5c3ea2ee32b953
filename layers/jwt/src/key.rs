//! A key that is ready to verify with.

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

/// The shortest and the longest modulus in bits (RFC 7518 section 3.3; what the verifier takes).
const RSA_BITS: std::ops::RangeInclusive<usize> = 2048..=8192;

/// One public key, parsed once, with what its `alg`, `use` and `key_ops` allow.
pub struct Key {
    kid: Option<Box<str>>,
    thumbprint: Box<str>,
    /// One for each algorithm that the key may be used with: a form of its own is what the verifier
    /// works on without preparing anything.
    prepared: Vec<(Algorithm, ParsedPublicKey)>,
}

/// Why a key verifies nothing. In a set it is skipped; the others are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyFault {
    /// `use` is not `sig`, or `key_ops` lacks `verify`.
    #[error("it is not for verifying signatures")]
    Usage,
    /// A symmetric key, or a kind or curve that is not known.
    #[error("its kty or crv is not supported")]
    Kind,
    /// `alg` is no signature algorithm, or none for this kind of key.
    #[error("its alg is not supported, or not for this kind of key")]
    Algorithm,
    /// A number is missing, not base64url, of the wrong length, or no point of the curve.
    #[error("its numbers are malformed or out of range")]
    Numbers,
}

impl Key {
    /// The key that `jwk` describes.
    ///
    /// # Errors
    /// See [`KeyFault`].
    pub fn new(jwk: &Jwk) -> Result<Self, KeyFault> {
        let for_signatures = jwk.usage.as_deref().is_none_or(|usage| usage == "sig")
            && jwk.key_ops.as_ref().is_none_or(|ops| ops.iter().any(|op| op == "verify"));
        if !for_signatures {
            return Err(KeyFault::Usage);
        }
        let mut prepared = match (jwk.kty.as_str(), jwk.crv.as_deref()) {
            ("RSA", _) => rsa(jwk)?,
            ("EC", Some("P-256")) => ec(jwk, Algorithm::Es256, &ECDSA_P256_SHA256_FIXED, 32)?,
            ("EC", Some("P-384")) => ec(jwk, Algorithm::Es384, &ECDSA_P384_SHA384_FIXED, 48)?,
            ("EC", Some("P-521")) => ec(jwk, Algorithm::Es512, &ECDSA_P521_SHA512_FIXED, 66)?,
            ("OKP", Some("Ed25519")) => ed25519(jwk)?,
            _ => return Err(KeyFault::Kind),
        };
        if let Some(alg) = jwk.alg.as_deref() {
            let only = Algorithm::named(alg).ok_or(KeyFault::Algorithm)?;
            prepared.retain(|(algorithm, _)| *algorithm == only);
        }
        if prepared.is_empty() {
            return Err(KeyFault::Algorithm);
        }
        let kid = jwk.kid.as_deref().map(Box::from);
        Ok(Self { kid, thumbprint: jwk.thumbprint().into(), prepared })
    }

    /// Its name in the set.
    #[must_use]
    pub fn kid(&self) -> Option<&str> {
        self.kid.as_deref()
    }

    /// Its SHA-256 thumbprint (RFC 7638).
    #[must_use]
    pub fn thumbprint(&self) -> &str {
        &self.thumbprint
    }

    /// The algorithms that it may be used with.
    pub fn algorithms(&self) -> impl Iterator<Item = Algorithm> {
        self.prepared.iter().map(|(algorithm, _)| *algorithm)
    }

    /// The form that verifies `algorithm`, if the key may be used with it.
    pub(crate) fn prepared(&self, algorithm: Algorithm) -> Option<&ParsedPublicKey> {
        self.prepared.iter().find(|(known, _)| *known == algorithm).map(|(_, key)| key)
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

fn rsa(jwk: &Jwk) -> Result<Vec<(Algorithm, ParsedPublicKey)>, KeyFault> {
    const FORMS: [(Algorithm, &RsaParameters); 6] = [
        (Algorithm::Rs256, &RSA_PKCS1_2048_8192_SHA256),
        (Algorithm::Rs384, &RSA_PKCS1_2048_8192_SHA384),
        (Algorithm::Rs512, &RSA_PKCS1_2048_8192_SHA512),
        (Algorithm::Ps256, &RSA_PSS_2048_8192_SHA256),
        (Algorithm::Ps384, &RSA_PSS_2048_8192_SHA384),
        (Algorithm::Ps512, &RSA_PSS_2048_8192_SHA512),
    ];
    let (n, e) = (number(jwk.n.as_deref())?, number(jwk.e.as_deref())?);
    let n = trim(&n);
    let bits = n.first().map_or(0, |first| n.len() * 8 - first.leading_zeros() as usize);
    if !RSA_BITS.contains(&bits) {
        return Err(KeyFault::Numbers);
    }
    let components = RsaPublicKeyComponents { n, e: trim(&e) };
    let form = |(algorithm, parameters)| {
        let key = components.to_parsed_public_key(parameters).map_err(|_| KeyFault::Numbers)?;
        Ok((algorithm, key))
    };
    FORMS.into_iter().map(form).collect()
}

fn ec(
    jwk: &Jwk,
    algorithm: Algorithm,
    verification: &'static dyn VerificationAlgorithm,
    coordinate: usize,
) -> Result<Vec<(Algorithm, ParsedPublicKey)>, KeyFault> {
    let (x, y) = (number(jwk.x.as_deref())?, number(jwk.y.as_deref())?);
    if x.len() != coordinate || y.len() != coordinate {
        return Err(KeyFault::Numbers);
    }
    // An uncompressed point (SEC 1 section 2.3.3).
    let point = [&[4], x.as_slice(), &y].concat();
    let key = ParsedPublicKey::new(verification, point).map_err(|_| KeyFault::Numbers)?;
    Ok(vec![(algorithm, key)])
}

fn ed25519(jwk: &Jwk) -> Result<Vec<(Algorithm, ParsedPublicKey)>, KeyFault> {
    let x = number(jwk.x.as_deref())?;
    if x.len() != 32 {
        return Err(KeyFault::Numbers);
    }
    let key = ParsedPublicKey::new(&ED25519, x).map_err(|_| KeyFault::Numbers)?;
    Ok(vec![(Algorithm::EdDsa, key)])
}

fn number(member: Option<&str>) -> Result<Vec<u8>, KeyFault> {
    let text = member.ok_or(KeyFault::Numbers)?;
    URL_SAFE_NO_PAD.decode(text).map_err(|_| KeyFault::Numbers)
}

fn trim(number: &[u8]) -> &[u8] {
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    &number[zeros..]
}

#[cfg(test)]
mod tests;
