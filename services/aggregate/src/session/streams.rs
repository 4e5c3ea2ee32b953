//! Streams of a session, the pending server requests sent on them, and the places of steps of composite tools.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::futures::Notified;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::task::AbortHandle;

use super::id_form::{IdForm, ReceivedId, ServerRequestId};
use super::server_requests::{PendingServerRequest, ServerRequests};
use crate::backend::handshake::BackendSession;
use crate::stream::Stream;
use crate::stream::detached::ClientAccount;
use vmcp_core::lock;

/// Maximum number of streams of one session, active or resumable.
const MAX_STREAMS: usize = 64;

/// Maximum number of steps of composite tools that call backends at the same time in one session. Others wait for their turn.
const MAX_STEPS: usize = 256;

/// Streams and pending server requests of a session.
#[derive(Debug)]
pub(crate) struct SessionStreams {
    ids: IdForm,
    state: Mutex<State>,
    /// One permit for each step that may call a backend now. Fair: permits are granted in the order of the requests. A step
    /// holds its permit for one call only and waits for no other step, so each permit returns.
    steps: Arc<Semaphore>,
    /// Notified when a pending server request is removed.
    request_removed: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// Set when the session has ended; later insertions are rejected.
    ended: bool,
    /// The client's notification stream.
    standing: Option<Arc<Stream>>,
    streams: Vec<Arc<Stream>>,
    stream_serial: u32,
    server_requests: ServerRequests,
    tasks: Vec<AbortHandle>,
}

impl SessionStreams {
    /// Creates the tables of a session with this form of ids.
    pub(super) fn new(ids: IdForm) -> Self {
        Self {
            ids,
            state: Mutex::default(),
            steps: Arc::new(Semaphore::new(MAX_STEPS)),
            request_removed: Notify::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Waits until the session has a place for another step.
    pub(crate) fn step_place(&self) -> impl Future<Output = OwnedSemaphorePermit> + Send + use<> {
        let steps = Arc::clone(&self.steps);
        async move { steps.acquire_owned().await.expect("the semaphore is never closed") }
    }

    /// Returns the notification stream; creates it if necessary.
    pub(crate) fn standing(&self, account: impl FnOnce() -> ClientAccount) -> Arc<Stream> {
        let mut state = self.lock();
        let ended = state.ended;
        let stream =
            state.standing.get_or_insert_with(|| Stream::standing(self.ids.stream(0), account()));
        if ended {
            stream.end();
        }
        Arc::clone(stream)
    }

    /// Returns the notification stream, if it was ever opened.
    pub(crate) fn listening(&self) -> Option<Arc<Stream>> {
        self.lock().standing.clone()
    }

    /// Ends and removes the notification stream, so that the client may open another one.
    pub(crate) fn end_standing(&self) {
        let standing = self.lock().standing.take();
        if let Some(standing) = standing {
            standing.end();
        }
    }

    /// Creates a stream for one response; `None` if there are too many or the session has ended.
    pub(crate) fn open_stream(&self, account: ClientAccount) -> Option<Arc<Stream>> {
        let mut state = self.lock();
        if state.ended {
            return None;
        }
        if state.streams.len() >= MAX_STREAMS {
            // Ended streams are only kept for resumption, so a new response may replace the oldest one.
            let ended = state.streams.iter().position(|stream| stream.has_ended())?;
            state.streams.remove(ended);
        }
        state.stream_serial = state.stream_serial.wrapping_add(1).max(1);
        let stream = Stream::new(self.ids.stream(state.stream_serial), account);
        state.streams.push(Arc::clone(&stream));
        Some(stream)
    }

    /// Returns the stream with this name, as contained in event ids.
    pub(crate) fn stream(&self, name: &str) -> Option<Arc<Stream>> {
        let state = self.lock();
        let mut streams = state.standing.iter().chain(&state.streams);
        streams.find(|stream| stream.name() == name).cloned()
    }

    /// Stores a server request until the response. Returns the id that the client receives; `None` if too many are pending or
    /// the session has ended.
    pub(crate) fn register(&self, server_request: PendingServerRequest) -> Option<ServerRequestId> {
        let mut state = self.lock();
        if state.ended { None } else { state.server_requests.insert(server_request, &self.ids) }
    }

    /// Waits until a pending server request is removed after this call.
    pub(crate) fn request_removed(&self) -> Notified<'_> {
        self.request_removed.notified()
    }

    /// Removes the server request that the client responded to. Only the first response is accepted.
    pub(crate) fn take(&self, id: &ReceivedId) -> Option<PendingServerRequest> {
        self.remove(id.number)
    }

    /// Removes a server request that needs no response any more.
    pub(crate) fn cancel(&self, id: &ServerRequestId) {
        drop(self.remove(id.number));
    }

    fn remove(&self, number: u128) -> Option<PendingServerRequest> {
        let removed = self.lock().server_requests.remove(number);
        self.request_removed.notify_waiters();
        removed
    }

    /// Removes a server request that its backend has cancelled.
    pub(crate) fn withdraw(
        &self,
        of: &Arc<BackendSession>,
        theirs: &[u8],
    ) -> Option<ServerRequestId> {
        let withdrawn = self.lock().server_requests.withdraw(of, theirs);
        self.request_removed.notify_waiters();
        withdrawn
    }

    /// Aborts a task when the session ends, immediately if it already has.
    pub(crate) fn own(&self, task: AbortHandle) {
        let mut state = self.lock();
        if state.ended {
            return task.abort();
        }
        state.tasks.retain(|task| !task.is_finished());
        state.tasks.push(task);
    }

    /// Removes ended streams. Returns the server requests whose stream has ended or that have been pending for longer than
    /// `timeout`, because their backends may still wait for a response.
    pub(crate) fn prune(&self, timeout: Duration) -> Vec<PendingServerRequest> {
        let mut state = self.lock();
        state.streams.retain(|stream| !stream.is_over());
        if state.streams.is_empty() {
            state.streams.shrink_to_fit();
        }
        state.tasks.retain(|task| !task.is_finished());
        let expired = state.server_requests.remove_expired(timeout);
        drop(state);
        self.request_removed.notify_waiters();
        expired
    }

    pub(crate) fn end(&self) {
        let state = std::mem::replace(&mut *self.lock(), State { ended: true, ..State::default() });
        state.tasks.into_iter().for_each(|task| task.abort());
        state.streams.into_iter().chain(state.standing).for_each(|stream| stream.end());
    }
}
