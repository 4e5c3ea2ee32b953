//! Store wrapper that records its operations and fails on demand.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use futures_util::stream::BoxStream;
use vmcp_auth_store::*;

/// Wrapper of another store.
pub(crate) struct FailingStore {
    inner: Arc<dyn Store>,
    steps: Mutex<Vec<&'static str>>,
    /// Number of operations left, including the first one that fails.
    fails_at: AtomicUsize,
    /// `true` if the first failed operation still takes effect.
    applies_last: bool,
}

impl FailingStore {
    pub(crate) fn new(inner: Arc<dyn Store>, fails_at: usize, applies_last: bool) -> Arc<Self> {
        let fails_at = AtomicUsize::new(fails_at);
        Arc::new(Self { inner, steps: Mutex::default(), fails_at, applies_last })
    }

    /// Returns the operations since the last call.
    pub(crate) fn steps(&self) -> Vec<&'static str> {
        std::mem::take(&mut *self.steps.lock().unwrap())
    }

    /// Makes all operations fail from now on.
    pub(crate) fn fail(&self) {
        self.fails_at.store(0, Ordering::SeqCst);
    }

    /// Makes operations succeed again.
    pub(crate) fn recover(&self) {
        self.fails_at.store(usize::MAX, Ordering::SeqCst);
    }

    /// Returns `true` if operations fail.
    pub(crate) fn is_failing(&self) -> bool {
        self.fails_at.load(Ordering::SeqCst) == 0
    }

    fn step<'a, T: Send + 'a>(
        &'a self,
        name: &'static str,
        apply: impl FnOnce() -> StoreFuture<'a, T> + Send + 'a,
    ) -> StoreFuture<'a, T> {
        Box::pin(async move {
            self.steps.lock().unwrap().push(name);
            // Other tasks run in the meantime, as with a store on the network.
            tokio::task::yield_now().await;
            let left = self.fails_at.load(Ordering::SeqCst);
            match left {
                0 => Err(StoreError::Unavailable),
                1 => {
                    self.fails_at.store(0, Ordering::SeqCst);
                    if self.applies_last {
                        apply().await?;
                    }
                    Err(StoreError::Unavailable)
                }
                _ => {
                    if left != usize::MAX {
                        self.fails_at.store(left - 1, Ordering::SeqCst);
                    }
                    apply().await
                }
            }
        })
    }
}

impl fmt::Debug for FailingStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watched").finish_non_exhaustive()
    }
}

macro_rules! delegate {
    ($($name:ident($($arg:ident: $kind:ty),*) -> $out:ty;)*) => {
        $(fn $name<'a>(&'a self, $($arg: $kind),*) -> StoreFuture<'a, $out> {
            self.step(stringify!($name), move || self.inner.$name($($arg),*))
        })*
    };
}

impl Store for FailingStore {
    fn not_before(&self) -> Option<SystemTime> {
        self.inner.not_before()
    }

    delegate! {
        client(id: &'a ClientId) -> Option<Client>;
        register(client: &'a Client) -> ();
        put_login(key: &'a Digest, login: &'a Login, ttl: Duration) -> ();
        login(key: &'a Digest) -> Option<Login>;
        take_login(key: &'a Digest) -> Option<Login>;
        advance_login(from: &'a Digest, to: &'a Digest, login: &'a Login, ttl: Duration) -> bool;
        conflicting_issuers(providers: &'a [(ProviderName, ProviderIssuer)]) -> Vec<(ProviderName, ProviderIssuer)>;
        upsert_user(subject: &'a Subject, proposed: &'a UserId, profile: &'a Profile) -> UserId;
        account(user: &'a UserId) -> Option<User>;
        put_code(code: &'a Digest, seed: &'a AuthorizationCodeData, ttl: Duration) -> bool;
        redeem_code(code: &'a Digest, client: &'a ClientId, challenge: &'a CodeChallenge) -> CodeRedemption;
        start_grant(code: &'a Digest, grant: &'a Grant) -> GrantInsertOutcome;
        invalidate_code(code: &'a Digest) -> ();
        grant(id: &'a GrantId, client: &'a ClientId) -> GrantLookup;
        rotate(id: &'a GrantId, presented: &'a PresentedRefreshToken, next: &'a Digest) -> RotationOutcome;
        revoke(id: &'a GrantId) -> Option<Revocation>;
        put_upstream_token(session: &'a SessionHead, provider: &'a ProviderName, row: &'a UpstreamTokenRecord, ttl: Duration) -> u64;
        replace_upstream_token(session: &'a SessionId, provider: &'a ProviderName, if_version: u64, row: &'a UpstreamTokenRecord) -> Option<u64>;
        remove_upstream_token(session: &'a SessionId, provider: &'a ProviderName, if_version: Option<u64>) -> bool;
        lock_upstream_token(session: &'a SessionId, provider: &'a ProviderName, owner: &'a LockOwner, ttl: Duration) -> UpstreamTokenLock;
        unlock_upstream_token(session: &'a SessionId, provider: &'a ProviderName, owner: &'a LockOwner) -> ();
        session(id: &'a SessionId) -> Option<Session>;
        extend_session(id: &'a SessionId, ttl: Duration) -> bool;
        end_session(id: &'a SessionId) -> Option<Revocation>;
        sessions_of(user: &'a UserId) -> Vec<Session>;
        latest_upstream_token(user: &'a UserId, provider: &'a ProviderName) -> Option<(SessionId, UpstreamTokenRecord)>;
        put_browser(browser: &'a Digest, user: &'a UserId, consent: Option<&'a Consent>, ttl: Duration) -> ();
        browser(cookie: &'a Digest) -> Option<Browser>;
        remove_browser(cookie: &'a Digest) -> ();
        remove_consents(user: &'a UserId, client: &'a ClientId) -> ();
        registration(key: &'a Digest) -> Option<Ciphertext>;
        put_registration(key: &'a Digest, sealed: &'a Ciphertext, ttl: Duration) -> Ciphertext;
        remove_registration(key: &'a Digest, sealed: &'a Ciphertext) -> ();
    }

    fn ready(&self) -> StoreFuture<'_, ()> {
        self.step("ready", || self.inner.ready())
    }

    fn counts(&self) -> StoreFuture<'_, Counts> {
        self.step("counts", || self.inner.counts())
    }

    fn revocations(&self) -> StoreFuture<'_, BoxStream<'static, Revocation>> {
        self.step("revocations", || self.inner.revocations())
    }
}
