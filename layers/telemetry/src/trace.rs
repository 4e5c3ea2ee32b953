//! Which trace a request belongs to, and whether it is recorded.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use opentelemetry::trace::{
    Span as _, SpanBuilder, SpanContext, SpanId, SpanKind, Status, TraceContextExt as _,
    TraceFlags, TraceId, TraceState, Tracer as _,
};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::trace::{
    IdGenerator as _, RandomIdGenerator, Sampler, SamplingDecision, SdkTracer, ShouldSample as _,
};
use vmcp_core::Trail;
use vmcp_wire::Key;

use crate::TraceContext;
use crate::ids;

/// The trace that a request to the gateway belongs to. [`IncomingLayer`](crate::IncomingLayer) puts it
/// into the request's extensions; whoever sends requests to backends on its behalf puts a clone into
/// theirs, where [`OutgoingLayer`](crate::OutgoingLayer) finds it.
#[derive(Clone)]
pub struct Trace(Arc<Inner>);

struct Inner {
    tracing: Option<Arc<Tracing>>,
    trail: Trail,
    header: Option<TraceContext>,
    place: OnceLock<Place>,
}

/// Where a span stands.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// The span itself, or, while nothing is traced here, its parent.
    pub(crate) context: Option<TraceContext>,
    pub(crate) parent: Option<TraceContext>,
    /// Whether the parent belongs to another process.
    pub(crate) remote: bool,
    /// Whether the message itself said its parent.
    pub(crate) in_message: bool,
}

/// What records spans.
pub(crate) struct Tracing {
    pub(crate) tracer: SdkTracer,
    pub(crate) sampler: Sampler,
    /// `environment.*`, which every span carries.
    pub(crate) environment: Vec<KeyValue>,
    pub(crate) legacy: bool,
}

/// A span that has ended.
pub(crate) struct Ended {
    pub(crate) name: String,
    pub(crate) kind: SpanKind,
    pub(crate) start: SystemTime,
    pub(crate) end: SystemTime,
    pub(crate) attributes: Vec<KeyValue>,
    pub(crate) status: Status,
}

// === impl Trace ===

impl Trace {
    pub(crate) fn new(
        tracing: Option<Arc<Tracing>>,
        trail: Trail,
        header: Option<TraceContext>,
    ) -> Self {
        Self(Arc::new(Inner { tracing, trail, header, place: OnceLock::new() }))
    }

    /// The place of the gateway's span; that of its parent while nothing is traced here, if it has
    /// one. Settled when first asked for: what the message says in `_meta` counts more than the
    /// headers, so it is to be asked for once the message is decoded.
    #[must_use]
    pub fn context(&self) -> Option<&TraceContext> {
        self.place().context.as_ref()
    }

    pub(crate) fn place(&self) -> &Place {
        self.0.place.get_or_init(|| {
            let Inner { tracing, trail, header, place: _ } = &*self.0;
            let meta = trail.message().and_then(|message| message.param(Key::Meta));
            let said = meta.and_then(TraceContext::from_meta);
            let in_message = said.is_some();
            let parent = said.or_else(|| header.clone());
            match tracing {
                Some(tracing) => tracing.place(parent, true, in_message),
                None => Place { context: parent, parent: None, remote: true, in_message },
            }
        })
    }
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Trace").field(&self.0.place.get()).finish()
    }
}

// === impl Place ===

impl Place {
    pub(crate) fn sampled(&self) -> bool {
        self.context.as_ref().is_some_and(|context| context.sampled)
    }
}

// === impl Tracing ===

impl Tracing {
    /// A new span below `parent`, recorded if its parent is, or else by its trace's id.
    pub(crate) fn place(
        &self,
        parent: Option<TraceContext>,
        remote: bool,
        in_message: bool,
    ) -> Place {
        let random = RandomIdGenerator::default();
        let span_id = random.new_span_id();
        let context = if let Some(parent) = &parent {
            TraceContext { span_id, ..parent.clone() }
        } else {
            let trace_id = random.new_trace_id();
            TraceContext { trace_id, span_id, sampled: self.samples(trace_id), state: None }
        };
        Place { context: Some(context), parent, remote, in_message }
    }

    fn samples(&self, trace_id: TraceId) -> bool {
        let result = self.sampler.should_sample(None, trace_id, "", &SpanKind::Server, &[], &[]);
        result.decision == SamplingDecision::RecordAndSample
    }

    /// Records a span that has ended.
    pub(crate) fn record(&self, place: &Place, span: Ended) {
        let Some(context) = place.context.as_ref().filter(|context| context.sampled) else {
            return;
        };
        let Ended { name, kind, start, end, mut attributes, status } = span;
        attributes.extend(self.environment.iter().cloned());
        let mut around = Context::new();
        if let Some(parent) = &place.parent {
            let context = span_context(parent, parent.span_id, place.remote);
            around = around.with_remote_span_context(context);
        }
        let builder = SpanBuilder::from_name(name)
            .with_kind(kind)
            .with_start_time(start)
            .with_attributes(attributes);
        let start = || self.tracer.build_with_context(builder, &around);
        let mut span = ids::with(context.trace_id, context.span_id, start);
        span.set_status(status);
        span.end_with_timestamp(end);
    }
}

impl fmt::Debug for Tracing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tracing").field("sampler", &self.sampler).finish_non_exhaustive()
    }
}

fn span_context(context: &TraceContext, span_id: SpanId, remote: bool) -> SpanContext {
    let flags = TraceFlags::default().with_sampled(context.sampled);
    let state = context.state.as_deref().and_then(|state| state.parse::<TraceState>().ok());
    SpanContext::new(context.trace_id, span_id, flags, remote, state.unwrap_or_default())
}
