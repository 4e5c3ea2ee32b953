//! Members of `params` that routing, authorization or rewriting reads.

use crate::duplicate_detector::{DuplicateDetector, KnownKey};
use crate::lexer::{Lexer, Stop};
use crate::{ScanErrorKind, Span, StringSpan};

/// The names of [`Key::ALL`].
const NAMES: [&str; 18] = {
    let mut names = [""; 18];
    let mut index = 0;
    while index < names.len() {
        names[index] = Key::ALL[index].name();
        index += 1;
    }
    names
};

/// A member of `params` that routing, authorization or rewriting reads ("routing key").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Key {
    /// `name`: the tool or prompt.
    Name,
    /// `uri`: the resource.
    Uri,
    /// `arguments` of a tool or prompt.
    Arguments,
    /// `_meta`: progress token, trace context, and from revision 2026-07-28 on the protocol version and capabilities.
    Meta,
    /// `cursor` of a list request.
    Cursor,
    /// `ref`: what a completion is for.
    Ref,
    /// `argument`: what a completion completes.
    Argument,
    /// `level` of `logging/setLevel` and `notifications/message`.
    Level,
    /// `requestId` of `notifications/cancelled`.
    RequestId,
    /// `progressToken` of `notifications/progress`.
    ProgressToken,
    /// `inputResponses` of a multi round-trip request.
    InputResponses,
    /// `requestState` of a multi round-trip request.
    RequestState,
    /// `protocolVersion` of `initialize`.
    ProtocolVersion,
    /// `capabilities` of `initialize`.
    Capabilities,
    /// `clientInfo` of `initialize`.
    ClientInfo,
    /// `notifications` of `subscriptions/listen`.
    Notifications,
    /// `taskId` of requests and notifications about a task (`io.modelcontextprotocol/tasks`).
    TaskId,
    /// `task`, by which a request of 2025-11-25 asks to be run as a task.
    Task,
}

/// A member of `params._meta` that routing or rewriting reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum MetaKey {
    /// The revision that the request is of.
    ProtocolVersion,
    /// Name and version of the client.
    ClientInfo,
    /// Capabilities of the client.
    ClientCapabilities,
    /// The task that the message is related to (`io.modelcontextprotocol/tasks`).
    RelatedTask,
}

/// Members of `ref` that name the completed item.
#[derive(Clone, Copy)]
#[repr(u8)]
enum RefKey {
    Type,
    Name,
    Uri,
}

/// No known member.
#[derive(Clone, Copy)]
enum NoKnownKey {}

/// Ranges of the `params` of a request or notification and of its routing members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params {
    /// The whole object; `None` when the message has no `params`.
    pub span: Option<Span>,
    /// By [`Key`]; an empty span means absent, since no JSON value is empty.
    values: [Span; 18],
    /// By [`MetaKey`]; likewise.
    meta: [Span; 4],
    /// One bit per [`Key`] whose value is a string with escapes.
    escaped: u32,
    members: u8,
}

impl Key {
    /// All keys, in the order of their discriminants.
    pub const ALL: [Self; 18] = [
        Self::Name,
        Self::Uri,
        Self::Arguments,
        Self::Meta,
        Self::Cursor,
        Self::Ref,
        Self::Argument,
        Self::Level,
        Self::RequestId,
        Self::ProgressToken,
        Self::InputResponses,
        Self::RequestState,
        Self::ProtocolVersion,
        Self::Capabilities,
        Self::ClientInfo,
        Self::Notifications,
        Self::TaskId,
        Self::Task,
    ];

    /// Returns the member's name in MCP.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Uri => "uri",
            Self::Arguments => "arguments",
            Self::Meta => "_meta",
            Self::Cursor => "cursor",
            Self::Ref => "ref",
            Self::Argument => "argument",
            Self::Level => "level",
            Self::RequestId => "requestId",
            Self::ProgressToken => "progressToken",
            Self::InputResponses => "inputResponses",
            Self::RequestState => "requestState",
            Self::ProtocolVersion => "protocolVersion",
            Self::Capabilities => "capabilities",
            Self::ClientInfo => "clientInfo",
            Self::Notifications => "notifications",
            Self::TaskId => "taskId",
            Self::Task => "task",
        }
    }
}

impl MetaKey {
    /// All keys, in the order of their discriminants.
    pub const ALL: [Self; 4] =
        [Self::ProtocolVersion, Self::ClientInfo, Self::ClientCapabilities, Self::RelatedTask];

    /// Members of each request of revision 2026-07-28 that replace the handshake of older revisions.
    pub const HANDSHAKE: [Self; 3] =
        [Self::ProtocolVersion, Self::ClientInfo, Self::ClientCapabilities];

    /// Returns the member's name in MCP.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ProtocolVersion => "io.modelcontextprotocol/protocolVersion",
            Self::ClientInfo => "io.modelcontextprotocol/clientInfo",
            Self::ClientCapabilities => "io.modelcontextprotocol/clientCapabilities",
            Self::RelatedTask => "io.modelcontextprotocol/related-task",
        }
    }
}

impl KnownKey for Key {
    const NAMES: &[&str] = &NAMES;

