//! What is recorded of one operation.

use std::fmt;
use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use vmcp_core::{Backend, Identity};

use crate::redact::up_to;
use crate::{EventType, Outcome};

/// The longest text of a member, in bytes. What is longer is cut.
pub(crate) const MAX_TEXT: usize = 512;

/// One event on its way to the log. Becomes a JSON line when it is written.
///
/// The layer makes those of requests; whoever runs something else that is to be recorded, such as the
/// steps of a composite tool, makes its own and gives it to [`Auditor::record`](crate::Auditor::record).
/// Texts are cut at 512 bytes.
#[derive(Clone, Debug)]
pub struct Event {
    pub(crate) kind: EventType,
    pub(crate) outcome: Outcome,
    pub(crate) at: SystemTime,
    pub(crate) source: Source,
    pub(crate) caller: Option<Identity>,
    pub(crate) client: Option<Client>,
    pub(crate) target: Target,
    pub(crate) result: Result,
    /// Members of `target` and of `metadata.extra` that only some events have.
    pub(crate) more_target: Vec<(&'static str, Box<str>)>,
    pub(crate) more_facts: Vec<(&'static str, Fact)>,
    pub(crate) request: Option<Data>,
    pub(crate) response: Option<Data>,
}

/// A value of `metadata.extra`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact {
    /// A number.
    Number(u64),
    /// A text.
    Text(Box<str>),
    /// Whether something is so.
    Flag(bool),
}

/// Where the operation came from.
#[derive(Clone, Debug, Default)]
pub(crate) enum Source {
    /// The gateway itself.
    #[default]
    Local,
    Network {
        address: Option<IpAddr>,
        user_agent: Option<Box<str>>,
        request_id: Option<Box<str>>,
    },
}

/// The client program, as it calls itself.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    pub(crate) name: Option<Box<str>>,
    pub(crate) version: Option<Box<str>>,
}

/// What the operation was about.
#[derive(Clone, Debug, Default)]
pub(crate) struct Target {
    pub(crate) endpoint: Box<str>,
    pub(crate) method: Box<str>,
    pub(crate) name: Option<Box<str>>,
    pub(crate) kind: &'static str,
}

/// How it went.
#[derive(Clone, Debug, Default)]
pub(crate) struct Result {
    pub(crate) duration: Option<Duration>,
    /// Bytes of the answer.
    pub(crate) size: Option<u64>,
    pub(crate) backend: Option<Backend>,
    pub(crate) error_code: Option<i64>,
    pub(crate) error_message: Option<Box<str>>,
    /// A tool's result says that it is an error.
    pub(crate) tool_error: bool,
    pub(crate) denied: Option<&'static str>,
    /// Nobody waited for the end of the answer.
    pub(crate) cancelled: bool,
}

/// The beginning of a request or an answer.
#[derive(Clone)]
pub(crate) struct Data {
    pub(crate) start: Vec<u8>,
    /// It is only the beginning.
    pub(crate) cut: bool,
}

// === impl Event ===

impl Event {
    /// An event of the gateway itself, at this time.
    #[must_use]
    pub fn new(kind: EventType, outcome: Outcome, at: SystemTime) -> Self {
        Self {
            kind,
            outcome,
            at,
            source: Source::default(),
            caller: None,
            client: None,
            target: Target::default(),
            result: Result::default(),
            more_target: Vec::new(),
            more_facts: Vec::new(),
            request: None,
            response: None,
        }
    }

    /// On whose behalf (`subjects`, `delegation`).
    #[must_use]
    pub fn caller(mut self, caller: &Identity) -> Self {
        self.caller = Some(caller.clone());
        self
    }

    /// What it is about: the kind of thing (`target.type`) and its name (`target.name`).
    #[must_use]
    pub fn target(mut self, kind: &'static str, name: &str) -> Self {
        self.target.kind = kind;
        self.target.name = Some(text(name));
        self
    }

    /// The MCP method (`target.method`).
    #[must_use]
    pub fn method(mut self, method: &str) -> Self {
        self.target.method = text(method);
        self
    }

    /// Another member of `target`, such as `workflow_id`.
    #[must_use]
    pub fn with_target(mut self, member: &'static str, value: &str) -> Self {
        self.more_target.push((member, text(value)));
        self
    }

    /// Which backend was asked (`metadata.extra.backend_name`).
    #[must_use]
    pub fn backend(mut self, backend: &Backend) -> Self {
        self.result.backend = Some(backend.clone());
        self
    }

    /// How long it took (`metadata.extra.duration_ms`).
    #[must_use]
    pub fn duration(mut self, duration: Duration) -> Self {
        self.result.duration = Some(duration);
        self
    }

    /// Another member of `metadata.extra`, such as `step_count`.
    #[must_use]
    pub fn with_fact(mut self, member: &'static str, value: Fact) -> Self {
        let value = match value {
            Fact::Text(long) if long.len() > MAX_TEXT => Fact::Text(text(&long)),
            other => other,
        };
        self.more_facts.push((member, value));
        self
    }

    /// What was asked (`data.request`), as JSON. Written only where the settings include request data.
    #[must_use]
    pub fn request(mut self, data: Vec<u8>) -> Self {
        self.request = Some(Data { start: data, cut: false });
        self
    }

    /// What was answered (`data.response`), as JSON. Written only where the settings include response
    /// data.
    #[must_use]
    pub fn response(mut self, data: Vec<u8>) -> Self {
        self.response = Some(Data { start: data, cut: false });
        self
    }

    /// About how many bytes it takes while it waits to be written.
    pub(crate) fn weight(&self) -> usize {
        let data = |data: &Option<Data>| data.as_ref().map_or(0, |data| data.start.len());
        size_of::<Self>() + 512 + data(&self.request) + data(&self.response)
    }
}

/// A text of bounded length.
pub(crate) fn text(value: &str) -> Box<str> {
    up_to(value, MAX_TEXT).into()
}

impl fmt::Debug for Data {
    /// How much it is: what it is has its secrets still.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Data({} bytes)", self.start.len())
    }
}
