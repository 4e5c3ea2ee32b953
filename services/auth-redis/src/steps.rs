//! Steps of the store, one file per kind of record.

mod clients;
mod grants;
mod sessions;
mod users;

use std::time::Duration;

use futures_util::stream::BoxStream;
use vmcp_auth_store::{
    AuthorizationCodeData, Browser, Ciphertext, Client, ClientId, CodeChallenge, CodeRedemption,
    Consent, Counts, Digest, Grant, GrantId, GrantInsertOutcome, GrantLookup, LockOwner, Login,
    PresentedRefreshToken, Profile, ProviderIssuer, ProviderName, Revocation, RotationOutcome,
    Session, SessionHead, SessionId, Store, StoreError, StoreFuture, Subject, UpstreamTokenLock,
    UpstreamTokenRecord, User, UserId,
};
use vmcp_redis::{Idempotency, cmd};

use crate::store::{RedisStore, unavailable};

impl Store for RedisStore {
    fn client<'a>(&'a self, id: &'a ClientId) -> StoreFuture<'a, Option<Client>> {
        Box::pin(self.get_client(id))
    }

    fn register<'a>(&'a self, client: &'a Client) -> StoreFuture<'a, ()> {
        Box::pin(self.register_client(client))
    }

    fn put_login<'a>(
        &'a self,
        key: &'a Digest,
        login: &'a Login,
        ttl: Duration,
    ) -> StoreFuture<'a, ()> {
        Box::pin(async move { self.set_login(None, key, login, ttl).await.map(|_| ()) })
    }

    fn login<'a>(&'a self, key: &'a Digest) -> StoreFuture<'a, Option<Login>> {
        Box::pin(self.get_login(key))
    }

    fn take_login<'a>(&'a self, key: &'a Digest) -> StoreFuture<'a, Option<Login>> {
        Box::pin(self.remove_login(key))
    }

    fn advance_login<'a>(
        &'a self,
        from: &'a Digest,
        to: &'a Digest,
        login: &'a Login,
        ttl: Duration,
    ) -> StoreFuture<'a, bool> {
        Box::pin(self.set_login(Some(from), to, login, ttl))
    }

    fn conflicting_issuers<'a>(
        &'a self,
        providers: &'a [(ProviderName, ProviderIssuer)],
    ) -> StoreFuture<'a, Vec<(ProviderName, ProviderIssuer)>> {
        Box::pin(self.get_conflicting_issuers(providers))
    }

    fn upsert_user<'a>(
        &'a self,
        subject: &'a Subject,
        proposed: &'a UserId,
        profile: &'a Profile,
    ) -> StoreFuture<'a, UserId> {
        Box::pin(self.get_or_create_user(subject, proposed, profile))
    }

    fn account<'a>(&'a self, user: &'a UserId) -> StoreFuture<'a, Option<User>> {
        Box::pin(self.get_account(user))
    }

    fn put_code<'a>(
        &'a self,
        code: &'a Digest,
        seed: &'a AuthorizationCodeData,
        ttl: Duration,
    ) -> StoreFuture<'a, bool> {
        Box::pin(self.set_code(code, seed, ttl))
    }

    fn redeem_code<'a>(
        &'a self,
        code: &'a Digest,
        client: &'a ClientId,
        challenge: &'a CodeChallenge,
    ) -> StoreFuture<'a, CodeRedemption> {
        Box::pin(self.take_pending_code(code, client, challenge))
    }

    fn start_grant<'a>(
        &'a self,
        code: &'a Digest,
        grant: &'a Grant,
    ) -> StoreFuture<'a, GrantInsertOutcome> {
        Box::pin(self.set_grant(code, grant))
    }

    fn invalidate_code<'a>(&'a self, code: &'a Digest) -> StoreFuture<'a, ()> {
        Box::pin(self.set_code_invalid(code))
    }

    fn grant<'a>(&'a self, id: &'a GrantId, client: &'a ClientId) -> StoreFuture<'a, GrantLookup> {
        Box::pin(self.get_grant(id, client))
    }

    fn rotate<'a>(
        &'a self,
        id: &'a GrantId,
        presented: &'a PresentedRefreshToken,
        next: &'a Digest,
    ) -> StoreFuture<'a, RotationOutcome> {
        Box::pin(self.rotate_grant(id, presented, next))
    }

    fn revoke<'a>(&'a self, id: &'a GrantId) -> StoreFuture<'a, Option<Revocation>> {
        Box::pin(self.delete_grant(id))
    }

    fn put_upstream_token<'a>(
        &'a self,
        session: &'a SessionHead,
        provider: &'a ProviderName,
        row: &'a UpstreamTokenRecord,
        ttl: Duration,
    ) -> StoreFuture<'a, u64> {
        Box::pin(self.set_upstream_token(session, provider, row, ttl))
    }

    fn replace_upstream_token<'a>(
        &'a self,
        session: &'a SessionId,
        provider: &'a ProviderName,
        if_version: u64,
        row: &'a UpstreamTokenRecord,
    ) -> StoreFuture<'a, Option<u64>> {
        Box::pin(self.compare_and_set_upstream_token(session, provider, if_version, row))
    }

    fn remove_upstream_token<'a>(
        &'a self,
        session: &'a SessionId,
        provider: &'a ProviderName,
        if_version: Option<u64>,
    ) -> StoreFuture<'a, bool> {
        Box::pin(self.delete_upstream_token(session, provider, if_version))
    }

    fn lock_upstream_token<'a>(
        &'a self,
        session: &'a SessionId,
        provider: &'a ProviderName,
        owner: &'a LockOwner,
        ttl: Duration,
    ) -> StoreFuture<'a, UpstreamTokenLock> {
        Box::pin(self.acquire_lock(session, provider, owner, ttl))
    }

    fn unlock_upstream_token<'a>(
        &'a self,
        session: &'a SessionId,
        provider: &'a ProviderName,
        owner: &'a LockOwner,
    ) -> StoreFuture<'a, ()> {
        Box::pin(self.release_lock(session, provider, owner))
    }

    fn session<'a>(&'a self, id: &'a SessionId) -> StoreFuture<'a, Option<Session>> {
        Box::pin(self.get_session(id))
    }

    fn extend_session<'a>(&'a self, id: &'a SessionId, ttl: Duration) -> StoreFuture<'a, bool> {
        Box::pin(self.set_session_expiry(id, ttl))
    }

    fn end_session<'a>(&'a self, id: &'a SessionId) -> StoreFuture<'a, Option<Revocation>> {
        Box::pin(self.delete_session(id))
    }

    fn sessions_of<'a>(&'a self, user: &'a UserId) -> StoreFuture<'a, Vec<Session>> {
        Box::pin(self.get_sessions(user))
    }

    fn latest_upstream_token<'a>(
        &'a self,
        user: &'a UserId,
        provider: &'a ProviderName,
    ) -> StoreFuture<'a, Option<(SessionId, UpstreamTokenRecord)>> {
        Box::pin(self.newest_upstream_token(user, provider))
    }

    fn put_browser<'a>(
        &'a self,
        browser: &'a Digest,
        user: &'a UserId,
        consent: Option<&'a Consent>,
        ttl: Duration,
    ) -> StoreFuture<'a, ()> {
        Box::pin(self.set_browser(browser, user, consent, ttl))
    }

    fn browser<'a>(&'a self, cookie: &'a Digest) -> StoreFuture<'a, Option<Browser>> {
        Box::pin(self.get_browser(cookie))
    }

    fn remove_browser<'a>(&'a self, cookie: &'a Digest) -> StoreFuture<'a, ()> {
        Box::pin(self.delete_browser(cookie))
    }

    fn remove_consents<'a>(
        &'a self,
        user: &'a UserId,
        client: &'a ClientId,
    ) -> StoreFuture<'a, ()> {
        Box::pin(self.delete_consents(user, client))
    }

    fn registration<'a>(&'a self, key: &'a Digest) -> StoreFuture<'a, Option<Ciphertext>> {
        Box::pin(self.get_registration(key))
    }

    fn put_registration<'a>(
        &'a self,
        key: &'a Digest,
        sealed: &'a Ciphertext,
        ttl: Duration,
    ) -> StoreFuture<'a, Ciphertext> {
        Box::pin(self.set_registration(key, sealed, ttl))
    }

    fn remove_registration<'a>(
        &'a self,
        key: &'a Digest,
        sealed: &'a Ciphertext,
    ) -> StoreFuture<'a, ()> {
        Box::pin(self.delete_registration(key, sealed))
    }

    fn revocations(&self) -> StoreFuture<'_, BoxStream<'static, Revocation>> {
        Box::pin(self.listen())
    }

    fn ready(&self) -> StoreFuture<'_, ()> {
        Box::pin(self.ping())
    }

    fn counts(&self) -> StoreFuture<'_, Counts> {
        Box::pin(self.get_counts())
    }
}

impl RedisStore {
    async fn ping(&self) -> Result<(), StoreError> {
        let answer = self.redis().call(self.prefix(), &cmd("PING"), Idempotency::Idempotent).await;
        answer.map(|_| ()).map_err(|error| unavailable(&error))
    }

    async fn get_counts(&self) -> Result<Counts, StoreError> {
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
            clients: counts.require::<usize>()? + counts.require::<usize>()?,
            logins: counts.require()?,
            codes: counts.require()?,
            grants: counts.require()?,
            sessions: counts.require()?,
            users: counts.require()?,
            browsers: counts.require()?,
            registrations: counts.require()?,
        })
    }
}
