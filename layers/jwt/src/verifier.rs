//! Verification of JSON Web Tokens.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use arc_swap::ArcSwapOption;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use vmcp_core::{Claims, Clock};
use vmcp_wire::{members, parse_json_string, validate};

use crate::claims::parse_claim_set;
use crate::{Algorithm, KeySet, KeySource, TokenError, ValidationOptions, VerifyError};

/// Maximum size of a token in bytes.
pub const MAX_TOKEN_SIZE: usize = 16 * 1024;

/// Maximum size of a signature in bytes: that of an RSA key of 8192 bits.
const MAX_SIGNATURE_SIZE: usize = 1024;

/// Maximum number of header members.
const MAX_HEADER_MEMBERS: usize = 32;

/// Verifier of JSON Web Tokens in compact form (RFC 7519, RFC 7515 section 7.1) by RFC 8725.
///
/// The header members `jku`, `jwk`, `x5u` and `x5c` are ignored: only published keys of the issuer are used.
pub struct Verifier<K> {
    keys: K,
    options: ValidationOptions,
    algorithms: Box<[Algorithm]>,
    clock: Clock,
    cached_header: ArcSwapOption<Header>,
}

/// Result of a successful verification.
#[derive(Clone, Debug)]
pub struct VerifiedToken {
    /// All claims.
    pub claims: Claims,
    /// End of the token's validity: the claim `exp` plus the leeway.
    pub expires_at: SystemTime,
}

/// Parts of a compact token.
struct TokenParts<'a> {
    /// Header and payload as signed.
    signed: &'a str,
    header: Arc<Header>,
    payload: &'a str,
    /// Valid base64url of at most [`MAX_SIGNATURE_SIZE`] bytes.
    signature: &'a str,
}

/// Parsed header. The last one is cached, since the tokens of an issuer share their header.
struct Header {
    encoded: Box<str>,
    algorithm: Algorithm,
    kid: Option<Box<str>>,
}

impl<K: KeySource> Verifier<K> {
    /// Creates a verifier with the keys of `keys` for all [`Algorithm`]s.
    #[must_use]
    pub fn new(keys: K, options: ValidationOptions) -> Self {
        let (algorithms, clock) = (Algorithm::ALL.into(), Clock::system());
        Self { keys, options, algorithms, clock, cached_header: ArcSwapOption::empty() }
    }

    /// Restricts the algorithms.
    #[must_use]
    pub fn algorithms(mut self, algorithms: &[Algorithm]) -> Self {
        self.algorithms = algorithms.into();
        self.cached_header.store(None);
        self
    }

    /// Sets the clock.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Returns the validation options.
    #[must_use]
    pub fn options(&self) -> &ValidationOptions {
        &self.options
    }

    /// Returns the key source.
    #[must_use]
    pub fn keys(&self) -> &K {
        &self.keys
    }

    /// Verifies `token` with the cached keys. Returns `None` if the keys have to be fetched: none are cached, or the
    /// token names an unknown key.
    pub fn verify_now(&self, token: &str) -> Option<Result<VerifiedToken, TokenError>> {
        let parts = match self.split(token) {
            Ok(parts) => parts,
            Err(error) => return Some(Err(error)),
        };
        match self.verify_with(&*self.keys.current()?, &parts) {
            Err(TokenError::UnknownKey) => None,
            result => Some(result),
        }
    }

    /// Verifies `token` and waits for keys if necessary.
    ///
    /// # Errors
    /// The token is invalid, or the keys are unavailable.
    pub async fn verify(&self, token: &str) -> Result<VerifiedToken, VerifyError> {
        let parts = self.split(token)?;
        let keys = match self.keys.current() {
            Some(keys) => keys,
            None => self.keys.load(None).await?,
        };
        match self.verify_with(&keys, &parts) {
            Err(TokenError::UnknownKey) => {}
            result => return Ok(result?),
        }
        // Forged tokens must not cause requests to the issuer: validate the claims before looking for an unknown key.
        self.parse_and_validate_claims(&parts)?;
        let refreshed = self.keys.load(Some(Arc::clone(&keys))).await?;
        if refreshed.fingerprint() == keys.fingerprint() {
            return Err(TokenError::UnknownKey.into());
        }
        Ok(self.verify_with(&refreshed, &parts)?)
    }

