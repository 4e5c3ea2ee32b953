//! Identifiers of spans: random, or those that a request was already forwarded with.

use std::cell::Cell;

use opentelemetry::trace::{SpanId, TraceId};
use opentelemetry_sdk::trace::{IdGenerator, RandomIdGenerator};

thread_local! {
    static PRESET: Cell<Option<(TraceId, SpanId)>> = const { Cell::new(None) };
}

/// Generates random identifiers, except within [`with_ids`].
///
/// Backends receive the identifiers of a request before its span is created, because a span is
/// created when the request has ended. So an open request needs no lock and no memory here.
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

/// Starts one span with these identifiers.
pub(crate) fn with_ids<T>(trace: TraceId, span: SpanId, start: impl FnOnce() -> T) -> T {
    let previous = PRESET.replace(Some((trace, span)));
    let started = start();
    PRESET.set(previous);
    started
}
