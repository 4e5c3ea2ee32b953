//! Envelope of a message: one strict pass over its bytes.

use crate::duplicate_detector::{DuplicateDetector, KnownKey};
use crate::lexer::{Lexer, Stop};
use crate::{MAX_ID, MAX_METHOD, Params, ScanError, ScanErrorKind, Span, StringSpan};

/// A JSON-RPC message of MCP, read as far as a gateway has to know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Envelope {
    /// A request, which expects a response.
    Request {
        /// The id's literal, a string with its quotes or an integer; to be sent back byte for byte.
        id: Span,
        /// Method of the request.
        method: StringSpan,
        /// Parameters.
        params: Params,
    },
    /// A notification.
    Notification {
        /// Method of the notification.
        method: StringSpan,
        /// Parameters.
        params: Params,
    },
    /// A response to a request of the other side.
    Response {
        /// The literal of the request's id; `None` when it is null, or absent beside an error.
        id: Option<Span>,
        /// Result or error.
        outcome: Outcome,
    },
}

/// Outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The value of `result`.
    Result(Span),
    /// The value of `error`.
    Error(Span),
}

/// Members of a message that were read so far.
#[derive(Default)]
struct EnvelopeMembers {
    version: Option<StringSpan>,
    id: Id,
    method: Option<StringSpan>,
    params: Option<Params>,
    result: Option<Span>,
    error: Option<Span>,
    /// The first error other than a syntax error. It is reported at the end of the text, when the id is known.
    scan_error: Option<ScanErrorKind>,
}

#[derive(Clone, Copy, Default)]
pub(crate) enum Id {
    #[default]
    Absent,
    Null,
    Valid(Span),
    Invalid,
}

/// Member of a message that JSON-RPC 2.0 defines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum EnvelopeKey {
    Version,
    Id,
    Method,
    Params,
    Result,
    Error,
}

/// Reads a complete message in one strict pass, without allocation.
///
/// The whole text is checked against RFC 8259: UTF-8, no byte order mark, nothing but whitespace behind the message, at most
/// [`MAX_DEPTH`](crate::MAX_DEPTH) levels, no lone surrogates. In the message itself, in `params`, `params._meta` and
/// `params.ref`, a member must not appear twice, have a name that a lenient parser takes for a known one, or be
/// one of more than [`MAX_MEMBERS`](crate::MAX_MEMBERS). Members that are not known are allowed. Names count unescaped and
/// are compared by code point.
///
/// What is wrong with the JSON text is reported before what is wrong with the message.
pub fn scan(bytes: &[u8]) -> Result<Envelope, ScanError> {
    scan_with(bytes, &mut |lexer| lexer.value(1).map(|value| value.span))
}

