//! Rate limits for one client address.

use vmcp_core::Rate;

/// Rate limits for one client address: an IPv4 address, or a /64 network of IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimits {
    /// Limit for the pages: authorization, consent, callback, connections.
    pub pages: Rate,
    /// Limit for the token, revocation, introspection and userinfo endpoints.
    pub tokens: Rate,
    /// Limit for the registration endpoint.
    pub registration: Rate,
}

impl Default for RateLimits {
    /// Returns limits that suffice for many users behind one address, or behind a proxy that hides its clients' addresses.
    fn default() -> Self {
        Self {
            pages: Rate { burst: 100, per_second: 10 },
            tokens: Rate { burst: 200, per_second: 50 },
            registration: Rate { burst: 20, per_second: 1 },
        }
    }
}
