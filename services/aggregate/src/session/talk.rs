//! The streams of a session, and the questions that backends have asked on them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tokio::time::Instant;
use vmcp_timeout::PauseGuard;

use super::{Upstream, lock};
use crate::backend::handshake::Live;
use crate::detached::Account;
use crate::stream::Stream;

/// The most streams of one session: answers in progress, and those that can still be resumed.
const MOST_STREAMS: usize = 64;

/// The most questions that can be with one client.
const MOST_QUESTIONS: usize = 64;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Talk(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Nothing is taken any more: it would belong to a session that is over.
    ended: bool,
    /// The stream that the client opens by itself.
    standing: Option<Arc<Stream>>,
    streams: Vec<Arc<Stream>>,
    stream_serial: u32,
    /// With the time when they were asked.
    questions: HashMap<u64, (Question, Instant)>,
    question_serial: u64,
    tasks: Vec<AbortHandle>,
}

/// Where the client's answer to a question goes.
#[derive(Debug)]
pub(crate) enum Question {
    /// To the stateful backend that asked, under its own id.
    Backend {
        upstream: Arc<Upstream>,
        live: Arc<Live>,
        id: Bytes,
        /// The time of the calls that depend on it stands still while the client thinks.
        pauses: Vec<PauseGuard>,
        /// Dead once the stream that the question came on is over.
        asker: Weak<()>,
    },
    /// To a call that waits for it: the whole answer.
    Call(oneshot::Sender<Bytes>),
}

impl Question {
    /// Whether anybody waits for the answer.
    fn is_open(&self) -> bool {
        match self {
            Self::Backend { asker, .. } => asker.strong_count() > 0,
            Self::Call(waiting) => !waiting.is_closed(),
        }
    }
}

impl Talk {
    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.0)
    }

    /// The stream for what belongs to no request, made if there is none.
    pub(crate) fn standing(&self, account: impl FnOnce() -> Account) -> Arc<Stream> {
        let mut state = self.lock();
        let ended = state.ended;
        let stream = state.standing.get_or_insert_with(|| Stream::new(0, account()));
        if ended {
            stream.end();
        }
        Arc::clone(stream)
    }

    /// The standing stream, if the client ever opened it.
    pub(crate) fn listening(&self) -> Option<Arc<Stream>> {
        self.lock().standing.clone()
    }

    /// A new stream for one answer; `None` when there are too many, or the session is over.
    pub(crate) fn open_stream(&self, account: Account) -> Option<Arc<Stream>> {
        let mut state = self.lock();
        if state.ended {
            return None;
        }
        state.streams.retain(|stream| !stream.is_over());
        if state.streams.len() >= MOST_STREAMS {
            // One that has ended is only kept to be read again: an answer under way comes first.
            let ended = state.streams.iter().position(|stream| stream.has_ended())?;
            state.streams.remove(ended);
        }
        state.stream_serial = state.stream_serial.wrapping_add(1).max(1);
        let stream = Stream::new(state.stream_serial, account);
        state.streams.push(Arc::clone(&stream));
        Some(stream)
    }

    /// The stream with a number, as event ids name it.
    pub(crate) fn stream(&self, number: u32) -> Option<Arc<Stream>> {
        if number == 0 {
            return self.listening();
        }
        self.lock().streams.iter().find(|stream| stream.number() == number).cloned()
    }

    /// Keeps a question until it is answered. Its number is the id that the client gets to see;
    /// `None` when too many are open, or the session is over.
    pub(crate) fn ask(&self, question: Question) -> Option<u64> {
        let mut state = self.lock();
        if state.questions.len() >= MOST_QUESTIONS || state.ended {
            return None;
        }
        state.question_serial += 1;
        let number = state.question_serial;
        state.questions.insert(number, (question, Instant::now()));
        Some(number)
    }

    /// Takes a question that is answered. It can be answered once.
    pub(crate) fn take(&self, number: u64) -> Option<Question> {
        self.lock().questions.remove(&number).map(|(question, _)| question)
    }

    /// Takes the question that a backend has withdrawn.
    pub(crate) fn withdraw(&self, asked: &Arc<Live>, theirs: &[u8]) -> Option<u64> {
        let mut state = self.lock();
        let number = state.questions.iter().find_map(|(number, (question, _))| match question {
            Question::Backend { live, id, .. } if Arc::ptr_eq(live, asked) && id == theirs => {
                Some(*number)
            }
            Question::Backend { .. } | Question::Call(_) => None,
        })?;
        state.questions.remove(&number);
        Some(number)
    }

    /// Lets a task end with the session, which may be over already.
    pub(crate) fn own(&self, task: AbortHandle) {
        let mut state = self.lock();
        if state.ended {
            return task.abort();
        }
        state.tasks.retain(|task| !task.is_finished());
        state.tasks.push(task);
    }

    /// Lets go of what is over, and gives back the questions whose stream is over or that wait for longer than
    /// `patience`: the backend may still wait for an answer.
    pub(crate) fn prune(&self, patience: Duration) -> Vec<Question> {
        let mut state = self.lock();
        state.streams.retain(|stream| !stream.is_over());
        if state.streams.is_empty() {
            state.streams.shrink_to_fit();
        }
        state.tasks.retain(|task| !task.is_finished());
        let expired = state
            .questions
            .extract_if(|_, (question, asked)| !question.is_open() || asked.elapsed() >= patience);
        expired.map(|(_, (question, _))| question).collect()
    }

    pub(crate) fn end(&self) {
        let state = std::mem::replace(&mut *self.lock(), State { ended: true, ..State::default() });
        state.tasks.into_iter().for_each(|task| task.abort());
        state.streams.into_iter().chain(state.standing).for_each(|stream| stream.end());
    }
}
