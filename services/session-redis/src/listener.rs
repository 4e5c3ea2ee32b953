//! Background task: messages from and to the other replicas.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use vmcp_redis::{Idempotency, Subscription, cmd};
use vmcp_session::{SessionEvent, SessionId, StorageError, unix_millis};

use crate::arguments::Arguments;
use crate::health::Use;
use crate::inner::{Effect, Inner};
use crate::message::{Message, Tombstone};

/// Interval of the messages that tell that a replica runs.
const BEAT_INTERVAL: Duration = Duration::from_millis(250);

/// Timeout of such a message.
const BEAT_TIMEOUT: Duration = Duration::from_secs(1);

/// Time without messages after which the replica subscribes again.
const RESUBSCRIBE_AFTER: Duration = Duration::from_secs(3);

/// Pause between two attempts to subscribe, and to write while writes fail.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);

/// Interval in which expired tombstones are removed.
const SWEEP_INTERVAL: Duration = Duration::from_mins(1);

/// Overlap with the known tombstones when later ones are read, in microseconds: clocks of two servers may differ, and a server that
/// took over may have lost the last ones.
const MARGIN_MICROS: u64 = 60_000_000;

/// Number of tombstones that one script reads.
const PAGE: usize = 1000;

/// Number of tombstones that one script writes, and of sessions that it looks up.
const BATCH: usize = 100;

impl Inner {
    /// Publishes and receives messages until the task is aborted. Without a subscription, it begins with the startup checks.
    pub(crate) async fn run(self: Arc<Self>, subscription: Option<Subscription>) {
        let subscription = match subscription {
            Some(subscription) => subscription,
            None => self.wait_for_start().await,
        };
        tokio::join!(self.listen(subscription), self.beat(), self.heal(), self.sweep());
    }

    /// Repeats the startup checks until they pass.
    async fn wait_for_start(&self) -> Subscription {
        let mut is_reported = false;
        loop {
            sleep(RETRY_INTERVAL).await;
            match self.first_subscription().await {
                Ok(subscription) => {
                    self.health.succeed(Use::Subscribe);
                    return subscription;
                }
                Err(error) => {
                    // The state is `unavailable` already, but waiting does not end this error.
                    if !error.is_outage() && !is_reported {
                        tracing::error!(%error, "session storage cannot be used");
                        is_reported = true;
                    }
                    self.health.fail(Use::Subscribe, &error);
                }
            }
        }
    }

    async fn listen(&self, mut subscription: Subscription) {
        loop {
            self.receive_all(&mut subscription).await;
            subscription.disconnect().await;
            loop {
                match subscription.subscribe().await {
                    Ok(()) => break self.health.succeed(Use::Subscribe),
                    Err(error) => self.health.fail(Use::Subscribe, &error),
                }
                sleep(RETRY_INTERVAL).await;
            }
            // Messages wait in the subscription meanwhile.
            while self.synchronize().await.is_err() {
                sleep(RETRY_INTERVAL).await;
            }
        }
    }

    /// Receives messages until the subscription ends, or is silent for too long.
    async fn receive_all(&self, subscription: &mut Subscription) {
        while let Ok(Some(message)) = timeout(RESUBSCRIBE_AFTER, subscription.message()).await {
            // Messages of one connection are in order: none before this one is missing.
            self.replica.hear();
            if let Some(message) = Message::parse(&message) {
                self.replica.receive(message, unix_millis(&self.clock));
            }
        }
    }

    /// Reads and writes what messages may have missed.
    async fn synchronize(&self) -> Result<(), StorageError> {
        // First: a session that ends now may have lost its record before.
        self.replica.events.add(SessionEvent::MessagesMissed);
        self.read_tombstones().await?;
        self.write_own_tombstones().await?;
        self.look_up_streams().await?;
        self.replica.hear();
        Ok(())
    }

    /// Reads the tombstones that are newer than the known ones.
    async fn read_tombstones(&self) -> Result<(), StorageError> {
        let mut from = self.replica.last_score().saturating_sub(MARGIN_MICROS);
        loop {
            let arguments = self.arguments().text(from.to_string()).number(PAGE);
            let script = &self.scripts.ended_since;
            let mut reply = self.run_script(script, arguments, Effect::Any).await?;
            let time: u64 = reply.get()?.unwrap_or_default();
            let tombstones = reply.pairs()?.unwrap_or_default();
            for (tombstone, score) in &tombstones {
                let text = |bytes| str::from_utf8(bytes).ok();
                let score = text(score).and_then(|score| score.parse().ok());
                from = score.unwrap_or(from);
                // An unreadable tombstone must not hide the others.
                let tombstone = text(tombstone).and_then(Tombstone::parse);
                let (Some(score), Some(tombstone)) = (score, tombstone) else { continue };
                self.replica.receive(Message::Ended { score, tombstone }, unix_millis(&self.clock));
            }
            if tombstones.len() < PAGE {
                self.replica.set_last_score(time);
                return Ok(());
            }
        }
    }

    /// Writes the tombstones of this replica again, which a server that took over may have lost.
    async fn write_own_tombstones(&self) -> Result<(), StorageError> {
        for batch in self.replica.own_tombstones().chunks(BATCH) {
            let arguments = batch.iter().flat_map(Tombstone::arguments);
            let arguments = arguments.fold(self.arguments(), Arguments::text);
            self.run_script(&self.scripts.end_again, arguments, Effect::Any).await?;
        }
        Ok(())
    }

    /// Finds out which streams other replicas took over. The other ones may have changed.
    async fn look_up_streams(&self) -> Result<(), StorageError> {
        for batch in self.replica.streams.all().chunks(BATCH) {
            let ids = batch.iter().map(|(id, _)| id.to_string());
            let arguments = ids.fold(self.arguments(), Arguments::text);
            let script = &self.scripts.held_streams;
            let mut reply = self.run_script(script, arguments, Effect::Any).await?;
            let moved: Vec<String> = reply.get()?.unwrap_or_default();
            let moved: Vec<_> =
                moved.iter().filter_map(|id| SessionId::parse(id.as_bytes())).collect();
            for (id, number) in batch {
                if !moved.contains(id) {
                    self.replica.events.add(SessionEvent::Changed(*id));
                } else if self.replica.streams.remove_taken(*id, *number) {
                    self.replica.events.add(SessionEvent::StreamMoved(*id));
                }
            }
        }
        Ok(())
    }

    /// Tells the other replicas, and itself, that this one runs.
    async fn beat(&self) {
        let mut interval = interval(BEAT_INTERVAL);
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            interval.tick().await;
            let mut publish = cmd("PUBLISH");
            let handle = self.replica.handle();
            publish.arg(self.channel()).arg(Message::beat(&self.replica.name, handle.as_deref()));
            let call = self.redis.call(&self.prefix, &publish, Idempotency::Idempotent);
            match timeout(BEAT_TIMEOUT, call).await {
                Ok(Ok(_)) => self.health.succeed(Use::Publish),
                Ok(Err(error)) => self.health.fail(Use::Publish, &error),
                Err(_) => self.health.fail(Use::Publish, &"Redis did not respond in time"),
            }
        }
    }

    /// Tries to write while writes fail, so that the state is right without requests.
    async fn heal(&self) {
        loop {
            sleep(RETRY_INTERVAL).await;
            if self.health.is_failing(Use::Step) {
                // An error is the state.
                _ = self.run_script(&self.scripts.write, self.arguments(), Effect::Write).await;
            }
        }
    }

    async fn sweep(&self) {
        loop {
            sleep(SWEEP_INTERVAL).await;
            self.replica.sweep(unix_millis(&self.clock));
        }
    }
}
