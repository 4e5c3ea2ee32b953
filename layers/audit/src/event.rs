//! Audit events.

use std::fmt;
use std::net::IpAddr;
use std::ops::Deref;
use std::time::{Duration, SystemTime};

use vmcp_core::{Backend, Identity};

use crate::{EventType, Outcome};

/// Maximum length of a [`BoundedText`] in bytes.
const MAX_TEXT_LEN: usize = 512;

/// One audit event.
///
/// The layer produces the events of requests. Other components, such as composite tools, produce their own and pass
/// them to [`Auditor::record`](crate::Auditor::record).
#[derive(Clone, Debug)]
pub struct Event {
    /// The type of the event.
    pub kind: EventType,
    /// The result of the operation.
    pub outcome: Outcome,
    /// The time at the end of the operation.
    pub at: SystemTime,
    /// The origin of the operation.
    pub source: EventSource,
    /// The authenticated caller, if known.
    pub caller: Option<Identity>,
    /// The client program, if it identified itself.
    pub client: Option<ClientInfo>,
    /// The target of the operation.
    pub target: EventTarget,
    /// Further details.
    pub details: EventDetails,
    /// Excerpt of the request, if configured.
    pub request: Option<PayloadExcerpt>,
    /// Excerpt of the response, if configured.
    pub response: Option<PayloadExcerpt>,
}

/// Text of at most 512 bytes; a longer one is truncated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BoundedText(Box<str>);

/// Value of an additional detail of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldValue {
    /// A number.
    Number(u64),
    /// A text.
    Text(BoundedText),
    /// A boolean.
    Flag(bool),
}

/// Origin of an operation.
#[derive(Clone, Debug, Default)]
pub enum EventSource {
    /// The gateway itself.
    #[default]
    Local,
    /// A client.
    Network {
        /// The client's address.
        address: Option<IpAddr>,
        /// `User-Agent`.
        user_agent: Option<BoundedText>,
        /// `X-Request-Id`.
        request_id: Option<BoundedText>,
    },
}

/// Name and version that the client program reports.
#[derive(Clone, Debug)]
pub struct ClientInfo {
    /// The name.
    pub name: Option<BoundedText>,
    /// The version.
    pub version: Option<BoundedText>,
}

/// Target of an operation. Unknown values are empty.
#[derive(Clone, Debug, Default)]
pub struct EventTarget {
    /// The path of the request.
    pub endpoint: BoundedText,
    /// The MCP method, otherwise the HTTP method.
    pub method: BoundedText,
    /// The name, URI, level or id of the target.
    pub name: Option<BoundedText>,
    /// The kind of target, such as `tool`.
    pub kind: &'static str,
    /// Additional members of some events, such as `workflow_id`.
    pub more: Vec<(&'static str, BoundedText)>,
}

/// Details of an operation.
#[derive(Clone, Debug, Default)]
pub struct EventDetails {
    /// The duration.
    pub duration: Option<Duration>,
    /// The size of the response in bytes.
    pub size: Option<u64>,
    /// The backend that handled the request.
    pub backend: Option<Backend>,
    /// The code of a JSON-RPC error.
    pub error_code: Option<i64>,
    /// The message of a JSON-RPC error.
    pub error_message: Option<PayloadExcerpt>,
    /// Set if the result of a tool reports an error.
    pub tool_error: bool,
    /// The reason of a denial, which the response may hide.
    pub denied: Option<&'static str>,
    /// Set if the client left before the end of the response.
    pub cancelled: bool,
    /// Additional members of some events, such as `step_count`.
    pub more: Vec<(&'static str, FieldValue)>,
}

/// Prefix of a request, response or error message. It still contains its secrets; code that stores events must
/// redact them first.
#[derive(Clone, PartialEq, Eq)]
pub struct PayloadExcerpt {
    /// The prefix.
    pub prefix: Vec<u8>,
    /// Set if bytes are missing after the prefix.
    pub truncated: bool,
    /// Maximum number of bytes to store.
    pub limit: usize,
}

// === impl Event ===

impl Event {
    /// Creates an event of the gateway itself.
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

// === impl BoundedText ===

impl BoundedText {
    /// Returns the longest prefix of `text` that fits.
    #[must_use]
    pub fn truncate(text: &str) -> &str {
        let mut end = MAX_TEXT_LEN.min(text.len());
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        &text[..end]
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

// === impl PayloadExcerpt ===

impl PayloadExcerpt {
    /// Creates an excerpt with the first `limit` bytes of `whole`.
    #[must_use]
    pub fn new(whole: &[u8], limit: usize) -> Self {
        let prefix = whole.get(..limit).unwrap_or(whole);
        Self { prefix: prefix.to_vec(), truncated: prefix.len() < whole.len(), limit }
    }

    /// Reduces the excerpt to `limit` bytes.
    #[must_use]
    pub fn truncate(self, limit: usize) -> Self {
        if self.prefix.len() > limit {
            return Self::new(&self.prefix, limit);
        }
        Self { limit: self.limit.min(limit), ..self }
    }
}

impl fmt::Debug for PayloadExcerpt {
    /// Shows the length, not the content.
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
