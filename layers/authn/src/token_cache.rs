//! Tokens that were inspected are not inspected again for a while.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

use aws_lc_rs::digest;
use secrecy::{ExposeSecret, SecretString};
use tokio::time::Instant;
use vmcp_core::{Cache, Clock, Ending, EndingFuture, Flights, Identity, Seen};

use crate::{AuthError, AuthenticationFuture, TokenVerifier};

/// How many tokens are remembered, unless told otherwise.
const DEFAULT_CAPACITY: usize = 10_000;

/// How long a verified JSON Web Token is remembered: a decision that the issuer took back otherwise
/// than by its keys is noticed by then.
const VERIFIED_TTL: Duration = Duration::from_secs(300);

/// How long an introspected token is remembered.
const INTROSPECTED_TTL: Duration = Duration::from_secs(60);

/// How long what an introspected token opened may go on while the endpoint cannot be asked.
const MAX_UNCHECKED: Duration = Duration::from_secs(600);

/// How long a refusal by introspection is remembered.
const REJECTED_TTL: Duration = Duration::from_secs(5);

/// Remembers what `I` said of a token, by its SHA-256, never beyond the token's expiry.
///
/// What was said under other keys does not count ([`TokenVerifier::epoch`]), nor what was said of a caller whose
/// session has ended ([`Identity::has_ended`]). Of many requests with the same new token, one waits for the
/// answer and the others for that one.
///
/// Where looking twice costs little, a token is remembered when it comes for the second time only: issuers
/// that make a new one for each call would otherwise fill all places with what nobody asks for again.
pub struct CachedVerifier<I>(Arc<TokenCache<I>>);

struct TokenCache<I> {
    verifier: I,
    clock: Clock,
    accepted_ttl: Duration,
    rejected_ttl: Option<Duration>,
    /// How often a token is inspected again while something is open that was opened with it.
    recheck_interval: Option<Duration>,
    /// Those that came once, where that is not enough.
    seen: Option<Seen>,
    entries: Cache<Digest, CachedResult>,
    flights: Flights<Digest, Result<Identity, AuthError>>,
}

type Digest = [u8; 32];

#[derive(Clone)]
struct CachedResult {
    epoch: u64,
    result: Result<Identity, AuthError>,
}

impl<I: TokenVerifier> CachedVerifier<I> {
    /// For inspecting that costs computation: what is accepted twice is remembered for 5 minutes, what is
    /// refused not at all. 10,000 tokens.
    #[must_use]
    pub fn verified(verifier: I, clock: Clock) -> Self {
        let mut cached = Self::new(verifier, clock, VERIFIED_TTL, None, DEFAULT_CAPACITY);
        if let Some(cache) = Arc::get_mut(&mut cached.0) {
            cache.seen = Some(Seen::new(DEFAULT_CAPACITY));
        }
        cached
    }

    /// For inspecting that asks an authorization server: what is accepted is remembered for a minute, what is
    /// refused for 5 s. 10,000 tokens.
    ///
    /// A token may be revoked, and may have no expiry: what was opened with it is over ([`Identity::ended`]) once it
    /// is refused, which is looked at every minute while that is open, or could not be asked about for 10 minutes.
    #[must_use]
    pub fn introspected(verifier: I, clock: Clock) -> Self {
        let mut cached =
            Self::new(verifier, clock, INTROSPECTED_TTL, Some(REJECTED_TTL), DEFAULT_CAPACITY);
        if let Some(cache) = Arc::get_mut(&mut cached.0) {
            cache.recheck_interval = Some(INTROSPECTED_TTL);
        }
        cached
    }

    /// Remembers about `capacity` tokens, accepted ones for `accepted_ttl`, refused ones for
    /// `rejected_ttl`. Whoever could not be asked is asked again.
    #[must_use]
    pub fn new(
        verifier: I,
        clock: Clock,
        accepted_ttl: Duration,
        rejected_ttl: Option<Duration>,
        capacity: usize,
    ) -> Self {
        let (recheck_interval, seen) = (None, None);
        let (entries, flights) = (Cache::new(capacity), Flights::new());
        Self(Arc::new(TokenCache {
            verifier,
            clock,
            accepted_ttl,
            rejected_ttl,
            recheck_interval,
            seen,
            entries,
            flights,
        }))
    }

    /// How many tokens are remembered: a gauge.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.entries.len()
    }

    /// Whether none is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A gauge for others to keep: [`len`](Self::len) for as long as this is there. It keeps nothing itself.
    pub fn gauge(&self) -> impl Fn() -> Option<usize> + Send + Sync + use<I> {
        let cache = Arc::downgrade(&self.0);
        move || cache.upgrade().map(|cache| cache.entries.len())
    }
}

