//! Connection setup: resolution, address policy, TCP, TLS. Every step has a timeout.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use rustls::CertificateError;
use socket2::{SockRef, TcpKeepalive};
use tokio::{
    net::{TcpStream, lookup_host},
    time::{Instant, timeout, timeout_at},
};
use tokio_rustls::TlsConnector;
use url::Host;
use vmcp_core::BoxError;

use crate::{
    AddressPolicy, ConnectCause, Error, Origin, Settings, Versions,
    shared::Shared,
    stream::Stream,
    tls::{self, Trust},
};

/// Maximum number of a name's addresses to try.
const MAX_ADDRESSES: usize = 16;

/// Minimum time for one of several addresses before the next one is tried.
const MIN_ATTEMPT_TIMEOUT: Duration = Duration::from_millis(250);

/// Interval of TCP keep-alive: detects a vanished peer while a stream is silent, as event streams
/// are for hours.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(30);

pub(crate) async fn connect(
    shared: &Shared,
    origin: &Origin,
    policy: AddressPolicy,
    trust: Option<&Trust>,
    versions: Versions,
) -> Result<Stream, Error> {
    let settings = &shared.settings;
    let tcp = tcp(origin, policy, settings).await?;
    let Some(trust) = trust else { return Ok(Stream::plain(tcp)) };

    let has_leaf = trust.has_end_entity_certificate();
    let failed = |source: BoxError| {
        let source = if origin.is_hidden() { without_names(source) } else { source };
        Error::Tls { origin: origin.clone(), source, has_leaf }
    };
    let mut config = trust.config(&shared.roots).await.map_err(failed)?;
    if versions == Versions::Http2 {
        Arc::make_mut(&mut config).alpn_protocols.retain(|protocol| protocol == tls::HTTP2);
    }
    let name = tls::server_name(origin.host()).map_err(|error| failed(error.into()))?;
    match timeout(settings.tls_timeout, TlsConnector::from(config).connect(name, tcp)).await {
        Ok(Ok(stream)) => Ok(Stream::tls(stream)),
        Ok(Err(error)) => Err(failed(error.into())),
        Err(_elapsed) => Err(Error::ConnectTimeout { origin: origin.clone() }),
    }
}

/// Removes the names that a certificate was checked against from an error.
fn without_names(error: BoxError) -> BoxError {
    let named = |error: &rustls::Error| {
        matches!(
            error,
            rustls::Error::InvalidCertificate(CertificateError::NotValidForNameContext { .. })
        )
    };
    let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
    match inner.and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        Some(found) if named(found) => {
            rustls::Error::InvalidCertificate(CertificateError::NotValidForName).into()
        }
        _ => error,
    }
}

async fn tcp(
    origin: &Origin,
    policy: AddressPolicy,
    settings: &Settings,
) -> Result<TcpStream, Error> {
    let deadline = Instant::now() + settings.connect_timeout;
    let addresses = timeout_at(deadline, resolve(origin))
        .await
        .map_err(|_elapsed| Error::ConnectTimeout { origin: origin.clone() })??;
    let admitted: Vec<_> =
        addresses.into_iter().filter(|address| policy.allows(address.ip())).collect();

    let mut last = Error::AddressRefused { policy, origin: origin.clone() };
    for (index, &address) in admitted.iter().enumerate() {
        let left = deadline.saturating_duration_since(Instant::now());
        let untried = u32::try_from(admitted.len() - index).unwrap_or(u32::MAX);
        let limit_time = (left / untried).max(MIN_ATTEMPT_TIMEOUT).min(left);
        last = match timeout(limit_time, TcpStream::connect(address)).await {
            Ok(Ok(tcp)) => {
                prepare(&tcp);
                return Ok(tcp);
            }
            Ok(Err(source)) => {
                let cause = match source.kind() {
                    io::ErrorKind::ConnectionRefused => ConnectCause::Refused,
                    _ => ConnectCause::Unreachable,
                };
                Error::Connect { origin: origin.clone(), cause, source }
            }
            Err(_elapsed) => Error::ConnectTimeout { origin: origin.clone() },
        };
    }
    Err(last)
}

async fn resolve(origin: &Origin) -> Result<Vec<SocketAddr>, Error> {
    let port = origin.port();
    let failed =
        |source| Error::Connect { origin: origin.clone(), cause: ConnectCause::Dns, source };
    match origin.host() {
        Host::Ipv4(v4) => Ok(vec![(IpAddr::from(*v4), port).into()]),
        Host::Ipv6(v6) => Ok(vec![(IpAddr::from(*v6), port).into()]),
        Host::Domain(name) => {
            let found: Vec<_> = lookup_host((name.as_str(), port))
                .await
                .map_err(failed)?
                .take(MAX_ADDRESSES)
                .collect();
            if found.is_empty() {
                return Err(failed(io::Error::new(io::ErrorKind::NotFound, "no addresses")));
            }
            Ok(found)
        }
    }
}

fn prepare(tcp: &TcpStream) {
    let keep_alive =
        TcpKeepalive::new().with_time(KEEP_ALIVE_INTERVAL).with_interval(KEEP_ALIVE_INTERVAL);
    // A socket works without these options as well.
    let nodelay = tcp.set_nodelay(true);
    let keep_alive = SockRef::from(tcp).set_tcp_keepalive(&keep_alive);
    if let Err(error) = nodelay.and(keep_alive) {
        tracing::debug!(%error, "failed to set a socket option");
    }
}
