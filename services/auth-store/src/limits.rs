//! How much a store holds.

use std::time::Duration;

/// How much a store holds, and for how long where a step doesn't say. Each number is a cap: what
/// comes on top is refused as [`StoreError::Full`](crate::StoreError::Full), or makes room where
/// its description says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Clients that redeemed a code. When there are so many, the one that was unused for longest makes room
    /// if that is longer than [`client_eviction_idle`](Self::client_eviction_idle).
    pub clients: usize,
    /// Registered clients that never redeemed a code. The one that expires first makes room; a client that
    /// redeemed a code never does.
    pub new_clients: usize,
    /// Lifetime of a registered client that never redeemed a code. A login or a code of the client prolongs it.
    pub new_client_lifetime: Duration,
    /// How long a client stays that nobody uses.
    pub client_lifetime: Duration,
    /// How long a client has to be unused before another one may take its place.
    pub client_eviction_idle: Duration,
    /// Logins under way. The oldest makes room.
    pub logins: usize,
    /// Logins under way that began at one network address. The oldest of that address makes room.
    pub logins_per_origin: usize,
    /// Codes, the taken ones included.
    pub codes: usize,
    /// How long it is known of a code that it was taken. At least a code's lifetime.
    pub redeemed_code_retention: Duration,
    /// Grants.
    pub grants: usize,
    /// Sessions.
    pub sessions: usize,
    /// Sessions of one person. The one that ends first makes room.
    pub sessions_per_user: usize,
    /// Upstream rows of one session.
    pub upstream_tokens_per_session: usize,
    /// People.
    pub users: usize,
    /// How long a person is known who doesn't log in.
    pub user_lifetime: Duration,
    /// Browsers.
    pub browsers: usize,
    /// Consents that are remembered of one person. The oldest makes room.
    pub consents_per_user: usize,
    /// Registrations at upstream providers.
    pub registrations: usize,
    /// How long a rotated refresh token may be presented again (RFC 9700 section 4.14.2).
    pub rotation_grace: Duration,
    /// How long a revocation is told to replicas that join. Longer than any access token is accepted: their number
    /// is bounded by this time alone, since a revocation that makes room for another one lets a token in again.
    pub revocation_retention: Duration,
}

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

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
            // The longest access token lives a day; the rest is for clocks that differ.
            revocation_retention: DAY + HOUR / 12,
        }
    }
}
