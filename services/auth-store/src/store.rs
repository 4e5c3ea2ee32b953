//! The steps that an authorization server takes, each of them whole or not at all.

use std::fmt::Debug;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use serde::{Deserialize, Serialize};

use crate::{
    AuthorizationCodeData, Browser, Ciphertext, Client, ClientId, CodeChallenge, CodeRedemption,
    Consent, Digest, Grant, GrantId, GrantInsertOutcome, GrantLookup, LockOwner, Login,
    PresentedRefreshToken, Profile, ProviderIssuer, ProviderName, RotationOutcome, Session,
    SessionHead, SessionId, Subject, Timestamp, UpstreamTokenLock, UpstreamTokenRecord, User,
    UserId,
};

/// The answer of a step.
pub type StoreFuture<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

/// Why a step wasn't taken. Nothing in it is secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The store does not answer, or not in time. Whether the step was taken is not known; trying
    /// again later helps.
    #[error("the store cannot be reached at the moment")]
    Unavailable,
    /// There are as many of these as are allowed. Nothing was stored; trying again later helps.
    #[error("the store has no room for more {what}")]
    Full {
        /// Of what.
        what: &'static str,
    },
    /// What is stored there was not written by this software, or by a newer one.
    #[error("the store holds a {what} that cannot be read")]
    Corrupt {
        /// What kind of record.
        what: &'static str,
    },
}

/// A grant or a session that ended before its time. Access tokens that name either are void.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Revocation {
    /// The grant; `None` when the session ended before its code was redeemed.
    pub grant: Option<GrantId>,
    /// The session.
    pub session: SessionId,
    /// When.
    pub at: Timestamp,
}

