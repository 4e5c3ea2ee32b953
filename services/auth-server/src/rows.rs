//! Upstream tokens of a session: loaded on demand and refreshed before they expire, by one replica.

mod check;
mod links;
mod want;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use secrecy::{ExposeSecret, SecretString};
use vmcp_auth_store::{
    Digest, LockOwner, ProviderName, SessionId, StoreError, Timestamp, UpstreamTokenLock,
    UpstreamTokenRecord,
};
use vmcp_core::{
    Cache, Fingerprint, LinksFuture, SingleFlight, UpstreamError, UpstreamFuture, UpstreamKind,
    UpstreamToken, UpstreamTokens,
};
use vmcp_upstream::{RefreshError, Tokens};

use self::want::Want;
use crate::error::Fault;
use crate::event::Lost;
use crate::opaque::random;
use crate::server::{Inner, Leg};

/// Maximum age of a cached row: a token that was unlinked on any replica is not used for longer.
const READ: Duration = Duration::from_millis(900);

/// Timeout of a refresh, which runs on even if its caller is gone.
const REFRESH: Duration = Duration::from_secs(30);

/// Lease of a row's lock: longer than a refresh.
const LOCK: Duration = Duration::from_secs(40);

/// Interval and number of the checks whether another replica has finished its refresh.
const LOOK: Duration = Duration::from_millis(250);
const LOOKS: usize = 120;

/// Number and interval of attempts to store refreshed tokens.
const KEEPS: usize = 3;
const KEEP_AGAIN: Duration = Duration::from_millis(50);

/// Minimum and maximum delay after a provider was unavailable; it doubles each time.
const BACK_OFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// Minimum time between two refreshes caused by rejected tokens: a backend that rejects all tokens would otherwise cause a
/// refresh for each request.
const RENEWED: Duration = Duration::from_secs(30);

/// Maximum number of cached rows, and of cached provider failures.
const ROWS: usize = 16 * 1024;

type Key = (SessionId, ProviderName);
type Outcome = Result<Arc<Stored>, UpstreamError>;

/// Upstream tokens, decrypted from the store.
struct Stored {
    tokens: Tokens,
    /// Time at which the provider last confirmed the tokens.
    written: Timestamp,
}

/// Process-local state of rows.
pub(crate) struct Rows {
    read: Cache<Key, Arc<Stored>>,
    flights: SingleFlight<(Key, Want), Outcome>,
    /// Rows that were refreshed recently because a backend rejected their token.
    renewed: Cache<Key, ()>,
    /// Current delay of each row's provider after a failure, and its end.
    failed: Cache<Key, (Duration, SystemTime)>,
    /// Keys of the sessions' links.
    links: Cache<SessionId, Fingerprint>,
    link_flights: SingleFlight<SessionId, Option<Fingerprint>>,
}

/// Upstream tokens of one session.
pub(crate) struct SessionTokens {
    server: Arc<Inner>,
    session: SessionId,
}

/// Outcome of one attempt to refresh a row under its lock.
enum Step {
    Done(Outcome),
    /// Another replica has the lock.
    Wait,
}

impl SessionTokens {
    pub(crate) fn new(server: Arc<Inner>, session: SessionId) -> Self {
        Self { server, session }
    }
}

impl UpstreamTokens for SessionTokens {
    fn token<'a>(&'a self, provider: &'a str, kind: UpstreamKind) -> UpstreamFuture<'a> {
        Box::pin(async move {
            let want = match kind {
                UpstreamKind::Access => Want::Access,
                UpstreamKind::Id => Want::Id,
            };
            self.wanted(provider, kind, want).await
        })
    }

    fn refresh<'a>(
        &'a self,
        provider: &'a str,
        kind: UpstreamKind,
        refused: &'a SecretString,
    ) -> UpstreamFuture<'a> {
        let want = Want::Other(kind, Digest::of(refused.expose_secret()));
        Box::pin(self.wanted(provider, kind, want))
    }

    fn session(&self) -> Option<Fingerprint> {
        Some(Fingerprint::of(&self.session))
    }

    fn links(&self) -> LinksFuture<'_> {
        Box::pin(self.server.links(self.session))
    }
}

impl SessionTokens {
    async fn wanted(
        &self,
        provider: &str,
        kind: UpstreamKind,
        want: Want,
    ) -> Result<UpstreamToken, UpstreamError> {
        let leg = self.server.upstreams.iter().find(|leg| leg.name.as_str() == provider);
        let leg = leg.ok_or(UpstreamError::NotLinked)?;
        let stored = self.server.upstream_tokens(self.session, leg, want).await?;
        let expires_at = stored.tokens.expires_at.filter(|_| kind == UpstreamKind::Access);
        let value = want::token(&stored.tokens, kind).ok_or(UpstreamError::NotLinked)?.clone();
        Ok(UpstreamToken { value, expires_at })
    }
}

impl fmt::Debug for SessionTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionTokens").field("session", &self.session).finish_non_exhaustive()
    }
}

// === impl Rows ===

