//! Health of a backend in the status report.

use vmcp_breaker::health::Health;

use super::BackendReport;
use crate::settings::Sharing;

impl BackendReport {
    /// Returns the health of the backend: the result of its checks or, if those found no error, that of fetching its offer.
    #[must_use]
    pub fn health(&self) -> Health {
        let checked = self.checked.as_ref().map(|checked| checked.health);
        match checked {
            Some(bad @ (Health::Unavailable | Health::Unauthenticated)) => return bad,
            // The offer may have arrived but is not part of the catalog yet.
            _ if self.pending => return Health::Unknown,
            _ => {}
        }
        match (self.offered, &self.failure) {
            _ if self.unauthenticated => Health::Unauthenticated,
            (true, None) if checked == Some(Health::Degraded) => Health::Degraded,
            (true, None) => Health::Ready,
            (true, Some(_)) => Health::Degraded,
            (false, None) => Health::Unknown,
            (false, Some(_)) => match checked {
                None => Health::Unavailable,
                Some(Health::Unknown) => Health::Unknown,
                // The backend responds, but fetching its offer fails.
                Some(_) => Health::Degraded,
            },
        }
    }

    /// Returns `true` if no error is known. A backend that requires its callers' credentials is in order.
    #[must_use]
    pub fn is_healthy(&self) -> bool {
        match self.health() {
            Health::Ready => true,
            Health::Unauthenticated => self.catalog == Sharing::PerCaller,
            Health::Degraded | Health::Unavailable | Health::Unknown => false,
        }
    }

    /// Returns the reason if the backend is known not to be ready.
    #[must_use]
    pub fn problem(&self) -> Option<&str> {
        let seen = || {
            let checked = self.checked.as_ref()?;
            let wrong = checked.health == Health::Degraded || checked.consecutive_failures > 0;
            checked.last_error.as_ref().filter(|_| wrong).map(|error| error.message.as_str())
        };
        self.failure.as_deref().or_else(seen)
    }
}