/// What an authorization server remembers.
///
/// Each method is one step: it happens as a whole or not at all, however many ask at once and on
/// however many replicas, and costs one round trip. What has expired is not there, whoever asks.
/// Dropping an answer that is not finished leaves it open whether the step was taken.
pub trait Store: Debug + Send + Sync + 'static {
    /// A registered client.
    fn client<'a>(&'a self, id: &'a ClientId) -> StoreFuture<'a, Option<Client>>;

    /// Registers a client for [`Limits::new_client_lifetime`](crate::Limits::new_client_lifetime). With the first
    /// code of its own that it presents, it stays for
    /// [`Limits::client_lifetime`](crate::Limits::client_lifetime), which begins again with each code and refresh
    /// token, unless there are [`Limits::clients`](crate::Limits::clients) and none was unused for long enough to
    /// make room.
    fn register<'a>(&'a self, client: &'a Client) -> StoreFuture<'a, ()>;

    /// Keeps a login for so long, and its client for at least as long. The oldest login of the same origin, or of
    /// all, makes room.
    fn put_login<'a>(
        &'a self,
        key: &'a Digest,
        login: &'a Login,
        ttl: Duration,
    ) -> StoreFuture<'a, ()>;

    /// A login, to show where it stands.
    fn login<'a>(&'a self, key: &'a Digest) -> StoreFuture<'a, Option<Login>>;

    /// Takes a login away: of all that ask, one gets it.
    fn take_login<'a>(&'a self, key: &'a Digest) -> StoreFuture<'a, Option<Login>>;

    /// Puts a login in the place of another one, under another key: of all that ask, one gets
    /// `true`. `false` if the other one is gone; then nothing is stored.
    fn advance_login<'a>(
        &'a self,
        from: &'a Digest,
        to: &'a Digest,
        login: &'a Login,
        ttl: Duration,
    ) -> StoreFuture<'a, bool>;

    /// Compares providers with those whose people and tokens are kept under their names, and
    /// returns the names that stand for another issuer, with that issuer. A name belongs to the
    /// issuer of the first row that was put under it, for
    /// [`Limits::user_lifetime`](crate::Limits::user_lifetime) after the last row or comparison.
    fn conflicting_issuers<'a>(
        &'a self,
        providers: &'a [(ProviderName, ProviderIssuer)],
    ) -> StoreFuture<'a, Vec<(ProviderName, ProviderIssuer)>>;

    /// Who an upstream provider's subject is: `proposed` if they never came before. Keeps the
    /// profile, in the place of an older one.
    fn upsert_user<'a>(
        &'a self,
        subject: &'a Subject,
        proposed: &'a UserId,
        profile: &'a Profile,
    ) -> StoreFuture<'a, UserId>;

    /// What is known of a person.
    fn account<'a>(&'a self, user: &'a UserId) -> StoreFuture<'a, Option<User>>;

    /// Keeps a code for so long, and its session and its client for at least as long. `false` if the session ended
    /// meanwhile; then nothing is stored.
    fn put_code<'a>(
        &'a self,
        code: &'a Digest,
        seed: &'a AuthorizationCodeData,
        ttl: Duration,
    ) -> StoreFuture<'a, bool>;

    /// Takes a code, for `client` who answers `challenge`. The first who asks gets
    /// [`RedeemOutcome::Redeemed`](crate::RedeemOutcome::Redeemed); then [`start_grant`](Self::start_grant) or
    /// [`invalidate_code`](Self::invalidate_code) follows. A replay revokes what the code gave, in this step.
    fn redeem_code<'a>(
        &'a self,
        code: &'a Digest,
        client: &'a ClientId,
        challenge: &'a CodeChallenge,
    ) -> StoreFuture<'a, CodeRedemption>;

    /// Keeps what a taken code gives, unless the code was replayed or burnt meanwhile. Once
    /// more for the same grant is the same as before. The session
    /// lasts as long as the grant's current tokens from now on.
    fn start_grant<'a>(
        &'a self,
        code: &'a Digest,
        grant: &'a Grant,
    ) -> StoreFuture<'a, GrantInsertOutcome>;

    /// Says that a taken code gives nothing: who presented it could not answer for it. Its session
    /// ends.
    fn invalidate_code<'a>(&'a self, code: &'a Digest) -> StoreFuture<'a, ()>;

    /// A grant, and the client that asks. Changes nothing.
    fn grant<'a>(&'a self, id: &'a GrantId, client: &'a ClientId) -> StoreFuture<'a, GrantLookup>;

    /// Puts `next` in the place of the refresh token `presented`, which this server signed. A replay revokes the grant and its session, in this step.
    fn rotate<'a>(
        &'a self,
        id: &'a GrantId,
        presented: &'a PresentedRefreshToken,
        next: &'a Digest,
    ) -> StoreFuture<'a, RotationOutcome>;

    /// Revokes a grant and its session (RFC 7009). `None` if there is none.
    fn revoke<'a>(&'a self, id: &'a GrantId) -> StoreFuture<'a, Option<Revocation>>;

    /// Keeps a row, in the place of an older one; the session, which is made if there is none, lasts
    /// for at least `ttl`. The row's version.
    fn put_upstream_token<'a>(
        &'a self,
        session: &'a SessionHead,
        provider: &'a ProviderName,
        row: &'a UpstreamTokenRecord,
        ttl: Duration,
    ) -> StoreFuture<'a, u64>;

    /// Puts a row in the place of the one with this version. Its version; `None` if that one is not
    /// there any more, and then nothing is stored.
    fn replace_upstream_token<'a>(
        &'a self,
        session: &'a SessionId,
        provider: &'a ProviderName,
        if_version: u64,
        row: &'a UpstreamTokenRecord,
    ) -> StoreFuture<'a, Option<u64>>;

    /// Drops the row with this version, or whichever there is. Whether there was one.
    fn remove_upstream_token<'a>(
        &'a self,
        session: &'a SessionId,
        provider: &'a ProviderName,
        if_version: Option<u64>,
    ) -> StoreFuture<'a, bool>;

    /// Locks a row for `owner`, for so long, so that one replica refreshes it. Who holds the lock
    /// already gets it again. It guards nothing by itself: [`replace_upstream_token`](Self::replace_upstream_token)'s
    /// version does.
    fn lock_upstream_token<'a>(
        &'a self,
        session: &'a SessionId,
        provider: &'a ProviderName,
        owner: &'a LockOwner,
        ttl: Duration,
    ) -> StoreFuture<'a, UpstreamTokenLock>;

    /// Gives a lock back, if it is still the owner's.
    fn unlock_upstream_token<'a>(
        &'a self,
        session: &'a SessionId,
        provider: &'a ProviderName,
        owner: &'a LockOwner,
    ) -> StoreFuture<'a, ()>;

    /// A session with its rows.
    fn session<'a>(&'a self, id: &'a SessionId) -> StoreFuture<'a, Option<Session>>;

    /// Lets a session last for at least so long. Whether there is one.
    fn extend_session<'a>(&'a self, id: &'a SessionId, ttl: Duration) -> StoreFuture<'a, bool>;

    /// Ends a session with its rows, and revokes its grant. `None` if there is neither.
    fn end_session<'a>(&'a self, id: &'a SessionId) -> StoreFuture<'a, Option<Revocation>>;

    /// A person's sessions, the newest first; at most
    /// [`Limits::sessions_per_user`](crate::Limits::sessions_per_user).
    fn sessions_of<'a>(&'a self, user: &'a UserId) -> StoreFuture<'a, Vec<Session>>;

    /// The newest row of a person and a provider, and whose session it is of.
    fn latest_upstream_token<'a>(
        &'a self,
        user: &'a UserId,
        provider: &'a ProviderName,
    ) -> StoreFuture<'a, Option<(SessionId, UpstreamTokenRecord)>>;

    /// Remembers for so long who uses a browser, and what they consented to.
    fn put_browser<'a>(
        &'a self,
        browser: &'a Digest,
        user: &'a UserId,
        consent: Option<&'a Consent>,
        ttl: Duration,
    ) -> StoreFuture<'a, ()>;

    /// Who uses a browser.
    fn browser<'a>(&'a self, cookie: &'a Digest) -> StoreFuture<'a, Option<Browser>>;

    /// Forgets who uses a browser.
    fn remove_browser<'a>(&'a self, cookie: &'a Digest) -> StoreFuture<'a, ()>;

    /// Forgets what a person consented to for a client.
    fn remove_consents<'a>(&'a self, user: &'a UserId, client: &'a ClientId)
    -> StoreFuture<'a, ()>;

    /// What an upstream provider answered to a registration of this server.
    fn registration<'a>(&'a self, key: &'a Digest) -> StoreFuture<'a, Option<Ciphertext>>;

    /// Keeps what an upstream provider answered to a registration, for so long; unless there is an
    /// answer already, which is what the caller gets then. So replicas that register at the same
    /// time end up with one.
    fn put_registration<'a>(
        &'a self,
        key: &'a Digest,
        sealed: &'a Ciphertext,
        ttl: Duration,
    ) -> StoreFuture<'a, Ciphertext>;

    /// Forgets a registration, which the provider doesn't know any more, if it is still this one.
    fn remove_registration<'a>(
        &'a self,
        key: &'a Digest,
        sealed: &'a Ciphertext,
    ) -> StoreFuture<'a, ()>;

    /// What was revoked: first what was lately, as far back as
    /// [`Limits::revocation_retention`](crate::Limits::revocation_retention); then each as it happens, on any
    /// replica. The answer comes when the recent ones are at hand: the stream has all of them before it is pending for
    /// the first time. One may be told several times.
    fn revocations(&self) -> StoreFuture<'_, BoxStream<'static, Revocation>>;

    /// Whether the store answers: for readiness.
    fn ready(&self) -> StoreFuture<'_, ()>;

    /// How much is stored: gauges. What expired and was not cleared away yet counts.
    fn counts(&self) -> StoreFuture<'_, Counts>;
}

/// How many there are of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Registered clients.
    pub clients: usize,
    /// Logins under way.
    pub logins: usize,
    /// Codes, the taken ones included.
    pub codes: usize,
    /// Grants.
    pub grants: usize,
    /// Sessions.
    pub sessions: usize,
    /// People.
    pub users: usize,
    /// Browsers.
    pub browsers: usize,
    /// Registrations at upstream providers.
    pub registrations: usize,
}
