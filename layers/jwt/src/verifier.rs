//! Tells whether a token is the issuer's, and still good.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use arc_swap::ArcSwapOption;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use vmcp_core::{Claims, Clock};
use vmcp_wire::{members, unquote, validate};

use crate::strict::read_claims;
use crate::{Algorithm, KeySet, KeySource, Rules, TokenFault, VerifyError};

/// The longest token that is looked at, in bytes.
pub const MAX_TOKEN: usize = 16 * 1024;

/// The longest signature, in bytes: that of an RSA key of 8192 bits.
const MAX_SIGNATURE: usize = 1024;

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
    last_header: ArcSwapOption<Header>,
}

/// What a verified token says.
#[derive(Clone, Debug)]
pub struct Verified {
    /// All of its claims.
    pub claims: Claims,
    /// When it is accepted no longer: the claim `exp`, and the leeway of the rules.
    pub expires_at: SystemTime,
}

/// A token taken apart.
struct Parts<'a> {
    /// What the signature covers.
    signed: &'a str,
    header: Arc<Header>,
    payload: &'a str,
    signature: &'a str,
}

/// A header that was read. One issuer's tokens all begin alike, so the last one is remembered.
struct Header {
    encoded: Box<str>,
    algorithm: Algorithm,
    kid: Option<Box<str>>,
}

impl<K: KeySource> Verifier<K> {
    /// Verifies with the keys of `keys` by `rules`, with every [`Algorithm`].
    #[must_use]
    pub fn new(keys: K, rules: Rules) -> Self {
        let (algorithms, clock) = (Algorithm::ALL.into(), Clock::system());
        Self { keys, rules, algorithms, clock, last_header: ArcSwapOption::empty() }
    }

    /// Only these algorithms.
    #[must_use]
    pub fn algorithms(mut self, algorithms: &[Algorithm]) -> Self {
        self.algorithms = algorithms.into();
        self.last_header.store(None);
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
        // Nobody is asked for keys because of what is no signature.
        decode(parts.signature)?;
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
        let header = self.header(header)?;
        Ok(Parts { signed, header, payload, signature })
    }

    fn header(&self, encoded: &str) -> Result<Arc<Header>, TokenFault> {
        let last = self.last_header.load();
        if let Some(last) = last.as_ref().filter(|last| *last.encoded == *encoded) {
            return Ok(Arc::clone(last));
        }
        Ok(Arc::new(self.read_header(encoded)?))
    }

    /// Only a header that was signed is remembered: made-up ones do not push it out.
    fn remember(&self, header: &Arc<Header>) {
        let last = self.last_header.load();
        if last.as_ref().is_none_or(|last| !Arc::ptr_eq(last, header)) {
            self.last_header.store(Some(Arc::clone(header)));
        }
    }

    fn read_header(&self, encoded: &str) -> Result<Header, TokenFault> {
        let json = &*decode(encoded)?;
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
        let algorithm = algorithm.ok_or(TokenFault::Malformed)?;
        Ok(Header { encoded: encoded.into(), algorithm, kid })
    }

    fn allowed(&self, alg: &str) -> Result<Algorithm, TokenFault> {
        Algorithm::named(alg)
            .filter(|algorithm| self.algorithms.contains(algorithm))
            .ok_or(TokenFault::Algorithm)
    }

    fn verify_with(&self, keys: &KeySet, parts: &Parts<'_>) -> Result<Verified, TokenFault> {
        let Header { encoded: _, algorithm, kid } = &*parts.header;
        let mut room = [0; MAX_SIGNATURE];
        let signature = decode_into(&mut room, parts.signature)?;
        let mut fault = TokenFault::UnknownKey;
        for key in keys.candidates(kid.as_deref(), *algorithm) {
            if key.verify_sig(parts.signed.as_bytes(), signature).is_ok() {
                self.remember(&parts.header);
                return self.read_claims(parts);
            }
            fault = TokenFault::Signature;
        }
        Err(fault)
    }

    fn read_claims(&self, parts: &Parts<'_>) -> Result<Verified, TokenFault> {
        let claims = read_claims(decode(parts.payload)?)?;
        let expires_at = self.rules.check(&claims, self.clock.now())?;
        Ok(Verified { claims, expires_at: expires_at.ok_or(TokenFault::Expiry)? })
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

fn decode(part: &str) -> Result<Vec<u8>, TokenFault> {
    URL_SAFE_NO_PAD.decode(part).map_err(|_| TokenFault::Malformed)
}

/// As [`decode`], without room of its own.
fn decode_into<'a>(room: &'a mut [u8], part: &str) -> Result<&'a [u8], TokenFault> {
    let length = URL_SAFE_NO_PAD.decode_slice(part, room).map_err(|_| TokenFault::Malformed)?;
    Ok(&room[..length])
}

#[cfg(test)]
mod tests;
