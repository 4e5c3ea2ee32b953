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

use crate::connection::Connection;
use crate::dialer::Dialer;
use crate::locator::Locator;
use crate::{Error, Node, Script, Settings, Subscription};

/// Between two attempts: at first, and at most.
const INITIAL_BACKOFF: Duration = Duration::from_millis(20);
const MAX_BACKOFF: Duration = Duration::from_millis(500);

/// Redis. A clone shares the connections.
#[derive(Clone)]
pub struct Redis(Arc<Inner>);

struct Inner {
    dialer: Dialer,
    locator: Locator,
    connections: Mutex<HashMap<Node, Arc<Connection>>>,
    dials: Flights<Node, Result<Arc<Connection>, Error>>,
}

/// Whether a command may be sent again of which it is not known whether it was executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Idempotency {
    /// It changes nothing, or the same as before.
    Idempotent,
    /// Executing it twice is not the same as once.
    NotIdempotent,
}

/// What to do while only some keys of a slot are where they will be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AskPolicy {
    /// Ask there for the one key.
    Follow,
    /// Wait until all of them are.
    Wait,
}

/// What to do after an attempt that failed.
enum RetryAction {
    /// The server knows who serves the slot from now on.
    Moved(u16, Node),
    /// It knows who serves the slot this once.
    Ask(Node),
    /// It refused unseen, or was not reached: perhaps somebody else does better, in a while.
    Backoff(Error),
    /// The answer got lost.
    ResponseLost(Error),
    /// There is no use in trying again.
    Fail(Error),
}

// === impl Redis ===

impl Redis {
    /// Finds Redis and sends a `PING`, so that what is wrong with the settings is known at once.
    ///
    /// # Errors
    /// It cannot be found or reached, or doesn't accept who asks.
    pub async fn connect(settings: Settings) -> Result<Self, Error> {
        let redis = Self::connect_lazy(settings);
        redis.call("", &cmd("PING"), Idempotency::Idempotent).await?;
        Ok(redis)
    }

    /// Connects when the first command is sent.
    #[must_use]
    pub fn connect_lazy(settings: Settings) -> Self {
        let Settings { address, credentials, tls, timeouts } = settings;
        let database = match &address {
            crate::Address::Sentinel(sentinel) => sentinel.database,
            crate::Address::Standalone(_) | crate::Address::Cluster(_) => 0,
        };
        let dialer = Dialer { credentials, tls, timeouts, database };
        let locator = Locator::new(address, dialer.clone());
        let (connections, dials) = (Mutex::default(), Flights::new());
        Self(Arc::new(Inner { dialer, locator, connections, dials }))
    }

    /// The answer to a command, from the server of `key`.
    ///
    /// # Errors
    /// See [`Error`]. After a temporary one it is not known whether the command was executed.
    pub async fn call(
        &self,
        key: &str,
        command: &Cmd,
        idempotency: Idempotency,
    ) -> Result<Value, Error> {
        self.send(key, command, idempotency, AskPolicy::Follow).await
    }

