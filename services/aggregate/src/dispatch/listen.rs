//! Notifications for stateless clients (`subscriptions/listen`): changed lists, updated resources and tasks.

mod elsewhere;
mod resources;
mod tasks;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::Response;
use http_body::Frame;
use vmcp_core::{Body, BoxError, NotificationStream, Rejection};
use vmcp_wire::{Key, elements, find, parse_json_string};

use self::elsewhere::ReplicaTasks;
use self::tasks::FollowedTask;
use crate::backend::BackendHandle;
use crate::bridge::Bridge;
use crate::call::Call;
use crate::catalog::{Kind, define_literal};
use crate::composite::{FollowedRun, TaskRuns, follow_runs};
use crate::event_stream::event_stream;
use crate::notify::listeners::{Listener, Listeners};
use crate::stream::{Connection, Opening, Stream};

/// Maximum number of resources per stream.
const MAX_RESOURCES: usize = 1024;

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
    let uris = find(filter, "resourceSubscriptions").into_iter().flat_map(elements);
    let mut resources: Vec<String> =
        uris.filter_map(parse_json_string).map(std::borrow::Cow::into_owned).collect();
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
pub(crate) async fn listen(
    call: Arc<Call>,
    listeners: &Arc<Listeners>,
    parts: (&Arc<Bridge>, &Arc<TaskRuns>),
) -> Result<Response<Body>, Rejection> {
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
    let (elsewhere, tasks) = elsewhere::find_tasks(&call, tasks).await;
    let (runs, tasks) = tasks::find_runs(parts, &call, tasks).await;
    let tasks = tasks::find_tasks(&call, tasks).await;
    let stream = Stream::unnumbered(call.account().as_ref());
    let listener = Listener::new(Arc::clone(&stream), call.caller.clone(), call.id(), kinds);
    let Some(number) = listeners.add(Arc::clone(&listener)) else {
        return Err(Rejection::overloaded("all subscription streams are in use", 30));
    };
    let connection = stream.connect(None, Opening::Plain);
    let guard = ListenerGuard { listeners: Arc::clone(listeners), number, connection };
    listener.push(&acknowledgement(&listener, &owners, &tasks, &runs, &elsewhere).into());
    for (backend, uris) in owners {
        let filter = Arc::clone(&call.context.notification_filter);
        let following =
            resources::for_listener(filter, Arc::clone(&listener), Arc::clone(&backend), uris);
        listener.run(backend, following);
    }
    for (backend, tasks) in tasks {
        let filter = Arc::clone(&call.context.notification_filter);
        let following =
            tasks::for_listener(filter, Arc::clone(&listener), Arc::clone(&backend), tasks);
        listener.run(backend, following);
    }
    if !runs.is_empty() {
        let following = follow_runs(Arc::clone(&listener), runs);
        listener.run_without_backend(following);
    }
    for tasks in elsewhere {
        let following = elsewhere::for_listener(Arc::clone(&call), Arc::clone(&listener), tasks);
        listener.run_without_backend(following);
    }
    let mut response = event_stream(Body::wrap(guard));
    response.extensions_mut().insert(NotificationStream);
    Ok(response)
}

fn acknowledgement(
    listener: &Listener,
    owners: &[(Arc<BackendHandle>, Vec<String>)],
    tasks: &[(Arc<BackendHandle>, Vec<FollowedTask>)],
    runs: &[FollowedRun],
    elsewhere: &[ReplicaTasks],
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
        .map(|task| &task.literal)
        .chain(runs.iter().map(|run| &run.literal))
        .chain(elsewhere.iter().flat_map(|tasks| &tasks.literals))
        .map(|literal| String::from_utf8_lossy(literal))
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
    listeners: Arc<Listeners>,
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
        self.listeners.remove(self.number);
    }
}
