//! State of the storage, as operators see it.

use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use vmcp_core::{Clock, lock};

/// State of the connection to Redis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorageState {
    /// `true` if messages arrive and writes succeed.
    pub is_connected: bool,
    /// Time of the last change of `is_connected`.
    pub since: SystemTime,
    /// Last error. Contains no secret.
    pub last_error: Option<Arc<str>>,
}

/// Use of Redis. Each has a state of its own.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Use {
    Publish,
    Subscribe,
    Step,
}

/// Last result of each use. Logs a change of the whole, not each result.
#[derive(Debug)]
pub(crate) struct Health {
    inner: Mutex<Inner>,
    clock: Clock,
}

#[derive(Debug)]
struct Inner {
    is_failing: [bool; 3],
    state: StorageState,
}

impl Health {
    pub(crate) fn new(clock: Clock) -> Self {
        let state = StorageState { is_connected: true, since: clock.now(), last_error: None };
        Self { inner: Mutex::new(Inner { is_failing: [false; 3], state }), clock }
    }

    pub(crate) fn state(&self) -> StorageState {
        lock(&self.inner).state.clone()
    }

    pub(crate) fn is_failing(&self, part: Use) -> bool {
        lock(&self.inner).is_failing[part as usize]
    }

    pub(crate) fn fail(&self, part: Use, error: &impl ToString) {
        let mut inner = lock(&self.inner);
        inner.is_failing[part as usize] = true;
        let error: Arc<str> = error.to_string().into();
        inner.state.last_error = Some(Arc::clone(&error));
        if inner.state.is_connected {
            inner.state = StorageState {
                is_connected: false,
                since: self.clock.now(),
                last_error: Some(Arc::clone(&error)),
            };
            drop(inner);
            tracing::warn!(%error, "session storage unavailable");
        }
    }

    pub(crate) fn succeed(&self, part: Use) {
        let mut inner = lock(&self.inner);
        inner.is_failing[part as usize] = false;
        if inner.is_failing == [false; 3] && !inner.state.is_connected {
            inner.state.is_connected = true;
            inner.state.since = self.clock.now();
            drop(inner);
            tracing::info!("session storage available");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn state_changes_when_last_use_recovers() {
        let clock = Clock::manual(SystemTime::UNIX_EPOCH);
        let health = Health::new(clock.clone());
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let state = || (health.state().is_connected, health.state().since);
        clock.advance(Duration::from_secs(1));
        health.fail(Use::Step, &"full");
        clock.advance(Duration::from_secs(1));
        health.fail(Use::Publish, &"gone");
        assert_eq!(state(), (false, at(1)));
        health.succeed(Use::Publish);
        health.succeed(Use::Subscribe);
        assert_eq!(state(), (false, at(1)));
        health.succeed(Use::Step);
        assert_eq!(state(), (true, at(2)));
        assert_eq!(health.state().last_error.as_deref(), Some("gone"));
    }
}
