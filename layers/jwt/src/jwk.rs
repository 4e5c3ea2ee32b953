//! JSON Web Keys.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::jwk::{
    AlgorithmParameters, CommonParameters, EllipticCurve, EllipticCurveKeyParameters,
    OctetKeyPairParameters, OctetKeyPairType, RSAKeyParameters, ThumbprintHash,
};
use serde::{Deserialize, Serialize};

use crate::KeyError;

/// Public JSON Web Key (RFC 7517, RFC 7518 section 6, RFC 8037), for parsing and for publishing key sets. Other members
/// are ignored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Jwk {
    /// `RSA`, `EC` or `OKP`.
    pub kty: String,
    /// The key id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kid: Option<String>,
    /// The only algorithm of the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alg: Option<String>,
    /// The use; a key with another value than `sig` verifies nothing.
    #[serde(default, rename = "use", skip_serializing_if = "Option::is_none")]
    pub usage: Option<String>,
    /// The operations; a key with other operations than `verify` verifies nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_ops: Option<Vec<String>>,
    /// The curve of an `EC` or `OKP` key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crv: Option<String>,
    /// The x coordinate of an `EC` key, or the public key of an `OKP` key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub x: Option<String>,
    /// The y coordinate of an `EC` key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub y: Option<String>,
    /// The modulus of an `RSA` key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub n: Option<String>,
    /// The exponent of an `RSA` key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub e: Option<String>,
}

impl Jwk {
    /// Returns the SHA-256 thumbprint (RFC 7638), which can serve as `kid`.
    ///
    /// # Errors
    /// [`KeyError::Kind`] or [`KeyError::Numbers`] if the key type is not supported or a required member is missing or
    /// not base64url.
    pub fn thumbprint(&self) -> Result<String, KeyError> {
        self.to_library()?.thumbprint(ThumbprintHash::SHA256).map_err(|_| KeyError::Kind)
    }

    /// Returns the key as `jsonwebtoken` represents it, with the members of a thumbprint alone.
    pub(crate) fn to_library(&self) -> Result<jsonwebtoken::jwk::Jwk, KeyError> {
        let algorithm = match (self.kty.as_str(), self.crv.as_deref()) {
            ("RSA", _) => AlgorithmParameters::RSA(RSAKeyParameters {
                n: base64url(self.n.as_deref())?,
                e: base64url(self.e.as_deref())?,
                ..RSAKeyParameters::default()
            }),
            ("EC", Some(crv)) => AlgorithmParameters::EllipticCurve(EllipticCurveKeyParameters {
                curve: match crv {
                    "P-256" => EllipticCurve::P256,
                    "P-384" => EllipticCurve::P384,
                    "P-521" => EllipticCurve::P521,
                    _ => return Err(KeyError::Kind),
                },
                x: base64url(self.x.as_deref())?,
                y: base64url(self.y.as_deref())?,
                ..EllipticCurveKeyParameters::default()
            }),
            ("OKP", Some("Ed25519")) => AlgorithmParameters::OctetKeyPair(OctetKeyPairParameters {
                key_type: OctetKeyPairType::OctetKeyPair,
                curve: EllipticCurve::Ed25519,
                x: base64url(self.x.as_deref())?,
            }),
            _ => return Err(KeyError::Kind),
        };
        Ok(jsonwebtoken::jwk::Jwk { common: CommonParameters::default(), algorithm })
    }
}

/// Returns a member if it is base64url. The library copies members into the text that it hashes for a thumbprint.
fn base64url(member: Option<&str>) -> Result<String, KeyError> {
    let text = member.ok_or(KeyError::Numbers)?;
    URL_SAFE_NO_PAD.decode(text).map_err(|_| KeyError::Numbers)?;
    Ok(text.to_owned())
}
