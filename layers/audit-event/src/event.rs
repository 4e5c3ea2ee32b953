//! What is recorded of one operation.

use std::fmt;
use std::net::IpAddr;
use std::ops::Deref;
use std::time::{Duration, SystemTime};

use vmcp_core::{Backend, Identity};

use crate::{EventType, Outcome};

/// The longest [`BoundedText`], in bytes.
const MAX_TEXT_LEN: usize = 512;

/// One event on its way to the log.
///
/// The layer makes those of requests; whoever runs something else that is to be recorded, such as the
/// steps of a composite tool, makes its own and gives it to `vmcp_audit::Auditor::record`.
#[derive(Clone, Debug)]
pub struct Event {
    /// What it is about.
    pub kind: EventType,
    /// How the operation ended.
    pub outcome: Outcome,
    /// When it was over.
    pub at: SystemTime,
    /// Where it came from.
    pub source: EventSource,
    /// On whose behalf; `None` if nobody found out.
    pub caller: Option<Identity>,
    /// The client program, if it said anything of itself.
    pub client: Option<ClientInfo>,
    /// What the operation was about.
    pub target: EventTarget,
    /// How it went.
    pub details: EventDetails,
    /// What was asked, if that is recorded.
    pub request: Option<PayloadExcerpt>,
    /// What was answered, if that is recorded.
    pub response: Option<PayloadExcerpt>,
}

/// A text of at most 512 bytes: a longer one is cut.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BoundedText(Box<str>);

/// Another member of an event's details.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldValue {
    /// A number.
    Number(u64),
    /// A text.
    Text(BoundedText),
    /// Whether something is so.
    Flag(bool),
}

/// Where an operation came from.
#[derive(Clone, Debug, Default)]
pub enum EventSource {
    /// The gateway itself.
    #[default]
    Local,
    /// A client.
    Network {
        /// Its address.
        address: Option<IpAddr>,
        /// `User-Agent`.
        user_agent: Option<BoundedText>,
        /// `X-Request-Id`.
        request_id: Option<BoundedText>,
    },
}

/// The client program, as it calls itself.
#[derive(Clone, Debug)]
pub struct ClientInfo {
    /// Its name.
    pub name: Option<BoundedText>,
    /// Its version.
    pub version: Option<BoundedText>,
}

/// What an operation was about. What is empty is not known.
#[derive(Clone, Debug, Default)]
pub struct EventTarget {
    /// The path of the request.
    pub endpoint: BoundedText,
    /// The method of MCP, else of HTTP.
    pub method: BoundedText,
    /// The tool, prompt, URI, level or id.
    pub name: Option<BoundedText>,
    /// The kind of thing, such as `tool`.
    pub kind: &'static str,
    /// Members that only some events have, such as `workflow_id`.
    pub more: Vec<(&'static str, BoundedText)>,
}

/// How an operation went.
#[derive(Clone, Debug, Default)]
pub struct EventDetails {
    /// How long it took.
    pub duration: Option<Duration>,
    /// Bytes of the answer.
    pub size: Option<u64>,
    /// Which backend was asked.
    pub backend: Option<Backend>,
    /// The code of a JSON-RPC error.
    pub error_code: Option<i64>,
    /// The message of a JSON-RPC error.
    pub error_message: Option<PayloadExcerpt>,
    /// A tool's result says that it is an error.
    pub tool_error: bool,
    /// Why the caller was not let, if the answer hides that.
    pub denied: Option<&'static str>,
    /// Nobody waited for the end of the answer.
    pub cancelled: bool,
    /// Members that only some events have, such as `step_count`.
    pub more: Vec<(&'static str, FieldValue)>,
}

/// The beginning of something that passed, as it came. It has its secrets still: whoever writes it
/// down takes them out first.
#[derive(Clone, PartialEq, Eq)]
pub struct PayloadExcerpt {
    /// The beginning.
    pub prefix: Vec<u8>,
    /// It is only the beginning.
    pub truncated: bool,
    /// The most bytes that may be written of it.
    pub limit: usize,
}

// === impl Event ===

impl Event {
    /// An event of the gateway itself, at this time, about nothing in particular.
    #[must_use]
    pub fn new(kind: EventType, outcome: Outcome, at: SystemTime) -> Self {
        Self {
            kind,
            outcome,
            at,
            source: EventSource::default(),
            caller: None,
            client: None,
            target: EventTarget::default(),
            details: EventDetails::default(),
            request: None,
            response: None,
        }
    }
}

// === impl Text ===

impl BoundedText {
    /// As much of `text` as one holds.
    #[must_use]
    pub fn truncate(text: &str) -> &str {
        let mut places = (0..=MAX_TEXT_LEN.min(text.len())).rev();
        let end = places.find(|at| text.is_char_boundary(*at)).unwrap_or_default();
        text.get(..end).unwrap_or_default()
    }
}

impl<T: AsRef<str>> From<T> for BoundedText {
    fn from(text: T) -> Self {
        Self(Self::truncate(text.as_ref()).into())
    }
}

impl Deref for BoundedText {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

// === impl Data ===

impl PayloadExcerpt {
    /// The first `limit` bytes of `whole`.
    #[must_use]
    pub fn new(whole: &[u8], limit: usize) -> Self {
        let prefix = whole.get(..limit).unwrap_or(whole);
        Self { prefix: prefix.to_vec(), truncated: prefix.len() < whole.len(), limit }
    }

    /// No more than `limit` bytes of it.
    #[must_use]
    pub fn truncate(self, limit: usize) -> Self {
        if self.prefix.len() > limit {
            return Self::new(&self.prefix, limit);
        }
        Self { limit: self.limit.min(limit), ..self }
    }
}

impl fmt::Debug for PayloadExcerpt {
    /// How much it is, not what.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Data({} bytes)", self.prefix.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncates_text_between_characters() {
        assert_eq!(BoundedText::from("é".repeat(999)).len(), 512);
        assert_eq!(BoundedText::from(format!("x{}", "é".repeat(999))).len(), 511);
        assert_eq!(&*BoundedText::from("short"), "short");
    }

    #[test]
    fn truncates_excerpts_and_hides_them_in_debug() {
        let data = PayloadExcerpt::new(b"c4n4ry", 4);
        assert_eq!(data, PayloadExcerpt { prefix: b"c4n4".to_vec(), truncated: true, limit: 4 });
        assert!(!PayloadExcerpt::new(b"c4n4ry", 6).truncated);
        let twice = PayloadExcerpt::new(b"c4n4ry", 6).truncate(2);
        assert_eq!(twice, PayloadExcerpt { prefix: b"c4".to_vec(), truncated: true, limit: 2 });
        assert_eq!(format!("{data:?}"), "Data(4 bytes)");
    }
}
