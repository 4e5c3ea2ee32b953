//! Steps of the storage.

use std::time::Duration;

use tokio::time::timeout;
use vmcp_redis::Script;
use vmcp_session::{
    BackendEntry, EntryTag, MAX_RECORD_BYTES, MAX_SUBSCRIPTIONS, Replacement, RestoredRecord,
    SessionEvent, SessionKey, SessionRecord, StorageError, unix_millis,
};

use crate::arguments::Arguments;
use crate::health::Use;
use crate::inner::{Effect, Inner};
use crate::message::Tombstone;
use crate::record::ValueSeal;
use crate::reply::{Reply, Status};

/// Timeout of a check, which precedes a request of a client.
const CHECK_TIMEOUT: Duration = Duration::from_millis(500);

/// Number of sessions that one script touches.
const BATCH: usize = 256;

impl Inner {
    pub(crate) async fn create(&self, session: &SessionKey) -> Result<(), StorageError> {
        let mut reply = self.step(&self.scripts.create, session, |arguments| arguments).await?;
        let Some(until) = reply.get::<u64>()? else { return Ok(()) };
        if until > 0 {
            let tombstone = Tombstone::AllOfOwner { owner: session.owner, until };
            self.replica.bury(&tombstone, 0, unix_millis(&self.clock));
        }
        Err(StorageError::Ended)
    }

    pub(crate) async fn restore(
        &self,
        session: &SessionKey,
    ) -> Result<RestoredRecord, StorageError> {
        let mut reply = self.step(&self.scripts.restore, session, |arguments| arguments).await?;
        let fields = reply.pairs()?.unwrap_or_default();
        self.values(session).open_record(&fields)
    }

    pub(crate) async fn replace_backend_session(
        &self,
        session: &SessionKey,
        backend: &str,
        expected: Option<EntryTag>,
        value: Option<Vec<u8>>,
    ) -> Result<Replacement, StorageError> {
        let values = self.values(session);
        limit(value.as_ref().map_or(0, Vec::len) + backend.len())?;
        let sealed = value.map(|value| values.entry(backend, &value)).transpose()?;
        let (tag, sealed) = sealed.map_or((None, Vec::new()), |(tag, sealed)| (Some(tag), sealed));
        let expected = expected.map(|tag| tag.0.to_vec()).unwrap_or_default();
        let with = |arguments: Arguments| {
            arguments.text(backend).text(expected).text(sealed).number(MAX_RECORD_BYTES)
        };
        let mut reply = self.step(&self.scripts.replace_backend_session, session, with).await?;
        if reply.status == Status::Taken {
            return Ok(Replacement::Stored(tag));
        }
        let present: Option<Vec<u8>> = reply.get()?;
        let present = present.map(|stored| values.open_entry(backend, &stored)).transpose()?;
        Ok(Replacement::Conflict(present))
    }

    pub(crate) async fn merge(
        &self,
        session: &SessionKey,
        own: &SessionRecord,
        holds_stream: bool,
    ) -> Result<RestoredRecord, StorageError> {
        let taking = holds_stream.then(|| self.replica.streams.take(session.id));
        let arguments = self.merged(session, own, holds_stream)?;
        self.known_end(session)?;
        let mut reply = self.run_script(&self.scripts.merge, arguments, Effect::Write).await?;
        let number = reply.get()?;
        if let Some(taking) = taking {
            let is_held = if let Some(number) = number {
                taking.succeed(number)
            } else {
                drop(taking);
                self.replica.streams.remove(session.id);
                false
            };
            if !is_held {
                self.replica.events.add(SessionEvent::StreamMoved(session.id));
            }
        }
        let fields = reply.pairs()?.unwrap_or_default();
        self.values(session).open_record(&fields)
    }

    /// Returns the arguments that enter what this replica has.
    fn merged(
        &self,
        session: &SessionKey,
        own: &SessionRecord,
        holds_stream: bool,
    ) -> Result<Arguments, StorageError> {
        let SessionRecord { level, backend_sessions, subscriptions } = own;
        let values = self.values(session);
        let level = level.as_ref().map(|level| values.level(level)).transpose()?;
        let mut arguments = self
            .arguments()
            .session(session)
            .text(level.unwrap_or_default())
            .text(if holds_stream { "1" } else { "0" })
            .number(MAX_RECORD_BYTES)
            .number(MAX_SUBSCRIPTIONS)
            .number(backend_sessions.len());
        for (backend, BackendEntry { tag, value }) in backend_sessions {
            let sealed = values.tagged_entry(backend, *tag, value)?;
            arguments = arguments.text(&**backend).text(sealed);
        }
        for (backend, uri) in subscriptions {
            let name = values.subscription_name(backend, uri);
            let sealed = values.subscription(backend, uri)?;
            arguments = arguments.text(&**backend).text(name).text(sealed);
        }
        Ok(arguments)
    }

