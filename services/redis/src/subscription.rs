//! Hearing what is published.

use std::fmt;
use std::time::Duration;

use futures_util::StreamExt;
use redis::aio::{PubSubSink, PubSubStream};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::{Fault, Node, Redis};

/// How often it is asked whether the other end is still there, and still the right one.
const EVERY: Duration = Duration::from_secs(5);

/// Between two attempts to connect: at first, and at most.
const PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// What is published on a channel. It connects anew for as long as somebody listens.
pub struct Subscription {
    redis: Redis,
    key: String,
    channel: String,
    heard: Option<Heard>,
    pause: Duration,
}

/// What a subscription tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// From now on messages are heard; what was published before may have been missed.
    Joined,
    /// A message.
    Message(Vec<u8>),
}

struct Heard {
    node: Node,
    sink: PubSubSink,
    stream: PubSubStream,
    check: Instant,
}

impl Subscription {
    pub(crate) fn new(redis: Redis, key: String, channel: String) -> Self {
        Self { redis, key, channel, heard: None, pause: PAUSE }
    }

    /// Subscribes, unless it is subscribed already. For who wants to know whether it works before
    /// listening.
    ///
    /// # Errors
    /// The server cannot be found or reached, or doesn't let this user listen.
    pub async fn join(&mut self) -> Result<(), Fault> {
        if self.heard.is_none() {
            self.heard = Some(self.connect().await?);
        }
        Ok(())
    }

    /// Gives up the connection: the next event is [`Event::Joined`] anew, after a while.
    pub async fn leave(&mut self) {
        self.lost();
        sleep(self.pause).await;
        self.pause = LONGEST_PAUSE.min(self.pause * 2);
    }

    /// What happens next. Waits for as long as it takes, also for Redis to come back; nothing is lost
    /// when it is not waited for to the end.
    pub async fn next(&mut self) -> Event {
        loop {
            let Some(heard) = &mut self.heard else {
                match self.connect().await {
                    Ok(heard) => {
                        self.pause = PAUSE;
                        self.heard = Some(heard);
                        return Event::Joined;
                    }
                    Err(fault) => {
                        tracing::warn!(%fault, "messages from Redis are not heard");
                        self.redis.locator().forget();
                        sleep(self.pause).await;
                        self.pause = LONGEST_PAUSE.min(self.pause * 2);
                        continue;
                    }
                }
            };
            match timeout_at(heard.check, heard.stream.next()).await {
                Ok(Some(message)) => return Event::Message(message.get_payload_bytes().to_vec()),
                Ok(None) => self.lost(),
                Err(_) => self.check().await,
            }
        }
    }

    async fn connect(&self) -> Result<Heard, Fault> {
        let node = self.redis.locator().node(&self.key).await?;
        let listening = self.redis.dialer().listen(&node, &self.channel).await?;
        let (sink, stream) = listening.split();
        Ok(Heard { node, sink, stream, check: Instant::now() + EVERY })
    }

    fn lost(&mut self) {
        self.heard = None;
        self.redis.locator().forget();
    }

    async fn check(&mut self) {
        let within = self.redis.dialer().timeouts.read;
        let Some(heard) = &mut self.heard else { return };
        heard.check = Instant::now() + EVERY;
        let answers = matches!(timeout(within, heard.sink.ping::<redis::Value>()).await, Ok(Ok(_)));
        let node = self.redis.locator().node(&self.key).await;
        let elsewhere = node.is_ok_and(|node| node != heard.node);
        if !answers || elsewhere {
            self.lost();
        }
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").field("channel", &self.channel).finish_non_exhaustive()
    }
}
