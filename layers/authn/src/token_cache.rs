//! A cache of token verification results.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

use aws_lc_rs::digest;
use secrecy::{ExposeSecret, SecretString};
use tokio::time::Instant;
use vmcp_core::{
    Cache, Clock, Identity, RevocationFuture, SeenFilter, SessionRevocation, SingleFlight,
};

use crate::{AuthError, AuthenticationFuture, TokenVerifier};

/// Default number of cached tokens.
const DEFAULT_CAPACITY: usize = 10_000;

/// Time to live of a verified JSON Web Token. Bounds the delay until a revocation other than a key change takes
/// effect.
const VERIFIED_TTL: Duration = Duration::from_mins(5);

/// Time to live of an introspected token.
const INTROSPECTED_TTL: Duration = Duration::from_mins(1);

/// Maximum time that the streams of an introspected token continue while the endpoint is unavailable.
const MAX_UNCHECKED: Duration = Duration::from_mins(10);

/// Time to live of a rejection by introspection.
const REJECTED_TTL: Duration = Duration::from_secs(5);

/// Caches the results of `I` by the token's SHA-256, never beyond the token's expiry.
///
/// Results from other keys ([`TokenVerifier::epoch`]) and of ended sessions ([`Identity::is_revoked`]) are ignored.
/// Concurrent requests with the same new token share one verification.
///
/// If verification is cheap, a token is cached at its second use: issuers that create a token for each call would
/// otherwise fill the cache with tokens that are never used again.
pub struct CachedVerifier<I>(Arc<TokenCache<I>>);

struct TokenCache<I> {
    verifier: I,
    clock: Clock,
    accepted_ttl: Duration,
    rejected_ttl: Option<Duration>,
    /// Interval of repeated verification while a stream is open.
    recheck_interval: Option<Duration>,
    /// Tokens that were used once, if the first use is not cached.
    seen: Option<SeenFilter>,
    entries: Cache<Digest, CachedResult>,
    flights: SingleFlight<Digest, Result<Identity, AuthError>>,
}

type Digest = [u8; 32];

#[derive(Clone)]
struct CachedResult {
    epoch: u64,
    result: Result<Identity, AuthError>,
}

impl<I: TokenVerifier> CachedVerifier<I> {
    /// Creates a cache for local verification: accepted tokens are cached for 5 minutes from their second use, rejected
    /// ones are not cached. 10,000 tokens.
    #[must_use]
    pub fn verified(verifier: I, clock: Clock) -> Self {
        let mut cached = Self::new(verifier, clock, VERIFIED_TTL, None, DEFAULT_CAPACITY);
        if let Some(cache) = Arc::get_mut(&mut cached.0) {
            cache.seen = Some(SeenFilter::new(DEFAULT_CAPACITY));
        }
        cached
    }

    /// Creates a cache for introspection: accepted tokens are cached for a minute, rejected ones for 5 s. 10,000
    /// tokens.
    ///
    /// The authorization server may revoke a token, and a token may lack an expiry. So the session of a token ends
    /// ([`Identity::revoked`]) when the server rejects the token, which is checked every minute while a stream is open,
    /// or when the server has been unavailable for 10 minutes.
    #[must_use]
    pub fn introspected(verifier: I, clock: Clock) -> Self {
        let mut cached =
            Self::new(verifier, clock, INTROSPECTED_TTL, Some(REJECTED_TTL), DEFAULT_CAPACITY);
        if let Some(cache) = Arc::get_mut(&mut cached.0) {
            cache.recheck_interval = Some(INTROSPECTED_TTL);
        }
        cached
    }

    /// Creates a cache for about `capacity` tokens, accepted ones for `accepted_ttl`, rejected ones for `rejected_ttl`.
    /// Outages are not cached.
    #[must_use]
    pub fn new(
        verifier: I,
        clock: Clock,
        accepted_ttl: Duration,
        rejected_ttl: Option<Duration>,
        capacity: usize,
    ) -> Self {
        let (recheck_interval, seen) = (None, None);
        let (entries, flights) = (Cache::new(capacity), SingleFlight::new());
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

    /// Returns the number of cached tokens.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.entries.len()
    }

    /// Returns `true` if no token is cached.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns a gauge of [`len`](Self::len) that does not keep the cache alive.
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
                    // If the keys changed meanwhile, the result may come from either key set: do not cache it.
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

/// Revocation check that verifies a token repeatedly while a stream is open.
struct RecheckedRevocation<I> {
    /// Weak, so that it ends with its layer, for example after a reload.
    cache: Weak<TokenCache<I>>,
    token: SecretString,
    interval: Duration,
}

impl<I: TokenVerifier> RecheckedRevocation<I> {
    /// Returns the caller with a session that ends with the token.
    fn attach(
        caller: Identity,
        cache: &Arc<TokenCache<I>>,
        token: SecretString,
        interval: Duration,
    ) -> Identity {
        let cache = Arc::downgrade(cache);
        caller.with_revocation(Arc::new(Self { cache, token, interval }))
    }
}

impl<I: TokenVerifier> SessionRevocation for RecheckedRevocation<I> {
    fn revoked(&self) -> RevocationFuture {
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
            Ok(_) if self.seen.as_ref().is_some_and(|seen| seen.insert(&key)) => return,
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
        self.epoch == epoch && !self.result.as_ref().is_ok_and(Identity::is_revoked)
    }
}

impl<I> fmt::Debug for CachedVerifier<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cached").field("known", &self.0.entries).finish_non_exhaustive()
    }
}

fn digest(token: &str) -> Digest {
    let digest = digest::digest(&digest::SHA256, token.as_bytes());
    digest.as_ref().try_into().expect("SHA-256 digests have 32 bytes")
}

#[cfg(test)]
mod tests;
