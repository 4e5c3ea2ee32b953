//! Link between a request and the requests to backends that it causes.

use std::sync::{Arc, OnceLock};

use crate::trace_context::TraceContext;
use vmcp_core::{McpOperation, RequestContext};
use vmcp_wire::Key;

use crate::SpanRecorder;
use crate::recorder::Inner;

/// Extension of a request's [`RequestContext`] with its position in a trace, for the requests to backends that it causes.
pub(crate) struct TraceLink {
    recorder: Arc<Inner>,
    header: Option<TraceContext>,
    position: OnceLock<SpanPosition>,
}

/// Position of a request in a trace.
#[derive(Clone, Debug)]
pub(crate) struct SpanPosition {
    /// The context of its span or, without tracing, of the parent.
    pub(crate) context: Option<TraceContext>,
    pub(crate) parent: Option<TraceContext>,
    /// Set if the parent belongs to another process.
    pub(crate) is_remote: bool,
    /// Set if the message itself contains the parent.
    pub(crate) is_from_message: bool,
}

/// Returns the position in a trace of the request that `request_context` belongs to, for log lines. `None` without tracing
/// and without a context from the client. Call it after decoding: the `_meta` of the message may name the trace.
#[must_use]
pub fn trace_context_of(request_context: &RequestContext) -> Option<&TraceContext> {
    request_context.extension::<TraceLink>()?.position(request_context).context.as_ref()
}

/// Returns the recorder of the layer that observes a request.
pub(crate) fn recorder_of(request_context: &RequestContext) -> Option<&Inner> {
    let link = request_context.extension::<TraceLink>().map(|link| &*link.recorder);
    link.or_else(|| request_context.extension::<Inner>())
}

/// Returns the position of a new span below that of `cause`, and a context for the requests that the span causes. `None`
/// without tracing.
pub(crate) fn child_context(cause: &RequestContext) -> Option<(RequestContext, SpanPosition)> {
    let link = cause.extension::<TraceLink>()?;
    let spans = link.recorder.spans.as_deref()?;
    let above = link.position(cause);
    let position = SpanPosition::below(spans, above.context.clone(), false, above.is_from_message);
    let context = RequestContext::default();
    context.set_extension(Arc::new(TraceLink {
        recorder: Arc::clone(&link.recorder),
        header: None,
        position: position.clone().into(),
    }));
    Some((context, position))
}

/// Returns a context for what a request causes after its end: it has its place in the trace, not its message. `None` for a
/// request that no telemetry layer observes.
#[must_use]
pub fn later_context(request_context: &RequestContext) -> Option<RequestContext> {
    let link = request_context.extension::<TraceLink>()?;
    let context = RequestContext::default();
    context.set_extension(Arc::new(TraceLink {
        recorder: Arc::clone(&link.recorder),
        header: None,
        position: link.position(request_context).clone().into(),
    }));
    Some(context)
}

impl TraceLink {
    pub(crate) fn new(recorder: &Arc<Inner>, header: Option<TraceContext>) -> Self {
        Self { recorder: Arc::clone(recorder), header, position: OnceLock::new() }
    }

    /// Returns the position. The first call determines it and must come after decoding: the `_meta` of the message
    /// takes precedence over the headers.
    pub(crate) fn position(&self, request_context: &RequestContext) -> &SpanPosition {
        self.position.get_or_init(|| {
            let meta = request_context.message().and_then(|message| message.param(Key::Meta));
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

    /// Returns the position of a request to a backend, as a child of the request that caused it. `request_context` is used
    /// unless the operation has one.
    pub(crate) fn for_client_request(
        spans: Option<&dyn SpanRecorder>,
        operation: Option<&McpOperation>,
        request_context: Option<&RequestContext>,
    ) -> Option<Self> {
        let request_context = operation.and_then(McpOperation::client_request).or(request_context);
        let cause = request_context.and_then(|request_context| {
            Some(request_context.extension::<TraceLink>()?.position(request_context))
        });
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

    /// Returns the context for the `_meta` of the message: if the span is recorded, or if the message contains another
    /// context.
    pub(crate) fn propagated_context(&self) -> Option<&TraceContext> {
        self.context.as_ref().filter(|_| self.is_from_message || self.sampled())
    }
}
