//! Upstream tokens of a session: loaded on demand and refreshed before they expire, by one replica.

mod link_key;
mod session_tokens;
mod user_check;

use std::sync::Arc;
use std::time::Duration;

use tracing::Instrument;
use vmcp_auth_store::{
    LockOwner, SessionId, Store, StoreError, UpstreamTokenLock, UpstreamTokenRecord,
};
use vmcp_core::{Clock, UpstreamError};
use vmcp_upstream::{RefreshError, Tokens};

pub(crate) use self::session_tokens::SessionTokens;
use crate::error::OAuthError;
use crate::event::{Event, EventKind, LinkLossReason};
use crate::event_reporter::EventReporter;
use crate::random_tokens::random;
use crate::sessions::Sessions;
use crate::settings::Settings;
use crate::upstream_cipher::UpstreamCipher;
use crate::upstream_provider::{UpstreamProvider, UpstreamProviders};
use crate::upstream_token_cache::{Key, Outcome, Requirement, StoredTokens, UpstreamTokenCache};

/// Timeout of a refresh, which runs on even if its caller is gone.
const REFRESH_TIMEOUT: Duration = Duration::from_secs(30);

/// Lease of a record's lock: longer than a refresh.
const LOCK_LEASE: Duration = Duration::from_secs(40);

/// Interval and number of the checks whether another replica has finished its refresh.
const POLL_INTERVAL: Duration = Duration::from_millis(250);
const MAX_POLLS: usize = 120;

/// Number and interval of attempts to store refreshed tokens.
const MAX_STORE_ATTEMPTS: usize = 3;
const STORE_RETRY_DELAY: Duration = Duration::from_millis(50);

/// Minimum time between two refreshes caused by rejected tokens: a backend that rejects all tokens would otherwise cause a
/// refresh for each request.
const FORCED_REFRESH_INTERVAL: Duration = Duration::from_secs(30);

/// Outcome of one attempt to refresh a record under its lock.
enum LockAttempt {
    Done(Outcome),
    /// Another replica has the lock.
    Locked,
}

/// Upstream tokens of all sessions.
pub(crate) struct UpstreamTokenService {
    pub(crate) settings: Arc<Settings>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Clock,
    pub(crate) providers: UpstreamProviders,
    pub(crate) cipher: UpstreamCipher,
    pub(crate) token_cache: Arc<UpstreamTokenCache>,
    pub(crate) sessions: Sessions,
    pub(crate) events: EventReporter,
}

impl UpstreamTokenService {
    async fn get(
        self: &Arc<Self>,
        session: SessionId,
        upstream: &UpstreamProvider,
        requirement: Requirement,
    ) -> Outcome {
        let key = (session, upstream.name.clone());
        let now = self.clock.now();
        if let Some(tokens) = self.token_cache.read.get(&key, now)
            && requirement.is_satisfied_by(&tokens, now)
        {
            return Ok(tokens);
        }
        let (server, upstream, flight_key) = (Arc::clone(self), upstream.clone(), key.clone());
        let load = || async move { server.load(flight_key, &upstream, requirement).await };
        self.token_cache.single_flight.join((key, requirement), load).await
    }

    /// Reads the record, and refreshes it if due. The refresh continues after its callers are gone, since the provider may
    /// already have revoked the old refresh token.
    async fn load(
        self: Arc<Self>,
        key: Key,
        upstream: &UpstreamProvider,
        requirement: Requirement,
    ) -> Outcome {
        let tokens = self.load_record(&key, upstream).await?;
        let now = self.clock.now();
        if requirement.is_satisfied_by(&tokens, now) {
            self.token_cache.insert(&key, &tokens, now);
            return Ok(tokens);
        }
        if tokens.tokens.refresh.is_none() {
            // A token that one backend rejected may be valid for another one.
            let error = if requirement.is_replacement() {
                UpstreamError::Unavailable
            } else {
                UpstreamError::NotLinked
            };
            return requirement.fallback(tokens, now).ok_or(error);
        }
        let is_renewed =
            requirement.is_replacement() && self.token_cache.renewed.get(&key, now).is_some();
        if is_renewed || self.token_cache.is_backed_off(&key, now) {
            return requirement.fallback(tokens, now).ok_or(UpstreamError::Unavailable);
        }
        let (server, upstream) = (Arc::clone(&self), upstream.clone());
        let refreshing = async move { server.refresh_record(&key, &upstream, requirement).await };
        let refresh = tokio::spawn(refreshing.in_current_span());
        refresh.await.unwrap_or_else(|error| {
            tracing::error!(%error, "upstream token refresh panicked");
            Err(UpstreamError::Unavailable)
        })
    }

