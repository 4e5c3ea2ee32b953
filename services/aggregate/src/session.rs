//! What the gateway keeps for a stateful client between its requests. Most sessions are idle, so an
//! idle one is small: streams and questions are made when they are first needed.

pub(crate) mod talk;
pub(crate) mod upstream;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bytes::Bytes;
use tokio::sync::Notify;
use vmcp_core::Caller;

pub(crate) use self::talk::{Question, Talk};
pub(crate) use self::upstream::Upstream;
use crate::backend::Link;
use crate::backend::handshake::Introduction;
use crate::catalog::Kind;
use crate::stream::Class;

/// The most requests of one session that may be under way.
const MOST_CALLS: usize = 256;

/// See the module.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) revision: &'static str,
    /// Whose it is, with the token that was seen last.
    caller: Mutex<Caller>,
    capabilities: Box<[u8]>,
    client: Box<[u8]>,
    upstreams: Mutex<Vec<Arc<Upstream>>>,
    calls: Mutex<Vec<Running>>,
    talk: OnceLock<Box<Talk>>,
    /// The level that the client set for log messages, as JSON.
    level: Mutex<Option<Box<[u8]>>>,
    ended: AtomicBool,
}

/// A request under way.
#[derive(Clone, Debug)]
pub(crate) struct Running {
    /// The client's id for it, as it wrote it.
    pub(crate) id: Bytes,
    pub(crate) upstream: Arc<Upstream>,
    /// Notified when the client cancels it, where that is not the backend's to do.
    pub(crate) cancelled: Option<Arc<Notify>>,
}

/// Takes a request out of the table when it is over.
#[derive(Debug)]
pub(crate) struct RunningGuard {
    session: Arc<Session>,
    id: Bytes,
}

impl Session {
    pub(crate) fn new(
        revision: &'static str,
        caller: Caller,
        capabilities: &[u8],
        client: &[u8],
    ) -> Self {
        Self {
            revision,
            caller: Mutex::new(caller),
            capabilities: capabilities.into(),
            client: client.into(),
            upstreams: Mutex::default(),
            calls: Mutex::default(),
            talk: OnceLock::new(),
            level: Mutex::default(),
            ended: AtomicBool::new(false),
        }
    }

    /// What backends are told about the client.
    pub(crate) fn introduction<'a>(&'a self, caller: &'a Caller) -> Introduction<'a> {
        let (capabilities, client) = (&*self.capabilities, &*self.client);
        Introduction { caller, capabilities, client, cause: None }
    }

    /// Whose it is, with the token that was seen last.
    pub(crate) fn caller(&self) -> Caller {
        lock(&self.caller).clone()
    }

    /// Remembers a newer token of the owner, for what is sent when no request of theirs is at hand.
    pub(crate) fn renew(&self, caller: &Caller) {
        renew(&self.caller, caller);
    }

    /// What the client can be asked, as JSON.
    pub(crate) fn capabilities(&self) -> &[u8] {
        &self.capabilities
    }

    /// The relation to a backend, which is this session's own.
    pub(crate) fn upstream(&self, link: &Arc<Link>) -> Arc<Upstream> {
        let mut upstreams = lock(&self.upstreams);
        if let Some(known) = upstreams.iter().find(|known| Arc::ptr_eq(&known.link, link)) {
            return Arc::clone(known);
        }
        let upstream = Arc::new(Upstream::new(Arc::clone(link)));
        // Looked at under the lock: what is entered before the backend is retired is taken out after that. A request
        // that began before a reload and comes later has its own.
        if link.is_retired() {
            return upstream;
        }
        upstreams.push(Arc::clone(&upstream));
        // Grown by doubling, a list of one or five would waste more than it holds.
        upstreams.shrink_to_fit();
        upstream
    }

    pub(crate) fn upstreams(&self) -> Vec<Arc<Upstream>> {
        lock(&self.upstreams).clone()
    }

