//! The streams of a session, and the questions that backends have asked on them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use bytes::Bytes;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use vmcp_timeout::Pause;

use super::{Upstream, lock};
use crate::backend::handshake::Live;
use crate::stream::Stream;

/// The most streams of one session: answers in progress, and those that can still be resumed.
const MOST_STREAMS: usize = 64;

/// The most questions that can be with one client.
const MOST_QUESTIONS: usize = 64;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Talk {
    /// The stream that the client opens by itself.
    standing: Mutex<Option<Arc<Stream>>>,
    streams: Mutex<Vec<Arc<Stream>>>,
    stream_serial: AtomicU32,
    questions: Mutex<HashMap<u64, Question>>,
    question_serial: AtomicU64,
    tasks: Mutex<Vec<AbortHandle>>,
}

/// Where the client's answer to a question goes.
#[derive(Debug)]
pub(crate) enum Question {
    /// To the stateful backend that asked, under its own id.
    Backend {
        upstream: Arc<Upstream>,
        live: Arc<Live>,
        id: Bytes,
        /// The call's time stands still while the client thinks.
        pause: Option<Pause>,
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
    /// The stream for what belongs to no request, made if there is none.
    pub(crate) fn standing(&self) -> Arc<Stream> {
        Arc::clone(lock(&self.standing).get_or_insert_with(|| Stream::new(0)))
    }

    /// The standing stream, if the client ever opened it.
    pub(crate) fn listening(&self) -> Option<Arc<Stream>> {
        lock(&self.standing).clone()
    }

    /// A new stream for one answer; `None` when there are too many.
    pub(crate) fn open_stream(&self) -> Option<Arc<Stream>> {
        let mut streams = lock(&self.streams);
        streams.retain(|stream| !stream.is_over());
        if streams.len() >= MOST_STREAMS {
            // One that has ended is only kept to be read again: an answer under way comes first.
            let ended = streams.iter().position(|stream| stream.has_ended())?;
            streams.remove(ended);
        }
        let number = self.stream_serial.fetch_add(1, Ordering::Relaxed).wrapping_add(1).max(1);
        let stream = Stream::new(number);
        streams.push(Arc::clone(&stream));
        Some(stream)
    }

    /// The stream with a number, as event ids name it.
    pub(crate) fn stream(&self, number: u32) -> Option<Arc<Stream>> {
        if number == 0 {
            return self.listening();
        }
        lock(&self.streams).iter().find(|stream| stream.number() == number).cloned()
    }

    /// Keeps a question until it is answered. Its number is the id that the client gets to see;
    /// `None` when too many are open.
    pub(crate) fn ask(&self, question: Question) -> Option<u64> {
        let mut questions = lock(&self.questions);
        if questions.len() >= MOST_QUESTIONS {
            questions.retain(|_, question| question.is_open());
        }
        if questions.len() >= MOST_QUESTIONS {
            return None;
        }
        let number = self.question_serial.fetch_add(1, Ordering::Relaxed) + 1;
        questions.insert(number, question);
        Some(number)
    }

    /// Takes a question that is answered. It can be answered once.
    pub(crate) fn take(&self, number: u64) -> Option<Question> {
        lock(&self.questions).remove(&number)
    }

    /// Takes the question that a backend has withdrawn.
    pub(crate) fn withdraw(&self, asked: &Arc<Live>, theirs: &[u8]) -> Option<u64> {
        let mut questions = lock(&self.questions);
        let number = questions.iter().find_map(|(number, question)| match question {
            Question::Backend { live, id, .. } if Arc::ptr_eq(live, asked) && id == theirs => {
                Some(*number)
            }
            Question::Backend { .. } | Question::Call(_) => None,
        })?;
        questions.remove(&number);
        Some(number)
    }

    /// Lets a task end with the session.
    pub(crate) fn own(&self, task: AbortHandle) {
        let mut tasks = lock(&self.tasks);
        tasks.retain(|task| !task.is_finished());
        tasks.push(task);
    }

    pub(crate) fn prune(&self) {
        let mut streams = lock(&self.streams);
        streams.retain(|stream| !stream.is_over());
        if streams.is_empty() {
            streams.shrink_to_fit();
        }
        lock(&self.tasks).retain(|task| !task.is_finished());
        lock(&self.questions).retain(|_, question| question.is_open());
    }

    pub(crate) fn end(&self) {
        lock(&self.tasks).drain(..).for_each(|task| task.abort());
        lock(&self.questions).clear();
        lock(&self.streams).drain(..).for_each(|stream| stream.end());
        if let Some(standing) = lock(&self.standing).take() {
            standing.end();
        }
    }
}
