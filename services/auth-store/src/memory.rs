//! Store in the process, for one replica; a restart clears it.

mod clients;
mod expiring_map;
mod grants;
mod sessions;
mod state;
#[cfg(test)]
mod tests;
mod users;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use futures_util::stream::{self, BoxStream, StreamExt};
use tokio::sync::broadcast::{self, error::RecvError};
use vmcp_core::Clock;

use self::state::State;
use crate::{
    AuthorizationCodeData, Browser, Ciphertext, Client, ClientId, CodeChallenge, CodeRedemption,
    Consent, Counts, Digest, Grant, GrantId, GrantInsertOutcome, GrantLookup, Limits, LockOwner,
    Login, PresentedRefreshToken, Profile, ProviderIssuer, ProviderName, Revocation,
    RotationOutcome, Session, SessionHead, SessionId, Store, StoreError, StoreFuture, Subject,
    Timestamp, UpstreamTokenLock, UpstreamTokenRecord, User, UserId,
};

/// Store in the process. Clones share the state.
///
/// Each step holds one lock for a short time, without awaiting, and removes expired records first.
#[derive(Clone, Debug)]
pub struct MemoryStore {
    state: Arc<Mutex<State>>,
    clock: Clock,
    created_at: SystemTime,
}

/// Subscriber to revocations.
struct Listener {
    memory: MemoryStore,
    /// Revocations that are not yet delivered.
    recent: VecDeque<Revocation>,
    revocation_events: broadcast::Receiver<Revocation>,
}

// === impl MemoryStore ===

impl MemoryStore {
    /// Creates an empty store with these limits and this clock.
    #[must_use]
    pub fn new(limits: Limits, clock: Clock) -> Self {
        let created_at = clock.now();
        Self { state: Arc::new(Mutex::new(State::new(limits))), clock, created_at }
    }

    fn step<'a, T: Send + 'a>(
        &'a self,
        step: impl FnOnce(&mut State, Timestamp) -> Result<T, StoreError> + Send + 'a,
    ) -> StoreFuture<'a, T> {
        Box::pin(async move { self.with_state(step) })
    }

    fn with_state<T>(&self, step: impl FnOnce(&mut State, Timestamp) -> T) -> T {
        let mut state = vmcp_core::lock(&self.state);
        let now = self.clock.now().into();
        state.sweep(now);
        step(&mut state, now)
    }

    fn listen(&self) -> BoxStream<'static, Revocation> {
        let (recent, revocation_events) = self.with_state(|state, _| {
            (state.recent_revocations(), state.revocation_events.subscribe())
        });
        let listener = Listener { memory: self.clone(), recent, revocation_events };
        stream::unfold(listener, Listener::next).boxed()
    }
}

impl Store for MemoryStore {
    fn not_before(&self) -> Option<SystemTime> {
        Some(self.created_at)
    }

    fn client<'a>(&'a self, id: &'a ClientId) -> StoreFuture<'a, Option<Client>> {
        self.step(move |state, _| Ok(state.client(id)))
    }

    fn register<'a>(&'a self, client: &'a Client) -> StoreFuture<'a, ()> {
        self.step(move |state, now| state.register(client, now))
    }

