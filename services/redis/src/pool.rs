//! One connection per server, and sending commands to where they belong.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::{
    Cmd, ErrorKind, RedisError, ServerErrorKind, ToRedisArgs, Value, cmd, from_redis_value,
};
use tokio::time::{Instant, sleep};
use vmcp_core::Flights;

use crate::dial::Dialer;
use crate::link::Link;
use crate::locate::Locator;
use crate::{Fault, Node, Script, Settings, Subscription};

/// Between two attempts: at first, and at most.
const PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// Redis. A clone shares the connections.
#[derive(Clone)]
pub struct Redis(Arc<Inner>);

struct Inner {
    dialer: Dialer,
    locator: Locator,
    links: Mutex<HashMap<Node, Arc<Link>>>,
    dialling: Flights<Node, Result<Arc<Link>, Fault>>,
}

/// Whether a command may be sent again of which it is not known whether it was executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Again {
    /// It changes nothing, or the same as before.
    Yes,
    /// Executing it twice is not the same as once.
    No,
}

/// What to do while only some keys of a slot are where they will be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Partly {
    /// Ask there for the one key.
    Follow,
    /// Wait until all of them are.
    Wait,
}

/// What to do after an attempt that failed.
enum Next {
    /// The server knows who serves the slot from now on.
    Moved(u16, Node),
    /// It knows who serves the slot this once.
    Ask(Node),
    /// It refused unseen, or was not reached: perhaps somebody else does better, in a while.
    Later(Fault),
    /// The answer got lost.
    Lost(Fault),
    /// There is no use in trying again.
    Over(Fault),
}

// === impl Redis ===

impl Redis {
    /// Finds Redis and sends a `PING`, so that what is wrong with the settings is known at once.
    ///
    /// # Errors
    /// It cannot be found or reached, or doesn't accept who asks.
    pub async fn connect(settings: Settings) -> Result<Self, Fault> {
        let redis = Self::lazy(settings);
        redis.call("", &cmd("PING"), Again::Yes).await?;
        Ok(redis)
    }

    /// Connects when the first command is sent.
    #[must_use]
    pub fn lazy(settings: Settings) -> Self {
        let Settings { address, credentials, tls, timeouts } = settings;
        let database = match &address {
            crate::Address::Sentinel(sentinel) => sentinel.database,
            crate::Address::Standalone(_) | crate::Address::Cluster(_) => 0,
        };
        let dialer = Dialer { credentials, tls, timeouts, database };
        let locator = Locator::new(address, dialer.clone());
        let (links, dialling) = (Mutex::default(), Flights::new());
        Self(Arc::new(Inner { dialer, locator, links, dialling }))
    }

    /// The answer to a command, from the server of `key`.
    ///
    /// # Errors
    /// See [`Fault`]. After a temporary one it is not known whether the command was executed.
    pub async fn call(&self, key: &str, command: &Cmd, again: Again) -> Result<Value, Fault> {
        self.send(key, command, again, Partly::Follow).await
    }

    async fn send(
        &self,
        key: &str,
        command: &Cmd,
        again: Again,
        partly: Partly,
    ) -> Result<Value, Fault> {
        let until = Instant::now() + self.0.dialer.timeouts.dial;
        let (mut pause, mut asking) = (PAUSE, None);
        loop {
            let fault = match self.attempt(key, command, asking.take()).await {
                Ok(value) => return Ok(value),
                Err(Next::Moved(slot, node)) => {
                    self.0.locator.moved(slot, &node);
                    Fault::NoNode { slot }
                }
                Err(Next::Ask(node)) => {
                    asking = (partly == Partly::Follow).then(|| node.clone());
                    Fault::NoMaster { node }
                }
                Err(Next::Later(fault)) => {
                    self.0.locator.forget();
                    fault
                }
                Err(Next::Lost(fault)) => {
                    self.0.locator.forget();
                    if again == Again::No {
                        return Err(fault);
                    }
                    fault
                }
                Err(Next::Over(fault)) => return Err(fault),
            };
            if Instant::now() + pause >= until {
                return Err(fault);
            }
            sleep(pause).await;
            pause = LONGEST_PAUSE.min(pause * 2);
        }
    }

    /// The answer of a script, run as one step by the server of `key`, which is its `KEYS[1]`. All keys
    /// that it uses have to be in the same slot of a cluster; while that slot moves from one node to
    /// another, scripts wait.
    ///
    /// # Errors
    /// See [`call`](Self::call).
    pub async fn run<A: ToRedisArgs>(
        &self,
        script: &Script,
        key: &str,
        arguments: &A,
        again: Again,
    ) -> Result<Value, Fault> {
        let by_digest = script.by_digest(key, arguments);
        match self.send(key, &by_digest, again, Partly::Wait).await {
            Err(Fault::Refused { code, .. }) if &*code == "NOSCRIPT" => {
                let by_source = script.by_source(key, arguments);
                self.send(key, &by_source, again, Partly::Wait).await
            }
            answer => answer,
        }
    }

