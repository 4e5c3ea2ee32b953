//! Notification streams of clients that this replica has.

use std::collections::HashMap;
use std::sync::Mutex;

use vmcp_core::lock;
use vmcp_session::SessionId;

/// Maximum number of streams that are looked up after a reconnection.
const MAX_STREAMS: usize = 100_000;

/// Streams that this replica has. Each step that takes a stream has a number, so that a late message about an earlier one does not
/// end it.
#[derive(Debug, Default)]
pub(crate) struct HeldStreams {
    streams: Mutex<HashMap<SessionId, HeldStream>>,
}

#[derive(Debug, Default)]
struct HeldStream {
    /// Number of the last step with which this replica took it.
    number: Option<u64>,
    /// Number of running steps.
    running: usize,
    /// Highest number of a step of another replica, while steps run here.
    moved: Option<u64>,
}

/// Guard of a step that takes a stream. Dropping it means that the step failed.
pub(crate) struct Taking<'a> {
    streams: &'a HeldStreams,
    id: SessionId,
    number: Option<u64>,
}

impl HeldStreams {
    /// Begins a step that takes a stream.
    pub(crate) fn take(&self, id: SessionId) -> Taking<'_> {
        lock(&self.streams).entry(id).or_default().running += 1;
        Taking { streams: self, id, number: None }
    }

    /// Takes note that another replica took a stream with a step of this number. Returns `false` if this replica took it since, or
    /// a running step will tell.
    pub(crate) fn is_lost(&self, id: SessionId, number: u64) -> bool {
        let mut streams = lock(&self.streams);
        let Some(stream) = streams.get_mut(&id) else { return true };
        if stream.running > 0 {
            stream.moved = stream.moved.max(Some(number));
            return false;
        }
        let is_lost = stream.number.is_none_or(|own| own < number);
        if is_lost {
            streams.remove(&id);
        }
        is_lost
    }

    /// Returns the streams with the numbers of their steps.
    pub(crate) fn all(&self) -> Vec<(SessionId, u64)> {
        let streams = lock(&self.streams);
        let held = streams.iter().filter_map(|(id, stream)| Some((*id, stream.number?)));
        held.collect()
    }

    /// Removes a stream that this replica took with a step of this number. Returns `false` if it took it again since.
    pub(crate) fn remove_taken(&self, id: SessionId, number: u64) -> bool {
        let mut streams = lock(&self.streams);
        let is_same = |stream: &HeldStream| stream.running == 0 && stream.number == Some(number);
        if !streams.get(&id).is_some_and(is_same) {
            return false;
        }
        streams.remove(&id);
        true
    }

    /// Removes a stream with its session.
    pub(crate) fn remove(&self, id: SessionId) {
        lock(&self.streams).remove(&id);
    }
}

impl Taking<'_> {
    /// Ends the step with its number. Returns `false` if another replica took the stream since.
    pub(crate) fn succeed(mut self, number: u64) -> bool {
        self.number = Some(number);
        self.finish()
    }

    fn finish(&mut self) -> bool {
        let mut streams = lock(&self.streams.streams);
        let count = streams.len();
        // The session may have ended meanwhile.
        let Some(stream) = streams.get_mut(&self.id) else { return true };
        stream.running = stream.running.saturating_sub(1);
        stream.number = self.number.or(stream.number);
        if stream.running > 0 {
            return true;
        }
        let is_lost = stream.moved.take().is_some_and(|moved| stream.number < Some(moved));
        if is_lost || stream.number.is_none() || count > MAX_STREAMS {
            streams.remove(&self.id);
        }
        !is_lost
    }
}

impl Drop for Taking<'_> {
    fn drop(&mut self) {
        if self.number.is_none() {
            self.finish();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_message_ends_no_newer_stream() {
        let (streams, id) = (HeldStreams::default(), SessionId::random().unwrap());
        assert!(streams.take(id).succeed(1));
        // Another replica takes it, and this one takes it back before it knows.
        let taking = streams.take(id);
        assert!(!streams.is_lost(id, 2));
        assert!(taking.succeed(3));
        assert!(!streams.is_lost(id, 2));
        assert_eq!(streams.all(), [(id, 3)]);
        assert!(streams.is_lost(id, 4));
        assert_eq!(streams.all(), []);
    }

    #[test]
    fn message_during_step_counts_after_it() {
        let (streams, id) = (HeldStreams::default(), SessionId::random().unwrap());
        let (first, second) = (streams.take(id), streams.take(id));
        assert!(!streams.is_lost(id, 3));
        assert!(first.succeed(1));
        assert!(!second.succeed(2), "another replica has it");
        assert_eq!(streams.all(), []);
        // A step that failed takes nothing, and ends no earlier one.
        drop(streams.take(id));
        assert_eq!(lock(&streams.streams).len(), 0);
        assert!(streams.take(id).succeed(4));
        drop(streams.take(id));
        assert_eq!(streams.all(), [(id, 4)]);
    }

    #[test]
    fn lookup_removes_unchanged_stream_only() {
        let (streams, id) = (HeldStreams::default(), SessionId::random().unwrap());
        assert!(streams.take(id).succeed(1));
        let before = streams.all();
        assert!(streams.take(id).succeed(3));
        assert!(!streams.remove_taken(before[0].0, before[0].1));
        assert!(streams.remove_taken(id, 3));
        let taking = streams.take(id);
        streams.remove(id);
        assert!(taking.succeed(4));
        assert_eq!(streams.all(), []);
    }
}
