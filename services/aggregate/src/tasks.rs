//! Tasks of stateless backends (`io.modelcontextprotocol/tasks`) for stateless clients, and ids of the tasks of composite tools.
//!
//! The gateway stores no tasks of backends: a client's task id contains the backend, the tool and the backend's own id, sealed for that
//! client.

mod id;
mod related;
mod request;
mod result;
mod run_id;
mod visibility;

/// Notification about a task (`params` like the result of `tasks/get`).
pub(crate) const TASK_CHANGED: &str = "notifications/tasks";

pub(crate) use self::id::TaskId;
pub(crate) use self::related::{is_related, map_related, remove_related};
pub(crate) use self::request::about;
pub(crate) use self::result::{created, translated, undeclared};
pub(crate) use self::run_id::RunTaskId;
pub(crate) use self::visibility::visible_tool;