    fn split<'a>(&self, token: &'a str) -> Result<TokenParts<'a>, TokenError> {
        if token.len() > MAX_TOKEN_SIZE {
            return Err(TokenError::TooLong);
        }
        let (signed, signature) = token.rsplit_once('.').ok_or(TokenError::Malformed)?;
        let (header, payload) = signed.split_once('.').ok_or(TokenError::Malformed)?;
        let header = self.header(header)?;
        // Before keys are looked for: a malformed signature must not cause a fetch.
        let mut buffer = [0; MAX_SIGNATURE_SIZE];
        URL_SAFE_NO_PAD.decode_slice(signature, &mut buffer).map_err(|_| TokenError::Malformed)?;
        Ok(TokenParts { signed, header, payload, signature })
    }

    fn header(&self, encoded: &str) -> Result<Arc<Header>, TokenError> {
        let cached = self.cached_header.load();
        if let Some(cached) = cached.as_ref().filter(|cached| *cached.encoded == *encoded) {
            return Ok(Arc::clone(cached));
        }
        Ok(Arc::new(self.parse_header(encoded)?))
    }

    /// Caches a header with a valid signature. Forged ones must not evict it.
    fn cache_header(&self, header: &Arc<Header>) {
        let cached = self.cached_header.load();
        if cached.as_ref().is_none_or(|cached| !Arc::ptr_eq(cached, header)) {
            self.cached_header.store(Some(Arc::clone(header)));
        }
    }

    fn parse_header(&self, encoded: &str) -> Result<Header, TokenError> {
        let json = &*decode(encoded)?;
        validate(json).map_err(|_| TokenError::Malformed)?;
        let mut names: Vec<Cow<'_, str>> = Vec::with_capacity(4);
        let (mut algorithm, mut kid) = (None, None);
        for member in members(json) {
            let name = member.key.read();
            let text = || parse_json_string(member.value).ok_or(TokenError::Malformed);
            match &*name {
                "alg" => algorithm = Some(self.allowed_algorithm(&text()?)?),
                "kid" => kid = Some(text()?.into()),
                "typ" if !is_access_token(&text()?) => return Err(TokenError::Type),
                "crit" => return Err(TokenError::Critical),
                name if !has_registered_type(name, member.value) => {
                    return Err(TokenError::Malformed);
                }
                _ => {}
            }
            if names.len() == MAX_HEADER_MEMBERS || names.contains(&name) {
                return Err(TokenError::Malformed);
            }
            names.push(name);
        }
        let algorithm = algorithm.ok_or(TokenError::Malformed)?;
        Ok(Header { encoded: encoded.into(), algorithm, kid })
    }

    fn allowed_algorithm(&self, alg: &str) -> Result<Algorithm, TokenError> {
        Algorithm::from_name(alg)
            .filter(|algorithm| self.algorithms.contains(algorithm))
            .ok_or(TokenError::Algorithm)
    }

    fn verify_with(
        &self,
        keys: &KeySet,
        parts: &TokenParts<'_>,
    ) -> Result<VerifiedToken, TokenError> {
        self.verify_signature(keys, parts)?;
        self.parse_and_validate_claims(parts)
    }

    fn verify_signature(&self, keys: &KeySet, parts: &TokenParts<'_>) -> Result<(), TokenError> {
        let Header { encoded: _, algorithm, kid } = &*parts.header;
        let mut error = TokenError::UnknownKey;
        for key in keys.candidates(kid.as_deref(), *algorithm) {
            if key.verifies(parts.signed.as_bytes(), parts.signature) {
                self.cache_header(&parts.header);
                return Ok(());
            }
            error = TokenError::Signature;
        }
        Err(error)
    }

    fn parse_and_validate_claims(
        &self,
        parts: &TokenParts<'_>,
    ) -> Result<VerifiedToken, TokenError> {
        let claims = parse_claim_set(decode(parts.payload)?)?;
        let expires_at = self.options.validate(&claims, self.clock.now())?;
        Ok(VerifiedToken { claims, expires_at: expires_at.ok_or(TokenError::Expiry)? })
    }
}

impl<K> fmt::Debug for Verifier<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verifier")
            .field("rules", &self.options)
            .field("algorithms", &self.algorithms)
            .finish_non_exhaustive()
    }
}

/// Returns `true` if `token` has the form of a JSON Web Token: three parts, the first of which is a JSON object with an
/// algorithm. Such a token is verified locally and never introspected.
#[must_use]
pub fn is_jwt(token: &str) -> bool {
    if token.len() > MAX_TOKEN_SIZE || token.bytes().filter(|byte| *byte == b'.').count() != 2 {
        return false;
    }
    let first = token.split('.').next().unwrap_or_default();
    decode(first).is_ok_and(|header| {
        validate(&header).is_ok() && members(&header).any(|member| member.key.is("alg"))
    })
}

/// Returns `true` if `typ` allows an access token (RFC 8725 section 3.11): `JWT`, or an access token by RFC 9068.
fn is_access_token(typ: &str) -> bool {
    const APPLICATION: &str = "application/";
    let prefixed =
        typ.get(..APPLICATION.len()).is_some_and(|s| s.eq_ignore_ascii_case(APPLICATION));
    let name = if prefixed { &typ[APPLICATION.len()..] } else { typ };
    name.eq_ignore_ascii_case("jwt") || name.eq_ignore_ascii_case("at+jwt")
}

/// Returns `false` if a registered header parameter has another type than its specification says (RFC 7515 section 4.1,
/// RFC 7516 section 4.1, RFC 8555 section 6). Other parsers reject such a token.
fn has_registered_type(name: &str, value: &[u8]) -> bool {
    match name {
        "cty" | "jku" | "x5u" | "x5t" | "x5t#S256" | "enc" | "zip" | "url" | "nonce" => {
            parse_json_string(value).is_some()
        }
        "jwk" => serde_json::from_slice::<jsonwebtoken::jwk::Jwk>(value).is_ok(),
        "x5c" => serde_json::from_slice::<Vec<Cow<'_, str>>>(value).is_ok(),
        _ => true,
    }
}

fn decode(part: &str) -> Result<Vec<u8>, TokenError> {
    URL_SAFE_NO_PAD.decode(part).map_err(|_| TokenError::Malformed)
}

#[cfg(test)]
mod tests;
