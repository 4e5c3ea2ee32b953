//! Tells whether a token is the issuer's, and still good.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use aws_lc_rs::signature::ParsedPublicKey;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use vmcp_core::{Claims, Clock};
use vmcp_wire::{members, unquote, validate};

use crate::{Algorithm, KeySet, KeySource, Rules, TokenFault, VerifyError, parse_claims};

/// The longest token that is looked at, in bytes.
pub const MAX_TOKEN: usize = 16 * 1024;

/// The most members that the header of a token may have.
const MAX_HEADER_MEMBERS: usize = 32;

/// Verifies JSON Web Tokens in compact form (RFC 7519, RFC 7515 section 7.1) by RFC 8725.
///
/// The header's `jku`, `jwk`, `x5u` and `x5c` are ignored: keys are the issuer's published ones only.
pub struct Verifier<K> {
    keys: K,
    rules: Rules,
    algorithms: Box<[Algorithm]>,
    clock: Clock,
}

/// What a verified token says.
#[derive(Clone, Debug)]
pub struct Verified {
    /// All of its claims.
    pub claims: Claims,
    /// The claim `exp`.
    pub expires_at: SystemTime,
}

/// A token taken apart.
struct Parts<'a> {
    /// What the signature covers.
    signed: &'a str,
    header: Header,
    payload: &'a str,
    signature: Vec<u8>,
}

struct Header {
    algorithm: Algorithm,
    kid: Option<Box<str>>,
}

impl<K: KeySource> Verifier<K> {
    /// Verifies with the keys of `keys` by `rules`, with every [`Algorithm`].
    #[must_use]
    pub fn new(keys: K, rules: Rules) -> Self {
        Self { keys, rules, algorithms: Algorithm::ALL.into(), clock: Clock::system() }
    }

    /// Only these algorithms.
    #[must_use]
    pub fn algorithms(mut self, algorithms: &[Algorithm]) -> Self {
        self.algorithms = algorithms.into();
        self
    }

    /// What time it is; the system's unless set.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// The rules.
    #[must_use]
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Where the keys come from.
    #[must_use]
    pub fn keys(&self) -> &K {
        &self.keys
    }

    /// Verifies `token` with the keys at hand. `None` where that takes waiting: no keys are there, or
    /// the token names one that is not.
    pub fn verify_now(&self, token: &str) -> Option<Result<Verified, TokenFault>> {
        let parts = match self.take_apart(token) {
            Ok(parts) => parts,
            Err(fault) => return Some(Err(fault)),
        };
        match self.verify_with(&*self.keys.current()?, &parts) {
            Err(TokenFault::UnknownKey) => None,
            decided => Some(decided),
        }
    }

    /// Verifies `token`, waiting for keys where needed.
    ///
    /// # Errors
    /// The token is at fault, or the keys cannot be had.
    pub async fn verify(&self, token: &str) -> Result<Verified, VerifyError> {
        let parts = self.take_apart(token)?;
        let keys = match self.keys.current() {
            Some(keys) => keys,
            None => self.keys.load(None).await?,
        };
        match self.verify_with(&keys, &parts) {
            Err(TokenFault::UnknownKey) => {}
            decided => return Ok(decided?),
        }
        // Whoever makes up a token must not make the gateway ask the issuer: what it claims has to be
        // right before somebody looks for its key.
        self.read_claims(&parts)?;
        let fresh = self.keys.load(Some(Arc::clone(&keys))).await?;
        if fresh.fingerprint() == keys.fingerprint() {
            return Err(TokenFault::UnknownKey.into());
        }
        Ok(self.verify_with(&fresh, &parts)?)
    }

