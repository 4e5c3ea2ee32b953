//! Verification of ID tokens (OpenID Connect Core 1.0 section 3.1.3.7).

use aws_lc_rs::digest::{self, SHA256, SHA384, SHA512};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Map, Value};
use vmcp_core::{Claims, Clock};
use vmcp_jwt::{Algorithm, KeySource, ValidationOptions, Verifier};

use crate::IdentityError;

/// Expected values of an ID token.
pub(crate) struct IdTokenExpectations<'a> {
    pub(crate) issuer: &'a str,
    pub(crate) client_id: &'a str,
    /// Access token of the same response.
    pub(crate) access: &'a SecretString,
}

/// Verifies issuer, audience, validity and access token hash, and returns the claims. The caller
/// has to check the nonce.
pub(crate) async fn verify<K: KeySource>(
    keys: K,
    clock: &Clock,
    token: &SecretString,
    expected: &IdTokenExpectations<'_>,
) -> Result<Claims, IdentityError> {
    let IdTokenExpectations { issuer, client_id, access } = expected;
    let rules = ValidationOptions::new(issuer, client_id).accept_id_tokens();
    let verifier = Verifier::new(keys, rules).clock(clock.clone());
    let token = token.expose_secret();
    let claims = verifier.verify(token).await.map_err(IdentityError::InvalidIdToken)?.claims;
    check_party(&claims, client_id)?;
    check_access(&claims, token, access)?;
    Ok(claims)
}

/// Returns whether the claim `nonce` equals `nonce`, in constant time.
pub(crate) fn has_nonce(claims: &Map<String, Value>, nonce: &SecretString) -> bool {
    let claim = claims.get("nonce").and_then(Value::as_str).unwrap_or_default();
    equal(claim.as_bytes(), nonce.expose_secret().as_bytes())
}

/// Parses the claims of a stored token, whose signature was verified when it was received.
pub(crate) fn read(token: &SecretString) -> Option<Map<String, Value>> {
    let payload = token.expose_secret().split('.').nth(1)?;
    vmcp_jwt::parse_claims(&URL_SAFE_NO_PAD.decode(payload).ok()?).ok()
}

fn check_party(claims: &Claims, client_id: &str) -> Result<(), IdentityError> {
    let several = claims.get("aud").is_some_and(|aud| aud.items().nth(1).is_some());
    match claims.get("azp") {
        Some(party) if party.text().as_deref() == Some(client_id) => Ok(()),
        None if !several => Ok(()),
        _ => Err(IdentityError::WrongAuthorizedParty),
    }
}

/// Checks `at_hash`: the left half of the access token's hash, computed with the hash of the
/// signature algorithm (OpenID Connect Core 1.0 section 3.1.3.6).
fn check_access(claims: &Claims, token: &str, access: &SecretString) -> Result<(), IdentityError> {
    let Some(claim) = claims.get("at_hash") else { return Ok(()) };
    let hash = digest::digest(hash_of(token)?, access.expose_secret().as_bytes());
    let half = &hash.as_ref()[..hash.as_ref().len() / 2];
    let wanted = URL_SAFE_NO_PAD.encode(half);
    if claim.text().is_some_and(|claim| equal(claim.as_bytes(), wanted.as_bytes())) {
        Ok(())
    } else {
        Err(IdentityError::WrongAccessTokenHash)
    }
}

fn hash_of(token: &str) -> Result<&'static digest::Algorithm, IdentityError> {
    let header = token.split('.').next().and_then(|header| URL_SAFE_NO_PAD.decode(header).ok());
    let header: Option<Map<String, Value>> =
        header.and_then(|header| serde_json::from_slice(&header).ok());
    let algorithm = header
        .as_ref()
        .and_then(|header| header.get("alg")?.as_str())
        .and_then(Algorithm::from_name)
        .ok_or(IdentityError::WrongAccessTokenHash)?;
    Ok(match algorithm {
        Algorithm::Rs256 | Algorithm::Ps256 | Algorithm::Es256 => &SHA256,
        Algorithm::Rs384 | Algorithm::Ps384 | Algorithm::Es384 => &SHA384,
        // Ed25519 uses SHA-512.
        Algorithm::Rs512 | Algorithm::Ps512 | Algorithm::Es512 | Algorithm::EdDsa => &SHA512,
    })
}

fn equal(a: &[u8], b: &[u8]) -> bool {
    aws_lc_rs::constant_time::verify_slices_are_equal(a, b).is_ok()
}

#[cfg(test)]
mod tests;
