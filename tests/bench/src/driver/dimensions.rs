//! Sizes of the test bed.

/// Tools per backend.
pub(super) const TOOLS: usize = 200;

/// Backends behind the gateway.
pub(super) const BACKENDS: usize = 5;

/// Number of users, each a member of one team.
pub(super) const USERS: usize = 16;

/// Number of tenants; each caller works for one of them.
pub(super) const TENANTS: usize = 8;
