//! The listener for `/status`, `/metrics` and `/api/backends/*` alone.

use std::net::{Ipv4Addr, SocketAddr};

use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::TcpListener;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;

use super::accept_error::AcceptErrors;
use super::activity::Activity;
use super::connection::connection;
use super::{Options, ServeError};
use crate::routes::{Access, Routes};

/// The address if none was asked for.
const DEFAULT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 4484);

/// The most connections.
const MAX_CONNECTIONS: usize = 64;

/// Listens at the address that was asked for. Without one, a server that the network reaches listens on loopback, unless
/// the port is taken.
pub(super) async fn listen(options: &Options) -> Result<Option<TcpListener>, ServeError> {
    if let Some(address) = options.admin_address {
        let listening = TcpListener::bind(address).await;
        return listening.map(Some).map_err(|source| ServeError::Listen { address, source });
    }
    if options.address.ip().to_canonical().is_loopback() {
        return Ok(None);
    }
    match TcpListener::bind(DEFAULT).await {
        Ok(listener) => Ok(Some(listener)),
        Err(error) => {
            tracing::warn!(address = %DEFAULT, %error, "/status is not served: choose an address with --admin-listen");
            Ok(None)
        }
    }
}

/// Ends what it began when it is dropped.
pub(super) struct Serving(AbortHandle);

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Answers until the result is dropped.
pub(super) fn start(listener: TcpListener, routes: &Routes) -> Serving {
    let address = listener.local_addr();
    let is_loopback = address.is_ok_and(|address| address.ip().to_canonical().is_loopback());
    let access = Access { is_private: true, is_loopback, ..routes.access.clone() };
    let routes = Routes { access, is_admin: true, ..routes.clone() };
    Serving(tokio::spawn(serve(listener, routes)).abort_handle())
}

async fn serve(listener: TcpListener, routes: Routes) {
    if let Ok(address) = listener.local_addr() {
        tracing::info!("/status is at http://{address}/status");
    }
    let graceful = GracefulShutdown::new();
    let mut errors = AcceptErrors::default();
    // Ends its connections with it.
    let mut connections = JoinSet::new();
    loop {
        while connections.len() >= MAX_CONNECTIONS {
            connections.join_next().await;
        }
        match listener.accept().await {
            Ok((stream, peer)) => {
                let (routes, activity) =
                    (Routes { peer, ..routes.clone() }, Activity::new(Instant::now()));
                let serving = connection(stream, routes, graceful.watcher(), activity);
                connections.spawn(async move { drop(serving.await) });
            }
            Err(error) => errors.wait(&error, &routes.shared.limit).await,
        }
        while connections.try_join_next().is_some() {}
    }
}
