//! One connection, shared by all that send commands.

use std::fmt;
use std::future::Future;

use redis::aio::MultiplexedConnection;
use redis::{Cmd, Pipeline, RedisError, Value};
use tokio::task::JoinHandle;

use crate::Node;

/// A connection. It closes when the last user lets go of it.
pub(crate) struct Connection {
    pub(crate) node: Node,
    inner: MultiplexedConnection,
    driver: JoinHandle<()>,
}

impl Connection {
    pub(crate) fn new(
        node: Node,
        inner: MultiplexedConnection,
        driver: impl Future<Output = ()> + Send + 'static,
    ) -> Self {
        Self { node, inner, driver: tokio::spawn(driver) }
    }

    /// Whether the other end has not hung up, as far as is known.
    pub(crate) fn is_open(&self) -> bool {
        !self.driver.is_finished()
    }

    pub(crate) async fn send(&self, command: &Cmd) -> Result<Value, RedisError> {
        let response = self.inner.clone().send_packed_command(command).await?;
        response.extract_error()
    }

    /// Sends a command to a node that is about to serve its slot.
    pub(crate) async fn send_asking(&self, command: &Cmd) -> Result<Value, RedisError> {
        let mut pipeline = Pipeline::with_capacity(2);
        pipeline.cmd("ASKING").add_command(command.clone());
        let responses = self.inner.clone().send_packed_commands(&pipeline, 1, 1).await?;
        responses.into_iter().next().unwrap_or(Value::Nil).extract_error()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Link").field(&self.node).finish()
    }
}
