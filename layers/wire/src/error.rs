//! Errors of messages, addressed to their senders.

use crate::Span;

/// Kind of an error of a message. The text of each is addressed to the sender and names what to change; `at` is a byte offset
/// into the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScanErrorKind {
    /// The bytes are no JSON text by RFC 8259.
    #[error("not valid JSON at byte {at}: send one JSON text as RFC 8259 defines it")]
    Syntax {
        /// Position of the first byte that does not fit; the length of the message if it ends too early.
        at: u32,
    },
    /// RFC 8259 8.1: JSON between systems is UTF-8.
    #[error("not valid UTF-8 at byte {at}: send JSON encoded as UTF-8")]
    NotUtf8 {
        /// End of the valid part.
        at: u32,
    },
    /// More than [`MAX_DEPTH`](crate::MAX_DEPTH) objects and arrays inside each other.
    #[error("nested deeper than 128 levels: flatten the message")]
    TooDeep,
    /// A `\ud800` to `\udfff` escape without its other half: parsers disagree about its meaning.
    #[error("half of a surrogate pair at byte {at}: write the whole pair, or the character itself")]
    LoneSurrogate {
        /// Start of the escape.
        at: u32,
    },
    /// More than 4 GiB.
    #[error("longer than 4 GiB: send a shorter message")]
    TooLong,
    /// JSON-RPC batches left MCP with revision 2025-06-18.
    #[error("batches are not supported: send each message on its own")]
    Batch,
    /// A JSON value other than an object.
    #[error("not a JSON object: send one JSON-RPC message")]
    NotAnObject,
    /// No member `jsonrpc`.
    #[error("member jsonrpc is missing: add \"jsonrpc\":\"2.0\"")]
    MissingVersion,
    /// Member `jsonrpc` is not the string `2.0`.
    #[error("member jsonrpc is not \"2.0\": only JSON-RPC 2.0 is spoken")]
    WrongVersion,
    /// Neither `method` nor `result` nor `error`.
    #[error("member method is missing: a request names its method, an answer has result or error")]
    MissingMethod,
    /// `method` is not a string, is empty, or is longer than [`MAX_METHOD`](crate::MAX_METHOD) bytes.
    #[error("member method is not a string of 1 to 256 bytes")]
    BadMethod,
    /// `id` is neither a string nor an integer, is longer than [`MAX_ID`](crate::MAX_ID) bytes, is null in a request, or is
    /// missing beside a result.
    #[error("member id is not a string or an integer of at most 1024 bytes")]
    BadId,
    /// `params` is present and not an object.
    #[error("member params is not an object: leave it out or send an object")]
    BadParams,
    /// A member stands twice in the message, in `params`, in `params._meta` or in `params.ref`.
    #[error("the member at byte {at} stands twice in its object: send it once")]
    Duplicate {
        /// Start of the second one's key.
        at: u32,
    },
    /// A member's name is not `key`, but a lenient parser takes it for `key`.
    #[error(
        "the name of the member at byte {at} can be mistaken for {key}: write it exactly so, or choose another name"
    )]
    ConfusableName {
        /// The known name.
        key: &'static str,
        /// Start of the key.
        at: u32,
    },
    /// More than [`MAX_MEMBERS`](crate::MAX_MEMBERS) members in an object whose members have to differ.
    #[error(
        "more than 64 members in one object of the envelope: move what is not part of MCP into arguments"
    )]
    TooManyEnvelopeMembers,
    /// More members than the limit of [`parse_unique_object`](crate::parse_unique_object).
    #[error("too many members: send fewer")]
    TooManyMembers,
    /// The name of a member of such an object is longer than [`MAX_NAME`](crate::MAX_NAME) bytes.
    #[error("the name of the member at byte {at} is longer than 256 bytes: shorten it")]
    NameTooLong {
        /// Start of the key.
        at: u32,
    },
    /// Members of a request and of a response, or both a result and an error.
    #[error("both a request and an answer, or both a result and an error: send one of them")]
    Ambiguous,
}

/// Error of a message that [`scan`](crate::scan) rejects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind}")]
pub struct ScanError {
    /// Kind of the error.
    pub kind: ScanErrorKind,
    /// The id for the error response; `None` unless a valid one was read exactly once before the error.
    pub id: Option<Span>,
}

impl ScanErrorKind {
    /// Returns the JSON-RPC 2.0 error code of the response: -32700 if the bytes are not a JSON text that is safe to read,
    /// -32600 if they are one but not a valid message.
    #[must_use]
    pub fn code(&self) -> i32 {
        match self {
            Self::Syntax { .. }
            | Self::NotUtf8 { .. }
            | Self::TooDeep
            | Self::LoneSurrogate { .. } => -32700,
            Self::TooLong
            | Self::Batch
            | Self::NotAnObject
            | Self::MissingVersion
            | Self::WrongVersion
            | Self::MissingMethod
            | Self::BadMethod
            | Self::BadId
            | Self::BadParams
            | Self::Duplicate { .. }
            | Self::ConfusableName { .. }
            | Self::TooManyEnvelopeMembers
            | Self::TooManyMembers
            | Self::NameTooLong { .. }
            | Self::Ambiguous => -32600,
        }
    }
}