    async fn send(
        &self,
        key: &str,
        command: &Cmd,
        idempotency: Idempotency,
        ask_policy: AskPolicy,
    ) -> Result<Value, Error> {
        let deadline = Instant::now() + self.0.dialer.timeouts.dial;
        let (mut backoff, mut asking) = (INITIAL_BACKOFF, None);
        loop {
            let error = match self.attempt(key, command, asking.take()).await {
                Ok(value) => return Ok(value),
                Err(RetryAction::Moved(slot, node)) => {
                    self.0.locator.record_move(slot, &node);
                    Error::SlotUnassigned { slot }
                }
                Err(RetryAction::Ask(node)) => {
                    asking = (ask_policy == AskPolicy::Follow).then(|| node.clone());
                    Error::NotMaster { node }
                }
                Err(RetryAction::Backoff(error)) => {
                    self.0.locator.invalidate();
                    error
                }
                Err(RetryAction::ResponseLost(error)) => {
                    self.0.locator.invalidate();
                    if idempotency == Idempotency::NotIdempotent {
                        return Err(error);
                    }
                    error
                }
                Err(RetryAction::Fail(error)) => return Err(error),
            };
            if Instant::now() + backoff >= deadline {
                return Err(error);
            }
            sleep(backoff).await;
            backoff = MAX_BACKOFF.min(backoff * 2);
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
        idempotency: Idempotency,
    ) -> Result<Value, Error> {
        let evalsha = script.evalsha(key, arguments);
        match self.send(key, &evalsha, idempotency, AskPolicy::Wait).await {
            Err(Error::CommandFailed { code, .. }) if &*code == "NOSCRIPT" => {
                let eval = script.eval(key, arguments);
                self.send(key, &eval, idempotency, AskPolicy::Wait).await
            }
            response => response,
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

    async fn attempt(
        &self,
        key: &str,
        command: &Cmd,
        asking: Option<Node>,
    ) -> Result<Value, RetryAction> {
        let is_asking = asking.is_some();
        let node = match asking {
            Some(node) => node,
            None => self.0.locator.node(key).await.map_err(before_send)?,
        };
        let connection = self.connection(&node).await.map_err(before_send)?;
        let response = if is_asking {
            connection.send_asking(command).await
        } else {
            connection.send(command).await
        };
        response.map_err(|error| self.retry_action(&error, &connection))
    }

    fn retry_action(&self, error: &RedisError, connection: &Arc<Connection>) -> RetryAction {
        let node = &connection.node;
        let failure = Error::from_redis(error, node);
        match error.kind() {
            ErrorKind::Server(kind) => match (kind, redirect_target(error, node)) {
                (ServerErrorKind::Moved, Some((slot, node))) => RetryAction::Moved(slot, node),
                (ServerErrorKind::Ask, Some((_, node))) => RetryAction::Ask(node),
                (
                    ServerErrorKind::TryAgain
                    | ServerErrorKind::BusyLoading
                    | ServerErrorKind::ClusterDown
                    | ServerErrorKind::MasterDown
                    | ServerErrorKind::ReadOnly,
                    _,
                ) => {
                    // Whoever is read-only stays connected and never becomes the right one.
                    self.close(connection);
                    RetryAction::Backoff(failure)
                }
                _ => RetryAction::Fail(failure),
            },
            ErrorKind::Io => {
                self.close(connection);
                RetryAction::ResponseLost(failure)
            }
            _ => RetryAction::Fail(failure),
        }
    }

    async fn connection(&self, node: &Node) -> Result<Arc<Connection>, Error> {
        if let Some(connection) =
            self.connections().get(node).filter(|connection| connection.is_open())
        {
            return Ok(Arc::clone(connection));
        }
        let (redis, to) = (self.clone(), node.clone());
        let dial = || async move {
            let connection = redis.dialer().dial(&to).await?;
            if redis.locator().needs_master() && !is_master(&connection).await? {
                return Err(Error::NotMaster { node: to });
            }
            let connection = Arc::new(connection);
            let mut connections = redis.connections();
            connections.retain(|_, connection| connection.is_open());
            connections.insert(to, Arc::clone(&connection));
            drop(connections);
            Ok(connection)
        };
        self.0.dials.join(node.clone(), dial).await
    }

    fn close(&self, connection: &Arc<Connection>) {
        let mut connections = self.connections();
        if connections.get(&connection.node).is_some_and(|current| Arc::ptr_eq(current, connection))
        {
            connections.remove(&connection.node);
        }
    }

    fn connections(&self) -> MutexGuard<'_, HashMap<Node, Arc<Connection>>> {
        self.0.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Redis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Redis").field(&self.0.locator).finish()
    }
}

/// Nothing was sent.
fn before_send(error: Error) -> RetryAction {
    if error.is_temporary() { RetryAction::Backoff(error) } else { RetryAction::Fail(error) }
}

/// Where an error points to. Without a host it is the one that answered.
fn redirect_target(error: &RedisError, node: &Node) -> Option<(u16, Node)> {
    let (address, slot) = error.redirect_node()?;
    let (host, port) = address.rsplit_once(':')?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let host = if host.is_empty() { node.host() } else { host };
    Some((slot, Node::new(host, port.parse().ok()?)))
}

/// What a server says of itself. One that may not be asked is believed to be the master: writing to
/// another one fails unseen.
async fn is_master(connection: &Connection) -> Result<bool, Error> {
    let unexpected = || Error::UnexpectedResponse { node: connection.node.clone() };
    match connection.send(&cmd("ROLE")).await {
        Ok(role) => {
            let role = role.into_sequence().ok().and_then(|role| role.into_iter().next());
            let role: String =
                from_redis_value(role.ok_or_else(unexpected)?).map_err(|_| unexpected())?;
            Ok(role == "master")
        }
        Err(error) => match Error::from_redis(&error, &connection.node) {
            Error::PermissionDenied { .. } => Ok(true),
            error => Err(error),
        },
    }
}
