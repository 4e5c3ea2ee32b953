//! Redis client: one connection per server, redirections and retries.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use redis::{
    Cmd, ErrorKind, RedisError, ServerErrorKind, ToRedisArgs, Value, cmd, from_redis_value,
};
use tokio::time::{Instant, sleep};
use vmcp_core::SingleFlight;

use crate::connection::Connection;
use crate::dialer::Dialer;
use crate::locator::{Locator, Topology};
use crate::{Error, Node, Script, Settings, Subscription};

/// First and longest wait between two attempts.
const INITIAL_BACKOFF: Duration = Duration::from_millis(20);
const MAX_BACKOFF: Duration = Duration::from_millis(500);

/// Redis client. Clones share the connections.
#[derive(Clone)]
pub struct Redis(Arc<Inner>);

struct Inner {
    dialer: Dialer,
    locator: Locator,
    lookups: SingleFlight<(), Result<Topology, Error>>,
    connections: Mutex<HashMap<Node, Arc<Connection>>>,
    dials: SingleFlight<Node, Result<Arc<Connection>, Error>>,
}

/// Declares whether a command may be retried after its response was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Idempotency {
    /// Executing the command twice has the effect of executing it once.
    Idempotent,
    /// Executing the command twice has another effect than executing it once.
    NotIdempotent,
}

/// Reaction to `ASK`, the redirection of a slot that is being migrated.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AskPolicy {
    /// Follow the redirection for this key.
    Follow,
    /// Wait until the migration has finished.
    Wait,
}

/// Next step after a failed attempt.
enum RetryAction {
    /// Retry at the node that now serves the slot (`MOVED`).
    Moved(u16, Node),
    /// Retry once at the node that imports the slot (`ASK`).
    Ask(Node),
    /// Retry after a pause: the command was not executed.
    Backoff(Error),
    /// The response was lost: retry only an idempotent command.
    ResponseLost(Error),
    /// Return the error: a retry cannot succeed.
    Fail(Error),
}

// === impl Redis ===

impl Redis {
    /// Connects and sends a `PING`, so that wrong settings are reported at once.
    ///
    /// # Errors
    /// The server cannot be found or reached, or rejects the credentials.
    pub async fn connect(settings: Settings) -> Result<Self, Error> {
        let redis = Self::connect_lazy(settings);
        redis.call("", &cmd("PING"), Idempotency::Idempotent).await?;
        Ok(redis)
    }

    /// Returns a client that connects when the first command is sent.
    #[must_use]
    pub fn connect_lazy(settings: Settings) -> Self {
        let Settings { address, credentials, tls, timeouts } = settings;
        let database = match &address {
            crate::Address::Sentinel(sentinel) => sentinel.database,
            crate::Address::Database(_, number) => *number,
            crate::Address::Standalone(_) | crate::Address::Cluster(_) => 0,
        };
        let dialer = Dialer { credentials, tls, timeouts, database };
        let locator = Locator::new(address, dialer.clone());
        Self(Arc::new(Inner {
            dialer,
            locator,
            lookups: SingleFlight::new(),
            connections: Mutex::default(),
            dials: SingleFlight::new(),
        }))
    }

    /// Sends a command to the server of `key` and returns the response.
    ///
    /// # Errors
    /// See [`Error`]. After a temporary error the server may have executed the command.
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
                Err(RetryAction::ResponseLost(error))
                    if idempotency == Idempotency::NotIdempotent =>
                {
                    return Err(error);
                }
                Err(RetryAction::Backoff(error) | RetryAction::ResponseLost(error)) => error,
                Err(RetryAction::Fail(error)) => return Err(error),
            };
            if Instant::now() + backoff >= deadline {
                return Err(error);
            }
            sleep(backoff).await;
            backoff = MAX_BACKOFF.min(backoff * 2);
        }
    }

    /// Runs a script atomically on the server of `key`, which is its `KEYS[1]`, and returns the
    /// response. All keys of the script must belong to one slot of a cluster. While that slot is
    /// being migrated, scripts wait.
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

    /// Returns the number of the database. Channels do not belong to one.
    #[must_use]
    pub fn database(&self) -> u32 {
        self.0.dialer.database
    }

    /// Subscribes to `channel` on the server of `key`.
    #[must_use]
    pub fn subscribe(&self, key: impl Into<String>, channel: impl Into<String>) -> Subscription {
        Subscription::new(self.clone(), key.into(), channel.into())
    }

    pub(crate) fn dialer(&self) -> &Dialer {
        &self.0.dialer
    }

    /// Returns the server of a key. Concurrent lookups share one query.
    pub(crate) async fn server(&self, key: &str) -> Result<Node, Error> {
        if let Some(node) = self.0.locator.cached(key) {
            return Ok(node);
        }
        let redis = self.clone();
        let query = || async move { redis.0.locator.query().await };
        self.0.lookups.join((), query).await?.server(key)
    }

    /// Queries the server of its keys again after an error of a server.
    pub(crate) fn forget(&self, node: &Node) {
        self.0.locator.forget(node);
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
            None => self.server(key).await.map_err(before_send)?,
        };
        let connection = self.connection(&node).await.map_err(|error| {
            self.forget(&node);
            before_send(error)
        })?;
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
                    // A replica keeps its connections open and never becomes the right server.
                    self.close(connection);
                    self.forget(node);
                    RetryAction::Backoff(failure)
                }
                _ => RetryAction::Fail(failure),
            },
            ErrorKind::Io => {
                self.close(connection);
                self.forget(node);
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
            if redis.0.locator.needs_master() && !is_master(&connection).await? {
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
        vmcp_core::lock(&self.0.connections)
    }
}

impl fmt::Debug for Redis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Redis").field(&self.0.locator).finish()
    }
}

/// Classifies an error that occurred before the command was sent.
fn before_send(error: Error) -> RetryAction {
    if error.is_temporary() { RetryAction::Backoff(error) } else { RetryAction::Fail(error) }
}

/// Returns the target of a redirection. An empty host means the redirecting server.
fn redirect_target(error: &RedisError, node: &Node) -> Option<(u16, Node)> {
    let (address, slot) = error.redirect_node()?;
    let (host, port) = address.rsplit_once(':')?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let host = if host.is_empty() { node.host() } else { host };
    Some((slot, Node::new(host, port.parse().ok()?)))
}

/// Returns whether a server reports itself as a master. A server whose ACL denies `ROLE` counts as
/// a master: a replica would reject the write without executing it.
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
