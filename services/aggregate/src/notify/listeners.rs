//! Open `subscriptions/listen` streams of stateless clients.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use tokio::task::AbortHandle;
use vmcp_core::{Caller, Identity};
use vmcp_wire::{Envelope, Key, Span, Splice, scan};

use crate::backend::BackendHandle;
use crate::catalog::Kind;
use crate::expiry::wait_for_expiry;
use crate::session::methods;
use crate::stream::{MessageClass, Stream};
use vmcp_core::lock;

/// Open `subscriptions/listen` streams.
#[derive(Debug)]
pub(crate) struct Listeners {
    /// Not held while listeners are notified or stopped, because those have locks of their own.
    open: Mutex<HashMap<u64, Arc<Listener>>>,
    /// Number of the next stream. Relaxed: only the uniqueness of the numbers counts.
    serial: AtomicU64,
    most: usize,
}

/// One open stream.
#[derive(Debug)]
pub(crate) struct Listener {
    stream: Arc<Stream>,
    /// Caller on whose behalf backends are subscribed to.
    pub(crate) caller: Caller,
    /// Id of the request, as JSON; it tags every notification.
    id: Bytes,
    /// Kinds of lists whose changes are requested.
    kinds: Vec<Kind>,
    /// Tasks that follow the backends. Aborted when the stream is removed.
    /// `None` for those that follow runs of composite tools.
    tasks: Mutex<Vec<(Option<Arc<BackendHandle>>, AbortHandle)>>,
}

impl Listeners {
    pub(crate) fn new(most: usize) -> Self {
        Self { open: Mutex::default(), serial: AtomicU64::new(0), most }
    }

    pub(crate) fn len(&self) -> usize {
        lock(&self.open).len()
    }

    /// Adds a stream. Returns its number, or `None` if there are too many.
    pub(crate) fn add(&self, listener: Arc<Listener>) -> Option<u64> {
        let mut open = lock(&self.open);
        if open.len() >= self.most {
            return None;
        }
        let number = self.serial.fetch_add(1, Ordering::Relaxed);
        open.insert(number, listener);
        Some(number)
    }

    /// Removes and stops a stream.
    pub(crate) fn remove(&self, number: u64) {
        if let Some(listener) = lock(&self.open).remove(&number) {
            listener.stop();
        }
    }

    /// Notifies the listeners of one caller, or of all, that lists have changed.
    pub(crate) fn lists_changed(&self, changes: &[Kind], caller: Option<&Identity>) {
        if changes.is_empty() {
            return;
        }
        let open: Vec<_> = lock(&self.open).values().cloned().collect();
        let concerned = |listener: &Arc<Listener>| {
            caller.is_none_or(|caller| listener.caller.identity() == caller)
        };
        for listener in open.into_iter().filter(concerned) {
            let wanted: Vec<_> =
                changes.iter().copied().filter(|kind| listener.wants(*kind)).collect();
            for method in methods(&wanted) {
                let message = format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{{}}}}"#);
                listener.push(&message.into());
            }
        }
    }

    /// Ends subscriptions to backends that are no longer configured.
    pub(crate) fn retain_backends(&self, backends: &[Arc<BackendHandle>]) {
        let open: Vec<_> = lock(&self.open).values().cloned().collect();
        for listener in open {
            lock(&listener.tasks).retain(|(backend, task)| {
                let kept = backend
                    .as_ref()
                    .is_none_or(|backend| backends.iter().any(|known| known.id == backend.id));
                if !kept {
                    task.abort();
                }
                kept
            });
        }
    }

    /// Ends all streams, each with its result.
    pub(crate) fn end(&self) {
        let open: Vec<_> = lock(&self.open).drain().map(|(_, listener)| listener).collect();
        for listener in open {
            listener.stop();
            let id = String::from_utf8_lossy(&listener.id).into_owned();
            let message = format!(
                r#"{{"jsonrpc":"2.0","id":{id},"result":{{"resultType":"complete","_meta":{{"io.modelcontextprotocol/subscriptionId":{id}}}}}}}"#
            );
            listener.stream.finish(message.into(), None);
        }
    }
}

impl Listener {
    /// Creates the listener of a request. `id` is that of the request, as JSON.
    pub(crate) fn new(
        stream: Arc<Stream>,
        caller: Caller,
        id: Bytes,
        kinds: Vec<Kind>,
    ) -> Arc<Self> {
        Arc::new(Self { stream, caller, id, kinds, tasks: Mutex::default() })
    }

    /// Returns `true` if the client requests changes of lists of this kind.
    pub(crate) fn wants(&self, kind: Kind) -> bool {
        let kind = if kind == Kind::Templates { Kind::Resources } else { kind };
        self.kinds.contains(&kind)
    }

    /// Sends a notification tagged with the subscription.
    pub(crate) fn push(&self, message: &Bytes) {
        if let Some(message) = tagged(message, &self.id) {
            self.stream.push(message, MessageClass::Coalesced);
        }
    }

    /// Runs a subscription to a backend until the token expires or the backend is removed.
    pub(crate) fn run(
        &self,
        backend: Arc<BackendHandle>,
        following: impl Future<Output = ()> + Send + 'static,
    ) {
        let (owner, of) = (self.caller.clone(), Arc::clone(&backend));
        let task = async move {
            tokio::select! {
                () = following => {}
                () = wait_for_expiry(|| owner.clone()) => {}
                () = of.retired() => {}
            }
        };
        lock(&self.tasks).push((Some(backend), tokio::spawn(task).abort_handle()));
    }

    /// Runs a subscription to runs of composite tools until the token expires.
    pub(crate) fn run_without_backend(&self, following: impl Future<Output = ()> + Send + 'static) {
        let owner = self.caller.clone();
        let task = async move {
            tokio::select! {
                () = following => {}
                () = wait_for_expiry(|| owner.clone()) => {}
            }
        };
        lock(&self.tasks).push((None, tokio::spawn(task).abort_handle()));
    }

    fn stop(&self) {
        lock(&self.tasks).drain(..).for_each(|(_, task)| task.abort());
    }
}

/// Returns a notification with the subscription's id in its `_meta`.
fn tagged(message: &Bytes, id: &[u8]) -> Option<Bytes> {
    const TAG: &str = "io.modelcontextprotocol/subscriptionId";
    let Ok(Envelope::Notification { params, .. }) = scan(message) else { return None };
    let tagged = params.get(Key::Meta).or(params.span);
    if tagged.is_some_and(|object| !object.of(message).starts_with(b"{")) {
        tracing::debug!("dropped a notification whose params are not an object");
        return None;
    }
    let mut splice = Splice::new(message);
    match (params.get(Key::Meta), params.span) {
        (Some(meta), _) => {
            splice.set_member(meta, TAG, id);
        }
        (None, Some(object)) => {
            let meta = [b"{\"", TAG.as_bytes(), b"\":", id, b"}"].concat();
            splice.set_member(object, "_meta", &meta);
        }
        (None, None) => {
            let meta = [b"{\"_meta\":{\"", TAG.as_bytes(), b"\":", id, b"}}"].concat();
            splice.set_member(Span::whole(message), "params", &meta);
        }
    }
    Some(splice.finish())
}
