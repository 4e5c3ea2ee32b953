//! Ids of spans: random, or those that a request was already sent on with.

use std::cell::Cell;

use opentelemetry::trace::{SpanId, TraceId};
use opentelemetry_sdk::trace::{IdGenerator, RandomIdGenerator};

thread_local! {
    static PRESET: Cell<Option<(TraceId, SpanId)>> = const { Cell::new(None) };
}

/// Gives out random ids, except within [`with`].
///
/// A request's ids go on to backends long before its span is written, and a span is written only when
/// it has ended: nothing has to be locked or kept for it meanwhile.
#[derive(Debug, Default)]
pub(crate) struct PresetIdGenerator(RandomIdGenerator);

impl IdGenerator for PresetIdGenerator {
    fn new_trace_id(&self) -> TraceId {
        PRESET.get().map_or_else(|| self.0.new_trace_id(), |(trace, _)| trace)
    }

    fn new_span_id(&self) -> SpanId {
        PRESET.get().map_or_else(|| self.0.new_span_id(), |(_, span)| span)
    }
}

/// Starts one span, which gets these ids.
pub(crate) fn with_ids<T>(trace: TraceId, span: SpanId, start: impl FnOnce() -> T) -> T {
    let previous = PRESET.replace(Some((trace, span)));
    let started = start();
    PRESET.set(previous);
    started
}