    #[inline]
    fn from_name(name: &[u8]) -> Option<Self> {
        Some(match name {
            b"name" => Self::Name,
            b"uri" => Self::Uri,
            b"arguments" => Self::Arguments,
            b"_meta" => Self::Meta,
            b"cursor" => Self::Cursor,
            b"ref" => Self::Ref,
            b"argument" => Self::Argument,
            b"level" => Self::Level,
            b"requestId" => Self::RequestId,
            b"progressToken" => Self::ProgressToken,
            b"inputResponses" => Self::InputResponses,
            b"requestState" => Self::RequestState,
            b"protocolVersion" => Self::ProtocolVersion,
            b"capabilities" => Self::Capabilities,
            b"clientInfo" => Self::ClientInfo,
            b"notifications" => Self::Notifications,
            b"taskId" => Self::TaskId,
            b"task" => Self::Task,
            _ => return None,
        })
    }

    fn index(self) -> u8 {
        self as u8
    }
}

impl KnownKey for RefKey {
    const NAMES: &[&str] = &["type", "name", "uri"];

    fn from_name(name: &[u8]) -> Option<Self> {
        Some(match name {
            b"type" => Self::Type,
            b"name" => Self::Name,
            b"uri" => Self::Uri,
            _ => return None,
        })
    }

    fn index(self) -> u8 {
        self as u8
    }
}

impl KnownKey for NoKnownKey {
    const NAMES: &[&str] = &[];

    fn from_name(_: &[u8]) -> Option<Self> {
        None
    }

    fn index(self) -> u8 {
        match self {}
    }
}

impl Params {
    /// Returns the range of the value of `key`, or `None` without such a member.
    #[must_use]
    pub fn get(&self, key: Key) -> Option<Span> {
        let span = self.values[key as usize];
        (!span.is_empty()).then_some(span)
    }

    /// Returns the range of the value of a member of `_meta`, or `None` without such a member or an object `_meta`.
    #[must_use]
    pub fn meta(&self, key: MetaKey) -> Option<Span> {
        let span = self.meta[key as usize];
        (!span.is_empty()).then_some(span)
    }

    /// Returns the value of `key` if it is a JSON string. `bytes` must be the scanned message.
    #[must_use]
    pub fn text(&self, bytes: &[u8], key: Key) -> Option<StringSpan> {
        let span = self.get(key)?;
        let escaped = self.escaped & (1 << key as u32) != 0;
        (span.of(bytes).first() == Some(&b'"')).then_some(StringSpan { span, escaped })
    }

    /// Returns `true` if `params` is absent, or an object without members.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.members == 0
    }

    pub(crate) const ABSENT: Self = Self {
        span: None,
        values: [Span { start: 0, end: 0 }; 18],
        meta: [Span { start: 0, end: 0 }; 4],
        escaped: 0,
        members: 0,
    };

    /// Reads the object at `lexer`, which `outer` containers enclose. Syntax errors stop the reading; the first other
    /// error goes to `error`.
    pub(crate) fn read(
        lexer: &mut Lexer<'_>,
        outer: usize,
        error: &mut Option<ScanErrorKind>,
    ) -> Result<Self, Stop> {
        let mut params = Self::ABSENT;
        let mut detector = DuplicateDetector::<Key>::new();
        let bytes = lexer.bytes;
        let span = lexer.object(outer, |lexer, name| {
            let entered = detector.insert(bytes, name);
            let Ok(Some(key)) = entered.map_err(|found| _ = error.get_or_insert(found)) else {
                return lexer.value(outer + 1).map(drop);
            };
            let value = match (key, lexer.peek()) {
                (Key::Meta, Some(b'{')) => {
                    read_unique_members::<NoKnownKey>(lexer, outer + 1, error, |name, value| {
                        if let Some(key) =
                            MetaKey::ALL.iter().find(|key| name.is(bytes, key.name()))
                        {
                            params.meta[*key as usize] = value;
                        }
                    })?
                }
                (Key::Ref, Some(b'{')) => {
                    read_unique_members::<RefKey>(lexer, outer + 1, error, |_, _| {})?
                }
                _ => lexer.value(outer + 1)?,
            };
            params.values[key as usize] = value.span;
            params.escaped |= u32::from(value.escaped) << key as u32;
            Ok(())
        })?;
        params.span = Some(span);
        params.members = detector.count();
        Ok(params)
    }
}

/// Reads an object whose members must be unique, and passes each name and the range of its value to `member`.
fn read_unique_members<S: KnownKey>(
    lexer: &mut Lexer<'_>,
    outer: usize,
    error: &mut Option<ScanErrorKind>,
    mut member: impl FnMut(StringSpan, Span),
) -> Result<StringSpan, Stop> {
    let mut detector = DuplicateDetector::<S>::new();
    let bytes = lexer.bytes;
    let span = lexer.object(outer, |lexer, name| {
        if let Err(found) = detector.insert(bytes, name) {
            error.get_or_insert(found);
        }
        member(name, lexer.value(outer + 1)?.span);
        Ok(())
    })?;
    Ok(StringSpan { span, escaped: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_each_known_key_by_its_name() {
        for key in Key::ALL {
            assert_eq!(Key::from_name(key.name().as_bytes()), Some(key));
            assert_eq!(Key::NAMES[usize::from(key.index())], key.name());
        }
        for (index, key) in MetaKey::ALL.into_iter().enumerate() {
            assert_eq!(key as usize, index);
        }
        for (index, name) in RefKey::NAMES.iter().enumerate() {
            let found =
                RefKey::from_name(name.as_bytes()).map(|member| usize::from(member.index()));
            assert_eq!(found, Some(index));
        }
    }
}
