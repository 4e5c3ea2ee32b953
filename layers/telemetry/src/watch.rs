//! What is known of one request, from either side, until it is recorded.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderName, Request, Response};
use opentelemetry::trace::{SpanKind, Status};
use tokio::time::Instant;
use vmcp_core::{
    Caller, Generation, McpRequest, Media, Operation, Rejection, STATEFUL, STATELESS, Trail,
};
use vmcp_metrics::{BackendMetrics, ClientSeries, Fault, Outcome, Slot, action};
use vmcp_trace_context::TraceContext;
use vmcp_wire::Key;

use crate::EndedSpan;
use crate::answer::{fault, fault_of};
use crate::attributes::{Attributes, Head, Route};
use crate::link::{Link, Place};
use crate::recorder::Shared;

const REVISION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");

/// Recorded when the answer's body has ended, or else when this is dropped: as cancelled then, unless
/// it is a backend's answer that has begun. Who has read the message that it waited for leaves the
/// rest.
pub(crate) struct Watch {
    shared: Arc<Shared>,
    side: Side,
    start: Instant,
    outcome: Outcome,
    media: Media,
    size: u64,
    ended: bool,
}

enum Side {
    Server(Asked),
    Client(Sent),
}

/// A request to the gateway.
struct Asked {
    trail: Trail,
    link: Option<Arc<Link>>,
    /// Kept while something is traced.
    head: Option<Box<Head>>,
    /// The gateway itself refused it.
    rejected: bool,
    mcp: bool,
    route: Option<Route>,
}

/// A request to a backend.
struct Sent {
    metrics: Arc<BackendMetrics>,
    slot: Arc<Slot<ClientSeries>>,
    /// Kept if it is recorded.
    place: Option<Box<Place>>,
}

impl Watch {
    /// Watches a request to the gateway; `None` while nobody looks at metrics or traces.
    pub(crate) fn asked<B>(
        shared: &Arc<Shared>,
        request: &mut Request<B>,
        mcp: bool,
    ) -> Option<Self> {
        let header = TraceContext::from_headers(request.headers());
        let (measures, traces) = (shared.measures, shared.spans.is_some());
        if !measures && !traces && header.is_none() {
            return None;
        }
        let trail = Trail::of(request.extensions_mut());
        let link = (traces || header.is_some()).then(|| Arc::new(Link::new(shared, header)));
        match &link {
            Some(link) => trail.watch(Arc::clone(link)),
            // Somebody looks, if not at traces.
            None => trail.watch(Arc::clone(shared)),
        }
        if !measures && !traces {
            return None;
        }
        if mcp {
            shared.server.enter();
        }
        let headers = request.headers();
        let head = || Box::new(Head::of(request.method(), request.uri(), headers));
        let head = traces.then(head);
        let revision = headers.get(REVISION).and_then(|revision| {
            STATEFUL.into_iter().find(|known| revision.as_bytes() == known.as_bytes())
        });
        let outcome = Outcome {
            verb: Outcome::verb(request.method()),
            http: Outcome::http(request.version()),
            revision: revision.unwrap_or_default(),
            ..Outcome::default()
        };
        let side = Side::Server(Asked { trail, link, head, rejected: false, mcp, route: None });
        Some(Self::new(shared, side, outcome))
    }

    /// Watches a request to a backend.
    pub(crate) fn sent<B>(
        shared: &Arc<Shared>,
        metrics: Arc<BackendMetrics>,
        request: &Request<B>,
        place: Option<Place>,
    ) -> Self {
        let slot = if let Some(operation) = request.extensions().get::<Operation>() {
            metrics.slot(operation.method(), operation.name().as_deref())
        } else {
            let headers = request.headers();
            let method = headers.get(METHOD).and_then(|method| method.to_str().ok());
            metrics.slot(method.unwrap_or_default(), plain_name(headers))
        };
        let own = matches!(request.extensions().get(), Some(Caller::Gateway));
        let outcome = Outcome { verb: Outcome::verb(request.method()), own, ..Outcome::default() };
        let place = place.filter(Place::sampled).map(Box::new);
        Self::new(shared, Side::Client(Sent { metrics, slot, place }), outcome)
    }

    fn new(shared: &Arc<Shared>, side: Side, outcome: Outcome) -> Self {
        let (shared, start) = (Arc::clone(shared), Instant::now());
        Self { shared, side, start, outcome, media: Media::Other, size: 0, ended: false }
    }

    pub(crate) fn answered<R>(&mut self, response: &Response<R>) {
        self.outcome.status = response.status().as_u16();
        self.outcome.fault = fault_of(response);
        self.media = Media::of(response.headers());
        match &mut self.side {
            Side::Server(asked) => {
                asked.rejected = response.extensions().get::<Rejection>().is_some();
                asked.route = response.extensions().get::<Route>().cloned();
            }
            Side::Client(_) => self.outcome.http = Outcome::http(response.version()),
        }
    }

