//! Tasks of stateless backends (`io.modelcontextprotocol/tasks`), as stateless clients know them.
//!
//! Nothing is kept here: an id that a client was given holds the backend, the tool and the backend's own id, sealed for
//! the client that it was given to.

mod id;
mod related;
mod request;
mod result;
mod visibility;

/// The notification about a task (`params` as the result of `tasks/get`).
pub(crate) const TASK_CHANGED: &str = "notifications/tasks";

pub(crate) use self::id::TaskId;
pub(crate) use self::related::{is_related, map_related, remove_related};
pub(crate) use self::request::{about, request};
pub(crate) use self::result::{created, translated, undeclared};
pub(crate) use self::visibility::visible_tool;