    /// What is published on `channel`, as the server of `key` tells it.
    #[must_use]
    pub fn subscribe(&self, key: impl Into<String>, channel: impl Into<String>) -> Subscription {
        Subscription::new(self.clone(), key.into(), channel.into())
    }

    pub(crate) fn dialer(&self) -> &Dialer {
        &self.0.dialer
    }

    pub(crate) fn locator(&self) -> &Locator {
        &self.0.locator
    }

    async fn attempt(&self, key: &str, command: &Cmd, asking: Option<Node>) -> Result<Value, Next> {
        let ask = asking.is_some();
        let node = match asking {
            Some(node) => node,
            None => self.0.locator.node(key).await.map_err(unreached)?,
        };
        let link = self.link(&node).await.map_err(unreached)?;
        let answer = if ask { link.send_asking(command).await } else { link.send(command).await };
        answer.map_err(|error| self.next(&error, &link))
    }

    fn next(&self, error: &RedisError, link: &Arc<Link>) -> Next {
        let node = &link.node;
        let fault = Fault::of(error, node);
        match error.kind() {
            ErrorKind::Server(kind) => match (kind, redirected(error, node)) {
                (ServerErrorKind::Moved, Some((slot, node))) => Next::Moved(slot, node),
                (ServerErrorKind::Ask, Some((_, node))) => Next::Ask(node),
                (
                    ServerErrorKind::TryAgain
                    | ServerErrorKind::BusyLoading
                    | ServerErrorKind::ClusterDown
                    | ServerErrorKind::MasterDown
                    | ServerErrorKind::ReadOnly,
                    _,
                ) => {
                    // Whoever is read-only stays connected and never becomes the right one.
                    self.close(link);
                    Next::Later(fault)
                }
                _ => Next::Over(fault),
            },
            ErrorKind::Io => {
                self.close(link);
                Next::Lost(fault)
            }
            _ => Next::Over(fault),
        }
    }

    async fn link(&self, node: &Node) -> Result<Arc<Link>, Fault> {
        if let Some(link) = self.links().get(node).filter(|link| link.is_open()) {
            return Ok(Arc::clone(link));
        }
        let (redis, to) = (self.clone(), node.clone());
        let dial = || async move {
            let link = redis.dialer().dial(&to).await?;
            if redis.locator().needs_master() && !is_master(&link).await? {
                return Err(Fault::NoMaster { node: to });
            }
            let link = Arc::new(link);
            let mut links = redis.links();
            links.retain(|_, link| link.is_open());
            links.insert(to, Arc::clone(&link));
            drop(links);
            Ok(link)
        };
        self.0.dialling.join(node.clone(), dial).await
    }

    fn close(&self, link: &Arc<Link>) {
        let mut links = self.links();
        if links.get(&link.node).is_some_and(|there| Arc::ptr_eq(there, link)) {
            links.remove(&link.node);
        }
    }

    fn links(&self) -> MutexGuard<'_, HashMap<Node, Arc<Link>>> {
        self.0.links.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Redis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Redis").field(&self.0.locator).finish()
    }
}

/// Nothing was sent.
fn unreached(fault: Fault) -> Next {
    if fault.is_temporary() { Next::Later(fault) } else { Next::Over(fault) }
}

/// Where an error points to. Without a host it is the one that answered.
fn redirected(error: &RedisError, node: &Node) -> Option<(u16, Node)> {
    let (address, slot) = error.redirect_node()?;
    let (host, port) = address.rsplit_once(':')?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let host = if host.is_empty() { node.host() } else { host };
    Some((slot, Node::new(host, port.parse().ok()?)))
}

/// What a server says of itself. One that may not be asked is believed to be the master: writing to
/// another one fails unseen.
async fn is_master(link: &Link) -> Result<bool, Fault> {
    let strange = || Fault::Strange { node: link.node.clone() };
    match link.send(&cmd("ROLE")).await {
        Ok(role) => {
            let role = role.into_sequence().ok().and_then(|role| role.into_iter().next());
            let role: String =
                from_redis_value(role.ok_or_else(strange)?).map_err(|_| strange())?;
            Ok(role == "master")
        }
        Err(error) => match Fault::of(&error, &link.node) {
            Fault::Denied { .. } => Ok(true),
            fault => Err(fault),
        },
    }
}