    pub(crate) async fn set_level(
        &self,
        session: &SessionKey,
        level: &str,
    ) -> Result<(), StorageError> {
        limit(level.len())?;
        let sealed = self.values(session).level(level)?;
        let with = |arguments: Arguments| arguments.text(sealed).number(MAX_RECORD_BYTES);
        self.step(&self.scripts.set_level, session, with).await.map(|_| ())
    }

    pub(crate) async fn subscribe(
        &self,
        session: &SessionKey,
        backend: &str,
        uri: &str,
        wanted: bool,
    ) -> Result<(), StorageError> {
        limit(backend.len() + uri.len())?;
        let values = self.values(session);
        let name = values.subscription_name(backend, uri);
        let sealed = if wanted { values.subscription(backend, uri)? } else { Vec::new() };
        let with = |arguments: Arguments| {
            let arguments = arguments.text(backend).text(name).text(sealed);
            arguments.number(MAX_RECORD_BYTES).number(MAX_SUBSCRIPTIONS)
        };
        self.step(&self.scripts.subscribe, session, with).await.map(|_| ())
    }

    pub(crate) async fn hold_stream(
        &self,
        session: &SessionKey,
    ) -> Result<RestoredRecord, StorageError> {
        let taking = self.replica.streams.take(session.id);
        let mut reply =
            self.step(&self.scripts.hold_stream, session, |arguments| arguments).await?;
        if !taking.succeed(reply.get()?.unwrap_or_default()) {
            self.replica.events.add(SessionEvent::StreamMoved(session.id));
        }
        let fields = reply.pairs()?.unwrap_or_default();
        self.values(session).open_record(&fields)
    }

    pub(crate) async fn end(
        &self,
        session: &SessionKey,
    ) -> Result<Vec<(Box<str>, BackendEntry)>, StorageError> {
        let arguments = self.arguments().session(session);
        let mut reply = self.run_script(&self.scripts.end, arguments, Effect::Any).await?;
        let fields = reply.pairs()?.unwrap_or_default();
        let tombstone: Option<String> = reply.get()?;
        let now = unix_millis(&self.clock);
        match tombstone.and_then(|text| Tombstone::parse(&text)) {
            Some(tombstone) => self.replica.bury_own(tombstone, now),
            // The session had ended before.
            None => self.replica.bury(&Tombstone::Session(*session), 0, now),
        }
        // An entry that cannot be read must not hide that the session has ended.
        let record = self.values(session).open_record(&fields);
        Ok(record.map(|stored| stored.record.backend_sessions).unwrap_or_default())
    }

    pub(crate) async fn leave(
        &self,
        session: &SessionKey,
    ) -> Result<Option<SessionRecord>, StorageError> {
        self.replica.streams.remove(session.id);
        self.known_end(session)?;
        let arguments = self.arguments().session(session);
        let mut reply = self.run_script(&self.scripts.leave, arguments, Effect::Any).await?;
        let Some(fields) = reply.pairs()? else { return Ok(None) };
        Ok(Some(self.values(session).open_record(&fields)?.record))
    }

    pub(crate) async fn touch(&self, sessions: &[SessionKey]) -> Result<(), StorageError> {
        for batch in sessions.chunks(BATCH) {
            let ids = batch.iter().map(|session| session.id.to_string());
            let arguments = ids.fold(self.arguments(), Arguments::text);
            self.run_script(&self.scripts.touch, arguments, Effect::Write).await?;
        }
        Ok(())
    }

    pub(crate) async fn check(&self, session: &SessionKey) -> Result<(), StorageError> {
        self.known_end(session)?;
        // A request of a client does not wait for a server that is known to be away.
        if self.health.is_failing(Use::Publish) {
            return Err(StorageError::Unavailable);
        }
        let arguments = self.arguments().session(session);
        let check = self.run_script(&self.scripts.check, arguments, Effect::Any);
        let reply = timeout(CHECK_TIMEOUT, check).await;
        reply.map_err(|_| StorageError::Unavailable)?.map(|_| ())
    }

    /// Runs a script on the record of a session.
    async fn step(
        &self,
        script: &Script,
        session: &SessionKey,
        with: impl FnOnce(Arguments) -> Arguments,
    ) -> Result<Reply, StorageError> {
        self.known_end(session)?;
        let arguments = with(self.arguments().session(session));
        self.run_script(script, arguments, Effect::Write).await
    }

    /// Fails if this replica knows that the session has ended, also if Redis lost the tombstone.
    fn known_end(&self, session: &SessionKey) -> Result<(), StorageError> {
        if self.replica.has_ended(session) { Err(StorageError::Ended) } else { Ok(()) }
    }

    fn values<'a>(&'a self, session: &'a SessionKey) -> ValueSeal<'a> {
        ValueSeal { ring: &self.ring, session }
    }
}

/// Rejects what would not fit alone.
fn limit(bytes: usize) -> Result<(), StorageError> {
    if bytes > MAX_RECORD_BYTES { Err(StorageError::RecordFull) } else { Ok(()) }
}
