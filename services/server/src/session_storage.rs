//! Storage that replicas share, while the server runs.

use std::sync::Arc;
use std::time::SystemTime;

use jiff::Timestamp;
use serde_json::{Value, json};
use vmcp_compose_redis::{RedisWorkflowStore, StoreState};
use vmcp_config::{SecretFile, SessionRedis};
use vmcp_session::{Liveness, SessionStorage};
use vmcp_session_redis::{RedisSessionStorage, StorageState};

/// Sessions and runs in Redis.
#[derive(Clone, Debug)]
pub(crate) struct SharedStorage {
    pub(crate) sessions: Arc<RedisSessionStorage>,
    pub(crate) workflows: Arc<RedisWorkflowStore>,
    /// Section of the configuration at the start.
    pub(crate) section: SessionRedis<SecretFile>,
}

impl SharedStorage {
    /// Returns each part and whether it works: storing sessions, storing runs, hearing of sessions that other replicas ended.
    pub(crate) fn parts(&self) -> [(&'static str, bool); 3] {
        [
            ("sessions", self.sessions.state().is_connected),
            ("workflows", self.workflows.state().is_connected),
            ("messages", self.sessions.liveness() == Liveness::Current),
        ]
    }

    /// Returns `ready`, or `unavailable` if a part does not work.
    pub(crate) fn status(&self) -> &'static str {
        status(self.parts().iter().all(|(_, works)| *works))
    }

    /// Returns the state for `/status`.
    pub(crate) fn to_json(&self) -> Value {
        let StorageState { is_connected, since, last_error } = self.sessions.state();
        let sessions = state(is_connected, since, last_error.as_deref());
        let StoreState { is_connected, since, last_error } = self.workflows.state();
        let workflows = state(is_connected, since, last_error.as_deref());
        json!({
            "provider": "redis",
            "sessions": sessions,
            "workflows": workflows,
            "messages": messages(self.sessions.liveness()),
            "ended_sessions": self.sessions.ended(),
        })
    }
}

/// Returns the name of the state of the messages.
fn messages(liveness: Liveness) -> &'static str {
    match liveness {
        Liveness::Current => "current",
        Liveness::Silent => "silent",
        Liveness::Lost => "lost",
    }
}

fn state(is_connected: bool, since: SystemTime, last_error: Option<&str>) -> Value {
    let since = Timestamp::try_from(since).map(|time| time.to_string()).ok();
    json!({"status": status(is_connected), "since": since, "last_error": last_error})
}

fn status(works: bool) -> &'static str {
    if works { "ready" } else { "unavailable" }
}
