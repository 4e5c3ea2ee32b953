//! Tokens that were inspected are not inspected again for a while.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

use aws_lc_rs::digest;
use secrecy::{ExposeSecret, SecretString};
use tokio::time::Instant;
use vmcp_core::{Cache, Clock, Ending, EndingFuture, Flights, Identity, Seen};

use crate::{AuthenticateFuture, Inspect, Refusal};

/// How many tokens are remembered, unless told otherwise.
const CAPACITY: usize = 10_000;

/// How long a verified JSON Web Token is remembered: a decision that the issuer took back otherwise
/// than by its keys is noticed by then.
const VERIFIED: Duration = Duration::from_secs(300);

/// How long an introspected token is remembered.
const INTROSPECTED: Duration = Duration::from_secs(60);

/// How long what an introspected token opened may go on while the endpoint cannot be asked.
const UNCHECKED: Duration = Duration::from_secs(600);

/// How long a refusal by introspection is remembered.
const REFUSED: Duration = Duration::from_secs(5);

/// Remembers what `I` said of a token, by its SHA-256, never beyond the token's expiry.
///
/// What was said under other keys does not count ([`Inspect::epoch`]), nor what was said of a caller whose
/// session has ended ([`Identity::has_ended`]). Of many requests with the same new token, one waits for the
/// answer and the others for that one.
///
/// Where looking twice costs little, a token is remembered when it comes for the second time only: issuers
/// that make a new one for each call would otherwise fill all places with what nobody asks for again.
pub struct Cached<I>(Arc<Memory<I>>);

struct Memory<I> {
    inspect: I,
    clock: Clock,
    accepted_for: Duration,
    refused_for: Option<Duration>,
    /// How often a token is inspected again while something is open that was opened with it.
    recheck: Option<Duration>,
    /// Those that came once, where that is not enough.
    seen: Option<Seen>,
    known: Cache<Digest, Known>,
    flights: Flights<Digest, Result<Identity, Refusal>>,
}

type Digest = [u8; 32];

#[derive(Clone)]
struct Known {
    epoch: u64,
    answer: Result<Identity, Refusal>,
}

impl<I: Inspect> Cached<I> {
    /// For inspecting that costs computation: what is accepted twice is remembered for 5 minutes, what is
    /// refused not at all. 10,000 tokens.
    #[must_use]
    pub fn verified(inspect: I, clock: Clock) -> Self {
        let mut cached = Self::new(inspect, clock, VERIFIED, None, CAPACITY);
        if let Some(memory) = Arc::get_mut(&mut cached.0) {
            memory.seen = Some(Seen::new(CAPACITY));
        }
        cached
    }

    /// For inspecting that asks an authorization server: what is accepted is remembered for a minute, what is
    /// refused for 5 s. 10,000 tokens.
    ///
    /// A token may be revoked, and may have no expiry: what was opened with it is over ([`Identity::ended`]) once it
    /// is refused, which is looked at every minute while that is open, or could not be asked about for 10 minutes.
    #[must_use]
    pub fn introspected(inspect: I, clock: Clock) -> Self {
        let mut cached = Self::new(inspect, clock, INTROSPECTED, Some(REFUSED), CAPACITY);
        if let Some(memory) = Arc::get_mut(&mut cached.0) {
            memory.recheck = Some(INTROSPECTED);
        }
        cached
    }

    /// Remembers about `capacity` tokens, accepted ones for `accepted_for`, refused ones for
    /// `refused_for`. Whoever could not be asked is asked again.
    #[must_use]
    pub fn new(
        inspect: I,
        clock: Clock,
        accepted_for: Duration,
        refused_for: Option<Duration>,
        capacity: usize,
    ) -> Self {
        let (recheck, seen) = (None, None);
        let (known, flights) = (Cache::new(capacity), Flights::new());
        Self(Arc::new(Memory {
            inspect,
            clock,
            accepted_for,
            refused_for,
            recheck,
            seen,
            known,
            flights,
        }))
    }

    /// How many tokens are remembered: a gauge.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.known.len()
    }

    /// Whether none is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A gauge for others to keep: [`len`](Self::len) for as long as this is there. It keeps nothing itself.
    pub fn gauge(&self) -> impl Fn() -> Option<usize> + Send + Sync + use<I> {
        let memory = Arc::downgrade(&self.0);
        move || memory.upgrade().map(|memory| memory.known.len())
    }
}

