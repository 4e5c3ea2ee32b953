//! Asking Sentinels for the master.

use std::net::SocketAddr;
use std::sync::Arc;

use redis::{cmd, from_redis_value};

use crate::dial::{Dialer, addresses};
use crate::{Credentials, Fault, Node, Sentinel};

/// The master, as the first Sentinel says that knows it. Each of them has the timeouts of a server.
pub(crate) async fn master(sentinel: &Sentinel, dialer: &Dialer) -> Result<Node, Fault> {
    let master: Arc<str> = sentinel.master.as_str().into();
    let dialer = Dialer { tls: sentinel.tls.clone(), database: 0, ..dialer.clone() };
    let mut last = None;
    for node in &sentinel.nodes {
        match addresses(node).await {
            Ok(found) => {
                for address in found {
                    match ask(&master, &dialer, node, address).await {
                        Ok(master) => return Ok(master),
                        Err(fault) => last = Some(fault),
                    }
                }
            }
            Err(fault) => last = Some(fault),
        }
    }
    Err(last.unwrap_or(Fault::UnknownMaster { node: Node::new("", 0), master }))
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
