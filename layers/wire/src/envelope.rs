//! Envelope of a message: one strict pass over its bytes.

use crate::ledger::{Ledger, Sought};
use crate::lexer::{Lexer, Stop};
use crate::{Fault, MAX_ID, MAX_METHOD, Params, Refused, Span, Text};

/// A JSON-RPC message of MCP, read as far as a gateway has to know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Envelope {
    /// Asks for an answer.
    Request {
        /// The id's literal, a string with its quotes or an integer; to be sent back byte for byte.
        id: Span,
        /// Method of the request.
        method: Text,
        /// With what.
        params: Params,
    },
    /// Tells something.
    Notification {
        /// Method of the notification.
        method: Text,
        /// With what.
        params: Params,
    },
    /// Answers a request of the other side.
    Answer {
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

/// The members of a message, as they come.
#[derive(Default)]
struct Parts {
    version: Option<Text>,
    id: Id,
    method: Option<Text>,
    params: Option<Params>,
    result: Option<Span>,
    error: Option<Span>,
    /// The first mistake that leaves the text JSON. It waits for the end of the text, so that the id can be told.
    fault: Option<Fault>,
}

#[derive(Clone, Copy, Default)]
pub(crate) enum Id {
    #[default]
    Absent,
    Null,
    Valid(Span),
    Invalid,
}

/// The members of a message that JSON-RPC 2.0 defines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Part {
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
/// `params.ref`, a member must not stand twice, be named so that a lenient reader takes it for one that is looked for, or be
/// one of more than [`MAX_MEMBERS`](crate::MAX_MEMBERS). Members that are not known are allowed. Names count unescaped and
/// are compared by code point.
///
/// What is wrong with the JSON text is reported before what is wrong with the message.
pub fn scan(bytes: &[u8]) -> Result<Envelope, Refused> {
    scan_with(bytes, &mut |lexer| lexer.value(1).map(|value| value.span))
}

/// [`scan`], with `result` to read the value of `result`, which one container encloses.
pub(crate) fn scan_with(
    bytes: &[u8],
    result: &mut impl FnMut(&mut Lexer<'_>) -> Result<Span, Stop>,
) -> Result<Envelope, Refused> {
    let mut parts = Parts::default();
    let outcome = parts.read(bytes, result).and_then(|()| parts.judge(bytes));
    outcome.map_err(|fault| {
        // An id at whose end the text breaks may have been meant to go on.
        let cut = |id: &Span| matches!(fault, Fault::Syntax { at } if at == id.end);
        Refused { fault, id: parts.id.valid().filter(|id| !cut(id)) }
    })
}

/// Reads an object that stands for `params` without being in a message, as in a call inside a call, by the same rules.
///
/// Spans count from the beginning of `bytes`.
pub fn scan_params(bytes: &[u8]) -> Result<Params, Fault> {
    check_text(bytes)?;
    let mut lexer = Lexer::whole(bytes);
    let mut fault = None;
    lexer.space();
    if lexer.peek() != Some(b'{') {
        finish(lexer.value(0).map(drop), &mut lexer)?;
        return Err(Fault::BadParams);
    }
    let params = Params::read(&mut lexer, 0, &mut fault);
    finish(params.map(drop), &mut lexer)?;
    match (fault, params) {
        (None, Ok(params)) => Ok(params),
        (fault, _) => Err(fault.unwrap_or(Fault::BadParams)),
    }
}

/// Length and encoding.
pub(crate) fn check_text(bytes: &[u8]) -> Result<(), Fault> {
    u32::try_from(bytes.len()).map_err(|_| Fault::TooLong)?;
    std::str::from_utf8(bytes)
        .map(drop)
        .map_err(|error| Fault::NotUtf8 { at: Span::new(0, error.valid_up_to()).end })
}

/// The end of a complete text: nothing follows, and nothing may be missing.
pub(crate) fn finish(read: Result<(), Stop>, lexer: &mut Lexer<'_>) -> Result<(), Fault> {
    match read.and_then(|()| lexer.end()) {
        Ok(()) => Ok(()),
        Err(Stop::Fault(fault)) => Err(fault),
        Err(Stop::End) => Err(lexer.syntax()),
    }
}

impl Parts {
    fn read(
        &mut self,
        bytes: &[u8],
        result: &mut impl FnMut(&mut Lexer<'_>) -> Result<Span, Stop>,
    ) -> Result<(), Fault> {
        check_text(bytes)?;
        let mut lexer = Lexer::whole(bytes);
        lexer.space();
        let first = lexer.peek();
        if first != Some(b'{') {
            finish(lexer.value(0).map(drop), &mut lexer)?;
            return Err(if first == Some(b'[') { Fault::Batch } else { Fault::NotAnObject });
        }
        let mut ledger = Ledger::<Part>::new();
        let read = lexer.object(0, |lexer, key| {
            match ledger.enter(bytes, key) {
                Ok(Some(Part::Result)) => {
                    self.result = Some(result(lexer)?);
                    return Ok(());
                }
                Ok(Some(part)) => return self.member(part, lexer),
                Ok(None) => {}
                Err(fault) => {
                    if key.is(bytes, "id") {
                        self.id = Id::Invalid;
                    }
                    self.fault.get_or_insert(fault);
                }
            }
            lexer.value(1).map(drop)
        });
        finish(read.map(drop), &mut lexer)
    }

    fn member(&mut self, part: Part, lexer: &mut Lexer<'_>) -> Result<(), Stop> {
        if part == Part::Params && lexer.peek() == Some(b'{') {
            self.params = Some(Params::read(lexer, 1, &mut self.fault)?);
            return Ok(());
        }
        let value = lexer.value(1)?;
        match part {
            Part::Version => self.version = Some(value),
            Part::Id => self.id = Id::new(value.span, lexer.bytes),
            Part::Method => self.method = Some(value),
            Part::Params => _ = self.fault.get_or_insert(Fault::BadParams),
            Part::Result => self.result = Some(value.span),
            Part::Error => self.error = Some(value.span),
        }
        Ok(())
    }

    /// Returns the envelope that the members form.
    fn judge(&self, bytes: &[u8]) -> Result<Envelope, Fault> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        match self.version {
            None => return Err(Fault::MissingVersion),
            Some(version) if !is_version(version, bytes) => return Err(Fault::WrongVersion),
            Some(_) => {}
        }
        let params = self.params.unwrap_or(Params::ABSENT);
        match (self.method, self.result, self.error) {
            (Some(method), None, None) => {
                check_method(method, bytes)?;
                match self.id {
                    Id::Absent => Ok(Envelope::Notification { method, params }),
                    Id::Valid(id) => Ok(Envelope::Request { id, method, params }),
                    Id::Null | Id::Invalid => Err(Fault::BadId),
                }
            }
            (None, None, None) => Err(Fault::MissingMethod),
            (None, Some(result), None) => self.answer(Outcome::Result(result)),
            (None, None, Some(error)) => self.answer(Outcome::Error(error)),
            _ => Err(Fault::Ambiguous),
        }
    }

    fn answer(&self, outcome: Outcome) -> Result<Envelope, Fault> {
        if self.params.is_some() {
            return Err(Fault::Ambiguous);
        }
        match (self.id, outcome) {
            (Id::Valid(id), _) => Ok(Envelope::Answer { id: Some(id), outcome }),
            (Id::Null, _) | (Id::Absent, Outcome::Error(_)) => {
                Ok(Envelope::Answer { id: None, outcome })
            }
            (Id::Absent | Id::Invalid, _) => Err(Fault::BadId),
        }
    }
}

impl Sought for Part {
    const NAMES: &[&str] = &["jsonrpc", "id", "method", "params", "result", "error"];

    #[inline]
    fn named(name: &[u8]) -> Option<Self> {
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
    /// JSON-RPC 2.0, section 4, without the fractions that it discourages.
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

fn is_version(value: Text, bytes: &[u8]) -> bool {
    value.span.of(bytes).first() == Some(&b'"') && value.is(bytes, "2.0")
}

pub(crate) fn check_method(value: Text, bytes: &[u8]) -> Result<(), Fault> {
    let literal = value.span.of(bytes);
    let length = if value.escaped && literal.len() <= 6 * MAX_METHOD + 2 {
        value.read(bytes).len()
    } else {
        literal.len().saturating_sub(2)
    };
    let fits = literal.first() == Some(&b'"') && (1..=MAX_METHOD).contains(&length);
    if fits { Ok(()) } else { Err(Fault::BadMethod) }
}

#[cfg(test)]
mod tests;
