//! Rate limits for one client address.

use std::net::IpAddr;

use vmcp_core::{Clock, Rate, RateLimiter};

use crate::error::OAuthError;

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

/// Kind of an endpoint.
#[derive(Clone, Copy, Debug)]
pub(crate) enum EndpointClass {
    Page,
    Token,
    Registration,
}

/// Rate limiters by kind of endpoint.
#[derive(Debug)]
pub(crate) struct RateLimiters {
    pages: RateLimiter,
    tokens: RateLimiter,
    registration: RateLimiter,
    clock: Clock,
}

impl RateLimiters {
    pub(crate) fn new(limits: RateLimits, clock: Clock) -> Self {
        let RateLimits { pages, tokens, registration } = limits;
        let [pages, tokens, registration] = [pages, tokens, registration].map(RateLimiter::new);
        Self { pages, tokens, registration, clock }
    }

    /// Counts a request, and rejects it if its address exceeds the rate limit.
    pub(crate) fn admit(&self, class: EndpointClass, address: IpAddr) -> Result<(), OAuthError> {
        let limiter = match class {
            EndpointClass::Page => &self.pages,
            EndpointClass::Token => &self.tokens,
            EndpointClass::Registration => &self.registration,
        };
        limiter.admit(address, self.clock.now()).map_err(OAuthError::too_many)
    }

    /// Returns the number of addresses with a count, counted once for each kind of endpoint.
    pub(crate) fn len(&self) -> usize {
        [&self.pages, &self.tokens, &self.registration].map(RateLimiter::len).iter().sum()
    }
}
