//! One client session's relation to one stateful backend: a session there, opened at its first use.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use futures_util::future::join_all;
use http::Request;
use http_body_util::Full;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};
use vmcp_core::{BoxError, Trail};

use super::lock;
use crate::backend::Link;
use crate::backend::ask::{ask, tell};
use crate::backend::handshake::{self, Introduction, Live};
use crate::backend::request::{asking, post};
use crate::catalog::define_literal;

/// How often a session that is to end is looked at.
const LOOK: Duration = Duration::from_millis(100);

/// How long a session is kept open for the cancellations of its calls to arrive.
const CANCELLATION_TIMEOUT: Duration = Duration::from_secs(1);

/// The level that a client set for log messages, as JSON; it may change at any time.
pub(crate) type Level<'a> = &'a (dyn Fn() -> Option<Box<[u8]>> + Sync);

/// The most resources that one session can subscribe to at one backend.
const MOST_SUBSCRIPTIONS: usize = 1024;

/// See the module.
#[derive(Debug)]
pub(crate) struct Upstream {
    pub(crate) link: Arc<Link>,
    live: ArcSwapOption<Live>,
    /// Held while the session is opened, so that it is opened once.
    opening: tokio::sync::Mutex<()>,
    extra: Mutex<Option<Box<Extra>>>,
    /// Whether the session has opened a user interface of the backend (MCP Apps).
    pub(crate) has_open_app: AtomicBool,
}

/// What few sessions need.
#[derive(Debug, Default)]
struct Extra {
    /// Resources that the client wants to hear of.
    subscriptions: Vec<Box<str>>,
    listener: Option<AbortHandle>,
    /// Nothing is listened to any more.
    ended: bool,
}

impl Upstream {
    pub(crate) fn new(link: Arc<Link>) -> Self {
        Self {
            link,
            live: ArcSwapOption::empty(),
            opening: tokio::sync::Mutex::const_new(()),
            extra: Mutex::new(None),
            has_open_app: AtomicBool::new(false),
        }
    }

    /// The session, opened if there is none.
    pub(crate) async fn live(
        &self,
        who: Introduction<'_>,
        level: Level<'_>,
    ) -> Result<Arc<Live>, BoxError> {
        match self.live.load_full() {
            Some(live) => {
                live.renew(who.caller);
                Ok(live)
            }
            // Once in a session: not worth room in the future of every request.
            None => Box::pin(self.open_session(who, level)).await,
        }
    }

    async fn open_session(
        &self,
        who: Introduction<'_>,
        level: Level<'_>,
    ) -> Result<Arc<Live>, BoxError> {
        let _guard = self.opening.lock().await;
        if let Some(live) = self.live.load_full() {
            return Ok(live);
        }
        let (opened, _) = handshake::open(&self.link, who).await?;
        let live = opened.live();
        let mut known = None;
        self.follow_level(live, level, &mut known, who.cause).await;
        for uri in self.subscriptions() {
            let uri = String::from_utf8_lossy(&define_literal(&uri)).into_owned();
            let params = format!("{{\"uri\":{uri}}}");
            _ = self.set(live, "resources/subscribe", &params, who.cause).await;
        }
        let live = opened.keep();
        self.live.store(Some(Arc::clone(&live)));
        // Who set another one meanwhile did not see this session, or is seen here.
        self.follow_level(&live, level, &mut known, who.cause).await;
        Ok(live)
    }

    /// Tells a session the level of its log until it is the `known` one.
    async fn follow_level(
        &self,
        live: &Live,
        level: Level<'_>,
        known: &mut Option<Box<[u8]>>,
        cause: Option<&Trail>,
    ) {
        while let Some(level) = level().filter(|_| live.logs)
            && known.as_ref() != Some(&level)
        {
            self.set_level(live, &level, cause).await;
            *known = Some(level);
        }
    }

    /// Sets the level of a session's log, which is JSON. A backend that refuses it says what it likes.
    pub(crate) async fn set_level(&self, live: &Live, level: &[u8], cause: Option<&Trail>) {
        let params = format!("{{\"level\":{}}}", String::from_utf8_lossy(level));
        _ = self.set(live, "logging/setLevel", &params, cause).await;
    }

