//! Facts of a request that layers within record for audit and telemetry outside.

use std::any::Any;
use std::sync::{Arc, OnceLock};

use http::Extensions;

use crate::{Backend, Identity, McpRequest};

/// Per-request record shared by layers; each field is set once.
///
/// An inner layer sets a field. Audit and telemetry read it when the response is sent or the call is cancelled. They insert
/// the context into the request; without them there is none, and nothing is recorded. Other facts travel outward in the
/// response extensions, but a cancelled call has no response.
#[derive(Clone, Debug, Default)]
pub struct RequestContext(Arc<Fields>);

#[derive(Debug, Default)]
struct Fields {
    identity: OnceLock<Identity>,
    message: OnceLock<McpRequest>,
    forwarded_message: OnceLock<McpRequest>,
    backend: OnceLock<Backend>,
    denied: OnceLock<&'static str>,
    error: OnceLock<i64>,
    cancelled: OnceLock<()>,
    extension: OnceLock<Arc<dyn Any + Send + Sync>>,
}

impl RequestContext {
    /// Returns the context of a request, and inserts one if there is none.
    pub fn of(extensions: &mut Extensions) -> Self {
        extensions.get_or_insert_default::<Self>().clone()
    }

    /// Returns the caller.
    #[must_use]
    pub fn identity(&self) -> Option<&Identity> {
        self.0.identity.get()
    }

    /// Records the caller. Authentication calls this.
    pub fn record_identity(&self, identity: &Identity) {
        _ = self.0.identity.set(identity.clone());
    }

    /// Returns the message: the forwarded one if there is one, otherwise the client's.
    #[must_use]
    pub fn message(&self) -> Option<&McpRequest> {
        self.0.forwarded_message.get().or_else(|| self.0.message.get())
    }

    /// Records the message. Decoding calls this.
    pub fn record_message(&self, message: &McpRequest) {
        _ = self.0.message.set(message.clone());
    }

    /// Records the message that the client's stands for, such as the call of the tool that `call_tool` names.
    pub fn record_forwarded_message(&self, message: &McpRequest) {
        _ = self.0.forwarded_message.set(message.clone());
    }

    /// Returns the backend that the request was routed to.
    #[must_use]
    pub fn backend(&self) -> Option<&Backend> {
        self.0.backend.get()
    }

    /// Records the backend. The aggregating service calls this.
    pub fn record_backend(&self, backend: &Backend) {
        _ = self.0.backend.set(backend.clone());
    }

    /// Returns the reason of a denial, in fixed words, even if the response does not name it: a hidden name is rejected like
    /// an unknown one.
    #[must_use]
    pub fn denied(&self) -> Option<&'static str> {
        self.0.denied.get().copied()
    }

    /// Records the reason of a denial.
    pub fn record_denied(&self, reason: &'static str) {
        _ = self.0.denied.set(reason);
    }

    /// Returns the code of the JSON-RPC error in a backend's response. It may arrive after the head of the response.
    #[must_use]
    pub fn error(&self) -> Option<i64> {
        self.0.error.get().copied()
    }

    /// Records the code of a backend's JSON-RPC error.
    pub fn record_error(&self, code: i64) {
        _ = self.0.error.set(code);
    }

    /// Returns `true` if the client cancelled the request, or ended its session, before the response.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.cancelled.get().is_some()
    }

    /// Records that the client cancelled the request or ended its session, for responses that end without a message.
    pub fn record_cancelled(&self) {
        _ = self.0.cancelled.set(());
    }

    /// Sets the state that [`Self::extension`] returns for each request to a backend that this request causes. Telemetry
    /// links the two with it. The first state remains.
    pub fn set_extension<T: Any + Send + Sync>(&self, state: Arc<T>) {
        _ = self.0.extension.set(state);
    }

    /// Returns the state that was passed to [`Self::set_extension`], if it is a `T`.
    #[must_use]
    pub fn extension<T: Any>(&self) -> Option<&T> {
        self.0.extension.get()?.downcast_ref()
    }

    /// Returns `true` if there is an extension. Only then do requests to backends have an
    /// [`McpOperation`](crate::McpOperation).
    #[must_use]
    pub fn has_extension(&self) -> bool {
        self.0.extension.get().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outer_layer_reads_record_of_inner_layer() {
        let mut extensions = Extensions::new();
        let outside = RequestContext::of(&mut extensions);
        RequestContext::of(&mut extensions).record_backend(&Backend::new("weather"));
        assert_eq!(outside.backend().map(Backend::name), Some("weather"));
    }

    #[test]
    fn first_extension_remains() {
        let request_context = RequestContext::default();
        assert!(!request_context.has_extension());
        request_context.set_extension(Arc::new(7_u8));
        request_context.set_extension(Arc::new(8_u8));
        assert!(request_context.has_extension());
        assert_eq!(
            (request_context.extension::<u8>(), request_context.extension::<u16>()),
            (Some(&7), None)
        );
    }
}
