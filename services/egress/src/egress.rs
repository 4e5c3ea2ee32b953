//! The factory of clients, and what they share: limits, system roots, gauges and the reaper.

use std::{
    fmt,
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use url::Url;

use crate::{
    AddressPolicy, Client, ConfigError, Origin, Settings,
    pool::Pool,
    tls::{SystemRoots, Trust},
};

/// The process's way out: makes one [`Client`] per backend and counts what all of them have open.
///
/// A clone is the same factory. Nothing is opened or loaded before the first request: the system's
/// TLS roots are read when the first `https` origin connects.
#[derive(Clone)]
pub struct Egress {
    shared: Arc<Shared>,
}

/// How a client finds and trusts its backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// A PEM file whose certificates are trusted in addition to the system's.
    pub ca_bundle: Option<PathBuf>,
    /// Which addresses may be connected to.
    pub addresses: AddressPolicy,
    /// Which versions of HTTP are spoken.
    pub versions: Versions,
    /// What messages call the backend's origin; `None` shows the origin itself.
    pub display_origin: Option<Arc<str>>,
}

/// Which versions of HTTP a client speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Versions {
    /// Over TLS HTTP/2 or HTTP/1.1, as the server chooses; else HTTP/1.1.
    #[default]
    Negotiated,
    /// HTTP/2 alone, without TLS by prior knowledge (RFC 9113, 3.3). For gRPC.
    Http2,
}

/// How much is open, read at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gauges {
    /// Connections, in use or not.
    pub open: usize,
    /// Connections that wait for their next request.
    pub idle: usize,
    /// Exchanges between the request and the end of the response's body.
    pub in_flight: usize,
}

/// What all clients of one factory share.
pub(crate) struct Shared {
    pub(crate) settings: Settings,
    pub(crate) roots: SystemRoots,
    pub(crate) open: Arc<AtomicUsize>,
    /// Whether a reaper task runs.
    pub(crate) reaping: AtomicBool,
    pools: Mutex<Vec<Weak<Pool>>>,
}

/// Counts a connection as open for as long as it lives.
pub(crate) struct OpenGuard(Arc<AtomicUsize>);

impl Egress {
    /// A factory whose clients keep to `settings`.
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

    /// A client for the origin of `url`, with connections of its own. Path and query of `url` are
    /// not used. Clone the client instead of making a second one for the same backend.
    ///
    /// # Errors
    ///
    /// The URL isn't `http` or `https`, has no host or has user info, or the CA bundle can't be
    /// used. Messages about the bundle name the file.
    pub fn client(&self, url: &Url, target: Target) -> Result<Client, ConfigError> {
        let Target { ca_bundle, addresses, versions, display_origin } = target;
        let mut origin = Origin::of(url)?;
        if let Some(label) = display_origin {
            origin = origin.with_label(label);
        }
        // Read also where it isn't used: a mistake in it must not wait for the day the URL becomes
        // `https`.
        let trust = Trust::new(ca_bundle.as_deref())?;
        let trust = origin.is_secure().then_some(trust);
        let pool = Pool::new(Arc::clone(&self.shared), origin, addresses, trust, versions)?;
        self.shared.register(&pool);
        Ok(Client::new(pool, self.shared.settings.max_body))
    }

    /// How much is open now. Asks every client, so it is for a scrape and not for a request.
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
    /// For URLs that somebody outside chose: public addresses and the system's roots only.
    #[must_use]
    pub fn public_only() -> Self {
        Self::reaching(AddressPolicy::PublicOnly)
    }

    /// For backends that the operator named: also connects to loopback, link-local (where clouds
    /// keep instance credentials) and every other private address.
    #[must_use]
    pub fn allowing_private_addresses() -> Self {
        Self::reaching(AddressPolicy::Any)
    }

    fn reaching(addresses: AddressPolicy) -> Self {
        Self { ca_bundle: None, addresses, versions: Versions::default(), display_origin: None }
    }

    /// Calls the origin `label` in messages: for URLs whose host may be a secret.
    #[must_use]
    pub fn with_display_origin(self, label: impl Into<Arc<str>>) -> Self {
        Self { display_origin: Some(label.into()), ..self }
    }

    /// Speaks these versions of HTTP.
    #[must_use]
    pub fn with_versions(self, versions: Versions) -> Self {
        Self { versions, ..self }
    }

    /// Trusts the certificates of the PEM file at `path` in addition to the system's.
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

    /// The clients that are still in use.
    pub(crate) fn pools(&self) -> Vec<Arc<Pool>> {
        self.lock_pools().iter().filter_map(Weak::upgrade).collect()
    }

    fn register(&self, pool: &Arc<Pool>) {
        let mut pools = self.lock_pools();
        // Reloads make new clients; the list must not keep those that are gone.
        pools.retain(|pool| pool.strong_count() > 0);
        pools.push(Arc::downgrade(pool));
    }

    fn lock_pools(&self) -> MutexGuard<'_, Vec<Weak<Pool>>> {
        self.pools.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for OpenGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
