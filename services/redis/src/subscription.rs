//! Subscriptions to Pub/Sub channels.

use std::fmt;
use std::time::Duration;

use futures_util::StreamExt;
use redis::aio::{PubSubSink, PubSubStream};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::{Error, Node, Redis};

/// Interval between two checks of the connection and of the server's role.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// First and longest wait between two attempts to connect.
const INITIAL_BACKOFF: Duration = Duration::from_millis(100);
const MAX_BACKOFF: Duration = Duration::from_secs(5);

/// Subscription to a channel. It reconnects until it is dropped.
pub struct Subscription {
    redis: Redis,
    key: String,
    channel: String,
    connection: Option<SubscriberConnection>,
    backoff: Duration,
}

/// Event of a subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The subscription is active. Messages that were published before may have been lost.
    Subscribed,
    /// Message on the channel.
    Message(Vec<u8>),
}

struct SubscriberConnection {
    node: Node,
    sink: PubSubSink,
    stream: PubSubStream,
    next_check: Instant,
}

impl Subscription {
    pub(crate) fn new(redis: Redis, key: String, channel: String) -> Self {
        Self { redis, key, channel, connection: None, backoff: INITIAL_BACKOFF }
    }

    /// Subscribes now, unless the subscription is active. Reports wrong settings before the first
    /// call of [`next`](Self::next).
    ///
    /// # Errors
    /// The server cannot be found or reached, or its ACL denies the subscription.
    pub async fn subscribe(&mut self) -> Result<(), Error> {
        if self.connection.is_none() {
            self.connection = Some(self.connect().await?);
        }
        Ok(())
    }

    /// Closes the connection and waits. The next event is [`Event::Subscribed`].
    pub async fn disconnect(&mut self) {
        self.drop_connection();
        self.pause().await;
    }

    /// Waits before the next attempt to connect, each time longer until a connection delivers a
    /// message or passes a check.
    async fn pause(&mut self) {
        let backoff = self.backoff;
        self.backoff = MAX_BACKOFF.min(backoff * 2);
        sleep(backoff).await;
    }

    /// Returns the next event. Waits without a limit, also for Redis to recover. Cancel safe:
    /// dropping the future loses no event.
    pub async fn next(&mut self) -> Event {
        loop {
            if self.connection.is_none() {
                match self.connect().await {
                    Ok(connection) => {
                        self.connection = Some(connection);
                        return Event::Subscribed;
                    }
                    Err(error) => {
                        tracing::warn!(%error, "failed to subscribe to Redis");
                        self.pause().await;
                        continue;
                    }
                }
            }
            match self.message().await {
                Some(message) => return Event::Message(message),
                None => self.pause().await,
            }
        }
    }

    /// Returns the next message, or `None` if the subscription is not active any more: it waits for no reconnection. Cancel safe:
    /// dropping the future loses no message.
    pub async fn message(&mut self) -> Option<Vec<u8>> {
        loop {
            let connection = self.connection.as_mut()?;
            match timeout_at(connection.next_check, connection.stream.next()).await {
                Ok(Some(message)) => {
                    self.backoff = INITIAL_BACKOFF;
                    return Some(message.get_payload_bytes().to_vec());
                }
                Ok(None) => self.drop_connection(),
                Err(_) => self.check_connection().await,
            }
        }
    }

    async fn connect(&self) -> Result<SubscriberConnection, Error> {
        let node = self.redis.server(&self.key).await?;
        let connecting = self.redis.dialer().connect_pub_sub(&node, &self.channel).await;
        let pub_sub = connecting.inspect_err(|_| self.redis.forget(&node))?;
        let (sink, stream) = pub_sub.split();
        Ok(SubscriberConnection { node, sink, stream, next_check: Instant::now() + CHECK_INTERVAL })
    }

    fn drop_connection(&mut self) {
        if let Some(connection) = self.connection.take() {
            self.redis.forget(&connection.node);
        }
    }

    async fn check_connection(&mut self) {
        let limit = self.redis.dialer().timeouts.read;
        let Some(connection) = &mut self.connection else { return };
        connection.next_check = Instant::now() + CHECK_INTERVAL;
        let is_alive =
            matches!(timeout(limit, connection.sink.ping::<redis::Value>()).await, Ok(Ok(_)));
        let node = self.redis.server(&self.key).await;
        let has_moved = node.is_ok_and(|node| node != connection.node);
        if !is_alive || has_moved {
            self.drop_connection();
        } else {
            self.backoff = INITIAL_BACKOFF;
        }
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").field("channel", &self.channel).finish_non_exhaustive()
    }
}
