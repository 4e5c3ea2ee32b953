//! One connection, shared by all that send commands.

use std::fmt;
use std::future::Future;

use redis::aio::MultiplexedConnection;
use redis::{Cmd, Pipeline, RedisError, Value};
use tokio::task::JoinHandle;

use crate::Node;

/// A connection. It closes when the last user lets go of it.
pub(crate) struct Link {
    pub(crate) node: Node,
    connection: MultiplexedConnection,
    driver: JoinHandle<()>,
}

impl Link {
    pub(crate) fn new(
        node: Node,
        connection: MultiplexedConnection,
        driver: impl Future<Output = ()> + Send + 'static,
    ) -> Self {
        Self { node, connection, driver: tokio::spawn(driver) }
    }

    /// Whether the other end has not hung up, as far as is known.
    pub(crate) fn is_open(&self) -> bool {
        !self.driver.is_finished()
    }

    pub(crate) async fn send(&self, command: &Cmd) -> Result<Value, RedisError> {
        let answer = self.connection.clone().send_packed_command(command).await?;
        answer.extract_error()
    }

    /// Sends a command to a node that is about to serve its slot.
    pub(crate) async fn send_asking(&self, command: &Cmd) -> Result<Value, RedisError> {
        let mut pipeline = Pipeline::with_capacity(2);
        pipeline.cmd("ASKING").add_command(command.clone());
        let answers = self.connection.clone().send_packed_commands(&pipeline, 1, 1).await?;
        answers.into_iter().next().unwrap_or(Value::Nil).extract_error()
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Link").field(&self.node).finish()
    }
}
