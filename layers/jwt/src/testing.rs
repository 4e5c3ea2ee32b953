//! Test support: keys and tokens.

use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING,
    ECDSA_P521_SHA512_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256,
    RSA_PKCS1_SHA384, RSA_PKCS1_SHA512, RSA_PSS_SHA256, RSA_PSS_SHA384, RSA_PSS_SHA512,
    RsaEncoding, RsaKeyPair, RsaPublicKeyComponents,
};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use crate::Algorithm;

pub(crate) const ISSUER: &str = "https://id.example/t1";
pub(crate) const AUDIENCE: &str = "https://mcp.example/mcp";
/// 2026-07-28, shortly after noon.
pub(crate) const NOW: u64 = 1_785_240_000;

pub(crate) fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(NOW)
}

/// Signing key pair.
pub(crate) enum Pair {
    Rsa(Box<RsaKeyPair>),
    Ec(EcdsaKeyPair, Algorithm),
    Ed(Ed25519KeyPair),
}

impl Pair {
    /// Returns an RSA key that all tests share, since generation is slow.
    pub(crate) fn rsa() -> &'static Self {
        static RSA: OnceLock<Pair> = OnceLock::new();
        RSA.get_or_init(|| Self::Rsa(Box::new(RsaKeyPair::generate(KeySize::Rsa2048).unwrap())))
    }

    pub(crate) fn ec(algorithm: Algorithm) -> Self {
        let signing = match algorithm {
            Algorithm::Es256 => &ECDSA_P256_SHA256_FIXED_SIGNING,
            Algorithm::Es384 => &ECDSA_P384_SHA384_FIXED_SIGNING,
            _ => &ECDSA_P521_SHA512_FIXED_SIGNING,
        };
        Self::Ec(EcdsaKeyPair::generate(signing).unwrap(), algorithm)
    }

    pub(crate) fn ed() -> Self {
        Self::Ed(Ed25519KeyPair::generate().unwrap())
    }

    /// Returns the public key as a JWK.
    pub(crate) fn jwk(&self, kid: &str) -> Value {
        let text = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        match self {
            Self::Rsa(pair) => {
                let public = RsaPublicKeyComponents::<Vec<u8>>::from(pair.public_key());
                json!({"kty": "RSA", "kid": kid, "n": text(&public.n), "e": text(&public.e)})
            }
            Self::Ec(pair, algorithm) => {
                let crv = match algorithm {
                    Algorithm::Es256 => "P-256",
                    Algorithm::Es384 => "P-384",
                    _ => "P-521",
                };
                let (x, y) = pair.public_key().as_ref()[1..]
                    .split_at((pair.public_key().as_ref().len() - 1) / 2);
                json!({"kty": "EC", "crv": crv, "kid": kid, "x": text(x), "y": text(y)})
            }
            Self::Ed(pair) => {
                let x = text(pair.public_key().as_ref());
                json!({"kty": "OKP", "crv": "Ed25519", "kid": kid, "x": x})
            }
        }
    }

    /// Returns a token with this header and these claims, signed with `algorithm`.
    pub(crate) fn sign_text(&self, algorithm: Algorithm, header: &str, claims: &str) -> String {
        let encode = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let signed = format!("{}.{}", encode(header.as_bytes()), encode(claims.as_bytes()));
        let signature = self.signature(algorithm, signed.as_bytes());
        format!("{signed}.{}", encode(&signature))
    }

    /// Returns a token signed with the key `kid`.
    pub(crate) fn sign(&self, algorithm: Algorithm, kid: &str, claims: &Value) -> String {
        let header = json!({"alg": algorithm.name(), "kid": kid}).to_string();
        self.sign_text(algorithm, &header, &claims.to_string())
    }

    fn signature(&self, algorithm: Algorithm, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match self {
            Self::Rsa(pair) => {
                let encoding: &'static dyn RsaEncoding = match algorithm {
                    Algorithm::Rs384 => &RSA_PKCS1_SHA384,
                    Algorithm::Rs512 => &RSA_PKCS1_SHA512,
                    Algorithm::Ps256 => &RSA_PSS_SHA256,
                    Algorithm::Ps384 => &RSA_PSS_SHA384,
                    Algorithm::Ps512 => &RSA_PSS_SHA512,
                    _ => &RSA_PKCS1_SHA256,
                };
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(encoding, &random, message, &mut signature).unwrap();
                signature
            }
            Self::Ec(pair, _) => pair.sign(&random, message).unwrap().as_ref().to_vec(),
            Self::Ed(pair) => pair.sign(message).as_ref().to_vec(),
        }
    }
}

/// Returns a key set.
pub(crate) fn set(keys: &[Value]) -> String {
    json!({ "keys": keys }).to_string()
}

/// Returns valid claims.
pub(crate) fn claims() -> Value {
    json!({"iss": ISSUER, "aud": AUDIENCE, "sub": "alice", "exp": NOW + 3600, "iat": NOW})
}

/// Returns valid claims with one member changed, or removed by `null`.
pub(crate) fn claims_with(name: &str, value: Value) -> Value {
    let mut claims = claims();
    let object = claims.as_object_mut().unwrap();
    if value.is_null() {
        object.remove(name);
    } else {
        object.insert(name.into(), value);
    }
    claims
}
