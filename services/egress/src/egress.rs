//! Factory of clients, with their shared state: limits, system roots, gauges and the reaper.

use std::{
    fmt,
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, Weak,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use url::Url;

use crate::{
    AddressPolicy, Client, ConfigError, Origin, Settings,
    pool::Pool,
    tls::{SystemRoots, Trust},
};

/// Factory of one [`Client`] per backend, which counts the connections of all of them.
///
/// Clones share the state. Nothing is opened or loaded before the first request: the system's root
/// certificates are read when the first `https` origin connects.
#[derive(Clone)]
pub struct Egress {
    shared: Arc<Shared>,
}

/// Settings of a client for one backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// PEM file with certificates to trust in addition to the system's.
    pub ca_bundle: Option<PathBuf>,
    /// Addresses that the client may connect to.
    pub addresses: AddressPolicy,
    /// HTTP versions of the client.
    pub versions: Versions,
    /// Name of the backend's origin in messages; `None` for the origin itself.
    pub display_origin: Option<Arc<str>>,
}

/// HTTP versions of a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Versions {
    /// HTTP/2 or HTTP/1.1 over TLS, as the server chooses; otherwise HTTP/1.1.
    #[default]
    Negotiated,
    /// HTTP/2 only, without TLS by prior knowledge (RFC 9113, 3.3). For gRPC.
    Http2,
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

/// Shared state of all clients of a factory.
pub(crate) struct Shared {
    pub(crate) settings: Settings,
    pub(crate) roots: SystemRoots,
    pub(crate) open: Arc<AtomicUsize>,
    /// `true` while a reaper task runs. See [`reaper`](crate::reaper) for the protocol that never
    /// leaves an idle connection without one.
    pub(crate) reaping: AtomicBool,
    pools: Mutex<Vec<Weak<Pool>>>,
}

/// Guard that counts a connection as open.
pub(crate) struct OpenGuard(Arc<AtomicUsize>);

impl Egress {
    /// Creates a factory with `settings`.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            shared: Arc::new(Shared {
                settings,
                roots: SystemRoots::default(),
                open: Arc::default(),
                reaping: AtomicBool::new(false),
                pools: Mutex::default(),
            }),
        }
    }

    /// Creates a client with its own connections for the origin of `url`; path and query are
    /// ignored. Clone the client instead of creating a second one for the same backend.
    ///
    /// # Errors
    ///
    /// The URL has another scheme than `http` and `https`, no host or user info, or the CA bundle
    /// is invalid. Messages about the bundle contain its path.
    pub fn client(&self, url: &Url, target: Target) -> Result<Client, ConfigError> {
        let Target { ca_bundle, addresses, versions, display_origin } = target;
        let mut origin = Origin::of(url)?;
        if let Some(label) = display_origin {
            origin = origin.with_label(label);
        }
        // Read for `http` as well: an invalid bundle must not go unnoticed until the URL becomes
        // `https`.
        let trust = Trust::new(ca_bundle.as_deref())?;
        let trust = origin.is_secure().then_some(trust);
        let pool = Pool::new(Arc::clone(&self.shared), origin, addresses, trust, versions)?;
        self.shared.register(&pool);
        Ok(Client::new(pool, self.shared.settings.max_body))
    }

    /// Returns the current numbers. Iterates over all clients, so call it per scrape, not per
    /// request.
    #[must_use]
    pub fn gauges(&self) -> Gauges {
        let open = self.shared.open.load(Ordering::Relaxed);
        let none = Gauges { open, ..Gauges::default() };
        self.shared.pools().iter().fold(none, |Gauges { open, idle, in_flight }, pool| Gauges {
            open,
            idle: idle + pool.idle(),
            in_flight: in_flight + pool.in_flight(),
        })
    }
}

#[cfg(test)]
impl Egress {
    pub(crate) fn count_open(&self) -> OpenGuard {
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

impl Target {
    /// Creates a target for untrusted URLs: public addresses and the system's root certificates
    /// only.
    #[must_use]
    pub fn public_only() -> Self {
        Self::reaching(AddressPolicy::PublicOnly)
    }

    /// Creates a target for configured backends: also connects to loopback, link-local (with the
    /// instance credentials of clouds) and all other private addresses.
    #[must_use]
    pub fn allowing_private_addresses() -> Self {
        Self::reaching(AddressPolicy::Any)
    }

    fn reaching(addresses: AddressPolicy) -> Self {
        Self { ca_bundle: None, addresses, versions: Versions::default(), display_origin: None }
    }

    /// Sets the name of the origin in messages, for URLs whose host may be a secret.
    #[must_use]
    pub fn with_display_origin(self, label: impl Into<Arc<str>>) -> Self {
        Self { display_origin: Some(label.into()), ..self }
    }

    /// Sets the HTTP versions.
    #[must_use]
    pub fn with_versions(self, versions: Versions) -> Self {
        Self { versions, ..self }
    }

    /// Trusts the certificates in the PEM file at `path` in addition to the system's.
    #[must_use]
    pub fn with_ca_bundle(mut self, path: impl Into<PathBuf>) -> Self {
        self.ca_bundle = Some(path.into());
        self
    }
}

impl Shared {
    pub(crate) fn count_open(&self) -> OpenGuard {
        self.open.fetch_add(1, Ordering::Relaxed);
        OpenGuard(Arc::clone(&self.open))
    }

    /// Returns the pools of all existing clients.
    pub(crate) fn pools(&self) -> Vec<Arc<Pool>> {
        self.lock_pools().iter().filter_map(Weak::upgrade).collect()
    }

    fn register(&self, pool: &Arc<Pool>) {
        let mut pools = self.lock_pools();
        // Reloads create new clients: remove the pools of dropped ones.
        pools.retain(|pool| pool.strong_count() > 0);
        pools.push(Arc::downgrade(pool));
    }

    fn lock_pools(&self) -> MutexGuard<'_, Vec<Weak<Pool>>> {
        vmcp_core::lock(&self.pools)
    }
}

impl Drop for OpenGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