    fn put_login<'a>(
        &'a self,
        key: &'a Digest,
        login: &'a Login,
        ttl: Duration,
    ) -> StoreFuture<'a, ()> {
        self.step(move |state, now| state.put_login(key, login, now + ttl))
    }

    fn login<'a>(&'a self, key: &'a Digest) -> StoreFuture<'a, Option<Login>> {
        self.step(move |state, _| Ok(state.logins.get(key).cloned()))
    }

    fn take_login<'a>(&'a self, key: &'a Digest) -> StoreFuture<'a, Option<Login>> {
        self.step(move |state, _| Ok(state.take_login(key)))
    }

    fn advance_login<'a>(
        &'a self,
        from: &'a Digest,
        to: &'a Digest,
        login: &'a Login,
        ttl: Duration,
    ) -> StoreFuture<'a, bool> {
        self.step(move |state, now| state.advance_login(from, (to, login), now + ttl))
    }

    fn conflicting_issuers<'a>(
        &'a self,
        providers: &'a [(ProviderName, ProviderIssuer)],
    ) -> StoreFuture<'a, Vec<(ProviderName, ProviderIssuer)>> {
        self.step(move |state, now| Ok(state.conflicting_issuers(providers, now)))
    }

    fn upsert_user<'a>(
        &'a self,
        subject: &'a Subject,
        proposed: &'a UserId,
        profile: &'a Profile,
    ) -> StoreFuture<'a, UserId> {
        self.step(move |state, now| state.upsert_user(subject, (proposed, profile), now))
    }

    fn account<'a>(&'a self, user: &'a UserId) -> StoreFuture<'a, Option<User>> {
        self.step(move |state, _| Ok(state.users.get(user).map(|(_, user)| user.clone())))
    }

    fn put_code<'a>(
        &'a self,
        code: &'a Digest,
        seed: &'a AuthorizationCodeData,
        ttl: Duration,
    ) -> StoreFuture<'a, bool> {
        self.step(move |state, now| state.put_code(code, seed, now + ttl))
    }

    fn redeem_code<'a>(
        &'a self,
        code: &'a Digest,
        client: &'a ClientId,
        challenge: &'a CodeChallenge,
    ) -> StoreFuture<'a, CodeRedemption> {
        self.step(move |state, now| Ok(state.redeem_code(code, (client, challenge), now)))
    }

    fn start_grant<'a>(
        &'a self,
        code: &'a Digest,
        grant: &'a Grant,
    ) -> StoreFuture<'a, GrantInsertOutcome> {
        self.step(move |state, now| state.start_grant(code, grant, now))
    }

    fn invalidate_code<'a>(&'a self, code: &'a Digest) -> StoreFuture<'a, ()> {
        self.step(move |state, now| {
            state.invalidate_code(code, now);
            Ok(())
        })
    }

    fn grant<'a>(&'a self, id: &'a GrantId, client: &'a ClientId) -> StoreFuture<'a, GrantLookup> {
        self.step(move |state, _| Ok(state.grant(id, client)))
    }

    fn rotate<'a>(
        &'a self,
        id: &'a GrantId,
        presented: &'a PresentedRefreshToken,
        next: &'a Digest,
    ) -> StoreFuture<'a, RotationOutcome> {
        self.step(move |state, now| Ok(state.rotate(id, (presented, next), now)))
    }

    fn revoke<'a>(&'a self, id: &'a GrantId) -> StoreFuture<'a, Option<Revocation>> {
        self.step(move |state, now| Ok(state.revoke(id, now)))
    }

    fn put_upstream_token<'a>(
        &'a self,
        session: &'a SessionHead,
        provider: &'a ProviderName,
        row: &'a UpstreamTokenRecord,
        ttl: Duration,
    ) -> StoreFuture<'a, u64> {
        self.step(move |state, now| state.put_upstream_token(session, (provider, row), (now, ttl)))
    }

    fn replace_upstream_token<'a>(
        &'a self,
        session: &'a SessionId,
        provider: &'a ProviderName,
        if_version: u64,
        row: &'a UpstreamTokenRecord,
    ) -> StoreFuture<'a, Option<u64>> {
        self.step(move |state, _| {
            Ok(state.replace_upstream_token(session, (provider, row), if_version))
        })
    }

    fn remove_upstream_token<'a>(
        &'a self,
        session: &'a SessionId,
        provider: &'a ProviderName,
        if_version: Option<u64>,
    ) -> StoreFuture<'a, bool> {
        self.step(move |state, _| Ok(state.remove_upstream_token(session, provider, if_version)))
    }

    fn lock_upstream_token<'a>(
        &'a self,
        session: &'a SessionId,
        provider: &'a ProviderName,
        owner: &'a LockOwner,
        ttl: Duration,
    ) -> StoreFuture<'a, UpstreamTokenLock> {
        self.step(move |state, now| {
            state.lock_upstream_token(session, (provider, owner), now + ttl)
        })
    }

    fn unlock_upstream_token<'a>(
        &'a self,
        session: &'a SessionId,
        provider: &'a ProviderName,
        owner: &'a LockOwner,
    ) -> StoreFuture<'a, ()> {
        self.step(move |state, _| {
            state.unlock_upstream_token(session, provider, owner);
            Ok(())
        })
    }

    fn session<'a>(&'a self, id: &'a SessionId) -> StoreFuture<'a, Option<Session>> {
        self.step(move |state, _| Ok(state.session(id)))
    }

    fn extend_session<'a>(&'a self, id: &'a SessionId, ttl: Duration) -> StoreFuture<'a, bool> {
        self.step(move |state, now| Ok(state.sessions.extend_until(id, now + ttl)))
    }

    fn end_session<'a>(&'a self, id: &'a SessionId) -> StoreFuture<'a, Option<Revocation>> {
        self.step(move |state, now| Ok(state.revoke_session(*id, None, now)))
    }

    fn sessions_of<'a>(&'a self, user: &'a UserId) -> StoreFuture<'a, Vec<Session>> {
        self.step(move |state, _| Ok(state.sessions_of(user)))
    }

    fn latest_upstream_token<'a>(
        &'a self,
        user: &'a UserId,
        provider: &'a ProviderName,
    ) -> StoreFuture<'a, Option<(SessionId, UpstreamTokenRecord)>> {
        self.step(move |state, _| Ok(state.latest_upstream_token(user, provider)))
    }

    fn put_browser<'a>(
        &'a self,
        browser: &'a Digest,
        user: &'a UserId,
        consent: Option<&'a Consent>,
        ttl: Duration,
    ) -> StoreFuture<'a, ()> {
        self.step(move |state, now| state.put_browser(browser, (user, consent), (now, ttl)))
    }

    fn browser<'a>(&'a self, cookie: &'a Digest) -> StoreFuture<'a, Option<Browser>> {
        self.step(move |state, now| Ok(state.browser(cookie, now)))
    }

    fn remove_browser<'a>(&'a self, cookie: &'a Digest) -> StoreFuture<'a, ()> {
        self.step(move |state, _| {
            state.browsers.remove(cookie);
            Ok(())
        })
    }

    fn remove_consents<'a>(
        &'a self,
        user: &'a UserId,
        client: &'a ClientId,
    ) -> StoreFuture<'a, ()> {
        self.step(move |state, _| {
            state.remove_consents(user, client);
            Ok(())
        })
    }

    fn registration<'a>(&'a self, key: &'a Digest) -> StoreFuture<'a, Option<Ciphertext>> {
        self.step(move |state, _| Ok(state.registrations.get(key).cloned()))
    }

    fn put_registration<'a>(
        &'a self,
        key: &'a Digest,
        sealed: &'a Ciphertext,
        ttl: Duration,
    ) -> StoreFuture<'a, Ciphertext> {
        self.step(move |state, now| state.put_registration(key, sealed, (now, ttl)))
    }

    fn remove_registration<'a>(
        &'a self,
        key: &'a Digest,
        sealed: &'a Ciphertext,
    ) -> StoreFuture<'a, ()> {
        self.step(move |state, _| {
            state.remove_registration(key, sealed);
            Ok(())
        })
    }

    fn revocations(&self) -> StoreFuture<'_, BoxStream<'static, Revocation>> {
        Box::pin(async { Ok(self.listen()) })
    }

    fn ready(&self) -> StoreFuture<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    fn counts(&self) -> StoreFuture<'_, Counts> {
        self.step(|state, _| Ok(state.counts()))
    }
}

// === impl Listener ===

impl Listener {
    async fn next(mut self) -> Option<(Revocation, Self)> {
        loop {
            if let Some(revocation) = self.recent.pop_front() {
                return Some((revocation, self));
            }
            match self.revocation_events.recv().await {
                Ok(revocation) => return Some((revocation, self)),
                // The subscriber lagged behind and missed events: reload all recent revocations.
                Err(RecvError::Lagged(_)) => {
                    (self.recent, self.revocation_events) = self.memory.with_state(|state, _| {
                        (state.recent_revocations(), state.revocation_events.subscribe())
                    });
                }
                Err(RecvError::Closed) => return None,
            }
        }
    }
}
