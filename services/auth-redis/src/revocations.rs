//! Delivery of revocations to all replicas.

use std::collections::VecDeque;

use futures_util::stream::{self, BoxStream, StreamExt};
use vmcp_auth_store::{Revocation, StoreError};
use vmcp_redis::{Event, Idempotency, Subscription, cmd, from_redis_value};

use crate::reply::{Reply, parse_revocation};
use crate::store::{RedisStore, unavailable};

struct Listener {
    store: RedisStore,
    subscription: Subscription,
    /// Revocations that are not yet delivered.
    recent: VecDeque<Revocation>,
}

impl RedisStore {
    pub(crate) async fn listen(&self) -> Result<BoxStream<'static, Revocation>, StoreError> {
        let mut subscription = self.redis().subscribe(self.prefix(), self.channel());
        // Subscribe before reading: a revocation in between is delivered twice rather than never.
        subscription.subscribe().await.map_err(|error| unavailable(&error))?;
        let recent = self.recent().await?;
        let listener = Listener { store: self.clone(), subscription, recent };
        Ok(stream::unfold(listener, Listener::next).boxed())
    }

    async fn recent(&self) -> Result<VecDeque<Revocation>, StoreError> {
        let mut command = cmd("ZRANGEBYSCORE");
        let now = self.now().millis();
        command.arg(self.key("revoked", "")).arg(format!("({now}")).arg("+inf");
        let answer = self.redis().call(self.prefix(), &command, Idempotency::Idempotent).await;
        let members = Reply::new(answer.map_err(|error| unavailable(&error))?)?.rest();
        // An unreadable revocation must not hide the others.
        let read = |member| match from_redis_value::<Vec<u8>>(member) {
            Ok(member) => decode_revocation(&member),
            Err(error) => {
                tracing::error!(%error, "failed to read a revocation; ignored");
                None
            }
        };
        Ok(members.filter_map(read).collect())
    }
}

impl Listener {
    async fn next(mut self) -> Option<(Revocation, Self)> {
        loop {
            if let Some(revocation) = self.recent.pop_front() {
                return Some((revocation, self));
            }
            match self.subscription.next().await {
                Event::Subscribed => self.reload_recent().await,
                Event::Message(message) => {
                    if let Some(revocation) = decode_revocation(&message) {
                        return Some((revocation, self));
                    }
                }
            }
        }
    }

    /// Reloads recent revocations after an interruption, which may have hidden some.
    async fn reload_recent(&mut self) {
        match self.store.recent().await {
            Ok(recent) => self.recent = recent,
            // The subscription is broken as well: the reload repeats after it reconnects.
            Err(_) => self.subscription.disconnect().await,
        }
    }
}

/// Parses a revocation; logs an unreadable one.
fn decode_revocation(text: &[u8]) -> Option<Revocation> {
    let read = parse_revocation(&String::from_utf8_lossy(text));
    read.inspect_err(|error| {
        tracing::error!(%error, "failed to read a revocation; ignored");
    })
    .ok()
}
