//! What is known of one request to a backend, until it is recorded.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use http::{HeaderMap, HeaderName, Request, Response};
use opentelemetry::trace::SpanKind;
use tokio::time::Instant;
use vmcp_core::Backend;

use super::Shared;
use crate::answer::{Fault, Form};
use crate::attributes::Attributes;
use crate::client_side::{Series, action};
use crate::incoming::{span_name, status};
use crate::series::{Outcome, Slot};
use crate::trace::{Ended, Place};
use crate::{Operation, TraceContext};

const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");

/// Recorded when the answer's body has ended or is no longer wanted: who has read the message that
/// it waited for leaves the rest. Without a response it is recorded as cancelled.
pub(crate) struct Watch {
    shared: Arc<Shared>,
    start: Instant,
    backend: Backend,
    slot: Arc<Slot<Series>>,
    place: Option<Place>,
    outcome: Outcome,
    form: Form,
    size: u64,
    ended: bool,
}

impl Watch {
    /// `None` while nobody looks at metrics or traces.
    pub(super) fn begin<B>(
        shared: &Arc<Shared>,
        request: &Request<B>,
        place: Option<Place>,
    ) -> Option<Self> {
        if !shared.measures && shared.tracing.is_none() {
            return None;
        }
        let backend = request.extensions().get::<Backend>();
        let (backend, table) = match backend {
            Some(backend) => shared.side.table(backend),
            None => shared.side.table(&Backend::new("")),
        };
        // Whoever sends a request to a backend knows that the name exists.
        let slot = if let Some(operation) = request.extensions().get::<Operation>() {
            table.slot(operation.method(), operation.name(), true)
        } else {
            let headers = request.headers();
            let method = headers.get(METHOD).and_then(|method| method.to_str().ok());
            table.slot(method.unwrap_or_default(), plain_name(headers), true)
        };
        let outcome = Outcome {
            verb: Outcome::verb(request.method()),
            status: 0,
            fault: Fault::None,
            http: "",
            revision: "",
        };
        let (shared, start) = (Arc::clone(shared), Instant::now());
        let (form, size, ended) = (Form::Other, 0, false);
        Some(Self { shared, start, backend, slot, place, outcome, form, size, ended })
    }

    /// What the message's `_meta` has to say: that it is recorded here, or else where it stands if it
    /// says another place itself.
    pub(super) fn to_carry(&self) -> Option<&TraceContext> {
        self.shared.tracing.as_ref()?;
        let place = self.place.as_ref()?;
        let matters = place.in_message || place.sampled();
        let is_message = self.outcome.verb == "POST";
        place.context.as_ref().filter(|_| matters && is_message)
    }

    pub(super) fn answered<R>(&mut self, response: &Response<R>) {
        self.outcome.status = response.status().as_u16();
        self.outcome.http = Outcome::http(response.version());
        self.outcome.fault = Fault::of(response);
        self.form = Form::of(response.headers());
    }

    /// Looks at a piece of the answer.
    pub(crate) fn see(&mut self, piece: &[u8], size: usize) {
        self.size += size as u64;
        if self.outcome.fault == Fault::None && self.form != Form::Other {
            self.outcome.fault = self.form.fault(piece);
        }
    }

    /// Records it, as having ended in `fault` unless it is known to have gone wrong before.
    pub(crate) fn end(&mut self, fault: Fault) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        if self.outcome.fault == Fault::None {
            self.outcome.fault = fault;
        }
        let took = self.start.elapsed();
        if self.shared.measures {
            let side = &self.shared.side;
            side.record(&self.backend, &self.slot, self.outcome, took.as_secs_f64());
        }
        let (Some(tracing), Some(place)) = (&self.shared.tracing, &self.place) else { return };
        if !place.sampled() {
            return;
        }
        let (method, name) = (self.slot.method, self.slot.name.as_deref());
        let mut attributes = Attributes::new(tracing.legacy);
        attributes.operation(method, name, &self.outcome);
        attributes.backend(self.backend.name(), action(method), self.outcome.verb);
        attributes.outcome(&self.outcome, self.size, took.as_secs_f64() * 1000.0);
        let end = SystemTime::now();
        tracing.record(
            place,
            Ended {
                name: span_name(method, name, self.outcome.verb),
                kind: SpanKind::Client,
                start: end.checked_sub(took).unwrap_or(end),
                end,
                attributes: attributes.finish(),
                status: status(&self.outcome),
            },
        );
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let answered = self.outcome.status != 0;
        self.end(if answered { Fault::None } else { Fault::CANCELLED });
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("outcome", &self.outcome).finish_non_exhaustive()
    }
}

/// The `Mcp-Name` header, unless it is wrapped (MCP 2026-07-28, Value Encoding).
fn plain_name(headers: &HeaderMap) -> Option<&str> {
    headers.get(NAME)?.to_str().ok().filter(|name| !name.starts_with("=?"))
}
