//! What the gateway keeps for a stateful client between its requests. Most sessions are idle, so an
//! idle one is small: streams and questions are made when they are first needed.

pub(crate) mod talk;
pub(crate) mod upstream;

use std::net::IpAddr;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use tokio::sync::Notify;
use vmcp_core::{Caller, Rejection, code};
use vmcp_timeout::{PauseGuard, TimeoutControl};

pub(crate) use self::talk::{Question, Talk};
pub(crate) use self::upstream::Upstream;
use crate::backend::Link;
use crate::backend::ask::tell;
use crate::backend::handshake::Introduction;
use crate::backend::request::{asking, post};
use crate::call::{Call, Cancellation, SESSION_ENDED};
use crate::catalog::Kind;
use crate::detached::Account;
use crate::hub::Hub;
use crate::stream::{Class, Stream};

/// The most requests of one session that may be under way.
const MOST_CALLS: usize = 256;

/// See the module.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) revision: &'static str,
    /// Whose it is, with the token that was seen last.
    caller: Mutex<Caller>,
    /// The address that it was opened from, if that is known.
    address: Option<IpAddr>,
    capabilities: Box<[u8]>,
    client: Box<[u8]>,
    upstreams: Mutex<Vec<Arc<Upstream>>>,
    calls: Mutex<Vec<Arc<Running>>>,
    talk: OnceLock<Box<Talk>>,
    /// The level that the client set for log messages, as JSON.
    level: Mutex<Option<Box<[u8]>>>,
    /// Set before the tables are emptied: what enters one under its lock sees it, or is found there.
    ended: AtomicBool,
}

/// A request under way.
#[derive(Debug)]
pub(crate) struct Running {
    /// The client's id for it, as it wrote it.
    pub(crate) id: Bytes,
    pub(crate) cancellation: Cancellation,
    /// Stops its time while the client is asked something that it depends on.
    pub(crate) hold: TimeoutControl,
    /// Notified when the client cancels it, or ends the session.
    pub(crate) cancelled: Notify,
    call: Arc<Call>,
    /// The stream that it is answered on, if the answer needs one.
    stream: OnceLock<Arc<Stream>>,
}

/// Takes a request out of the table when it is over.
#[derive(Debug)]
pub(crate) struct RunningGuard {
    session: Arc<Session>,
    running: Arc<Running>,
}

impl Running {
    /// A request of the client that goes to the backend under its own id.
    pub(crate) fn new(call: &Arc<Call>, upstream: Arc<Upstream>) -> Self {
        let id = call.id();
        Self {
            cancellation: Cancellation::new(upstream, id.clone(), call.cause()),
            id,
            hold: TimeoutControl::new(),
            cancelled: Notify::new(),
            call: Arc::clone(call),
            stream: OnceLock::new(),
        }
    }

    /// Notes the stream that it is answered on. One whose request has been gone since before counts from then on.
    pub(crate) fn answer_on(&self, stream: &Arc<Stream>) {
        if let Some(departure) = self.call.departure() {
            stream.begin_without_client(departure);
        }
        _ = self.stream.set(Arc::clone(stream));
    }

    /// Whether the client is connected for the answer.
    fn is_attached(&self) -> bool {
        match self.stream.get() {
            Some(stream) => stream.connected(),
            None => self.call.departure().is_none(),
        }
    }

    /// Whether this many bytes of an answer that has not come whole may be held.
    pub(crate) fn may_hold(&self, bytes: usize) -> bool {
        match self.stream.get() {
            Some(stream) => stream.may_hold(bytes),
            None => self.call.departure().is_none_or(|departure| departure.may_hold(bytes)),
        }
    }

    fn is_of(&self, upstream: &Arc<Upstream>) -> bool {
        Arc::ptr_eq(&self.cancellation.upstream, upstream)
    }
}

