//! JSON Web Keys.

use aws_lc_rs::digest;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

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
    #[must_use]
    pub fn thumbprint(&self) -> String {
        // The required members of each key type in lexicographic order (RFC 7638 section 3.2).
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
            vmcp_wire::write_json_string(name, &mut text);
            text.push(b':');
            vmcp_wire::write_json_string(value, &mut text);
        }
        text.push(b'}');
        URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, &text))
    }
}
