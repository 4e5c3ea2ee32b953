//! Conversion of the layers' spans to those of the SDK.

use std::fmt;
use std::num::NonZero;

use opentelemetry::trace::{
    Span as _, SpanBuilder, SpanContext, SpanId, SpanKind, TraceContextExt as _, TraceFlags,
    TraceId, TraceState, Tracer as _,
};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::trace::{
    IdGenerator as _, RandomIdGenerator, Sampler, SamplingDecision, SdkTracer, ShouldSample as _,
};
use vmcp_telemetry::trace_context::TraceContext;
use vmcp_telemetry::{EndedSpan, SpanRecorder};

use crate::{SamplingRatio, id_generator};

/// Samples traces and records spans.
pub(crate) struct SdkSpanRecorder {
    tracer: SdkTracer,
    sampler: Sampler,
    /// `environment.*` attributes of every span.
    environment: Vec<KeyValue>,
}

impl SdkSpanRecorder {
    pub(crate) fn new(tracer: SdkTracer, ratio: SamplingRatio, environment: Vec<KeyValue>) -> Self {
        Self { tracer, sampler: Sampler::TraceIdRatioBased(ratio.get()), environment }
    }

    fn samples(&self, trace_id: TraceId) -> bool {
        let result = self.sampler.should_sample(None, trace_id, "", &SpanKind::Server, &[], &[]);
        result.decision == SamplingDecision::RecordAndSample
    }
}

impl SpanRecorder for SdkSpanRecorder {
    fn new_context(&self, parent: Option<&TraceContext>) -> TraceContext {
        let random = RandomIdGenerator::default();
        let span_id = u64::from_be_bytes(random.new_span_id().to_bytes());
        let span_id = NonZero::new(span_id).unwrap_or(NonZero::<u64>::MIN);
        if let Some(parent) = parent {
            return parent.child(span_id);
        }
        let trace_id = random.new_trace_id();
        let sampled = self.samples(trace_id);
        let trace_id = NonZero::new(u128::from_be_bytes(trace_id.to_bytes()));
        TraceContext::root(trace_id.unwrap_or(NonZero::<u128>::MIN), span_id, sampled)
    }

    fn record(&self, span: EndedSpan) {
        let EndedSpan {
            context,
            parent,
            parent_is_remote,
            name,
            kind,
            start,
            end,
            mut attributes,
            status,
        } = span;
        attributes.extend(self.environment.iter().cloned());
        let mut around = Context::new();
        if let Some(parent) = &parent {
            around = around.with_remote_span_context(span_context(parent, parent_is_remote));
        }
        let builder = SpanBuilder::from_name(name)
            .with_kind(kind)
            .with_start_time(start)
            .with_attributes(attributes);
        let start = || self.tracer.build_with_context(builder, &around);
        let mut span = id_generator::with_ids(trace_id(&context), span_id(&context), start);
        span.set_status(status);
        span.end_with_timestamp(end);
    }
}

impl fmt::Debug for SdkSpanRecorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tracing").field("sampler", &self.sampler).finish_non_exhaustive()
    }
}

fn span_context(context: &TraceContext, remote: bool) -> SpanContext {
    let flags = TraceFlags::default().with_sampled(context.is_sampled());
    let state = context.tracestate().and_then(|state| state.parse::<TraceState>().ok());
    let state = state.unwrap_or_default();
    SpanContext::new(trace_id(context), span_id(context), flags, remote, state)
}

fn trace_id(context: &TraceContext) -> TraceId {
    TraceId::from(context.trace_id().get())
}

fn span_id(context: &TraceContext) -> SpanId {
    SpanId::from(context.span_id().get())
}
