//! Sizes of the test bed.

/// Tools per backend.
pub(super) const TOOLS: usize = 200;

/// Backends behind the gateway.
pub(super) const BACKENDS: usize = 5;

/// Number of users, each a member of one team.
pub(super) const USERS: usize = 16;

/// Number of tenants; each caller works for one of them.
pub(super) const TENANTS: usize = 8;

/// Name of the composite tool.
pub(super) const CHAIN: &str = "chain";

/// Number of steps of the composite tool, each at a backend of its own.
pub(super) const CHAIN_LENGTH: usize = 3;