    /// The session, if it is open.
    pub(crate) fn open(&self) -> Option<Arc<Live>> {
        self.live.load_full()
    }

    /// Forgets a session that the backend has forgotten. Whether it was still the current one.
    pub(crate) fn gone(&self, live: &Arc<Live>) -> bool {
        let current = self.live.compare_and_swap(live, None);
        current.as_ref().is_some_and(|current| Arc::ptr_eq(current, live))
    }

    /// Makes a small request of the gateway's own.
    pub(crate) async fn set(
        &self,
        live: &Live,
        method: &'static str,
        params: &str,
        cause: Option<&Trail>,
    ) -> Result<(), BoxError> {
        let id = format!("\"vmcp:{}\"", self.link.serial());
        let message =
            format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#);
        let request = live.sign(post(&self.link, &live.caller(), message.into()));
        ask(&self.link, asking(request, method, cause), &id).await.map(drop)
    }

    /// Whether there is room to remember one more subscription, or it is known.
    pub(crate) fn may_subscribe(&self, uri: &str) -> bool {
        lock(&self.extra).as_ref().is_none_or(|extra| {
            let known = &extra.subscriptions;
            known.len() < MOST_SUBSCRIPTIONS || known.iter().any(|known| **known == *uri)
        })
    }

    /// Remembers that the client wants to hear of a resource, or no longer does. Beyond the limit nothing is remembered.
    pub(crate) fn subscribe(&self, uri: &str, wanted: bool) {
        let mut extra = lock(&self.extra);
        let subscriptions = &mut extra.get_or_insert_default().subscriptions;
        subscriptions.retain(|known| **known != *uri);
        if wanted && subscriptions.len() < MOST_SUBSCRIPTIONS {
            subscriptions.push(uri.into());
        }
    }

    pub(crate) fn subscriptions(&self) -> Vec<Box<str>> {
        lock(&self.extra).as_ref().map(|extra| extra.subscriptions.clone()).unwrap_or_default()
    }

    /// Starts listening to the backend with `start`, unless that is done already, or the relation is over.
    pub(crate) fn listen_with(&self, start: impl FnOnce() -> AbortHandle) {
        let mut extra = lock(&self.extra);
        let Extra { listener, ended, .. } = &mut **extra.get_or_insert_default();
        if !*ended && listener.as_ref().is_none_or(AbortHandle::is_finished) {
            *listener = Some(start());
        }
    }

    /// Stops listening.
    pub(crate) fn stop_listening(&self) {
        if let Some(extra) = &mut *lock(&self.extra)
            && let Some(listener) = extra.listener.take()
        {
            listener.abort();
        }
    }

    /// Ends the session, in the background. `cancels` are sent before.
    pub(crate) fn close(&self, cancels: Vec<Request<Full<Bytes>>>) {
        self.end_listening();
        self.leave(false, cancels);
    }

    /// Ends the session when the calls in it are over: each ends on the configuration it began with.
    pub(crate) fn retire(&self) {
        self.end_listening();
        self.leave(true, Vec::new());
    }

    /// Stops listening, for good.
    fn end_listening(&self) {
        lock(&self.extra).get_or_insert_default().ended = true;
        self.stop_listening();
    }

    fn leave(&self, patiently: bool, cancels: Vec<Request<Full<Bytes>>>) {
        let Some(live) = self.live.swap(None).filter(|live| live.can_end()) else { return };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let link = Arc::clone(&self.link);
        runtime.spawn(async move {
            // A call holds it for as long as it is under way.
            while patiently && Arc::strong_count(&live) > 1 {
                sleep(LOOK).await;
            }
            let cancels = cancels.into_iter().map(|cancel| tell(&link, cancel));
            _ = timeout(CANCELLATION_TIMEOUT, join_all(cancels)).await;
            live.close(&link).await;
        });
    }
}

/// A call that was on its way when the relation ended may have opened a session since.
impl Drop for Upstream {
    fn drop(&mut self) {
        self.leave(true, Vec::new());
    }
}
