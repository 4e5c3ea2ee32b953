//! Facts of a request that layers within record for audit and telemetry outside.

use std::any::Any;
use std::sync::{Arc, OnceLock};

use http::Extensions;

use crate::{Backend, Identity, McpRequest};

/// A slip of paper that goes inward with a request: each fact is written once, by the layer that finds
/// it out, and read when the answer goes out, or when the call is cancelled.
///
/// Audit and telemetry put it into the request; without them there is none, and nothing is written.
/// It is the one exception to the rule that facts go outward in the response's extensions, because a
/// call that was cancelled has no response.
#[derive(Clone, Debug, Default)]
pub struct Trail(Arc<Facts>);

#[derive(Debug, Default)]
struct Facts {
    identity: OnceLock<Identity>,
    message: OnceLock<McpRequest>,
    backend: OnceLock<Backend>,
    denied: OnceLock<&'static str>,
    error: OnceLock<i64>,
    watcher: OnceLock<Arc<dyn Any + Send + Sync>>,
}

impl Trail {
    /// The request's trail; put there if it has none yet.
    pub fn of(extensions: &mut Extensions) -> Self {
        extensions.get_or_insert_default::<Self>().clone()
    }

    /// Returns the caller. Authentication records it.
    #[must_use]
    pub fn identity(&self) -> Option<&Identity> {
        self.0.identity.get()
    }

    /// Writes who is calling.
    pub fn note_identity(&self, identity: &Identity) {
        _ = self.0.identity.set(identity.clone());
    }

    /// The message. Decoding writes it.
    #[must_use]
    pub fn message(&self) -> Option<&McpRequest> {
        self.0.message.get()
    }

    /// Writes the message.
    pub fn note_message(&self, message: &McpRequest) {
        _ = self.0.message.set(message.clone());
    }

    /// The backend that was asked. The aggregating service writes it.
    #[must_use]
    pub fn backend(&self) -> Option<&Backend> {
        self.0.backend.get()
    }

    /// Writes the backend.
    pub fn note_backend(&self, backend: &Backend) {
        _ = self.0.backend.set(backend.clone());
    }

    /// Returns the reason of a denial, in fixed words, even if the response does not name it: a hidden name is rejected like
    /// an unknown one.
    #[must_use]
    pub fn denied(&self) -> Option<&'static str> {
        self.0.denied.get().copied()
    }

    /// Writes that the caller was denied.
    pub fn note_denied(&self, reason: &'static str) {
        _ = self.0.denied.set(reason);
    }

    /// The code of the JSON-RPC error that a backend answered with. It may come after the head of the response.
    #[must_use]
    pub fn error(&self) -> Option<i64> {
        self.0.error.get().copied()
    }

    /// Writes the code of a backend's JSON-RPC error.
    pub fn note_error(&self, code: i64) {
        _ = self.0.error.set(code);
    }

    /// Has `state` found again, by [`Self::watcher`], at each request to a backend that is made for
    /// this one. Telemetry links the two so. The first one to watch counts.
    pub fn watch<T: Any + Send + Sync>(&self, state: Arc<T>) {
        _ = self.0.watcher.set(state);
    }

    /// Returns the state that was passed to [`Self::watch`], if it is a `T`.
    #[must_use]
    pub fn watcher<T: Any>(&self) -> Option<&T> {
        self.0.watcher.get()?.downcast_ref()
    }

    /// Returns `true` if requests to backends are observed: only these carry an [`Operation`](crate::Operation).
    #[must_use]
    pub fn is_watched(&self) -> bool {
        self.0.watcher.get().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_inside_is_read_outside() {
        let mut extensions = Extensions::new();
        let outside = Trail::of(&mut extensions);
        Trail::of(&mut extensions).note_backend(&Backend::new("weather"));
        assert_eq!(outside.backend().map(Backend::name), Some("weather"));
    }

    #[test]
    fn who_watches_first_is_found_again() {
        let trail = Trail::default();
        assert!(!trail.is_watched());
        trail.watch(Arc::new(7_u8));
        trail.watch(Arc::new(8_u8));
        assert!(trail.is_watched());
        assert_eq!((trail.watcher::<u8>(), trail.watcher::<u16>()), (Some(&7), None));
    }
}