impl<I: Inspect> Inspect for Cached<I> {
    fn at_once(&self, token: &str) -> Option<Result<Identity, Refusal>> {
        let memory = &*self.0;
        let key = digest(token);
        let epoch = memory.inspect.epoch();
        let now = memory.clock.now();
        if let Some(known) = memory.known.get(&key, now).filter(|known| known.holds(epoch)) {
            return Some(known.answer);
        }
        let answer = memory.inspect.at_once(token)?;
        memory.keep(key, epoch, &answer, now);
        Some(answer)
    }

    fn inspect<'a>(&'a self, token: &'a str) -> AuthenticateFuture<'a> {
        let key = digest(token);
        Box::pin(async move {
            let ask = || {
                let (memory, token) = (Arc::clone(&self.0), SecretString::from(token));
                async move {
                    let before = memory.inspect.epoch();
                    let answer = memory.inspect.inspect(token.expose_secret()).await;
                    let answer = match memory.recheck {
                        Some(every) => answer.map(|it| Recheck::of(it, &memory, token, every)),
                        None => answer,
                    };
                    // If the keys changed meanwhile, it is not known which ones the answer is by:
                    // then the next request inspects again.
                    if memory.inspect.epoch() == before {
                        memory.keep(key, before, &answer, memory.clock.now());
                    }
                    answer
                }
            };
            self.0.flights.join(key, ask).await
        })
    }

    fn epoch(&self) -> u64 {
        self.0.inspect.epoch()
    }
}

/// Inspects a token again, for as long as something that was opened with it is.
struct Recheck<I> {
    /// Gone with the layer that it belongs to, such as after a reload.
    memory: Weak<Memory<I>>,
    token: SecretString,
    every: Duration,
}

impl<I: Inspect> Recheck<I> {
    /// The caller, whose session ends with the token.
    fn of(
        caller: Identity,
        memory: &Arc<Memory<I>>,
        token: SecretString,
        every: Duration,
    ) -> Identity {
        let memory = Arc::downgrade(memory);
        caller.with_ending(Arc::new(Self { memory, token, every }))
    }
}

impl<I: Inspect> Ending for Recheck<I> {
    fn ended(&self) -> EndingFuture {
        let (memory, token, every) = (Weak::clone(&self.memory), self.token.clone(), self.every);
        Box::pin(async move {
            let mut checked = Instant::now();
            loop {
                tokio::time::sleep(every).await;
                let Some(cached) = memory.upgrade().map(Cached) else { return };
                let answer = match cached.at_once(token.expose_secret()) {
                    Some(answer) => answer,
                    None => cached.inspect(token.expose_secret()).await,
                };
                match answer {
                    Ok(_) => checked = Instant::now(),
                    Err(Refusal::Unavailable { .. }) if checked.elapsed() < UNCHECKED => {}
                    Err(_) => return,
                }
            }
        })
    }
}

impl<I> Memory<I> {
    fn keep(&self, key: Digest, epoch: u64, answer: &Result<Identity, Refusal>, now: SystemTime) {
        let until = match answer {
            Ok(_) if self.seen.as_ref().is_some_and(|seen| seen.is_new(&key)) => return,
            Ok(identity) => {
                let longest = now + self.accepted_for;
                identity.expires_at().map_or(longest, |expiry| expiry.min(longest))
            }
            Err(Refusal::InvalidToken(_)) => match self.refused_for {
                Some(wait) => now + wait,
                None => return,
            },
            Err(_) => return,
        };
        self.known.insert(key, Known { epoch, answer: answer.clone() }, until, now);
    }
}

impl Known {
    fn holds(&self, epoch: u64) -> bool {
        self.epoch == epoch && !self.answer.as_ref().is_ok_and(Identity::has_ended)
    }
}

impl<I> fmt::Debug for Cached<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cached").field("known", &self.0.known).finish_non_exhaustive()
    }
}

fn digest(token: &str) -> Digest {
    let digest = digest::digest(&digest::SHA256, token.as_bytes());
    // A SHA-256 has 32 bytes.
    digest.as_ref().try_into().unwrap_or_default()
}

#[cfg(test)]
mod tests;
