//! Notifications about tasks of composite tools (`taskIds` of `subscriptions/listen`).

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::{join_all, select};
use serde_json::json;
use tokio::time::sleep;
use vmcp_compose::{RunStatus, StoreError};
use vmcp_wire::parse_json_string;

use super::TaskRuns;
use super::changed::{current, read};
use super::request::visible;
use super::view::{POLL_INTERVAL, TaskStatus, TaskView};
use crate::bridge::Bridge;
use crate::call::{Call, is_composite_visible};
use crate::composite::CompositeCall;
use crate::notify::listeners::Listener;
use crate::tasks::{RunTaskId, TASK_CHANGED};

/// Task that a listener follows.
pub(crate) struct FollowedRun {
    task: RunTaskId,
    /// The client's id of the task.
    id: String,
    /// The id exactly as sent.
    pub(crate) literal: Bytes,
    composite: CompositeCall,
}

impl FollowedRun {
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.task == other.task
    }

    /// Returns `true` if the composite tool is visible with the present permissions of the client.
    fn is_visible(&self, listener: &Listener) -> bool {
        let CompositeCall { call, catalog, name, .. } = &self.composite;
        let permissions = call.context.notification_filter.permissions(listener.caller.identity());
        permissions.is_none_or(|permissions| {
            let seen = (&**catalog, call.generation());
            is_composite_visible(&permissions, seen, name, self.composite.composite())
        })
    }

    /// Notifies a listener of each change until the run has ended.
    async fn follow(&self, listener: &Listener) {
        let Self { task, id, composite, literal: _ } = self;
        let call = &composite.call;
        let workflows = &call.context.workflows;
        let mut shown = (TaskStatus::Working, Vec::new());
        loop {
            let running = composite.task_runs.find(task);
            // Registered before the read, so that no change in between is missed.
            let mut changed = running.as_ref().map(|run| Box::pin(run.changed.notified()));
            if let Some(changed) = &mut changed {
                changed.as_mut().enable();
            }
            let record = match current(composite, task).await {
                Ok(record) => record,
                Err(StoreError::NotFound) => return,
                Err(_) => {
                    sleep(POLL_INTERVAL).await;
                    continue;
                }
            };
            let times = (workflows.clock.now().into(), workflows.store.lifetime());
            let view = TaskView::of(&record, &composite.composite().workflow, id, times);
            let state = (view.status, view.questions.clone());
            if state != shown {
                if self.is_visible(listener) {
                    let params = view.into_params();
                    let message =
                        json!({ "jsonrpc": "2.0", "method": TASK_CHANGED, "params": params });
                    listener.push(&message.to_string().into());
                }
                shown = state;
            }
            if shown.0.is_final() {
                return;
            }
            let written = async {
                if record.status == RunStatus::Running {
                    let version = record.version;
                    if workflows.store.wait(&task.owner, &task.run, version).await.is_ok() {
                        return;
                    }
                }
                sleep(POLL_INTERVAL).await;
            };
            match changed {
                Some(changed) => _ = select(changed, std::pin::pin!(written)).await,
                None => written.await,
            }
        }
    }
}

/// Returns the run of a task id of a listen request, if the client may follow it.
pub(crate) async fn find_run(
    parts: (&Arc<Bridge>, &Arc<TaskRuns>),
    call: &Arc<Call>,
    literal: &Bytes,
) -> Option<FollowedRun> {
    let id = parse_json_string(literal)?;
    let task = RunTaskId::open(&id, &call.context.seal, call.caller.identity())?;
    let composite = visible(parts, call, &task).await.ok()??;
    read(call, &task).await.ok()?;
    Some(FollowedRun { task, id: id.into_owned(), literal: literal.clone(), composite })
}

/// Notifies a listener of runs until all have ended.
pub(crate) async fn follow_runs(listener: Arc<Listener>, runs: Vec<FollowedRun>) {
    join_all(runs.iter().map(|run| run.follow(&listener))).await;
}