    /// Enters a request into the table; `None` when too many are under way.
    pub(crate) fn run(self: &Arc<Self>, running: Running) -> Option<RunningGuard> {
        let id = running.id.clone();
        let mut calls = lock(&self.calls);
        if calls.len() >= MOST_CALLS {
            return None;
        }
        calls.push(running);
        Some(RunningGuard { session: Arc::clone(self), id })
    }

    pub(crate) fn running(&self, id: &[u8]) -> Option<Running> {
        lock(&self.calls).iter().find(|running| running.id == id).cloned()
    }

    /// Streams and questions, made when they are first needed.
    pub(crate) fn talk(&self) -> &Talk {
        self.talk.get_or_init(Box::default)
    }

    /// Streams and questions, if there ever were any.
    pub(crate) fn has_talk(&self) -> Option<&Talk> {
        self.talk.get().map(|talk| &**talk)
    }

    pub(crate) fn set_level(&self, level: &[u8]) {
        *lock(&self.level) = Some(level.into());
    }

    /// The level that the client set for log messages, as JSON.
    pub(crate) fn level(&self) -> Option<Box<[u8]>> {
        lock(&self.level).clone()
    }

    /// Tells the client which lists are not what they were, if it listens.
    pub(crate) fn lists_changed(&self, changes: &[Kind]) {
        let Some(stream) = self.has_talk().and_then(Talk::listening) else { return };
        for method in methods(changes) {
            let message = format!(r#"{{"jsonrpc":"2.0","method":"{method}"}}"#);
            stream.push(message.into(), Class::Kept);
        }
    }

    /// Ends the relations to backends that are no longer there.
    pub(crate) fn keep_only(&self, links: &[Arc<Link>]) {
        let mut upstreams = lock(&self.upstreams);
        let (kept, gone): (Vec<_>, Vec<_>) = upstreams
            .drain(..)
            .partition(|upstream| links.iter().any(|link| Arc::ptr_eq(link, &upstream.link)));
        *upstreams = kept;
        drop(upstreams);
        for upstream in gone {
            upstream.retire();
        }
    }

    /// Whether something goes on that needs the session: a call, or a client that listens.
    pub(crate) fn in_use(&self) -> bool {
        let listens =
            || self.has_talk().and_then(Talk::listening).is_some_and(|stream| stream.connected());
        !lock(&self.calls).is_empty() || listens()
    }

    /// Ends the standing stream; calls go on.
    pub(crate) fn quiet(&self) {
        if let Some(stream) = self.has_talk().and_then(Talk::listening) {
            stream.end();
        }
    }

    /// Lets go of what has ended.
    pub(crate) fn prune(&self) {
        if let Some(talk) = self.has_talk() {
            talk.prune();
        }
    }

    /// Ends everything that belongs to the session.
    pub(crate) fn end(&self) {
        if self.ended.swap(true, Ordering::AcqRel) {
            return;
        }
        if let Some(talk) = self.has_talk() {
            talk.end();
        }
        for upstream in lock(&self.upstreams).drain(..) {
            upstream.close();
        }
    }
}

impl Drop for RunningGuard {
    fn drop(&mut self) {
        let mut calls = lock(&self.session.calls);
        if let Some(index) = calls.iter().position(|running| running.id == self.id) {
            calls.swap_remove(index);
        }
        if calls.is_empty() {
            calls.shrink_to_fit();
        }
    }
}

/// The notifications that tell of changes, each once.
pub(crate) fn methods(changes: &[Kind]) -> Vec<&'static str> {
    let mut methods: Vec<_> = changes
        .iter()
        .map(|kind| match kind {
            Kind::Tools => "notifications/tools/list_changed",
            Kind::Prompts => "notifications/prompts/list_changed",
            Kind::Resources | Kind::Templates => "notifications/resources/list_changed",
        })
        .collect();
    methods.dedup();
    methods
}

/// Puts the same caller with a newer token into the place of an older one.
pub(crate) fn renew(known: &Mutex<Caller>, caller: &Caller) {
    if !caller.identity().is_anonymous() {
        lock(known).clone_from(caller);
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
