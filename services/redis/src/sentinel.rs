//! Master lookup with Sentinel.
//!
//! The Sentinel client of the `redis` crate would report a master that is down as unknown, and require `ROLE`, as the
//! tests `unreachable_master_is_not_unknown` and `master_may_deny_role` show.

use std::net::SocketAddr;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::select_ok;
use redis::{cmd, from_redis_value};

use crate::dialer::{Dialer, resolve};
use crate::{Credentials, Error, Node, Sentinel};

/// Returns the master that the first responding Sentinel reports. All Sentinels are queried in
/// parallel: an unresponsive one causes no delay.
pub(crate) async fn find_master(sentinel: &Sentinel, dialer: &Dialer) -> Result<Node, Error> {
    let master: Arc<str> = sentinel.master.as_str().into();
    let dialer = Dialer { tls: sentinel.tls.clone(), database: 0, ..dialer.clone() };
    let query = |node| query_host(&master, &dialer, node).boxed();
    if sentinel.nodes.is_empty() {
        return Err(Error::UnknownMaster { node: Node::new("", 0), master });
    }
    select_ok(sentinel.nodes.iter().map(query)).await.map(|(master, _)| master)
}

/// Queries all addresses of a host; the first response wins.
async fn query_host(master: &Arc<str>, dialer: &Dialer, node: &Node) -> Result<Node, Error> {
    let addresses = resolve(node, dialer.timeouts.dial).await?;
    let query =
        addresses.into_iter().map(|address| query_sentinel(master, dialer, node, address).boxed());
    select_ok(query).await.map(|(master, _)| master)
}

async fn query_sentinel(
    master: &Arc<str>,
    dialer: &Dialer,
    node: &Node,
    address: SocketAddr,
) -> Result<Node, Error> {
    // Most Sentinels need no password, and reject one that they don't know.
    let without_password = Dialer { credentials: Credentials::default(), ..dialer.clone() };
    match query_as(master, &without_password, node, address).await {
        Err(Error::InvalidCredentials { .. }) if dialer.credentials.password.is_some() => {
            query_as(master, dialer, node, address).await
        }
        response => response,
    }
}

async fn query_as(
    master: &Arc<str>,
    dialer: &Dialer,
    node: &Node,
    address: SocketAddr,
) -> Result<Node, Error> {
    let connection = dialer.dial_at(node, address).await?;
    let mut command = cmd("SENTINEL");
    command.arg("GET-MASTER-ADDR-BY-NAME").arg(&**master);
    let response =
        connection.send(&command).await.map_err(|error| Error::from_redis(&error, node))?;
    let unknown = || Error::UnknownMaster { node: node.clone(), master: Arc::clone(master) };
    let unexpected = |_| Error::UnexpectedResponse { node: node.clone() };
    let master: Option<(String, u16)> = from_redis_value(response).map_err(unexpected)?;
    master.map(|(host, port)| Node::new(host, port)).ok_or_else(unknown)
}
