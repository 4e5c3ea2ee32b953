//! How often one address may ask.

use vmcp_core::Rate;

/// How often one address may ask each endpoint: an IPv4 address, or 64 bits of an IPv6 one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rates {
    /// The pages: authorization, consent, callback, connections.
    pub pages: Rate,
    /// The token, revocation, introspection and userinfo endpoints.
    pub tokens: Rate,
    /// The registration endpoint.
    pub registration: Rate,
}

impl Default for Rates {
    /// What many people behind one address, or one proxy that doesn't tell its clients apart, still get by
    /// with.
    fn default() -> Self {
        Self {
            pages: Rate { burst: 100, per_second: 10 },
            tokens: Rate { burst: 200, per_second: 50 },
            registration: Rate { burst: 20, per_second: 1 },
        }
    }
}
