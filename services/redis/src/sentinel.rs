//! Master lookup with Sentinel.
//!
//! The Sentinel client of the `redis` crate would report a master that is down as unknown, and require `ROLE`, as the
//! tests `unreachable_master_is_not_unknown` and `master_may_deny_role` show.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use redis::{cmd, from_redis_value};
use tokio::time::{Instant, timeout_at};

use crate::dialer::{Dialer, resolve};
use crate::{Credentials, Error, Node, Sentinel};

/// Time for other Sentinels to report another master than the one that failed.
const GRACE_PERIOD: Duration = Duration::from_millis(200);

/// Returns the master that the first responding Sentinel reports. All Sentinels are queried in
/// parallel: an unresponsive one causes no delay. `suspect`, the last master that failed, is
/// returned only if no other Sentinel reports another one: a Sentinel without a connection to the
/// others keeps reporting a master that they have replaced.
pub(crate) async fn find_master(
    sentinel: &Sentinel,
    dialer: &Dialer,
    suspect: Option<&Node>,
) -> Result<Node, Error> {
    let master: Arc<str> = sentinel.master.as_str().into();
    let dialer = Dialer { tls: sentinel.tls.clone(), database: 0, ..dialer.clone() };
    let queries = sentinel.nodes.iter().map(|node| query_host(&master, &dialer, node, suspect));
    let unknown = Error::UnknownMaster { node: Node::new("", 0), master: Arc::clone(&master) };
    select_master(queries.collect(), suspect, unknown).await
}

/// Queries all addresses of a host.
async fn query_host(
    master: &Arc<str>,
    dialer: &Dialer,
    node: &Node,
    suspect: Option<&Node>,
) -> Result<Node, Error> {
    let addresses = resolve(node, dialer.timeouts.dial).await?;
    let queries =
        addresses.into_iter().map(|address| query_sentinel(master, dialer, node, address));
    let unknown = Error::UnknownMaster { node: node.clone(), master: Arc::clone(master) };
    select_master(queries.collect(), suspect, unknown).await
}

/// Returns the first master other than `suspect`, else `suspect`, else the last error; without
/// queries `default`.
async fn select_master(
    mut queries: FuturesUnordered<impl Future<Output = Result<Node, Error>>>,
    suspect: Option<&Node>,
    default: Error,
) -> Result<Node, Error> {
    let (mut outcome, mut deadline) = (Err(default), None);
    loop {
        let next = match deadline {
            Some(deadline) => timeout_at(deadline, queries.next()).await.unwrap_or(None),
            None => queries.next().await,
        };
        match next {
            None => return outcome,
            Some(Ok(node)) if suspect == Some(&node) => {
                deadline.get_or_insert_with(|| Instant::now() + GRACE_PERIOD);
                outcome = Ok(node);
            }
            Some(Ok(node)) => return Ok(node),
            Some(Err(error)) if outcome.is_err() => outcome = Err(error),
            Some(Err(_)) => {}
        }
    }
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