    /// Looks at a piece of the answer.
    pub(crate) fn see(&mut self, piece: &[u8], size: usize) {
        self.size += size as u64;
        if self.outcome.fault == Fault::None && self.media != Media::Other {
            self.outcome.fault = fault(self.media, piece);
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
        let span = match &self.side {
            Side::Server(asked) => asked.end(&self.shared, &mut self.outcome, took, self.size),
            Side::Client(sent) => sent.end(&self.shared, self.outcome, took, self.size),
        };
        if let (Some(span), Some(spans)) = (span, &self.shared.spans) {
            spans.record(span);
        }
    }
}

impl Asked {
    fn end(
        &self,
        shared: &Shared,
        outcome: &mut Outcome,
        took: Duration,
        size: u64,
    ) -> Option<EndedSpan> {
        if self.mcp {
            shared.server.leave();
        }
        let place = self.link.as_ref().map(|link| link.place(&self.trail));
        let place = place.filter(|place| shared.spans.is_some() && place.sampled());
        if !shared.measures && place.is_none() {
            return None;
        }
        let message = self.trail.message();
        if message.is_some_and(|message| message.generation == Generation::Stateless) {
            outcome.revision = STATELESS;
        }
        let method = message.map(McpRequest::method).unwrap_or_default();
        let name = message.and_then(|message| Some(message.text(Key::Name)?.read(&message.bytes)));
        // A backend that was asked has the name; an answer that is no error does so too.
        let exists = self.trail.backend().is_some()
            || (!self.rejected && matches!(outcome.fault, Fault::None | Fault::TOOL));
        let slot = shared.server.slot(&method, name.as_deref(), exists);
        let route = self.route.as_ref().map(|Route(route)| &**route);
        if shared.measures && self.mcp {
            shared.server.record(&slot, *outcome, took.as_secs_f64());
        } else if shared.measures {
            shared.http.record(route, *outcome, took.as_secs_f64());
        }
        let place = place?;
        let mut attributes = Attributes::new(shared.legacy);
        if let Some(head) = &self.head {
            attributes.head(head, self.mcp, route);
        }
        if self.mcp {
            attributes.operation(slot.method(), slot.name(), outcome);
            attributes.trail(&shared.name, &self.trail);
        }
        if let Some(message) = message {
            attributes.message(message);
        }
        attributes.outcome(outcome, size, took);
        let name = match route {
            Some(route) => format!("{} {route}", outcome.verb),
            None => span_name(slot.method(), slot.name(), outcome.verb),
        };
        span(place, name, SpanKind::Server, took, attributes, outcome)
    }
}

impl Sent {
    fn end(
        &self,
        shared: &Shared,
        outcome: Outcome,
        took: Duration,
        size: u64,
    ) -> Option<EndedSpan> {
        let Self { metrics, slot, place } = self;
        if shared.measures {
            metrics.record(slot, outcome, took.as_secs_f64());
        }
        let place = place.as_ref()?;
        let mut attributes = Attributes::new(shared.legacy);
        attributes.operation(slot.method(), slot.name(), &outcome);
        attributes.backend(metrics.backend().name(), action(slot.method()), outcome.verb);
        attributes.outcome(&outcome, size, took);
        let name = span_name(slot.method(), slot.name(), outcome.verb);
        span(place, name, SpanKind::Client, took, attributes, &outcome)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let answered = matches!(self.side, Side::Client(_)) && self.outcome.status != 0;
        self.end(if answered { Fault::None } else { Fault::CANCELLED });
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("outcome", &self.outcome).finish_non_exhaustive()
    }
}

/// A span that has ended just now.
fn span(
    place: &Place,
    name: String,
    kind: SpanKind,
    took: Duration,
    attributes: Attributes,
    outcome: &Outcome,
) -> Option<EndedSpan> {
    let end = SystemTime::now();
    Some(EndedSpan {
        context: place.context.clone()?,
        parent: place.parent.clone(),
        parent_is_remote: place.remote,
        name,
        kind,
        start: end.checked_sub(took).unwrap_or(end),
        end,
        attributes: attributes.finish(),
        status: status(outcome),
    })
}

/// The method and the tool or prompt. Neither resources nor paths are in it.
fn span_name(method: &str, name: Option<&str>, verb: &str) -> String {
    match (method, name) {
        ("", _) => verb.to_owned(),
        (method, Some(name)) => format!("{method} {name}"),
        (method, None) => method.to_owned(),
    }
}

/// A refusal is the client's fault and leaves the status unset (OpenTelemetry conventions for HTTP).
fn status(outcome: &Outcome) -> Status {
    match outcome.fault {
        Fault::None => Status::Ok,
        Fault::CANCELLED => Status::Unset,
        _ if outcome.is_expected() => Status::Unset,
        _ if (400..500).contains(&outcome.status) => Status::Unset,
        _ => Status::error(""),
    }
}

/// The `Mcp-Name` header, unless it is wrapped (MCP 2026-07-28, Value Encoding).
fn plain_name(headers: &HeaderMap) -> Option<&str> {
    headers.get(NAME)?.to_str().ok().filter(|name| !name.starts_with("=?"))
}