    async fn load_record(&self, (session, provider): &Key, upstream: &UpstreamProvider) -> Outcome {
        let found = self.store.session(session).await.map_err(|error| unavailable(&error))?;
        let record = found
            .and_then(|mut found| found.rows.remove(provider))
            .ok_or(UpstreamError::NotLinked)?;
        self.decrypt_record(*session, upstream, &record)
    }

    fn decrypt_record(
        &self,
        session: SessionId,
        upstream: &UpstreamProvider,
        record: &UpstreamTokenRecord,
    ) -> Outcome {
        let opened = self.cipher.decrypt_tokens(session, upstream, record);
        let stored = |tokens| Arc::new(StoredTokens { tokens, written: record.written });
        opened.map(stored).map_err(|_| UpstreamError::NotLinked)
    }

    /// Refreshes a record under its lock, or waits for the replica that has the lock.
    async fn refresh_record(
        self: &Arc<Self>,
        key: &Key,
        upstream: &UpstreamProvider,
        requirement: Requirement,
    ) -> Outcome {
        let owner = random().map(LockOwner::from_bytes).map_err(|_| UpstreamError::Unavailable)?;
        for _ in 0..MAX_POLLS {
            match self.refresh_locked(key, upstream, requirement, &owner).await {
                LockAttempt::Done(outcome) => return outcome,
                LockAttempt::Locked => tokio::time::sleep(POLL_INTERVAL).await,
            }
            let now = self.clock.now();
            match self.load_record(key, upstream).await {
                Ok(tokens) if requirement.is_satisfied_by(&tokens, now) => {
                    self.token_cache.insert(key, &tokens, now);
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
        upstream: &UpstreamProvider,
        requirement: Requirement,
        owner: &LockOwner,
    ) -> LockAttempt {
        let (session, provider) = key;
        let record =
            match self.store.lock_upstream_token(session, provider, owner, LOCK_LEASE).await {
                Ok(UpstreamTokenLock::Held) => return LockAttempt::Locked,
                Ok(UpstreamTokenLock::Acquired(record)) => record,
                Err(error) => return LockAttempt::Done(Err(unavailable(&error))),
            };
        let outcome = match record {
            None => Err(UpstreamError::NotLinked),
            Some(record) => self.refresh_as_owner(key, upstream, requirement, &record).await,
        };
        // A lock that is not released expires.
        if let Err(error) = self.store.unlock_upstream_token(session, provider, owner).await {
            tracing::debug!(%provider, %error, "failed to release lock of upstream tokens");
        }
        LockAttempt::Done(outcome)
    }

    async fn refresh_as_owner(
        self: &Arc<Self>,
        key: &Key,
        upstream: &UpstreamProvider,
        requirement: Requirement,
        record: &UpstreamTokenRecord,
    ) -> Outcome {
        let tokens = self.decrypt_record(key.0, upstream, record)?;
        let now = self.clock.now();
        if requirement.is_satisfied_by(&tokens, now) {
            self.token_cache.insert(key, &tokens, now);
            return Ok(tokens);
        }
        if requirement.is_replacement() {
            self.token_cache.renewed.insert(key.clone(), (), now + FORCED_REFRESH_INTERVAL, now);
        }
        match tokio::time::timeout(REFRESH_TIMEOUT, upstream.provider.refresh(&tokens.tokens)).await
        {
            Ok(Ok(fresh)) => {
                let fresh = self.store_refreshed(key, upstream, record, fresh).await?;
                // Some providers return the same token until it expires.
                if requirement.is_rejected_token(&fresh) {
                    Err(UpstreamError::Unavailable)
                } else {
                    Ok(fresh)
                }
            }
            Ok(Err(error @ (RefreshError::GrantEnded | RefreshError::SubjectChanged))) => {
                tracing::info!(provider = %upstream.name, %error, "upstream link lost");
                self.remove_record(key, record).await;
                let dead = error == RefreshError::GrantEnded;
                let lost =
                    if dead { LinkLossReason::GrantEnded } else { LinkLossReason::SubjectChanged };
                self.report_link_loss(key.0, upstream.name.as_str(), lost).await;
                if upstream.index == 0 {
                    self.end_rejected_session(key.0, requirement.is_chained_check()).await;
                }
                Err(UpstreamError::NotLinked)
            }
            Ok(Err(RefreshError::Temporary(error))) => {
                tracing::warn!(provider = %upstream.name, %error, "failed to refresh upstream tokens");
                self.token_cache.record_failure(key, now);
                requirement.fallback(tokens, now).ok_or(UpstreamError::Unavailable)
            }
            Err(_) => {
                tracing::warn!(provider = %upstream.name, "upstream token refresh timed out");
                self.token_cache.record_failure(key, now);
                requirement.fallback(tokens, now).ok_or(UpstreamError::Unavailable)
            }
        }
    }

    /// Reports the loss of a provider's link. The user of the session is looked up for the event alone.
    async fn report_link_loss(&self, session: SessionId, provider: &str, reason: LinkLossReason) {
        if !self.events.is_enabled() {
            return;
        }
        let kind = EventKind::UpstreamLinkLost { provider, reason };
        match self.store.session(&session).await {
            Ok(Some(found)) => self.events.report_background(Event::of_session(&found.head, kind)),
            Ok(None) => self.events.report_background(Event::new(None, kind).with_session(session)),
            Err(error) => {
                tracing::warn!(%error, "failed to read user of lost link for event");
                self.events.report_background(Event::new(None, kind).with_session(session));
            }
        }
    }

    /// Stores new tokens. If that fails, deletes the record: the provider may have revoked the old refresh token, so it is
    /// not used again.
    async fn store_refreshed(
        &self,
        key: &Key,
        upstream: &UpstreamProvider,
        record: &UpstreamTokenRecord,
        fresh: Tokens,
    ) -> Outcome {
        let (session, provider) = key;
        let sealed = self
            .cipher
            .encrypt_tokens(*session, upstream, &fresh)
            .map_err(|_: OAuthError| UpstreamError::Unavailable)?;
        let fresh = Arc::new(StoredTokens { tokens: fresh, written: sealed.written });
        for attempt in 0..MAX_STORE_ATTEMPTS {
            if attempt > 0 {
                tokio::time::sleep(STORE_RETRY_DELAY).await;
            }
            match self
                .store
                .replace_upstream_token(session, provider, record.version, &sealed)
                .await
            {
                Ok(Some(_)) => {
                    self.token_cache.insert(key, &fresh, self.clock.now());
                    return Ok(fresh);
                }
                // The record was unlinked or linked again in the meantime: its current content wins. It may also be this
                // write, if the store's response was lost.
                Ok(None) => return self.load_record(key, upstream).await,
                Err(error) => {
                    tracing::warn!(provider = %upstream.name, %error, "failed to store refreshed upstream tokens");
                }
            }
        }
        self.remove_record(key, record).await;
        self.report_link_loss(*session, upstream.name.as_str(), LinkLossReason::StoreFailed).await;
        Err(UpstreamError::NotLinked)
    }

    async fn remove_record(&self, (session, provider): &Key, record: &UpstreamTokenRecord) {
        self.token_cache.remove(*session, provider);
        if let Err(error) =
            self.store.remove_upstream_token(session, provider, Some(record.version)).await
        {
            tracing::warn!(%provider, %error, "failed to delete upstream tokens");
        }
    }
}

fn unavailable(error: &StoreError) -> UpstreamError {
    tracing::warn!(%error, "failed to read upstream tokens from store");
    UpstreamError::Unavailable
}