impl Rows {
    pub(crate) fn new() -> Self {
        let (read, renewed, failed) = (Cache::new(ROWS), Cache::new(ROWS), Cache::new(ROWS));
        let (links, link_flights) = (Cache::new(ROWS), SingleFlight::new());
        Self { read, flights: SingleFlight::new(), renewed, failed, links, link_flights }
    }

    /// Returns the number of cached rows.
    pub(crate) fn len(&self) -> usize {
        self.read.len()
    }

    /// Returns the number of rows whose provider is not asked again for a while.
    pub(crate) fn left_alone(&self) -> usize {
        self.renewed.len() + self.failed.len()
    }

    pub(crate) fn forget(&self, session: SessionId, provider: &ProviderName) {
        let key = (session, provider.clone());
        self.read.remove(&key);
        self.renewed.remove(&key);
        self.failed.remove(&key);
        self.links.remove(&session);
    }

    fn keep(&self, key: &Key, tokens: &Arc<Stored>, now: SystemTime) {
        self.failed.remove(key);
        self.read.insert(key.clone(), Arc::clone(tokens), now + READ, now);
    }

    /// Records that the provider was unavailable. The delay doubles with each consecutive failure.
    fn fail(&self, key: &Key, now: SystemTime) {
        let (least, most) = BACK_OFF;
        let time = self.failed.get(key, now).map_or(least, |(time, _)| (time * 2).min(most));
        self.failed.insert(key.clone(), (time, now + time), now + most * 2, now);
    }

    fn is_left_alone(&self, key: &Key, now: SystemTime) -> bool {
        self.failed.get(key, now).is_some_and(|(_, until)| until > now)
    }
}

impl fmt::Debug for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rows").field("read", &self.read.len()).finish_non_exhaustive()
    }
}

// === impl Inner ===

impl Inner {
    async fn upstream_tokens(
        self: &Arc<Self>,
        session: SessionId,
        leg: &Leg,
        want: Want,
    ) -> Outcome {
        let key = (session, leg.name.clone());
        let now = self.clock.now();
        if let Some(tokens) = self.rows.read.get(&key, now)
            && want.is_met(&tokens, now)
        {
            return Ok(tokens);
        }
        let (server, leg, flown) = (Arc::clone(self), leg.clone(), key.clone());
        let load = || async move { server.load(flown, &leg, want).await };
        self.rows.flights.join((key, want), load).await
    }

    /// Reads the row, and refreshes it if due. The refresh continues after its callers are gone, since the provider may
    /// already have revoked the old refresh token.
    async fn load(self: Arc<Self>, key: Key, leg: &Leg, want: Want) -> Outcome {
        let tokens = self.read_row(&key, leg).await?;
        let now = self.clock.now();
        if want.is_met(&tokens, now) {
            self.rows.keep(&key, &tokens, now);
            return Ok(tokens);
        }
        if tokens.tokens.refresh.is_none() {
            // A token that one backend rejected may be valid for another one.
            let fault = if want.is_another() {
                UpstreamError::Unavailable
            } else {
                UpstreamError::NotLinked
            };
            return want.fallback(tokens, now).ok_or(fault);
        }
        let is_renewed = want.is_another() && self.rows.renewed.get(&key, now).is_some();
        if is_renewed || self.rows.is_left_alone(&key, now) {
            return want.fallback(tokens, now).ok_or(UpstreamError::Unavailable);
        }
        let (server, leg) = (Arc::clone(&self), leg.clone());
        let refresh = tokio::spawn(async move { server.refresh_row(&key, &leg, want).await });
        refresh.await.unwrap_or(Err(UpstreamError::Unavailable))
    }

    async fn read_row(&self, (session, provider): &Key, leg: &Leg) -> Outcome {
        let found = self.store.session(session).await.map_err(|error| unavailable(&error))?;
        let row = found
            .and_then(|mut found| found.rows.remove(provider))
            .ok_or(UpstreamError::NotLinked)?;
        self.read_tokens(*session, leg, &row)
    }

    fn read_tokens(&self, session: SessionId, leg: &Leg, row: &UpstreamTokenRecord) -> Outcome {
        let opened = self.open_row(session, leg, row);
        let stored = |tokens| Arc::new(Stored { tokens, written: row.written });
        opened.map(stored).map_err(|_| UpstreamError::NotLinked)
    }

    /// Refreshes a row under its lock, or waits for the replica that has the lock.
    async fn refresh_row(self: &Arc<Self>, key: &Key, leg: &Leg, want: Want) -> Outcome {
        let owner = random().map(LockOwner::from_bytes).map_err(|_| UpstreamError::Unavailable)?;
        for _ in 0..LOOKS {
            match self.refresh_locked(key, leg, want, &owner).await {
                Step::Done(outcome) => return outcome,
                Step::Wait => tokio::time::sleep(LOOK).await,
            }
            let now = self.clock.now();
            match self.read_row(key, leg).await {
                Ok(tokens) if want.is_met(&tokens, now) => {
                    self.rows.keep(key, &tokens, now);
                    return Ok(tokens);
                }
                Ok(_) => {}
                Err(error) => return Err(error),
            }
        }
        Err(UpstreamError::Unavailable)
    }

