//! The members of `params` that decide where a message goes.

use crate::{Span, Text};

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
}

/// `params` of a request or notification: where it stands, and where the values of its routing members stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params {
    /// The whole object; `None` when the message has no `params`.
    pub span: Option<Span>,
    /// By [`Key`]; an empty span means absent, since no JSON value is empty.
    values: [Span; 16],
    /// One bit per [`Key`] whose value is a string with escapes.
    escaped: u16,
    members: u8,
}

impl Key {
    /// All of them, in the order of their discriminants.
    pub const ALL: [Self; 16] = [
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
    ];

    /// The member's name as MCP spells it.
    #[must_use]
    pub fn name(self) -> &'static str {
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
        }
    }
}

impl Params {
    /// Where the value of `key` stands, or `None` when there is no such member.
    #[must_use]
    pub fn get(&self, key: Key) -> Option<Span> {
        let span = self.values[key as usize];
        (!span.is_empty()).then_some(span)
    }

    /// The value of `key` if it is a JSON string. `bytes` must be the message that was scanned.
    #[must_use]
    pub fn text(&self, bytes: &[u8], key: Key) -> Option<Text> {
        let span = self.get(key)?;
        let escaped = self.escaped & (1 << key as u8) != 0;
        (span.of(bytes).first() == Some(&b'"')).then_some(Text { span, escaped })
    }

    /// Whether `params` says nothing: it is absent, or an object without members.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.members == 0
    }

    pub(crate) const ABSENT: Self =
        Self { span: None, values: [Span { start: 0, end: 0 }; 16], escaped: 0, members: 0 };
}
