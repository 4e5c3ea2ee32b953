//! Notifications about changed lists and updated resources, on the notification stream of a stateful client and on the
//! `subscriptions/listen` streams of stateless clients.

mod follow;
mod subscribe;
mod tasks;

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::Response;
use http_body::Frame;
use tokio::task::AbortHandle;
use vmcp_core::{Body, BoxError, Caller, Identity, NotificationStream, Rejection};
use vmcp_wire::{Envelope, Key, Span, Splice, elements, find, parse_json_string, scan};

pub(crate) use self::follow::follow;
pub(crate) use self::subscribe::subscribe;
use self::tasks::FollowedTask;
use crate::backend::BackendHandle;
use crate::call::Call;
use crate::catalog::{Kind, define_literal};
use crate::event_stream::event_stream;
use crate::expiry::wait_for_expiry;
use crate::session::methods;
use crate::stream::{Connection, MessageClass, Opening, Stream};
use crate::sync::lock;

/// Maximum number of resources per stream.
const MAX_RESOURCES: usize = 1024;

/// Open `subscriptions/listen` streams.
#[derive(Debug)]
pub(crate) struct Listeners {
    open: Mutex<HashMap<u64, Arc<Listener>>>,
    serial: AtomicU64,
    most: usize,
}

/// One open stream.
#[derive(Debug)]
pub(crate) struct Listener {
    stream: Arc<Stream>,
    /// Caller on whose behalf backends are subscribed to.
    caller: Caller,
    /// Id of the request, as JSON; it tags every notification.
    id: Bytes,
    /// Kinds of lists whose changes are requested.
    kinds: Vec<Kind>,
    tasks: Mutex<Vec<(Arc<BackendHandle>, AbortHandle)>>,
}

impl Listeners {
    pub(crate) fn new(most: usize) -> Self {
        Self { open: Mutex::default(), serial: AtomicU64::new(0), most }
    }

    pub(crate) fn len(&self) -> usize {
        lock(&self.open).len()
    }

    fn add(&self, listener: Arc<Listener>) -> Option<u64> {
        let mut open = lock(&self.open);
        if open.len() >= self.most {
            return None;
        }
        let number = self.serial.fetch_add(1, Ordering::Relaxed);
        open.insert(number, listener);
        Some(number)
    }

