//! Which trace a request belongs to, and how requests to backends find it.

use std::sync::{Arc, OnceLock};

use vmcp_core::{Operation, Trail};
use vmcp_trace_context::TraceContext;
use vmcp_wire::Key;

use crate::Spans;
use crate::recorder::Shared;

/// What a request's [`Trail`] says of its trace, to whoever sends requests to backends for it.
pub(crate) struct Link {
    shared: Arc<Shared>,
    header: Option<TraceContext>,
    place: OnceLock<Place>,
}

/// Where a request stands.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// Its span, or, while nothing is traced here, what that would stand below.
    pub(crate) context: Option<TraceContext>,
    pub(crate) parent: Option<TraceContext>,
    /// Whether the parent belongs to another process.
    pub(crate) remote: bool,
    /// Whether the message itself said its parent.
    pub(crate) in_message: bool,
}

impl Link {
    pub(crate) fn new(shared: &Arc<Shared>, header: Option<TraceContext>) -> Self {
        Self { shared: Arc::clone(shared), header, place: OnceLock::new() }
    }

    /// Settled when first asked for: what the message says in `_meta` counts more than the headers, so
    /// it is to be asked for once the message is decoded.
    pub(crate) fn place(&self, trail: &Trail) -> &Place {
        self.place.get_or_init(|| {
            let meta = trail.message().and_then(|message| message.param(Key::Meta));
            let said = meta.and_then(TraceContext::from_meta);
            let in_message = said.is_some();
            let parent = said.or_else(|| self.header.clone());
            match &self.shared.spans {
                Some(spans) => Place::below(&**spans, parent, true, in_message),
                None => Place { context: parent, parent: None, remote: true, in_message },
            }
        })
    }
}

impl Place {
    fn below(
        spans: &dyn Spans,
        parent: Option<TraceContext>,
        remote: bool,
        in_message: bool,
    ) -> Self {
        let context = Some(spans.place(parent.as_ref()));
        Self { context, parent, remote, in_message }
    }

    /// Where a request to a backend stands: below the one that it is made for. `trail` is that one's,
    /// unless the operation knows another.
    pub(crate) fn of_outgoing(
        spans: Option<&dyn Spans>,
        operation: Option<&Operation>,
        trail: Option<&Trail>,
    ) -> Option<Self> {
        let trail = operation.and_then(Operation::cause).or(trail);
        let cause = trail.and_then(|trail| Some(trail.watcher::<Link>()?.place(trail)));
        match (cause, spans) {
            (Some(cause), Some(spans)) => {
                Some(Self::below(spans, cause.context.clone(), false, cause.in_message))
            }
            (Some(cause), None) => Some(cause.clone()),
            (None, Some(spans)) => Some(Self::below(spans, None, false, false)),
            (None, None) => None,
        }
    }

    pub(crate) fn sampled(&self) -> bool {
        self.context.as_ref().is_some_and(TraceContext::sampled)
    }

    /// What the message's `_meta` has to say: that it is recorded here, or else where it stands if it
    /// says another place itself.
    pub(crate) fn to_carry(&self) -> Option<&TraceContext> {
        self.context.as_ref().filter(|_| self.in_message || self.sampled())
    }
}
