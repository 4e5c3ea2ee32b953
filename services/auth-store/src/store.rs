//! Atomic steps of an authorization server.

use std::fmt::Debug;
use std::time::{Duration, SystemTime};

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

/// Future of a step.
pub type StoreFuture<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

/// Error of a step. Contains no secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The store did not respond in time. The step may have been taken; retry later.
    #[error("the store is unavailable")]
    Unavailable,
    /// The limit for this kind of record is reached. Nothing was stored; retry later.
    #[error("the store cannot hold more {what}")]
    Full {
        /// Kind of record.
        what: &'static str,
    },
    /// The record was not written by this software, or by a newer version.
    #[error("failed to read a stored {what}: unknown format")]
    Corrupt {
        /// Kind of record.
        what: &'static str,
    },
}

/// Grant or session that was revoked. Access tokens that name either are invalid.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Revocation {
    /// Grant; `None` if the session ended before its code was redeemed.
    pub grant: Option<GrantId>,
    /// Session.
    pub session: SessionId,
    /// Time of the revocation.
    pub at: Timestamp,
}

/// State of an authorization server.
///
/// Each method is one atomic step, for any number of concurrent callers and replicas, and costs one
/// round trip. Expired records are absent for every caller. If a future is dropped before it
/// completes, the step may or may not have been taken.
pub trait Store: Debug + Send + Sync + 'static {
    /// Returns the time before which the store kept nothing, revocations included: when it was made, for one that ends with its
    /// process. Tokens from before may have been revoked. `None` for a store that outlasts the process.
    fn not_before(&self) -> Option<SystemTime> {
        None
    }

    /// Returns a registered client.
    fn client<'a>(&'a self, id: &'a ClientId) -> StoreFuture<'a, Option<Client>>;

    /// Registers a client for [`Limits::new_client_lifetime`](crate::Limits::new_client_lifetime).
    /// The first code that the client redeems extends that to
    /// [`Limits::client_lifetime`](crate::Limits::client_lifetime), which starts again with each
    /// code and refresh token. The extension is skipped if
    /// [`Limits::clients`](crate::Limits::clients) is reached and no client has been unused for
    /// long enough to be evicted.
    fn register<'a>(&'a self, client: &'a Client) -> StoreFuture<'a, ()>;

    /// Stores a login for `ttl`, and extends its client to at least that. Evicts the oldest login
    /// of the same origin, or of all, at the limit.
    fn put_login<'a>(
        &'a self,
        key: &'a Digest,
        login: &'a Login,
        ttl: Duration,
    ) -> StoreFuture<'a, ()>;

    /// Returns a login without taking it.
    fn login<'a>(&'a self, key: &'a Digest) -> StoreFuture<'a, Option<Login>>;

    /// Removes and returns a login. Only one of several concurrent callers gets it.
    fn take_login<'a>(&'a self, key: &'a Digest) -> StoreFuture<'a, Option<Login>>;

    /// Replaces a login by another one under another key. Returns `true` for one of several
    /// concurrent callers. Returns `false` and stores nothing if the first login is gone.
    fn advance_login<'a>(
        &'a self,
        from: &'a Digest,
        to: &'a Digest,
        login: &'a Login,
        ttl: Duration,
    ) -> StoreFuture<'a, bool>;

    /// Compares providers with the issuers that are recorded under their names. Returns the names
    /// that belong to another issuer, with that issuer. A name belongs to the issuer of the first
    /// upstream token that was stored under it, for
    /// [`Limits::user_lifetime`](crate::Limits::user_lifetime) after the last such token or
    /// comparison.
    fn conflicting_issuers<'a>(
        &'a self,
        providers: &'a [(ProviderName, ProviderIssuer)],
    ) -> StoreFuture<'a, Vec<(ProviderName, ProviderIssuer)>>;

    /// Returns the user of an upstream provider's subject, creating it as `proposed` if necessary.
    /// Stores the profile in place of an older one.
    fn upsert_user<'a>(
        &'a self,
        subject: &'a Subject,
        proposed: &'a UserId,
        profile: &'a Profile,
    ) -> StoreFuture<'a, UserId>;

    /// Returns the record of a user.
    fn account<'a>(&'a self, user: &'a UserId) -> StoreFuture<'a, Option<User>>;

    /// Stores a code for `ttl`, and extends its session and its client to at least that. Returns
    /// `false` and stores nothing if the session has ended.
    fn put_code<'a>(
        &'a self,
        code: &'a Digest,
        seed: &'a AuthorizationCodeData,
        ttl: Duration,
    ) -> StoreFuture<'a, bool>;

    /// Redeems a code for a `client` that proves `challenge`. The first caller gets
    /// [`RedeemOutcome::Redeemed`](crate::RedeemOutcome::Redeemed) and has to continue with
    /// [`start_grant`](Self::start_grant) or [`invalidate_code`](Self::invalidate_code). A replay
    /// revokes the grant of the code, in the same step.
    fn redeem_code<'a>(
        &'a self,
        code: &'a Digest,
        client: &'a ClientId,
        challenge: &'a CodeChallenge,
    ) -> StoreFuture<'a, CodeRedemption>;

    /// Stores the grant of a redeemed code, unless the code was replayed or invalidated. Idempotent
    /// for the same grant. From then on the session lasts as long as the current tokens of the
    /// grant.
    fn start_grant<'a>(
        &'a self,
        code: &'a Digest,
        grant: &'a Grant,
    ) -> StoreFuture<'a, GrantInsertOutcome>;

    /// Invalidates a redeemed code whose client failed a check, and ends its session.
    fn invalidate_code<'a>(&'a self, code: &'a Digest) -> StoreFuture<'a, ()>;

    /// Returns a grant, and the client that presents it. Changes nothing.
    fn grant<'a>(&'a self, id: &'a GrantId, client: &'a ClientId) -> StoreFuture<'a, GrantLookup>;

    /// Replaces the refresh token `presented`, which this server signed, by `next`. A replay
    /// revokes the grant and its session, in the same step.
    fn rotate<'a>(
        &'a self,
        id: &'a GrantId,
        presented: &'a PresentedRefreshToken,
        next: &'a Digest,
    ) -> StoreFuture<'a, RotationOutcome>;

    /// Revokes a grant and its session (RFC 7009). Returns `None` if the grant does not exist.
    fn revoke<'a>(&'a self, id: &'a GrantId) -> StoreFuture<'a, Option<Revocation>>;

    /// Stores the tokens of a provider in place of older ones and returns their version. Creates
    /// the session if necessary, and extends it to at least `ttl`.
    fn put_upstream_token<'a>(
        &'a self,
        session: &'a SessionHead,
        provider: &'a ProviderName,
        row: &'a UpstreamTokenRecord,
        ttl: Duration,
    ) -> StoreFuture<'a, u64>;

    /// Replaces the tokens that have this version and returns the new version. Returns `None` and
    /// stores nothing if that version is gone.
    fn replace_upstream_token<'a>(
        &'a self,
        session: &'a SessionId,
        provider: &'a ProviderName,
        if_version: u64,
        row: &'a UpstreamTokenRecord,
    ) -> StoreFuture<'a, Option<u64>>;

    /// Removes the tokens with this version, or with any version for `None`. Returns whether they
    /// existed.
    fn remove_upstream_token<'a>(
        &'a self,
        session: &'a SessionId,
        provider: &'a ProviderName,
        if_version: Option<u64>,
    ) -> StoreFuture<'a, bool>;

    /// Locks the tokens of a provider for `owner`, for `ttl`, so that only one replica refreshes
    /// them. An owner may acquire its own lock again. The lock is advisory: the version check of
    /// [`replace_upstream_token`](Self::replace_upstream_token) prevents lost updates.
    fn lock_upstream_token<'a>(
        &'a self,
        session: &'a SessionId,
        provider: &'a ProviderName,
        owner: &'a LockOwner,
        ttl: Duration,
    ) -> StoreFuture<'a, UpstreamTokenLock>;

    /// Releases a lock, if it still belongs to the owner.
    fn unlock_upstream_token<'a>(
        &'a self,
        session: &'a SessionId,
        provider: &'a ProviderName,
        owner: &'a LockOwner,
    ) -> StoreFuture<'a, ()>;

    /// Returns a session with its upstream tokens.
    fn session<'a>(&'a self, id: &'a SessionId) -> StoreFuture<'a, Option<Session>>;

    /// Extends a session to at least `ttl`. Returns whether it exists.
    fn extend_session<'a>(&'a self, id: &'a SessionId, ttl: Duration) -> StoreFuture<'a, bool>;

    /// Ends a session and revokes its grant. Returns `None` if neither exists.
    fn end_session<'a>(&'a self, id: &'a SessionId) -> StoreFuture<'a, Option<Revocation>>;

    /// Returns the sessions of a user, the newest first, at most
    /// [`Limits::sessions_per_user`](crate::Limits::sessions_per_user).
    fn sessions_of<'a>(&'a self, user: &'a UserId) -> StoreFuture<'a, Vec<Session>>;

    /// Returns the latest tokens of a user and a provider, with their session.
    fn latest_upstream_token<'a>(
        &'a self,
        user: &'a UserId,
        provider: &'a ProviderName,
    ) -> StoreFuture<'a, Option<(SessionId, UpstreamTokenRecord)>>;

    /// Records the user of a browser for `ttl`, and their consent.
    fn put_browser<'a>(
        &'a self,
        browser: &'a Digest,
        user: &'a UserId,
        consent: Option<&'a Consent>,
        ttl: Duration,
    ) -> StoreFuture<'a, ()>;

    /// Returns the user of a browser and their consents.
    fn browser<'a>(&'a self, cookie: &'a Digest) -> StoreFuture<'a, Option<Browser>>;

    /// Removes the record of a browser.
    fn remove_browser<'a>(&'a self, cookie: &'a Digest) -> StoreFuture<'a, ()>;

    /// Removes a user's consents to a client.
    fn remove_consents<'a>(&'a self, user: &'a UserId, client: &'a ClientId)
    -> StoreFuture<'a, ()>;

    /// Returns the response of an upstream provider to a registration of this server.
    fn registration<'a>(&'a self, key: &'a Digest) -> StoreFuture<'a, Option<Ciphertext>>;

    /// Stores an upstream provider's registration response for `ttl` and returns it, or returns the
    /// response that is already stored. So replicas that register at the same time agree on one.
    fn put_registration<'a>(
        &'a self,
        key: &'a Digest,
        sealed: &'a Ciphertext,
        ttl: Duration,
    ) -> StoreFuture<'a, Ciphertext>;

    /// Removes a registration that the provider no longer knows, unless it has been replaced.
    fn remove_registration<'a>(
        &'a self,
        key: &'a Digest,
        sealed: &'a Ciphertext,
    ) -> StoreFuture<'a, ()>;

    /// Returns a stream of revocations: first the recent ones, as far back as
    /// [`Limits::revocation_retention`](crate::Limits::revocation_retention), then new ones of any
    /// replica. The future completes when the recent ones are loaded: the stream yields all of them
    /// before it is pending for the first time. A revocation may be delivered several times.
    fn revocations(&self) -> StoreFuture<'_, BoxStream<'static, Revocation>>;

    /// Checks that the store responds, for readiness.
    fn ready(&self) -> StoreFuture<'_, ()>;

    /// Returns the number of records, for gauges. Includes expired records that are not yet
    /// deleted.
    fn counts(&self) -> StoreFuture<'_, Counts>;
}

/// Number of records of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Registered clients.
    pub clients: usize,
    /// Logins in progress.
    pub logins: usize,
    /// Codes, including redeemed ones.
    pub codes: usize,
    /// Grants.
    pub grants: usize,
    /// Sessions.
    pub sessions: usize,
    /// Users.
    pub users: usize,
    /// Browsers.
    pub browsers: usize,
    /// Registrations at upstream providers.
    pub registrations: usize,
}
