//! The listener for `/status`, `/metrics` and `/api/backends/*` alone.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use tokio::net::TcpListener;
use tokio::task::AbortHandle;
use vmcp_listener::serve_few;

use super::{Options, ServeError};
use crate::routes::{AdminAccess, Routes};

/// The most connections.
const MAX_CONNECTIONS: usize = 64;

/// Address of the listener for administrators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdminAddress {
    /// Address that the operator requested. A server does not start without it.
    Requested(SocketAddr),
    /// Default address. Of several servers on one machine, the first one gets it.
    Default(SocketAddr),
}

impl AdminAddress {
    /// Default address.
    const DEFAULT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 4484);

    /// Consequence of a default address that cannot be listened on.
    pub const MISSING: &str =
        "no listener serves /status alone: choose another address with --admin-listen";

    /// Returns the address for a server that listens on `main` for clients. Returns `None` for a loopback address without
    /// a requested one: such a listener serves `/status` itself.
    #[must_use]
    pub fn of(main: IpAddr, requested: Option<SocketAddr>) -> Option<Self> {
        match requested {
            Some(address) => Some(Self::Requested(address)),
            None if main.to_canonical().is_loopback() => None,
            None => Some(Self::Default(Self::DEFAULT)),
        }
    }
}

/// Listens for administrators. A default address that cannot be listened on is a warning.
pub(super) async fn listen(options: &Options) -> Result<Option<TcpListener>, ServeError> {
    match AdminAddress::of(options.address.ip(), options.admin_address) {
        Some(AdminAddress::Requested(address)) => {
            let listening = TcpListener::bind(address).await;
            listening.map(Some).map_err(|source| ServeError::AdminListen { address, source })
        }
        Some(AdminAddress::Default(address)) => match TcpListener::bind(address).await {
            Ok(listener) => Ok(Some(listener)),
            Err(error) => {
                tracing::warn!(%address, %error, "{}", AdminAddress::MISSING);
                Ok(None)
            }
        },
        None => Ok(None),
    }
}

/// Ends what it began when it is dropped.
pub(super) struct AdminTask(AbortHandle);

impl Drop for AdminTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Answers until the result is dropped.
pub(super) fn start(listener: TcpListener, routes: &Routes) -> AdminTask {
    let address = listener.local_addr();
    let is_loopback = address.is_ok_and(|address| address.ip().to_canonical().is_loopback());
    let access = AdminAccess { is_private: true, is_loopback, ..routes.access.clone() };
    let routes = Routes { access, is_admin: true, ..routes.clone() };
    AdminTask(tokio::spawn(serve(listener, routes)).abort_handle())
}

async fn serve(listener: TcpListener, routes: Routes) {
    if let Ok(address) = listener.local_addr() {
        tracing::info!("/status is at http://{address}/status");
    }
    let connections = routes.shared.connections.clone();
    let new_service = |peer| Routes { peer, ..routes.clone() };
    serve_few(listener, MAX_CONNECTIONS, connections, new_service).await;
}