    async fn refresh_locked(
        self: &Arc<Self>,
        key: &Key,
        leg: &Leg,
        want: Want,
        owner: &LockOwner,
    ) -> Step {
        let (session, provider) = key;
        let row = match self.store.lock_upstream_token(session, provider, owner, LOCK).await {
            Ok(UpstreamTokenLock::Held) => return Step::Wait,
            Ok(UpstreamTokenLock::Acquired(row)) => row,
            Err(error) => return Step::Done(Err(unavailable(&error))),
        };
        let outcome = match row {
            None => Err(UpstreamError::NotLinked),
            Some(row) => self.refresh_as_owner(key, leg, want, &row).await,
        };
        // A lock that is not released expires.
        let _ = self.store.unlock_upstream_token(session, provider, owner).await;
        Step::Done(outcome)
    }

    async fn refresh_as_owner(
        self: &Arc<Self>,
        key: &Key,
        leg: &Leg,
        want: Want,
        row: &UpstreamTokenRecord,
    ) -> Outcome {
        let tokens = self.read_tokens(key.0, leg, row)?;
        let now = self.clock.now();
        if want.is_met(&tokens, now) {
            self.rows.keep(key, &tokens, now);
            return Ok(tokens);
        }
        if want.is_another() {
            self.rows.renewed.insert(key.clone(), (), now + RENEWED, now);
        }
        match tokio::time::timeout(REFRESH, leg.provider.refresh(&tokens.tokens)).await {
            Ok(Ok(fresh)) => {
                let fresh = self.replace(key, leg, row, fresh).await?;
                // Some providers return the same token until it expires.
                if want.is_refused(&fresh) { Err(UpstreamError::Unavailable) } else { Ok(fresh) }
            }
            Ok(Err(fault @ (RefreshError::GrantEnded | RefreshError::SubjectChanged))) => {
                tracing::info!(provider = %leg.name, %fault, "a link to an upstream provider is over");
                self.remove_upstream_token(key, row).await;
                let dead = fault == RefreshError::GrantEnded;
                let lost = if dead { Lost::Dead } else { Lost::SubjectChanged };
                self.lost(key.0, leg.name.as_str(), lost).await;
                if leg.at == 0 {
                    self.end_refused(key.0, want.is_of_others()).await;
                }
                Err(UpstreamError::NotLinked)
            }
            Ok(Err(RefreshError::Temporary(fault))) => {
                tracing::warn!(provider = %leg.name, %fault, "upstream tokens are not refreshed");
                self.rows.fail(key, now);
                want.fallback(tokens, now).ok_or(UpstreamError::Unavailable)
            }
            Err(_) => {
                tracing::warn!(provider = %leg.name, "an upstream provider takes too long to refresh tokens");
                self.rows.fail(key, now);
                want.fallback(tokens, now).ok_or(UpstreamError::Unavailable)
            }
        }
    }

    /// Stores new tokens. If that fails, deletes the row: the provider may have revoked the old refresh token, so it is not
    /// used again.
    async fn replace(
        &self,
        key: &Key,
        leg: &Leg,
        row: &UpstreamTokenRecord,
        fresh: Tokens,
    ) -> Outcome {
        let (session, provider) = key;
        let sealed =
            self.seal_row(*session, leg, &fresh).map_err(|_: Fault| UpstreamError::Unavailable)?;
        let fresh = Arc::new(Stored { tokens: fresh, written: sealed.written });
        for attempt in 0..KEEPS {
            if attempt > 0 {
                tokio::time::sleep(KEEP_AGAIN).await;
            }
            match self.store.replace_upstream_token(session, provider, row.version, &sealed).await {
                Ok(Some(_)) => {
                    self.rows.keep(key, &fresh, self.clock.now());
                    return Ok(fresh);
                }
                // The row was unlinked or linked again in the meantime: its current content wins. It may also be this
                // write, if the store's response was lost.
                Ok(None) => return self.read_row(key, leg).await,
                Err(error) => {
                    tracing::warn!(provider = %leg.name, %error, "refreshed upstream tokens are not kept");
                }
            }
        }
        self.remove_upstream_token(key, row).await;
        self.lost(*session, leg.name.as_str(), Lost::NotKept).await;
        Err(UpstreamError::NotLinked)
    }

    async fn remove_upstream_token(&self, (session, provider): &Key, row: &UpstreamTokenRecord) {
        self.rows.forget(*session, provider);
        if let Err(error) =
            self.store.remove_upstream_token(session, provider, Some(row.version)).await
        {
            tracing::warn!(%provider, %error, "a dead upstream row stays until it ends");
        }
    }
}

fn unavailable(error: &StoreError) -> UpstreamError {
    tracing::warn!(%error, "upstream tokens cannot be read");
    UpstreamError::Unavailable
}