    fn remove(&self, number: u64) {
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
                let kept = backends.iter().any(|known| known.id == backend.id);
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
    fn wants(&self, kind: Kind) -> bool {
        let kind = if kind == Kind::Templates { Kind::Resources } else { kind };
        self.kinds.contains(&kind)
    }

    /// Sends a notification tagged with the subscription.
    fn push(&self, message: &Bytes) {
        if let Some(message) = tagged(message, &self.id) {
            self.stream.push(message, MessageClass::Coalesced);
        }
    }

    /// Runs a subscription to a backend until the token expires or the backend is removed.
    fn run(
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
        lock(&self.tasks).push((backend, tokio::spawn(task).abort_handle()));
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
        (Some(meta), _) => _ = splice.set_member(meta, TAG, id),
        (None, Some(object)) => {
            let meta = [b"{\"", TAG.as_bytes(), b"\":", id, b"}"].concat();
            splice.set_member(object, "_meta", &meta);
        }
        (None, None) => {
            let meta = [b"{\"_meta\":{\"", TAG.as_bytes(), b"\":", id, b"}}"].concat();
            let whole = Span { start: 0, end: u32::try_from(message.len()).ok()? };
            splice.set_member(whole, "params", &meta);
        }
    }
    Some(splice.finish())
}

/// Filter of a listen request.
struct ListenFilter {
    kinds: Vec<Kind>,
    resources: Vec<String>,
    /// Task ids, as JSON.
    tasks: Vec<Bytes>,
}

fn wanted(call: &Call) -> Result<ListenFilter, Rejection> {
    let filter = call
        .message
        .param(Key::Notifications)
        .filter(|filter| filter.first() == Some(&b'{'))
        .ok_or_else(|| {
            Rejection::invalid_params("subscriptions/listen needs params.notifications, an object")
        })?;
    let on = |member| find(filter, member) == Some(b"true");
    let kinds = [
        ("toolsListChanged", Kind::Tools),
        ("promptsListChanged", Kind::Prompts),
        ("resourcesListChanged", Kind::Resources),
    ];
    let kinds = kinds.into_iter().filter(|(member, _)| on(member)).map(|(_, kind)| kind).collect();
    let uris = find(filter, "resourceSubscriptions").unwrap_or_default();
    let mut resources: Vec<String> =
        elements(uris).filter_map(parse_json_string).map(std::borrow::Cow::into_owned).collect();
    resources.sort();
    resources.dedup();
    let tasks = tasks::wanted(call, filter)?;
    if resources.len() + tasks.len() > MAX_RESOURCES {
        return Err(Rejection::invalid_params(format!(
            "subscriptions/listen takes at most {MAX_RESOURCES} resources and tasks"
        )));
    }
    Ok(ListenFilter { kinds, resources, tasks })
}

/// Processes `subscriptions/listen` (MCP 2026-07-28, Subscriptions).
pub(crate) async fn listen(call: Arc<Call>) -> Result<Response<Body>, Rejection> {
    let ListenFilter { kinds, resources, tasks } = wanted(&call)?;
    let catalog = if resources.is_empty() {
        call.snapshot.catalog(call.generation())
    } else {
        call.offered().await?
    };
    // Resources without a backend are omitted from the acknowledgement.
    let mut owners: Vec<(Arc<BackendHandle>, Vec<String>)> = Vec::new();
    for uri in resources {
        // Matching templates takes time and there can be many URIs, so yield to other requests.
        tokio::task::yield_now().await;
        let Some(backend) = call.readable(&uri, &catalog)? else { continue };
        match owners.iter_mut().find(|(known, _)| known.id == backend.id) {
            Some((_, uris)) => uris.push(uri),
            None => owners.push((backend, vec![uri])),
        }
    }
    let tasks = tasks::find_tasks(&call, tasks).await;
    let stream = Stream::unnumbered(call.account().as_ref());
    let listener = Arc::new(Listener {
        stream: Arc::clone(&stream),
        caller: call.caller.clone(),
        id: call.id(),
        kinds,
        tasks: Mutex::default(),
    });
    let Some(number) = call.gateway.listeners.add(Arc::clone(&listener)) else {
        return Err(Rejection::overloaded("all subscription streams are in use", 30));
    };
    let gateway = Arc::clone(&call.gateway);
    let guard = ListenerGuard { gateway, number, connection: stream.connect(None, Opening::Plain) };
    listener.push(&acknowledgement(&listener, &owners, &tasks).into());
    for (backend, uris) in owners {
        let gateway = Arc::clone(&call.gateway);
        let following =
            follow::for_listener(gateway, Arc::clone(&listener), Arc::clone(&backend), uris);
        listener.run(backend, following);
    }
    for (backend, tasks) in tasks {
        let gateway = Arc::clone(&call.gateway);
        let following =
            tasks::for_listener(gateway, Arc::clone(&listener), Arc::clone(&backend), tasks);
        listener.run(backend, following);
    }
    let mut response = event_stream(Body::wrap(guard));
    response.extensions_mut().insert(NotificationStream);
    Ok(response)
}

fn acknowledgement(
    listener: &Listener,
    owners: &[(Arc<BackendHandle>, Vec<String>)],
    tasks: &[(Arc<BackendHandle>, Vec<FollowedTask>)],
) -> String {
    let mut members: Vec<String> = [
        ("toolsListChanged", Kind::Tools),
        ("promptsListChanged", Kind::Prompts),
        ("resourcesListChanged", Kind::Resources),
    ]
    .into_iter()
    .filter(|(_, kind)| listener.wants(*kind))
    .map(|(member, _)| format!("\"{member}\":true"))
    .collect();
    let uris: Vec<String> = owners
        .iter()
        .flat_map(|(_, uris)| uris)
        .map(|uri| String::from_utf8_lossy(&define_literal(uri)).into_owned())
        .collect();
    if !uris.is_empty() {
        members.push(format!("\"resourceSubscriptions\":[{}]", uris.join(",")));
    }
    let ids: Vec<_> = tasks
        .iter()
        .flat_map(|(_, tasks)| tasks)
        .map(|task| String::from_utf8_lossy(&task.literal))
        .collect();
    if !ids.is_empty() {
        members.push(format!("\"taskIds\":[{}]", ids.join(",")));
    }
    format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{{"notifications":{{{}}}}}}}"#,
        members.join(",")
    )
}

/// Guard in the response body: when the client disconnects, the subscription ends.
struct ListenerGuard {
    gateway: Arc<crate::gateway_state::GatewayState>,
    number: u64,
    connection: Connection,
}

impl http_body::Body for ListenerGuard {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        Pin::new(&mut self.connection).poll_frame(cx)
    }
}

impl Drop for ListenerGuard {
    fn drop(&mut self) {
        self.gateway.listeners.remove(self.number);
    }
}
