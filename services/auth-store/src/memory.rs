//! A store in the process: enough for one replica, and gone after a restart.

mod clients;
mod grants;
mod people;
mod sessions;
mod state;
mod table;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::stream::{self, BoxStream, StreamExt};
use tokio::sync::broadcast::{self, error::RecvError};
use vmcp_core::Clock;

use self::state::State;
use crate::{
    Answer, Browser, Challenge, Client, ClientId, CodeAnswer, Consent, Counts, Digest, Grant,
    GrantAnswer, GrantId, Limits, LockOwner, Login, Presented, Profile, ProviderIssuer,
    ProviderName, Revocation, Rotation, Row, RowLock, Sealed, Seed, Session, SessionHead,
    SessionId, Started, Store, StoreError, Subject, Timestamp, User, UserId,
};

/// A store in the process. A clone is the same store.
///
/// Each step takes one short lock, under which nothing is awaited; what expired is cleared away then.
#[derive(Clone, Debug)]
pub struct Memory {
    state: Arc<Mutex<State>>,
    clock: Clock,
}

/// Who listens to revocations.
struct Listener {
    memory: Memory,
    /// What is still to be told.
    recent: VecDeque<Revocation>,
    news: broadcast::Receiver<Revocation>,
}

// === impl Memory ===

impl Memory {
    /// An empty store that holds so much, and expires by this clock.
    #[must_use]
    pub fn new(limits: Limits, clock: Clock) -> Self {
        Self { state: Arc::new(Mutex::new(State::new(limits))), clock }
    }

    fn step<'a, T: Send + 'a>(
        &'a self,
        step: impl FnOnce(&mut State, Timestamp) -> Result<T, StoreError> + Send + 'a,
    ) -> Answer<'a, T> {
        Box::pin(async move { self.now(step) })
    }

    fn now<T>(&self, step: impl FnOnce(&mut State, Timestamp) -> T) -> T {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.now().into();
        state.sweep(now);
        step(&mut state, now)
    }

    fn listen(&self) -> BoxStream<'static, Revocation> {
        let (recent, news) = self.now(|state, _| (state.recent(), state.news.subscribe()));
        let listener = Listener { memory: self.clone(), recent, news };
        stream::unfold(listener, Listener::next).boxed()
    }
}

impl Store for Memory {
    fn client<'a>(&'a self, id: &'a ClientId) -> Answer<'a, Option<Client>> {
        self.step(move |state, _| Ok(state.client(id)))
    }

    fn register<'a>(&'a self, client: &'a Client) -> Answer<'a, ()> {
        self.step(move |state, now| state.register(client, now))
    }

