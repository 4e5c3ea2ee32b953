//! What is recorded of one operation.

use std::fmt;
use std::net::IpAddr;
use std::ops::Deref;
use std::time::{Duration, SystemTime};

use vmcp_core::{Backend, Identity};

use crate::{EventType, Outcome};

/// The longest [`Text`], in bytes.
const MAX_TEXT: usize = 512;

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
    pub source: Source,
    /// On whose behalf; `None` if nobody found out.
    pub caller: Option<Identity>,
    /// The client program, if it said anything of itself.
    pub client: Option<Client>,
    /// What the operation was about.
    pub target: Target,
    /// How it went.
    pub details: Details,
    /// What was asked, if that is recorded.
    pub request: Option<Data>,
    /// What was answered, if that is recorded.
    pub response: Option<Data>,
}

/// A text of at most 512 bytes: a longer one is cut.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Text(Box<str>);

/// Another member of an event's details.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact {
    /// A number.
    Number(u64),
    /// A text.
    Text(Text),
    /// Whether something is so.
    Flag(bool),
}

/// Where an operation came from.
#[derive(Clone, Debug, Default)]
pub enum Source {
    /// The gateway itself.
    #[default]
    Local,
    /// A client.
    Network {
        /// Its address.
        address: Option<IpAddr>,
        /// `User-Agent`.
        user_agent: Option<Text>,
        /// `X-Request-Id`.
        request_id: Option<Text>,
    },
}

/// The client program, as it calls itself.
#[derive(Clone, Debug)]
pub struct Client {
    /// Its name.
    pub name: Option<Text>,
    /// Its version.
    pub version: Option<Text>,
}

/// What an operation was about. What is empty is not known.
#[derive(Clone, Debug, Default)]
pub struct Target {
    /// The path of the request.
    pub endpoint: Text,
    /// The method of MCP, else of HTTP.
    pub method: Text,
    /// The tool, prompt, URI, level or id.
    pub name: Option<Text>,
    /// The kind of thing, such as `tool`.
    pub kind: &'static str,
    /// Members that only some events have, such as `workflow_id`.
    pub more: Vec<(&'static str, Text)>,
}

/// How an operation went.
#[derive(Clone, Debug, Default)]
pub struct Details {
    /// How long it took.
    pub duration: Option<Duration>,
    /// Bytes of the answer.
    pub size: Option<u64>,
    /// Which backend was asked.
    pub backend: Option<Backend>,
    /// The code of a JSON-RPC error.
    pub error_code: Option<i64>,
    /// The message of a JSON-RPC error.
    pub error_message: Option<Data>,
    /// A tool's result says that it is an error.
    pub tool_error: bool,
    /// Why the caller was not let, if the answer hides that.
    pub denied: Option<&'static str>,
    /// Nobody waited for the end of the answer.
    pub cancelled: bool,
    /// Members that only some events have, such as `step_count`.
    pub more: Vec<(&'static str, Fact)>,
}

/// The beginning of something that passed, as it came. It has its secrets still: whoever writes it
/// down takes them out first.
#[derive(Clone, PartialEq, Eq)]
pub struct Data {
    /// The beginning.
    pub start: Vec<u8>,
    /// It is only the beginning.
    pub cut: bool,
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
            source: Source::default(),
            caller: None,
            client: None,
            target: Target::default(),
            details: Details::default(),
            request: None,
            response: None,
        }
    }
}

// === impl Text ===

impl Text {
    /// As much of `text` as one holds.
    #[must_use]
    pub fn cut(text: &str) -> &str {
        let mut places = (0..=MAX_TEXT.min(text.len())).rev();
        let end = places.find(|at| text.is_char_boundary(*at)).unwrap_or_default();
        text.get(..end).unwrap_or_default()
    }
}

impl<T: AsRef<str>> From<T> for Text {
    fn from(text: T) -> Self {
        Self(Self::cut(text.as_ref()).into())
    }
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

// === impl Data ===

impl Data {
    /// The first `limit` bytes of `whole`.
    #[must_use]
    pub fn new(whole: &[u8], limit: usize) -> Self {
        let start = whole.get(..limit).unwrap_or(whole);
        Self { start: start.to_vec(), cut: start.len() < whole.len(), limit }
    }

    /// No more than `limit` bytes of it.
    #[must_use]
    pub fn limited(self, limit: usize) -> Self {
        if self.start.len() > limit {
            return Self::new(&self.start, limit);
        }
        Self { limit: self.limit.min(limit), ..self }
    }
}

impl fmt::Debug for Data {
    /// How much it is, not what.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Data({} bytes)", self.start.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_between_characters() {
        assert_eq!(Text::from("é".repeat(999)).len(), 512);
        assert_eq!(Text::from(format!("x{}", "é".repeat(999))).len(), 511);
        assert_eq!(&*Text::from("short"), "short");
    }

    #[test]
    fn data_is_cut_once_or_twice_and_never_shown() {
        let data = Data::new(b"c4n4ry", 4);
        assert_eq!(data, Data { start: b"c4n4".to_vec(), cut: true, limit: 4 });
        assert!(!Data::new(b"c4n4ry", 6).cut);
        let twice = Data::new(b"c4n4ry", 6).limited(2);
        assert_eq!(twice, Data { start: b"c4".to_vec(), cut: true, limit: 2 });
        assert_eq!(format!("{data:?}"), "Data(4 bytes)");
    }
}
