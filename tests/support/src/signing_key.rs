//! Keys that sign tokens.

use std::fmt;
use std::sync::OnceLock;

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

const GENERATION: &str = "key generation fails only without randomness or memory";
const SIGNING: &str = "a generated key signs any message";

/// Key pair of a token issuer.
pub enum SigningKey {
    /// RSA of 2048 bits.
    Rsa(Box<RsaKeyPair>),
    /// ECDSA on P-256.
    P256(EcdsaKeyPair),
    /// ECDSA on P-384.
    P384(EcdsaKeyPair),
    /// ECDSA on P-521.
    P521(EcdsaKeyPair),
    /// Ed25519.
    Ed25519(Ed25519KeyPair),
}

impl SigningKey {
    /// Returns an RSA key that all callers in the process share, since generation is slow.
    #[must_use]
    pub fn rsa() -> &'static Self {
        static RSA: OnceLock<SigningKey> = OnceLock::new();
        RSA.get_or_init(|| {
            Self::Rsa(Box::new(RsaKeyPair::generate(KeySize::Rsa2048).expect(GENERATION)))
        })
    }

    /// Generates a P-256 key.
    #[must_use]
    pub fn p256() -> Self {
        Self::P256(EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).expect(GENERATION))
    }

    /// Generates a P-384 key.
    #[must_use]
    pub fn p384() -> Self {
        Self::P384(EcdsaKeyPair::generate(&ECDSA_P384_SHA384_FIXED_SIGNING).expect(GENERATION))
    }

    /// Generates a P-521 key.
    #[must_use]
    pub fn p521() -> Self {
        Self::P521(EcdsaKeyPair::generate(&ECDSA_P521_SHA512_FIXED_SIGNING).expect(GENERATION))
    }

    /// Generates an Ed25519 key.
    #[must_use]
    pub fn ed25519() -> Self {
        Self::Ed25519(Ed25519KeyPair::generate().expect(GENERATION))
    }

    /// Returns the algorithm that [`sign`](Self::sign) uses.
    #[must_use]
    pub fn algorithm(&self) -> &'static str {
        match self {
            Self::Rsa(_) => "RS256",
            Self::P256(_) => "ES256",
            Self::P384(_) => "ES384",
            Self::P521(_) => "ES512",
            Self::Ed25519(_) => "EdDSA",
        }
    }

    /// Returns the public key as a JWK.
    #[must_use]
    pub fn jwk(&self, kid: &str) -> Value {
        let (crv, pair) = match self {
            Self::Rsa(pair) => {
                let public = RsaPublicKeyComponents::<Vec<u8>>::from(pair.public_key());
                let (n, e) = (encode(&public.n), encode(&public.e));
                return json!({"kty": "RSA", "kid": kid, "n": n, "e": e});
            }
            Self::Ed25519(pair) => {
                let x = encode(pair.public_key().as_ref());
                return json!({"kty": "OKP", "crv": "Ed25519", "kid": kid, "x": x});
            }
            Self::P256(pair) => ("P-256", pair),
            Self::P384(pair) => ("P-384", pair),
            Self::P521(pair) => ("P-521", pair),
        };
        // SEC 1, uncompressed: a format byte, then two coordinates of equal length.
        let point = &pair.public_key().as_ref()[1..];
        let (x, y) = point.split_at(point.len() / 2);
        json!({"kty": "EC", "crv": crv, "kid": kid, "x": encode(x), "y": encode(y)})
    }

    /// Returns a token with these claims, whose header has [`algorithm`](Self::algorithm) and `kid`.
    #[must_use]
    pub fn sign(&self, kid: &str, claims: &Value) -> String {
        self.sign_as(self.algorithm(), kid, claims)
    }

    /// Returns a token with these claims, whose header has `alg` and `kid`; see [`sign_text`](Self::sign_text).
    #[must_use]
    pub fn sign_as(&self, alg: &str, kid: &str, claims: &Value) -> String {
        let header = json!({"alg": alg, "kid": kid});
        self.sign_text(alg, &header.to_string(), &claims.to_string())
    }

    /// Returns a token with this header and these claims, which need not be JSON, signed with the algorithm `alg` if
    /// the key supports it and with its own algorithm otherwise.
    #[must_use]
    pub fn sign_text(&self, alg: &str, header: &str, claims: &str) -> String {
        let signed = format!("{}.{}", encode(header.as_bytes()), encode(claims.as_bytes()));
        let signature = self.signature(alg, signed.as_bytes());
        format!("{signed}.{}", encode(&signature))
    }

    fn signature(&self, alg: &str, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match self {
            Self::Rsa(pair) => {
                let encoding: &'static dyn RsaEncoding = match alg {
                    "RS384" => &RSA_PKCS1_SHA384,
                    "RS512" => &RSA_PKCS1_SHA512,
                    "PS256" => &RSA_PSS_SHA256,
                    "PS384" => &RSA_PSS_SHA384,
                    "PS512" => &RSA_PSS_SHA512,
                    _ => &RSA_PKCS1_SHA256,
                };
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(encoding, &random, message, &mut signature).expect(SIGNING);
                signature
            }
            Self::P256(pair) | Self::P384(pair) | Self::P521(pair) => {
                pair.sign(&random, message).expect(SIGNING).as_ref().to_vec()
            }
            Self::Ed25519(pair) => pair.sign(message).as_ref().to_vec(),
        }
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SigningKey").field(&self.algorithm()).finish()
    }
}

fn encode(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}
