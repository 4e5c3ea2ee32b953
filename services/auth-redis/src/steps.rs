//! The steps, one file per kind of record, and their trait.

mod clients;
mod grants;
mod people;
mod sessions;

use std::time::Duration;

use futures_util::stream::BoxStream;
use vmcp_auth_store::{
    Answer, Browser, Challenge, Client, ClientId, CodeAnswer, Consent, Counts, Digest, Grant,
    GrantAnswer, GrantId, LockOwner, Login, Presented, Profile, ProviderIssuer, ProviderName,
    Revocation, Rotation, Row, RowLock, Sealed, Seed, Session, SessionHead, SessionId, Started,
    Store, StoreError, Subject, User, UserId,
};
use vmcp_redis::{Idempotency, cmd};

use crate::store::{RedisStore, unavailable};

impl Store for RedisStore {
    fn client<'a>(&'a self, id: &'a ClientId) -> Answer<'a, Option<Client>> {
        Box::pin(self.get_client(id))
    }

    fn register<'a>(&'a self, client: &'a Client) -> Answer<'a, ()> {
        Box::pin(self.register_client(client))
    }

    fn put_login<'a>(&'a self, key: &'a Digest, login: &'a Login, ttl: Duration) -> Answer<'a, ()> {
        Box::pin(async move { self.set_login(None, key, login, ttl).await.map(|_| ()) })
    }

    fn login<'a>(&'a self, key: &'a Digest) -> Answer<'a, Option<Login>> {
        Box::pin(self.get_login(key))
    }

    fn take_login<'a>(&'a self, key: &'a Digest) -> Answer<'a, Option<Login>> {
        Box::pin(self.remove_login(key))
    }

    fn advance_login<'a>(
        &'a self,
        from: &'a Digest,
        to: &'a Digest,
        login: &'a Login,
        ttl: Duration,
    ) -> Answer<'a, bool> {
        Box::pin(self.set_login(Some(from), to, login, ttl))
    }

    fn other_issuers<'a>(
        &'a self,
        providers: &'a [(ProviderName, ProviderIssuer)],
    ) -> Answer<'a, Vec<(ProviderName, ProviderIssuer)>> {
        Box::pin(self.compare_issuers(providers))
    }

    fn user<'a>(
        &'a self,
        subject: &'a Subject,
        proposed: &'a UserId,
        profile: &'a Profile,
    ) -> Answer<'a, UserId> {
        Box::pin(self.person(subject, proposed, profile))
    }

    fn account<'a>(&'a self, user: &'a UserId) -> Answer<'a, Option<User>> {
        Box::pin(self.get_account(user))
    }

    fn put_code<'a>(&'a self, code: &'a Digest, seed: &'a Seed, ttl: Duration) -> Answer<'a, bool> {
        Box::pin(self.set_code(code, seed, ttl))
    }

    fn take_code<'a>(
        &'a self,
        code: &'a Digest,
        client: &'a ClientId,
        challenge: &'a Challenge,
    ) -> Answer<'a, CodeAnswer> {
        Box::pin(self.present_code(code, client, challenge))
    }

    fn start_grant<'a>(&'a self, code: &'a Digest, grant: &'a Grant) -> Answer<'a, Started> {
        Box::pin(self.set_grant(code, grant))
    }

    fn burn_code<'a>(&'a self, code: &'a Digest) -> Answer<'a, ()> {
        Box::pin(self.end_code(code))
    }

    fn grant<'a>(&'a self, id: &'a GrantId, client: &'a ClientId) -> Answer<'a, GrantAnswer> {
        Box::pin(self.get_grant(id, client))
    }

    fn rotate<'a>(
        &'a self,
        id: &'a GrantId,
        presented: &'a Presented,
        next: &'a Digest,
    ) -> Answer<'a, Rotation> {
        Box::pin(self.rotate_grant(id, presented, next))
    }

    fn revoke<'a>(&'a self, id: &'a GrantId) -> Answer<'a, Option<Revocation>> {
        Box::pin(self.end_grant(id))
    }

    fn put_row<'a>(
        &'a self,
        session: &'a SessionHead,
        provider: &'a ProviderName,
        row: &'a Row,
        ttl: Duration,
    ) -> Answer<'a, u64> {
        Box::pin(self.set_row(session, provider, row, ttl))
    }

    fn replace_row<'a>(
        &'a self,
        session: &'a SessionId,
        provider: &'a ProviderName,
        if_version: u64,
        row: &'a Row,
    ) -> Answer<'a, Option<u64>> {
        Box::pin(self.change_row(session, provider, if_version, row))
    }

    fn drop_row<'a>(
        &'a self,
        session: &'a SessionId,
        provider: &'a ProviderName,
        if_version: Option<u64>,
    ) -> Answer<'a, bool> {
        Box::pin(self.remove_row(session, provider, if_version))
    }

    fn lock_row<'a>(
        &'a self,
        session: &'a SessionId,
        provider: &'a ProviderName,
        owner: &'a LockOwner,
        ttl: Duration,
    ) -> Answer<'a, RowLock> {
        Box::pin(self.lock(session, provider, owner, ttl))
    }

    fn unlock_row<'a>(
        &'a self,
        session: &'a SessionId,
        provider: &'a ProviderName,
        owner: &'a LockOwner,
    ) -> Answer<'a, ()> {
        Box::pin(self.unlock(session, provider, owner))
    }

    fn session<'a>(&'a self, id: &'a SessionId) -> Answer<'a, Option<Session>> {
        Box::pin(self.get_session(id))
    }

    fn keep_session<'a>(&'a self, id: &'a SessionId, ttl: Duration) -> Answer<'a, bool> {
        Box::pin(self.prolong_session(id, ttl))
    }

    fn drop_session<'a>(&'a self, id: &'a SessionId) -> Answer<'a, Option<Revocation>> {
        Box::pin(self.end_session(id))
    }

    fn sessions_of<'a>(&'a self, user: &'a UserId) -> Answer<'a, Vec<Session>> {
        Box::pin(self.all_sessions(user))
    }

    fn last_row<'a>(
        &'a self,
        user: &'a UserId,
        provider: &'a ProviderName,
    ) -> Answer<'a, Option<(SessionId, Row)>> {
        Box::pin(self.newest_row(user, provider))
    }

    fn remember<'a>(
        &'a self,
        browser: &'a Digest,
        user: &'a UserId,
        consent: Option<&'a Consent>,
        ttl: Duration,
    ) -> Answer<'a, ()> {
        Box::pin(self.set_browser(browser, user, consent, ttl))
    }

    fn browser<'a>(&'a self, cookie: &'a Digest) -> Answer<'a, Option<Browser>> {
        Box::pin(self.get_browser(cookie))
    }

    fn forget_browser<'a>(&'a self, cookie: &'a Digest) -> Answer<'a, ()> {
        Box::pin(self.remove_browser(cookie))
    }

    fn forget_consents<'a>(&'a self, user: &'a UserId, client: &'a ClientId) -> Answer<'a, ()> {
        Box::pin(self.remove_consents(user, client))
    }

    fn registration<'a>(&'a self, key: &'a Digest) -> Answer<'a, Option<Sealed>> {
        Box::pin(self.get_registration(key))
    }

    fn put_registration<'a>(
        &'a self,
        key: &'a Digest,
        sealed: &'a Sealed,
        ttl: Duration,
    ) -> Answer<'a, Sealed> {
        Box::pin(self.set_registration(key, sealed, ttl))
    }

    fn drop_registration<'a>(&'a self, key: &'a Digest, sealed: &'a Sealed) -> Answer<'a, ()> {
        Box::pin(self.remove_registration(key, sealed))
    }

    fn revocations(&self) -> Answer<'_, BoxStream<'static, Revocation>> {
        Box::pin(self.listen())
    }

    fn ready(&self) -> Answer<'_, ()> {
        Box::pin(self.ping())
    }

    fn counts(&self) -> Answer<'_, Counts> {
        Box::pin(self.gauges())
    }
}

impl RedisStore {
    async fn ping(&self) -> Result<(), StoreError> {
        let answer = self.redis().call(self.prefix(), &cmd("PING"), Idempotency::Idempotent).await;
        answer.map(|_| ()).map_err(|fault| unavailable(&fault))
    }

    async fn gauges(&self) -> Result<Counts, StoreError> {
        let mut arguments = self.arguments();
        for index in [
            "clients",
            "new-clients",
            "logins",
            "codes",
            "grants",
            "sessions",
            "users",
            "browsers",
            "registrations",
        ] {
            arguments = arguments.text(index);
        }
        let mut counts =
            self.step(&self.scripts().counts, arguments, Idempotency::Idempotent).await?;
        Ok(Counts {
            clients: counts.need::<usize>()? + counts.need::<usize>()?,
            logins: counts.need()?,
            codes: counts.need()?,
            grants: counts.need()?,
            sessions: counts.need()?,
            users: counts.need()?,
            browsers: counts.need()?,
            registrations: counts.need()?,
        })
    }
}
