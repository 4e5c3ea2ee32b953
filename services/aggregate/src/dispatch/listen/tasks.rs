//! Task notifications for stateless clients (`taskIds` of `subscriptions/listen`).

use std::sync::Arc;

use bytes::Bytes;
use tokio::time::sleep;
use vmcp_core::{Generation, MediaType, Rejection, cause_ref, code};
use vmcp_timeout::TimeoutControl;
use vmcp_wire::{Envelope, Key, Span, Splice, elements, find, parse_json_string, scan};

use super::MAX_RESOURCES;
use crate::backend::BackendHandle;
use crate::backend::error::BackendError;
use crate::backend::event_reader::EventReader;
use crate::backend::handshake::{self, ClientInfo};
use crate::backend::rpc::send_request;
use crate::bridge::Bridge;
use crate::call::Call;
use crate::capabilities::{TASKS, TASKS_REQUIRED, declares, tasks_required};
use crate::catalog::define_literal;
use crate::composite::{FollowedRun, TaskRuns, find_run};
use crate::notify::backend_stream::{MAX_EVENT_BYTES, RETRY_DELAY, listening};
use crate::notify::listeners::Listener;
use crate::notify::notification_filter::NotificationFilter;
use crate::tasks::{self, TASK_CHANGED, TaskId, translated, visible_tool};

pub(super) const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";

/// Task that a listener follows.
#[derive(Debug)]
pub(crate) struct FollowedTask {
    /// The backend's own id.
    id: Box<str>,
    /// The client's id of the task, exactly as sent.
    pub(crate) literal: Bytes,
    /// Advertised name of the tool that created the task.
    tool: Box<str>,
    /// Last status sent to the client.
    status: Option<Box<str>>,
}

/// Returns the task ids of a listen request, exactly as sent.
pub(crate) fn wanted(call: &Call, filter: &[u8]) -> Result<Vec<Bytes>, Rejection> {
    let Some(ids) = find(filter, "taskIds").filter(|ids| *ids != b"null") else {
        return Ok(Vec::new());
    };
    let mut literals = elements(ids);
    let strings = literals.clone().all(|id| id.first() == Some(&b'"'));
    if ids.first() != Some(&b'[') || !strings || literals.clone().nth(MAX_RESOURCES).is_some() {
        return Err(Rejection::invalid_params(format!(
            "params.notifications.taskIds must be an array of at most {MAX_RESOURCES} strings"
        )));
    }
    let literals: Vec<Bytes> =
        literals.by_ref().map(|id| call.message.bytes.slice_ref(id)).collect();
    if !literals.is_empty() && !declares(&call.message, TASKS) {
        return Err(tasks_required());
    }
    Ok(literals)
}

/// Returns the tasks of composite tools that the client may follow, and the ids of all other tasks.
pub(crate) async fn find_runs(
    parts: (&Arc<Bridge>, &Arc<TaskRuns>),
    call: &Arc<Call>,
    literals: Vec<Bytes>,
) -> (Vec<FollowedRun>, Vec<Bytes>) {
    let (mut runs, mut others) = (Vec::<FollowedRun>::new(), Vec::new());
    for literal in literals {
        // Policy evaluation takes time and there can be many tasks, so yield to other requests.
        tokio::task::yield_now().await;
        match find_run(parts, call, &literal).await {
            Some(run) if runs.iter().any(|known| known.is_same(&run)) => {}
            Some(run) => runs.push(run),
            None => others.push(literal),
        }
    }
    (runs, others)
}

/// Groups the tasks by backend. Tasks that the client may not follow are omitted.
pub(crate) async fn find_tasks(
    call: &Call,
    literals: Vec<Bytes>,
) -> Vec<(Arc<BackendHandle>, Vec<FollowedTask>)> {
    let mut found: Vec<(Arc<BackendHandle>, Vec<FollowedTask>)> = Vec::new();
    for literal in literals {
        // Policy evaluation takes time and there can be many tasks, so yield to other requests.
        tokio::task::yield_now().await;
        let id = parse_json_string(&literal);
        let task = id.and_then(|id| TaskId::open(&id, &call.context.seal, call.caller.identity()));
        let Some(TaskId { backend: owner, tool, id }) = task else { continue };
        let mut backends = call.snapshot.backends.iter();
        let Some(backend) = backends.find(|backend| *backend.name() == *owner) else { continue };
        let Ok(Some(tool)) = visible_tool(call, backend, &tool).await else { continue };
        if !matches!(call.backend_generation(backend).await, Ok(Generation::Stateless)) {
            continue;
        }
        let task = FollowedTask { id, literal, tool, status: None };
        match found.iter_mut().find(|(known, _)| known.id == backend.id) {
            Some((_, tasks)) if tasks.iter().any(|known| known.id == task.id) => {}
            Some((_, tasks)) => tasks.push(task),
            None => found.push((Arc::clone(backend), vec![task])),
        }
    }
    found
}