    fn take_apart<'a>(&self, token: &'a str) -> Result<Parts<'a>, TokenFault> {
        if token.len() > MAX_TOKEN {
            return Err(TokenFault::TooLong);
        }
        let (signed, signature) = token.rsplit_once('.').ok_or(TokenFault::Malformed)?;
        let (header, payload) = signed.split_once('.').ok_or(TokenFault::Malformed)?;
        let header = self.read_header(&decode(header)?)?;
        Ok(Parts { signed, header, payload, signature: decode(signature)? })
    }

    fn read_header(&self, json: &[u8]) -> Result<Header, TokenFault> {
        validate(json).map_err(|_| TokenFault::Malformed)?;
        let mut seen: Vec<Cow<'_, str>> = Vec::with_capacity(4);
        let (mut algorithm, mut kid) = (None, None);
        for member in members(json) {
            let name = member.key.read();
            let text = || unquote(member.value).ok_or(TokenFault::Malformed);
            match &*name {
                "alg" => algorithm = Some(self.allowed(&text()?)?),
                "kid" => kid = Some(text()?.into()),
                "typ" if !is_access_token(&text()?) => return Err(TokenFault::Type),
                "crit" => return Err(TokenFault::Critical),
                _ => {}
            }
            if seen.len() == MAX_HEADER_MEMBERS || seen.contains(&name) {
                return Err(TokenFault::Malformed);
            }
            seen.push(name);
        }
        Ok(Header { algorithm: algorithm.ok_or(TokenFault::Malformed)?, kid })
    }

    fn allowed(&self, alg: &str) -> Result<Algorithm, TokenFault> {
        Algorithm::named(alg)
            .filter(|algorithm| self.algorithms.contains(algorithm))
            .ok_or(TokenFault::Algorithm)
    }

    fn verify_with(&self, keys: &KeySet, parts: &Parts<'_>) -> Result<Verified, TokenFault> {
        let Header { algorithm, kid } = &parts.header;
        let mut fault = TokenFault::UnknownKey;
        for key in keys.candidates(kid.as_deref(), *algorithm) {
            if is_signed_by(key, parts) {
                return self.read_claims(parts);
            }
            fault = TokenFault::Signature;
        }
        Err(fault)
    }

    fn read_claims(&self, parts: &Parts<'_>) -> Result<Verified, TokenFault> {
        let claims = parse_claims(&decode(parts.payload)?)?;
        let expires_at = self.rules.check(&claims, self.clock.now())?;
        Ok(Verified { claims: claims.into(), expires_at: expires_at.ok_or(TokenFault::Expiry)? })
    }
}

impl<K> fmt::Debug for Verifier<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verifier")
            .field("rules", &self.rules)
            .field("algorithms", &self.algorithms)
            .finish_non_exhaustive()
    }
}

/// Whether `token` is a JSON Web Token by its form: three parts, the first of which is a JSON object
/// that names an algorithm. Such a token is verified and never asked about elsewhere.
#[must_use]
pub fn is_jwt(token: &str) -> bool {
    if token.len() > MAX_TOKEN || token.bytes().filter(|byte| *byte == b'.').count() != 2 {
        return false;
    }
    let first = token.split('.').next().unwrap_or_default();
    decode(first).is_ok_and(|header| {
        validate(&header).is_ok() && members(&header).any(|member| member.key.is("alg"))
    })
}

/// What `typ` may say (RFC 8725 section 3.11): `JWT`, or an access token by RFC 9068. Every other
/// kind of token says something else there.
fn is_access_token(typ: &str) -> bool {
    const APPLICATION: &str = "application/";
    let prefixed =
        typ.get(..APPLICATION.len()).is_some_and(|s| s.eq_ignore_ascii_case(APPLICATION));
    let name = if prefixed { &typ[APPLICATION.len()..] } else { typ };
    name.eq_ignore_ascii_case("jwt") || name.eq_ignore_ascii_case("at+jwt")
}

fn is_signed_by(key: &ParsedPublicKey, parts: &Parts<'_>) -> bool {
    key.verify_sig(parts.signed.as_bytes(), &parts.signature).is_ok()
}

fn decode(part: &str) -> Result<Vec<u8>, TokenFault> {
    URL_SAFE_NO_PAD.decode(part).map_err(|_| TokenFault::Malformed)
}

#[cfg(test)]
mod tests;
