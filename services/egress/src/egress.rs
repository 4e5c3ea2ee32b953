//! Factory of clients, with their shared state: limits, system roots, gauges and the reaper.

use std::{fmt, sync::Arc};

use url::Url;

use crate::{
    Client, ClientSettings, ConfigError, Origin, Settings, pool::Pool, shared::Shared, tls::Trust,
};

/// Factory of one [`Client`] per backend, which counts the connections of all of them.
///
/// Clones share the state. Nothing is opened or loaded before the first request: the system's root
/// certificates are read when the first `https` origin connects.
#[derive(Clone)]
pub struct Egress {
    shared: Arc<Shared>,
}

/// Number of connections and exchanges at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gauges {
    /// Connections, including idle ones.
    pub open: usize,
    /// Connections without an exchange.
    pub idle: usize,
    /// Exchanges, from the request to the end of the response body.
    pub in_flight: usize,
}

impl Egress {
    /// Creates a factory with `settings`.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self { shared: Arc::new(Shared::new(settings)) }
    }

    /// Creates a client with its own connections for the origin of `url`; path and query are
    /// ignored. Clone the client instead of creating a second one for the same backend.
    ///
    /// # Errors
    ///
    /// The URL has another scheme than `http` and `https`, no host or user info, or the CA bundle
    /// is invalid. Messages about the bundle contain its path.
    pub fn client(&self, url: &Url, settings: ClientSettings) -> Result<Client, ConfigError> {
        let ClientSettings { ca_bundle, addresses, versions, display_origin } = settings;
        let mut origin = Origin::of(url)?;
        if let Some(label) = display_origin {
            origin = origin.with_label(label);
        }
        // Read for `http` as well: an invalid bundle must not go unnoticed until the URL becomes
        // `https`.
        let trust = Trust::new(ca_bundle.as_deref())?;
        let trust = origin.is_secure().then_some(trust);
        let pool = Pool::new(Arc::clone(&self.shared), origin, addresses, trust, versions)?;
        self.shared.reaper.register(&pool);
        Ok(Client::new(pool, self.shared.settings.max_body))
    }

    /// Returns the current numbers. Iterates over all clients, so call it per scrape, not per
    /// request.
    #[must_use]
    pub fn gauges(&self) -> Gauges {
        let none = Gauges { open: self.shared.open_count(), ..Gauges::default() };
        self.shared.reaper.pools().iter().fold(none, |Gauges { open, idle, in_flight }, pool| {
            Gauges { open, idle: idle + pool.idle(), in_flight: in_flight + pool.in_flight() }
        })
    }
}

#[cfg(test)]
impl Egress {
    pub(crate) fn count_open(&self) -> crate::shared::OpenGuard {
        self.shared.count_open()
    }
}

impl Default for Egress {
    fn default() -> Self {
        Self::new(Settings::default())
    }
}

impl fmt::Debug for Egress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Egress")
            .field("settings", &self.shared.settings)
            .field("gauges", &self.gauges())
            .finish_non_exhaustive()
    }
}
