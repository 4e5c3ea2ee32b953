//! A public key as it is published.

use aws_lc_rs::digest;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

/// The public part of a JSON Web Key (RFC 7517, RFC 7518 section 6, RFC 8037), for reading a set and
/// for publishing one. Other members are ignored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Jwk {
    /// `RSA`, `EC` or `OKP`.
    pub kty: String,
    /// Which of a set's keys it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kid: Option<String>,
    /// The one algorithm that it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alg: Option<String>,
    /// `sig`, or else it verifies nothing.
    #[serde(default, rename = "use", skip_serializing_if = "Option::is_none")]
    pub usage: Option<String>,
    /// With `verify` in it, or else it verifies nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_ops: Option<Vec<String>>,
    /// The curve of `EC` and `OKP`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crv: Option<String>,
    /// The first coordinate of `EC`, the key of `OKP`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub x: Option<String>,
    /// The second coordinate of `EC`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub y: Option<String>,
    /// The modulus of `RSA`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub n: Option<String>,
    /// The exponent of `RSA`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub e: Option<String>,
}

impl Jwk {
    /// The SHA-256 thumbprint (RFC 7638), which names the key by what it is; good as a `kid`.
    #[must_use]
    pub fn thumbprint(&self) -> String {
        // The required members of each kind, by name (RFC 7638 section 3.2).
        let members = [
            ("crv", &self.crv),
            ("e", &self.e),
            ("kty", &Some(self.kty.clone())),
            ("n", &self.n),
            ("x", &self.x),
            ("y", &self.y),
        ];
        let mut text = Vec::with_capacity(512);
        for (name, value) in members {
            let Some(value) = value else { continue };
            text.push(if text.is_empty() { b'{' } else { b',' });
            vmcp_wire::quote(name, &mut text);
            text.push(b':');
            vmcp_wire::quote(value, &mut text);
        }
        text.push(b'}');
        URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, &text))
    }
}