impl Session {
    pub(crate) fn new(
        revision: &'static str,
        caller: Caller,
        address: Option<IpAddr>,
        capabilities: &[u8],
        client: &[u8],
    ) -> Self {
        Self {
            revision,
            caller: Mutex::new(caller),
            address,
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
        Introduction { caller, capabilities, client, cause: None, address: self.address }
    }

    /// Whose it is, with the token that was seen last.
    pub(crate) fn caller(&self) -> Caller {
        lock(&self.caller).clone()
    }

    /// The accounts of what waits for the client.
    pub(crate) fn account(&self, hub: &Hub) -> Account {
        hub.account(self.caller().identity(), self.address)
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
        // Looked at under the lock: what is entered before the backend is retired, or the session ends, is taken out after
        // that. A request that began before and comes later has its own, which nothing else may keep.
        if link.is_retired() || self.has_ended() {
            upstream.retire();
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

    /// Enters a request into the table, unless the session is over or too many are under way.
    pub(crate) fn run(self: &Arc<Self>, running: Running) -> Result<RunningGuard, Rejection> {
        let running = Arc::new(running);
        let mut calls = lock(&self.calls);
        if self.has_ended() {
            return Err(Rejection::no_session());
        }
        if calls.len() >= MOST_CALLS {
            let message = "too many requests of this session are under way";
            return Err(Rejection::overloaded(message, 1));
        }
        calls.push(Arc::clone(&running));
        Ok(RunningGuard { session: Arc::clone(self), running })
    }

    pub(crate) fn running(&self, id: &[u8]) -> Option<Arc<Running>> {
        lock(&self.calls).iter().find(|running| running.id == id).cloned()
    }

    /// Stops the time of all requests that are under way at a backend.
    pub(crate) fn pause(&self, upstream: &Arc<Upstream>) -> Vec<PauseGuard> {
        let calls = lock(&self.calls);
        calls.iter().filter(|call| call.is_of(upstream)).map(|call| call.hold.pause()).collect()
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
            stream.push(message.into(), Class::Coalesced);
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

    /// Whether a client is connected that needs the session: for the answer to a call, or to listen.
    pub(crate) fn in_use(&self) -> bool {
        let listens =
            || self.has_talk().and_then(Talk::listening).is_some_and(|stream| stream.connected());
        lock(&self.calls).iter().any(|call| call.is_attached()) || listens()
    }

    /// Ends the standing stream; calls go on.
    pub(crate) fn quiet(&self) {
        if let Some(stream) = self.has_talk().and_then(Talk::listening) {
            stream.end();
        }
    }

    /// Lets go of what has ended. A question whose stream has ended, or that the client has not answered for so long, is
    /// answered with an error: the time of the calls that depend on it goes on.
    pub(crate) fn prune(&self, patience: Duration) {
        for question in self.has_talk().map(|talk| talk.prune(patience)).into_iter().flatten() {
            let Question::Backend { upstream, live, id, .. } = question else { continue };
            let message = "the client did not answer in time";
            let refusal = Rejection::new(StatusCode::OK, code::INTERNAL, message);
            let request =
                live.sign(post(&upstream.link, &live.caller(), refusal.to_json(Some(&id))));
            tokio::spawn(async move { tell(&upstream.link, asking(request, "", None)).await });
        }
    }

    fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Ends everything that belongs to the session.
    pub(crate) fn end(&self) {
        if self.ended.swap(true, Ordering::AcqRel) {
            return;
        }
        // Taken before their tasks end, with which they would be cancelled too, and maybe behind the session's own end.
        let calls = lock(&self.calls).clone();
        let upstreams = std::mem::take(&mut *lock(&self.upstreams));
        for upstream in upstreams {
            let calls = calls.iter().filter(|call| call.is_of(&upstream));
            let cancels = calls.filter_map(|call| call.cancellation.request(SESSION_ENDED));
            upstream.close(cancels.collect());
        }
        // Made if there is none: it refuses what comes later.
        self.talk().end();
        for call in &calls {
            call.cancelled.notify_one();
        }
    }
}

impl RunningGuard {
    pub(crate) fn session(&self) -> &Session {
        &self.session
    }
}

impl Deref for RunningGuard {
    type Target = Running;

    fn deref(&self) -> &Running {
        &self.running
    }
}

impl Drop for RunningGuard {
    fn drop(&mut self) {
        let mut calls = lock(&self.session.calls);
        if let Some(index) = calls.iter().position(|it| Arc::ptr_eq(it, &self.running)) {
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
