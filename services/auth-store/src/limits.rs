//! Limits of a store.

use std::time::Duration;

/// Maximum number of records of each kind, and lifetimes that no step specifies. At a limit a step
/// fails with [`StoreError::Full`](crate::StoreError::Full), or evicts a record where the field
/// says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Clients that have redeemed a code. At the limit the client that has been unused for longest
    /// is evicted, if that is longer than [`client_eviction_idle`](Self::client_eviction_idle).
    pub clients: usize,
    /// Registered clients that have not redeemed a code. The one that expires first is evicted; a
    /// client that has redeemed a code never is.
    pub new_clients: usize,
    /// Lifetime of a registered client that has not redeemed a code. A login or a code extends it.
    pub new_client_lifetime: Duration,
    /// Lifetime of a client after its last use.
    pub client_lifetime: Duration,
    /// Time that a client has to be unused before it may be evicted.
    pub client_eviction_idle: Duration,
    /// Logins in progress. The oldest is evicted.
    pub logins: usize,
    /// Logins in progress of one network address. The oldest of that address is evicted.
    pub logins_per_origin: usize,
    /// Codes, including redeemed ones.
    pub codes: usize,
    /// Time for which a redeemed code is remembered. At least the lifetime of a code.
    pub redeemed_code_retention: Duration,
    /// Grants.
    pub grants: usize,
    /// Sessions.
    pub sessions: usize,
    /// Sessions of one user. The one that ends first is evicted.
    pub sessions_per_user: usize,
    /// Providers with tokens in one session.
    pub upstream_tokens_per_session: usize,
    /// Users.
    pub users: usize,
    /// Lifetime of a user after the last login.
    pub user_lifetime: Duration,
    /// Browsers.
    pub browsers: usize,
    /// Consents of one user. The oldest is evicted.
    pub consents_per_user: usize,
    /// Registrations at upstream providers.
    pub registrations: usize,
    /// Time for which a rotated refresh token may be presented again (RFC 9700 section 4.14.2).
    pub rotation_grace: Duration,
    /// Time for which a revocation is delivered to replicas that join. Longer than any access token
    /// is accepted. The number of revocations is bounded by this time alone: evicting one would
    /// make its access tokens valid again.
    pub revocation_retention: Duration,
}

const HOUR: Duration = Duration::from_hours(1);
const DAY: Duration = Duration::from_hours(24);

impl Default for Limits {
    fn default() -> Self {
        Self {
            clients: 10_000,
            new_clients: 2_000,
            new_client_lifetime: HOUR / 4,
            client_lifetime: DAY * 30,
            client_eviction_idle: HOUR,
            logins: 10_000,
            logins_per_origin: 200,
            codes: 20_000,
            redeemed_code_retention: HOUR / 2,
            grants: 200_000,
            sessions: 200_000,
            sessions_per_user: 100,
            upstream_tokens_per_session: 32,
            users: 200_000,
            user_lifetime: DAY * 400,
            browsers: 200_000,
            consents_per_user: 100,
            registrations: 1_000,
            rotation_grace: Duration::from_secs(10),
            // The longest access token lives for a day; the rest covers clock skew.
            revocation_retention: DAY + HOUR / 12,
        }
    }
}
