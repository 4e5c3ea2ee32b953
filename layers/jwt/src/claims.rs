//! Strict parsing of claims.

use serde_json::{Map, Value};
use vmcp_core::{Claims, ClaimsError};

use crate::TokenError;

/// Parses a claims set: a JSON object without duplicate members at any depth, since signer and reader could interpret
/// duplicates differently (RFC 7519 section 4).
///
/// # Errors
/// [`TokenError::Malformed`], or [`TokenError::TooManyClaims`] with more than
/// [`MAX_CLAIMS`](vmcp_core::MAX_CLAIMS) members.
pub fn parse_claims(json: &[u8]) -> Result<Map<String, Value>, TokenError> {
    parse_claim_set(json.to_vec()).map(Map::from)
}

/// Like [`parse_claims`], without building a tree.
pub(crate) fn parse_claim_set(json: Vec<u8>) -> Result<Claims, TokenError> {
    let text = String::from_utf8(json).map_err(|_| TokenError::Malformed)?;
    Claims::parse(text).map_err(|error| match error {
        ClaimsError::Malformed => TokenError::Malformed,
        ClaimsError::TooMany => TokenError::TooManyClaims,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use vmcp_core::MAX_CLAIMS;

    use super::*;

    #[test]
    fn reports_malformed_and_oversized_claims() {
        for bytes in [&b"{\"a\":\"\xff\"}"[..], b"{}\xff", b"[]", br#"{"a":1,"\u0061":1}"#] {
            assert_eq!(parse_claims(bytes), Err(TokenError::Malformed), "{bytes:?}");
        }
        let members: Vec<_> = (0..=MAX_CLAIMS).map(|name| format!("\"{name}\":0")).collect();
        let many = format!("{{{}}}", members.join(","));
        assert_eq!(parse_claims(many.as_bytes()), Err(TokenError::TooManyClaims));
    }

    #[test]
    fn agrees_with_serde_json() {
        let text = br#" {"s":"\u00e9","n":null,"b":[true,-1,18446744073709551615,1.5],"o":{}} "#;
        let plain = json!({"s": "é", "n": null, "b": [true, -1, u64::MAX, 1.5], "o": {}});
        assert_eq!(parse_claims(text).map(Value::Object), Ok(plain));
    }
}