impl<I: TokenVerifier> TokenVerifier for CachedVerifier<I> {
    fn try_now(&self, token: &str) -> Option<Result<Identity, AuthError>> {
        let cache = &*self.0;
        let key = digest(token);
        let epoch = cache.verifier.epoch();
        let now = cache.clock.now();
        if let Some(entries) =
            cache.entries.get(&key, now).filter(|entries| entries.is_valid(epoch))
        {
            return Some(entries.result);
        }
        let result = cache.verifier.try_now(token)?;
        cache.insert(key, epoch, &result, now);
        Some(result)
    }

    fn verify<'a>(&'a self, token: &'a str) -> AuthenticationFuture<'a> {
        let key = digest(token);
        Box::pin(async move {
            let verify = || {
                let (cache, token) = (Arc::clone(&self.0), SecretString::from(token));
                async move {
                    let before = cache.verifier.epoch();
                    let result = cache.verifier.verify(token.expose_secret()).await;
                    let result = match cache.recheck_interval {
                        Some(interval) => result
                            .map(|it| RecheckedRevocation::attach(it, &cache, token, interval)),
                        None => result,
                    };
                    // If the keys changed meanwhile, it is not known which ones the answer is by:
                    // then the next request inspects again.
                    if cache.verifier.epoch() == before {
                        cache.insert(key, before, &result, cache.clock.now());
                    }
                    result
                }
            };
            self.0.flights.join(key, verify).await
        })
    }

    fn epoch(&self) -> u64 {
        self.0.verifier.epoch()
    }
}

/// Inspects a token again, for as long as something that was opened with it is.
struct RecheckedRevocation<I> {
    /// Gone with the layer that it belongs to, such as after a reload.
    cache: Weak<TokenCache<I>>,
    token: SecretString,
    interval: Duration,
}

impl<I: TokenVerifier> RecheckedRevocation<I> {
    /// The caller, whose session ends with the token.
    fn attach(
        caller: Identity,
        cache: &Arc<TokenCache<I>>,
        token: SecretString,
        interval: Duration,
    ) -> Identity {
        let cache = Arc::downgrade(cache);
        caller.with_ending(Arc::new(Self { cache, token, interval }))
    }
}

impl<I: TokenVerifier> Ending for RecheckedRevocation<I> {
    fn ended(&self) -> EndingFuture {
        let (cache, token, interval) =
            (Weak::clone(&self.cache), self.token.clone(), self.interval);
        Box::pin(async move {
            let mut checked = Instant::now();
            loop {
                tokio::time::sleep(interval).await;
                let Some(cached) = cache.upgrade().map(CachedVerifier) else { return };
                let result = match cached.try_now(token.expose_secret()) {
                    Some(result) => result,
                    None => cached.verify(token.expose_secret()).await,
                };
                match result {
                    Ok(_) => checked = Instant::now(),
                    Err(AuthError::Unavailable { .. }) if checked.elapsed() < MAX_UNCHECKED => {}
                    Err(_) => return,
                }
            }
        })
    }
}

impl<I> TokenCache<I> {
    fn insert(
        &self,
        key: Digest,
        epoch: u64,
        result: &Result<Identity, AuthError>,
        now: SystemTime,
    ) {
        let until = match result {
            Ok(_) if self.seen.as_ref().is_some_and(|seen| seen.is_new(&key)) => return,
            Ok(identity) => {
                let limit = now + self.accepted_ttl;
                identity.expires_at().map_or(limit, |expiry| expiry.min(limit))
            }
            Err(AuthError::InvalidToken(_)) => match self.rejected_ttl {
                Some(wait) => now + wait,
                None => return,
            },
            Err(_) => return,
        };
        self.entries.insert(key, CachedResult { epoch, result: result.clone() }, until, now);
    }
}

impl CachedResult {
    fn is_valid(&self, epoch: u64) -> bool {
        self.epoch == epoch && !self.result.as_ref().is_ok_and(Identity::has_ended)
    }
}

impl<I> fmt::Debug for CachedVerifier<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cached").field("known", &self.0.entries).finish_non_exhaustive()
    }
}

fn digest(token: &str) -> Digest {
    let digest = digest::digest(&digest::SHA256, token.as_bytes());
    // A SHA-256 has 32 bytes.
    digest.as_ref().try_into().unwrap_or_default()
}

#[cfg(test)]
mod tests;