    fn put_login<'a>(&'a self, key: &'a Digest, login: &'a Login, ttl: Duration) -> Answer<'a, ()> {
        self.step(move |state, now| state.put_login(key, login, now + ttl))
    }

    fn login<'a>(&'a self, key: &'a Digest) -> Answer<'a, Option<Login>> {
        self.step(move |state, _| Ok(state.logins.get(key).cloned()))
    }

    fn take_login<'a>(&'a self, key: &'a Digest) -> Answer<'a, Option<Login>> {
        self.step(move |state, _| Ok(state.take_login(key)))
    }

    fn advance_login<'a>(
        &'a self,
        from: &'a Digest,
        to: &'a Digest,
        login: &'a Login,
        ttl: Duration,
    ) -> Answer<'a, bool> {
        self.step(move |state, now| state.advance_login(from, (to, login), now + ttl))
    }

    fn other_issuers<'a>(
        &'a self,
        providers: &'a [(ProviderName, ProviderIssuer)],
    ) -> Answer<'a, Vec<(ProviderName, ProviderIssuer)>> {
        self.step(move |state, now| Ok(state.other_issuers(providers, now)))
    }

    fn user<'a>(
        &'a self,
        subject: &'a Subject,
        proposed: &'a UserId,
        profile: &'a Profile,
    ) -> Answer<'a, UserId> {
        self.step(move |state, now| state.user(subject, (proposed, profile), now))
    }

    fn account<'a>(&'a self, user: &'a UserId) -> Answer<'a, Option<User>> {
        self.step(move |state, _| Ok(state.users.get(user).map(|(_, user)| user.clone())))
    }

    fn put_code<'a>(&'a self, code: &'a Digest, seed: &'a Seed, ttl: Duration) -> Answer<'a, bool> {
        self.step(move |state, now| state.put_code(code, seed, now + ttl))
    }

    fn take_code<'a>(
        &'a self,
        code: &'a Digest,
        client: &'a ClientId,
        challenge: &'a Challenge,
    ) -> Answer<'a, CodeAnswer> {
        self.step(move |state, now| Ok(state.take_code(code, (client, challenge), now)))
    }

    fn start_grant<'a>(&'a self, code: &'a Digest, grant: &'a Grant) -> Answer<'a, Started> {
        self.step(move |state, now| state.start_grant(code, grant, now))
    }

    fn burn_code<'a>(&'a self, code: &'a Digest) -> Answer<'a, ()> {
        self.step(move |state, now| {
            state.burn_code(code, now);
            Ok(())
        })
    }

    fn grant<'a>(&'a self, id: &'a GrantId, client: &'a ClientId) -> Answer<'a, GrantAnswer> {
        self.step(move |state, _| Ok(state.grant(id, client)))
    }

    fn rotate<'a>(
        &'a self,
        id: &'a GrantId,
        presented: &'a Presented,
        next: &'a Digest,
    ) -> Answer<'a, Rotation> {
        self.step(move |state, now| Ok(state.rotate(id, (presented, next), now)))
    }

    fn revoke<'a>(&'a self, id: &'a GrantId) -> Answer<'a, Option<Revocation>> {
        self.step(move |state, now| Ok(state.revoke(id, now)))
    }

    fn put_row<'a>(
        &'a self,
        session: &'a SessionHead,
        provider: &'a ProviderName,
        row: &'a Row,
        ttl: Duration,
    ) -> Answer<'a, u64> {
        self.step(move |state, now| state.put_row(session, (provider, row), (now, ttl)))
    }

    fn replace_row<'a>(
        &'a self,
        session: &'a SessionId,
        provider: &'a ProviderName,
        if_version: u64,
        row: &'a Row,
    ) -> Answer<'a, Option<u64>> {
        self.step(move |state, _| Ok(state.replace_row(session, (provider, row), if_version)))
    }

    fn drop_row<'a>(
        &'a self,
        session: &'a SessionId,
        provider: &'a ProviderName,
        if_version: Option<u64>,
    ) -> Answer<'a, bool> {
        self.step(move |state, _| Ok(state.drop_row(session, provider, if_version)))
    }

    fn lock_row<'a>(
        &'a self,
        session: &'a SessionId,
        provider: &'a ProviderName,
        owner: &'a LockOwner,
        ttl: Duration,
    ) -> Answer<'a, RowLock> {
        self.step(move |state, now| state.lock_row(session, (provider, owner), now + ttl))
    }

    fn unlock_row<'a>(
        &'a self,
        session: &'a SessionId,
        provider: &'a ProviderName,
        owner: &'a LockOwner,
    ) -> Answer<'a, ()> {
        self.step(move |state, _| {
            state.unlock_row(session, provider, owner);
            Ok(())
        })
    }

    fn session<'a>(&'a self, id: &'a SessionId) -> Answer<'a, Option<Session>> {
        self.step(move |state, _| Ok(state.session(id)))
    }

    fn keep_session<'a>(&'a self, id: &'a SessionId, ttl: Duration) -> Answer<'a, bool> {
        self.step(move |state, now| Ok(state.sessions.keep_until(id, now + ttl)))
    }

    fn drop_session<'a>(&'a self, id: &'a SessionId) -> Answer<'a, Option<Revocation>> {
        self.step(move |state, now| Ok(state.end(*id, None, now)))
    }

    fn sessions_of<'a>(&'a self, user: &'a UserId) -> Answer<'a, Vec<Session>> {
        self.step(move |state, _| Ok(state.sessions_of(user)))
    }

    fn last_row<'a>(
        &'a self,
        user: &'a UserId,
        provider: &'a ProviderName,
    ) -> Answer<'a, Option<(SessionId, Row)>> {
        self.step(move |state, _| Ok(state.last_row(user, provider)))
    }

    fn remember<'a>(
        &'a self,
        browser: &'a Digest,
        user: &'a UserId,
        consent: Option<&'a Consent>,
        ttl: Duration,
    ) -> Answer<'a, ()> {
        self.step(move |state, now| state.remember(browser, (user, consent), (now, ttl)))
    }

    fn browser<'a>(&'a self, cookie: &'a Digest) -> Answer<'a, Option<Browser>> {
        self.step(move |state, now| Ok(state.browser(cookie, now)))
    }

    fn forget_browser<'a>(&'a self, cookie: &'a Digest) -> Answer<'a, ()> {
        self.step(move |state, _| {
            state.browsers.remove(cookie);
            Ok(())
        })
    }

    fn forget_consents<'a>(&'a self, user: &'a UserId, client: &'a ClientId) -> Answer<'a, ()> {
        self.step(move |state, _| {
            state.forget_consents(user, client);
            Ok(())
        })
    }

    fn registration<'a>(&'a self, key: &'a Digest) -> Answer<'a, Option<Sealed>> {
        self.step(move |state, _| Ok(state.registrations.get(key).cloned()))
    }

    fn put_registration<'a>(
        &'a self,
        key: &'a Digest,
        sealed: &'a Sealed,
        ttl: Duration,
    ) -> Answer<'a, Sealed> {
        self.step(move |state, now| state.put_registration(key, sealed, (now, ttl)))
    }

    fn drop_registration<'a>(&'a self, key: &'a Digest, sealed: &'a Sealed) -> Answer<'a, ()> {
        self.step(move |state, _| {
            state.drop_registration(key, sealed);
            Ok(())
        })
    }

    fn revocations(&self) -> Answer<'_, BoxStream<'static, Revocation>> {
        Box::pin(async { Ok(self.listen()) })
    }

    fn ready(&self) -> Answer<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    fn counts(&self) -> Answer<'_, Counts> {
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
            match self.news.recv().await {
                Ok(revocation) => return Some((revocation, self)),
                // Too slow, and some are lost: all of them anew.
                Err(RecvError::Lagged(_)) => {
                    (self.recent, self.news) =
                        self.memory.now(|state, _| (state.recent(), state.news.subscribe()));
                }
                Err(RecvError::Closed) => return None,
            }
        }
    }
}
