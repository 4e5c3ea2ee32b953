//! What is known of one request to the gateway, until it is recorded.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use http::{HeaderName, Request, Response};
use opentelemetry::trace::{SpanKind, Status};
use tokio::time::Instant;
use vmcp_core::{Generation, McpRequest, Rejection, STATEFUL, STATELESS, Trail};
use vmcp_wire::Key;

use super::Shared;
use crate::answer::{Fault, Form};
use crate::attributes::{Attributes, Head};
use crate::series::Outcome;
use crate::trace::Ended;
use crate::{Trace, TraceContext};

const REVISION: HeaderName = HeaderName::from_static("mcp-protocol-version");

/// Recorded when the answer's body has ended, or else when this is dropped: as cancelled then.
pub(crate) struct Watch {
    shared: Arc<Shared>,
    start: Instant,
    trail: Trail,
    trace: Option<Trace>,
    /// Kept while something is traced.
    head: Option<Box<Head>>,
    outcome: Outcome,
    form: Form,
    /// The gateway itself refused it.
    rejected: bool,
    size: u64,
    ended: bool,
}

impl Watch {
    /// `None` while nobody looks at metrics or traces.
    pub(super) fn begin<B>(shared: &Arc<Shared>, request: &mut Request<B>) -> Option<Self> {
        let header = TraceContext::from_headers(request.headers());
        if !shared.measures && shared.tracing.is_none() {
            if header.is_some() {
                let trail = Trail::of(request.extensions_mut());
                request.extensions_mut().insert(Trace::new(None, trail, header));
            }
            return None;
        }
        shared.side.active.fetch_add(1, Ordering::Relaxed);
        let trail = Trail::of(request.extensions_mut());
        let mut trace = None;
        if shared.tracing.is_some() || header.is_some() {
            let one = Trace::new(shared.tracing.clone(), trail.clone(), header);
            request.extensions_mut().insert(one.clone());
            trace = Some(one);
        }
        let headers = request.headers();
        let head = || Box::new(Head::of(request.method(), request.uri(), headers));
        let head = shared.tracing.is_some().then(head);
        let revision = headers.get(REVISION).and_then(|revision| {
            STATEFUL.into_iter().find(|known| revision.as_bytes() == known.as_bytes())
        });
        let outcome = Outcome {
            verb: Outcome::verb(request.method()),
            status: 0,
            fault: Fault::None,
            http: Outcome::http(request.version()),
            revision: revision.unwrap_or_default(),
        };
        Some(Self {
            shared: Arc::clone(shared),
            start: Instant::now(),
            trail,
            trace,
            head,
            outcome,
            form: Form::Other,
            rejected: false,
            size: 0,
            ended: false,
        })
    }

    pub(super) fn answered<R>(&mut self, response: &Response<R>) {
        self.outcome.status = response.status().as_u16();
        self.outcome.fault = Fault::of(response);
        self.rejected = response.extensions().get::<Rejection>().is_some();
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
        self.shared.side.active.fetch_sub(1, Ordering::Relaxed);
        let tracing = self.shared.tracing.as_ref();
        let records = tracing.and(self.trace.as_ref()).is_some_and(|trace| trace.place().sampled());
        if !self.shared.measures && !records {
            return;
        }
        if self.outcome.fault == Fault::None {
            self.outcome.fault = fault;
        }
        let took = self.start.elapsed();
        let trail = self.trail.clone();
        let message = trail.message();
        if message.is_some_and(|message| message.generation == Generation::Stateless) {
            self.outcome.revision = STATELESS;
        }
        let method = message.map(McpRequest::method).unwrap_or_default();
        let name = message.and_then(|message| Some(message.text(Key::Name)?.read(&message.bytes)));
        // A backend that was asked has the name; an answer that is no error does so too.
        let exists = trail.backend().is_some()
            || (!self.rejected && matches!(self.outcome.fault, Fault::None | Fault::TOOL));
        let slot = self.shared.side.table.slot(&method, name.as_deref(), exists);
        if self.shared.measures {
            self.shared.side.record(&slot, self.outcome, took.as_secs_f64());
        }
        if records {
            self.record(slot.method, slot.name.as_deref(), took);
        }
    }

    fn record(&self, method: &'static str, name: Option<&str>, took: Duration) {
        let (Some(tracing), Some(trace)) = (&self.shared.tracing, &self.trace) else { return };
        let end = SystemTime::now();
        let mut attributes = Attributes::new(tracing.legacy);
        if let Some(head) = &self.head {
            attributes.head(head);
        }
        attributes.operation(method, name, &self.outcome);
        if let Some(message) = self.trail.message() {
            attributes.message(message);
        }
        attributes.trail(&self.shared.server, &self.trail);
        attributes.outcome(&self.outcome, self.size, took.as_secs_f64() * 1000.0);
        tracing.record(
            trace.place(),
            Ended {
                name: span_name(method, name, self.outcome.verb),
                kind: SpanKind::Server,
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
        self.end(Fault::CANCELLED);
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("outcome", &self.outcome).finish_non_exhaustive()
    }
}

/// What a span is called: the method and the tool or prompt. Neither resources nor paths are in it.
pub(crate) fn span_name(method: &str, name: Option<&str>, verb: &str) -> String {
    match (method, name) {
        ("", _) => verb.to_owned(),
        (method, Some(name)) => format!("{method} {name}"),
        (method, None) => method.to_owned(),
    }
}

/// A refusal is the client's fault and leaves the status unset (OpenTelemetry conventions for HTTP).
pub(crate) fn status(outcome: &Outcome) -> Status {
    match outcome.fault {
        Fault::None => Status::Ok,
        Fault::CANCELLED => Status::Unset,
        _ if (400..500).contains(&outcome.status) => Status::Unset,
        _ => Status::error(""),
    }
}
