//! Asking Sentinels for the master.

use std::net::SocketAddr;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::select_ok;
use redis::{cmd, from_redis_value};

use crate::dial::{Dialer, addresses};
use crate::{Credentials, Fault, Node, Sentinel};

/// The master, as the first Sentinel says that answers. All are asked at once: one that doesn't answer
/// delays nobody.
pub(crate) async fn master(sentinel: &Sentinel, dialer: &Dialer) -> Result<Node, Fault> {
    let master: Arc<str> = sentinel.master.as_str().into();
    let dialer = Dialer { tls: sentinel.tls.clone(), database: 0, ..dialer.clone() };
    let asking = |node| all_of(&master, &dialer, node).boxed();
    if sentinel.nodes.is_empty() {
        return Err(Fault::UnknownMaster { node: Node::new("", 0), master });
    }
    select_ok(sentinel.nodes.iter().map(asking)).await.map(|(master, _)| master)
}

/// What the first of all that have this name says.
async fn all_of(master: &Arc<str>, dialer: &Dialer, node: &Node) -> Result<Node, Fault> {
    let found = addresses(node, dialer.timeouts.dial).await?;
    let asking = found.into_iter().map(|address| ask(master, dialer, node, address).boxed());
    select_ok(asking).await.map(|(master, _)| master)
}

async fn ask(
    master: &Arc<str>,
    dialer: &Dialer,
    node: &Node,
    address: SocketAddr,
) -> Result<Node, Fault> {
    // Most Sentinels ask for no password, and one that they don't know would be refused.
    let open = Dialer { credentials: Credentials::default(), ..dialer.clone() };
    match ask_as(master, &open, node, address).await {
        Err(Fault::Credentials { .. }) if dialer.credentials.password.is_some() => {
            ask_as(master, dialer, node, address).await
        }
        answer => answer,
    }
}

async fn ask_as(
    master: &Arc<str>,
    dialer: &Dialer,
    node: &Node,
    address: SocketAddr,
) -> Result<Node, Fault> {
    let link = dialer.dial_at(node, address).await?;
    let mut question = cmd("SENTINEL");
    question.arg("GET-MASTER-ADDR-BY-NAME").arg(&**master);
    let answer = link.send(&question).await.map_err(|error| Fault::of(&error, node))?;
    let unknown = || Fault::UnknownMaster { node: node.clone(), master: Arc::clone(master) };
    let strange = |_| Fault::Strange { node: node.clone() };
    let named: Option<(String, u16)> = from_redis_value(answer).map_err(strange)?;
    named.map(|(host, port)| Node::new(host, port)).ok_or_else(unknown)
}