/// Notifies a listener of the tasks of one backend until all have ended.
pub(crate) async fn for_listener(
    filter: Arc<NotificationFilter>,
    listener: Arc<Listener>,
    backend: Arc<BackendHandle>,
    tasks: Vec<FollowedTask>,
) {
    let mut follower = TaskFollower { filter, listener, backend, tasks };
    let mut pause = RETRY_DELAY.0;
    while !follower.tasks.is_empty() {
        match follower.open().await {
            Some(mut events) => {
                while let Some(Ok(event)) = events.next().await {
                    pause = RETRY_DELAY.0;
                    follower.pass(&event.data).await;
                    if follower.tasks.is_empty() {
                        return;
                    }
                }
            }
            // Without a stream, the tasks are polled.
            None => follower.refetch().await,
        }
        sleep(pause).await;
        pause = RETRY_DELAY.1.min(pause * 2);
    }
}

struct TaskFollower {
    filter: Arc<NotificationFilter>,
    listener: Arc<Listener>,
    backend: Arc<BackendHandle>,
    /// Tasks that have not ended, as far as the client knows.
    tasks: Vec<FollowedTask>,
}

impl TaskFollower {
    fn client_info(&self) -> ClientInfo<'_> {
        let capabilities = TASKS_REQUIRED.as_bytes();
        ClientInfo { capabilities, ..listening(&self.listener.caller) }
    }

    /// Opens the backend's notification stream for the tasks.
    async fn open(&self) -> Option<EventReader> {
        let literal =
            |task: &FollowedTask| String::from_utf8_lossy(&define_literal(&task.id)).into_owned();
        let ids: Vec<_> = self.tasks.iter().map(literal).collect();
        let members = format!("\"notifications\":{{\"taskIds\":[{}]}},", ids.join(","));
        let client_info = self.client_info();
        let (mut request, _) =
            handshake::request(&self.backend, "subscriptions/listen", &members, client_info);
        let hold = TimeoutControl::new();
        hold.disable();
        request.extensions_mut().insert(hold);
        let response = self.backend.send(request).await.ok()?;
        let events = MediaType::of(response.headers()) == MediaType::EventStream;
        let account = self.backend.account(&self.listener.caller, None);
        events.then(|| {
            EventReader::new(response.into_body(), MAX_EVENT_BYTES)
                .charged_while_open(account.as_ref())
        })
    }

    /// Forwards a backend's notification about a task of this listener.
    async fn pass(&mut self, message: &Bytes) {
        let Ok(Envelope::Notification { method, params }) = scan(message) else { return };
        if method.is(message, ACKNOWLEDGED) {
            // Earlier changes are not sent on the stream.
            return self.refetch().await;
        }
        if !method.is(message, TASK_CHANGED) {
            return;
        }
        let id = params.text(message, Key::TaskId).map(|id| id.read(message));
        let index = self.tasks.iter().position(|task| id.as_deref() == Some(&*task.id));
        if let (Some(index), Some(params)) = (index, params.span) {
            self.notify_client(index, message, params);
        }
    }

    /// Fetches the tasks and notifies the client of changes.
    async fn refetch(&mut self) {
        let mut index = 0;
        while let Some(task) = self.tasks.get(index) {
            let left = self.tasks.len();
            let request = tasks::about(&self.backend, "tasks/get", &task.id, self.client_info());
            let Some((request, id)) = request else { return };
            match send_request(&self.backend, request, &id).await {
                Ok(reply) => {
                    let status = find(&reply.result, "status").and_then(parse_json_string);
                    let known = task.status.as_deref().unwrap_or("working");
                    if status.is_some_and(|status| status != known) {
                        let (message, params) = notification(&reply.result);
                        self.notify_client(index, &message, params);
                    }
                }
                Err(error) => match cause_ref::<BackendError>(error.as_ref()) {
                    Some(BackendError::Rpc { code, .. })
                        if *code == i64::from(code::INVALID_PARAMS) =>
                    {
                        self.tasks.remove(index);
                    }
                    // The next fetch retries it.
                    _ => return,
                },
            }
            if self.tasks.len() == left {
                index += 1;
            }
        }
    }

    /// Notifies the client of a task if the tool that created the task is still visible. A task that has ended is not followed
    /// any longer.
    fn notify_client(&mut self, index: usize, message: &Bytes, params: Span) {
        let Some(task) = self.tasks.get_mut(index) else { return };
        let caller = self.listener.caller.identity();
        if self.filter.may_follow(caller, &self.backend, &task.tool)
            && let Ok(message) = translated(message, params, &task.id, &task.literal)
        {
            self.listener.push(&message);
        }
        task.status =
            find(params.of(message), "status").and_then(parse_json_string).map(Into::into);
        if task.status.as_deref().is_some_and(is_final) {
            self.tasks.remove(index);
        }
    }
}

/// Returns `true` if a task with this status does not change any more.
pub(super) fn is_final(status: &str) -> bool {
    matches!(status, "completed" | "failed" | "cancelled")
}

/// Builds the notification from a `tasks/get` result, with the span of its parameters.
fn notification(result: &Bytes) -> (Bytes, Span) {
    let mut splice = Splice::new(result);
    splice.remove_member(Span::whole(result), "resultType");
    let params = splice.finish();
    let start = format!(r#"{{"jsonrpc":"2.0","method":"{TASK_CHANGED}","params":"#);
    let message = Bytes::from([start.as_bytes(), &params, b"}"].concat());
    (message, Span::new(start.len(), start.len() + params.len()))
}
