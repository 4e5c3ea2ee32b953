//! Which trace a request belongs to, and how requests to backends find it.

use std::sync::{Arc, OnceLock};

use vmcp_core::{Operation, Trail};
use vmcp_trace_context::TraceContext;
use vmcp_wire::Key;

use crate::SpanRecorder;
use crate::recorder::Inner;

/// What a request's [`Trail`] says of its trace, to whoever sends requests to backends for it.
pub(crate) struct TraceLink {
    recorder: Arc<Inner>,
    header: Option<TraceContext>,
    position: OnceLock<SpanPosition>,
}

/// Where a request stands.
#[derive(Clone, Debug)]
pub(crate) struct SpanPosition {
    /// Its span, or, while nothing is traced here, what that would stand below.
    pub(crate) context: Option<TraceContext>,
    pub(crate) parent: Option<TraceContext>,
    /// Whether the parent belongs to another process.
    pub(crate) is_remote: bool,
    /// Whether the message itself said its parent.
    pub(crate) is_from_message: bool,
}

impl TraceLink {
    pub(crate) fn new(recorder: &Arc<Inner>, header: Option<TraceContext>) -> Self {
        Self { recorder: Arc::clone(recorder), header, position: OnceLock::new() }
    }

    /// Settled when first asked for: what the message says in `_meta` counts more than the headers, so
    /// it is to be asked for once the message is decoded.
    pub(crate) fn position(&self, trail: &Trail) -> &SpanPosition {
        self.position.get_or_init(|| {
            let meta = trail.message().and_then(|message| message.param(Key::Meta));
            let meta_context = meta.and_then(TraceContext::from_meta);
            let is_from_message = meta_context.is_some();
            let parent = meta_context.or_else(|| self.header.clone());
            match &self.recorder.spans {
                Some(spans) => SpanPosition::below(&**spans, parent, true, is_from_message),
                None => {
                    SpanPosition { context: parent, parent: None, is_remote: true, is_from_message }
                }
            }
        })
    }
}

impl SpanPosition {
    fn below(
        spans: &dyn SpanRecorder,
        parent: Option<TraceContext>,
        is_remote: bool,
        is_from_message: bool,
    ) -> Self {
        let context = Some(spans.new_context(parent.as_ref()));
        Self { context, parent, is_remote, is_from_message }
    }

    /// Where a request to a backend stands: below the one that it is made for. `trail` is that one's,
    /// unless the operation knows another.
    pub(crate) fn for_client_request(
        spans: Option<&dyn SpanRecorder>,
        operation: Option<&Operation>,
        trail: Option<&Trail>,
    ) -> Option<Self> {
        let trail = operation.and_then(Operation::cause).or(trail);
        let cause = trail.and_then(|trail| Some(trail.watcher::<TraceLink>()?.position(trail)));
        match (cause, spans) {
            (Some(cause), Some(spans)) => {
                Some(Self::below(spans, cause.context.clone(), false, cause.is_from_message))
            }
            (Some(cause), None) => Some(cause.clone()),
            (None, Some(spans)) => Some(Self::below(spans, None, false, false)),
            (None, None) => None,
        }
    }

    pub(crate) fn sampled(&self) -> bool {
        self.context.as_ref().is_some_and(TraceContext::is_sampled)
    }

    /// What the message's `_meta` has to say: that it is recorded here, or else where it stands if it
    /// says another place itself.
    pub(crate) fn propagated_context(&self) -> Option<&TraceContext> {
        self.context.as_ref().filter(|_| self.is_from_message || self.sampled())
    }
}