/// Scans like [`scan`], with a function that reads the value of `result`, which one container encloses.
pub(crate) fn scan_with(
    bytes: &[u8],
    result: &mut impl FnMut(&mut Lexer<'_>) -> Result<Span, Stop>,
) -> Result<Envelope, ScanError> {
    let mut members = EnvelopeMembers::default();
    let outcome = members.read(bytes, result).and_then(|()| members.to_envelope(bytes));
    outcome.map_err(|kind| {
        // An id at which the text ends may be incomplete.
        let is_cut = |id: &Span| matches!(kind, ScanErrorKind::Syntax { at } if at == id.end);
        ScanError { kind, id: members.id.valid().filter(|id| !is_cut(id)) }
    })
}

/// Reads an object that has the form of `params`, such as those of a call inside a call, by the same rules.
///
/// Spans count from the beginning of `bytes`.
pub fn scan_params(bytes: &[u8]) -> Result<Params, ScanErrorKind> {
    check_text(bytes)?;
    let mut lexer = Lexer::whole(bytes);
    let mut scan_error = None;
    lexer.space();
    if lexer.peek() != Some(b'{') {
        finish(lexer.value(0).map(drop), &mut lexer)?;
        return Err(ScanErrorKind::BadParams);
    }
    let params = Params::read(&mut lexer, 0, &mut scan_error);
    finish(params.map(drop), &mut lexer)?;
    match (scan_error, params) {
        (None, Ok(params)) => Ok(params),
        (scan_error, _) => Err(scan_error.unwrap_or(ScanErrorKind::BadParams)),
    }
}

/// Checks length and encoding.
pub(crate) fn check_text(bytes: &[u8]) -> Result<(), ScanErrorKind> {
    u32::try_from(bytes.len()).map_err(|_| ScanErrorKind::TooLong)?;
    std::str::from_utf8(bytes)
        .map(drop)
        .map_err(|error| ScanErrorKind::NotUtf8 { at: Span::new(0, error.valid_up_to()).end })
}

/// Checks the end of a complete text: nothing follows, and nothing is missing.
pub(crate) fn finish(read: Result<(), Stop>, lexer: &mut Lexer<'_>) -> Result<(), ScanErrorKind> {
    match read.and_then(|()| lexer.end()) {
        Ok(()) => Ok(()),
        Err(Stop::Error(scan_error)) => Err(scan_error),
        Err(Stop::End) => Err(lexer.syntax()),
    }
}

impl EnvelopeMembers {
    fn read(
        &mut self,
        bytes: &[u8],
        result: &mut impl FnMut(&mut Lexer<'_>) -> Result<Span, Stop>,
    ) -> Result<(), ScanErrorKind> {
        check_text(bytes)?;
        let mut lexer = Lexer::whole(bytes);
        lexer.space();
        let first = lexer.peek();
        if first != Some(b'{') {
            finish(lexer.value(0).map(drop), &mut lexer)?;
            return Err(if first == Some(b'[') {
                ScanErrorKind::Batch
            } else {
                ScanErrorKind::NotAnObject
            });
        }
        let mut detector = DuplicateDetector::<EnvelopeKey>::new();
        let read = lexer.object(0, |lexer, key| {
            match detector.insert(bytes, key) {
                Ok(Some(EnvelopeKey::Result)) => {
                    self.result = Some(result(lexer)?);
                    return Ok(());
                }
                Ok(Some(key)) => return self.member(key, lexer),
                Ok(None) => {}
                Err(scan_error) => {
                    if key.is(bytes, "id") {
                        self.id = Id::Invalid;
                    }
                    self.scan_error.get_or_insert(scan_error);
                }
            }
            lexer.value(1).map(drop)
        });
        finish(read.map(drop), &mut lexer)
    }

    fn member(&mut self, key: EnvelopeKey, lexer: &mut Lexer<'_>) -> Result<(), Stop> {
        if key == EnvelopeKey::Params && lexer.peek() == Some(b'{') {
            self.params = Some(Params::read(lexer, 1, &mut self.scan_error)?);
            return Ok(());
        }
        let value = lexer.value(1)?;
        match key {
            EnvelopeKey::Version => self.version = Some(value),
            EnvelopeKey::Id => self.id = Id::new(value.span, lexer.bytes),
            EnvelopeKey::Method => self.method = Some(value),
            EnvelopeKey::Params => _ = self.scan_error.get_or_insert(ScanErrorKind::BadParams),
            EnvelopeKey::Result => self.result = Some(value.span),
            EnvelopeKey::Error => self.error = Some(value.span),
        }
        Ok(())
    }

    /// Returns the envelope that the members form.
    fn to_envelope(&self, bytes: &[u8]) -> Result<Envelope, ScanErrorKind> {
        if let Some(scan_error) = self.scan_error {
            return Err(scan_error);
        }
        match self.version {
            None => return Err(ScanErrorKind::MissingVersion),
            Some(version) if !is_version(version, bytes) => {
                return Err(ScanErrorKind::WrongVersion);
            }
            Some(_) => {}
        }
        let params = self.params.unwrap_or(Params::ABSENT);
        match (self.method, self.result, self.error) {
            (Some(method), None, None) => {
                check_method(method, bytes)?;
                match self.id {
                    Id::Absent => Ok(Envelope::Notification { method, params }),
                    Id::Valid(id) => Ok(Envelope::Request { id, method, params }),
                    Id::Null | Id::Invalid => Err(ScanErrorKind::BadId),
                }
            }
            (None, None, None) => Err(ScanErrorKind::MissingMethod),
            (None, Some(result), None) => self.response(Outcome::Result(result)),
            (None, None, Some(error)) => self.response(Outcome::Error(error)),
            _ => Err(ScanErrorKind::Ambiguous),
        }
    }

    fn response(&self, outcome: Outcome) -> Result<Envelope, ScanErrorKind> {
        if self.params.is_some() {
            return Err(ScanErrorKind::Ambiguous);
        }
        match (self.id, outcome) {
            (Id::Valid(id), _) => Ok(Envelope::Response { id: Some(id), outcome }),
            (Id::Null, _) | (Id::Absent, Outcome::Error(_)) => {
                Ok(Envelope::Response { id: None, outcome })
            }
            (Id::Absent | Id::Invalid, _) => Err(ScanErrorKind::BadId),
        }
    }
}

impl KnownKey for EnvelopeKey {
    const NAMES: &[&str] = &["jsonrpc", "id", "method", "params", "result", "error"];

    #[inline]
    fn from_name(name: &[u8]) -> Option<Self> {
        Some(match name {
            b"jsonrpc" => Self::Version,
            b"id" => Self::Id,
            b"method" => Self::Method,
            b"params" => Self::Params,
            b"result" => Self::Result,
            b"error" => Self::Error,
            _ => return None,
        })
    }

    fn index(self) -> u8 {
        self as u8
    }
}

impl Id {
    /// Classifies an id (JSON-RPC 2.0, section 4, without the fractions that it discourages).
    pub(crate) fn new(span: Span, bytes: &[u8]) -> Self {
        let literal = span.of(bytes);
        match literal.first() {
            Some(b'"') if literal.len() <= MAX_ID => Self::Valid(span),
            Some(b'-' | b'0'..=b'9')
                if literal.len() <= MAX_ID
                    && !literal.iter().any(|byte| matches!(byte, b'.' | b'e' | b'E')) =>
            {
                Self::Valid(span)
            }
            Some(b'n') => Self::Null,
            _ => Self::Invalid,
        }
    }

    pub(crate) fn valid(self) -> Option<Span> {
        match self {
            Self::Valid(span) => Some(span),
            Self::Absent | Self::Null | Self::Invalid => None,
        }
    }
}

fn is_version(value: StringSpan, bytes: &[u8]) -> bool {
    value.span.of(bytes).first() == Some(&b'"') && value.is(bytes, "2.0")
}

pub(crate) fn check_method(value: StringSpan, bytes: &[u8]) -> Result<(), ScanErrorKind> {
    let literal = value.span.of(bytes);
    let length = if value.escaped && literal.len() <= 6 * MAX_METHOD + 2 {
        value.read(bytes).len()
    } else {
        literal.len().saturating_sub(2)
    };
    let fits = literal.first() == Some(&b'"') && (1..=MAX_METHOD).contains(&length);
    if fits { Ok(()) } else { Err(ScanErrorKind::BadMethod) }
}

#[cfg(test)]
mod tests;
