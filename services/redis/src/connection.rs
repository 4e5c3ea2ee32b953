//! One multiplexed connection, shared by all callers.
//!
//! A connection that the `redis` crate opens itself does not reveal whether it is still open, which the test
//! `connection_closed_while_idle_fails_no_command` requires.

use std::fmt;
use std::future::Future;

use redis::aio::MultiplexedConnection;
use redis::{Cmd, ErrorKind, Pipeline, RedisError, Value};
use tokio::task::JoinHandle;

use crate::Node;

/// Connection to one server. It closes when its last owner is dropped.
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

    /// Returns whether the connection is open, as far as this end knows.
    pub(crate) fn is_open(&self) -> bool {
        !self.driver.is_finished()
    }

    pub(crate) async fn send(&self, command: &Cmd) -> Result<Value, RedisError> {
        let response = self.inner.clone().send_packed_command(command).await?;
        response.extract_error()
    }

    /// Sends a command to the node that is importing its slot (`ASKING`).
    pub(crate) async fn send_asking(&self, command: &Cmd) -> Result<Value, RedisError> {
        let mut pipeline = Pipeline::with_capacity(2);
        pipeline.cmd("ASKING").add_command(command.clone());
        let responses = self.inner.clone().send_packed_commands(&pipeline, 1, 1).await?;
        let missing =
            || RedisError::from((ErrorKind::UnexpectedReturnType, "no response to ASKING"));
        responses.into_iter().next().ok_or_else(missing)?.extract_error()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Connection").field(&self.node).finish()
    }
}
