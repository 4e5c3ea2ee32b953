//! Facts that the first bytes of a backend's message contain.

use crate::envelope::{Id, Part, check_method};
use crate::ledger::Ledger;
use crate::lexer::{Lexer, Stop};
use crate::{Fault, Span, Text};

/// Facts of a message as far as its bytes have arrived. See [`head`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// The id's literal, complete; `null` is possible.
    pub id: Option<Span>,
    /// Outcome of the request, once its member has begun.
    pub outcome: Option<HeadOutcome>,
    /// The string `resultType` of the result (revision 2026-07-28).
    pub result_type: Option<Text>,
    /// `true` if the result object has members; `None` before its first byte behind the brace, and for another value.
    pub result_has_members: Option<bool>,
    /// The method: the message is a request (with an id) or a notification of the backend, no answer.
    pub method: Option<Text>,
    /// `true` once the whole message has arrived.
    pub complete: bool,
}

/// Outcome of a request, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadOutcome {
    /// With a result.
    Result {
        /// Offset of the value's first byte.
        start: u32,
        /// `true` for an object.
        is_object: bool,
    },
    /// With an error.
    Error {
        /// Offset of the value's first byte.
        start: u32,
        /// The JSON-RPC error code, once it has arrived; `None` also for a value other than an integer of 64 bits.
        code: Option<i64>,
    },
}

/// Reads `bytes`, the beginning of a message or all of it, without allocation.
///
/// Call it again with all bytes so far when more have arrived: known facts stay true, and more become known. The bytes are
/// checked like those of a complete message; an early end is allowed. The version and members that
/// have to be there are not asked for, since old servers are careless with them: look at what is `None` once the message is
/// complete.
pub fn head(bytes: &[u8]) -> Result<Head, Fault> {
    check_encoding(bytes)?;
    let mut head = Head::default();
    let mut lexer = Lexer::prefix(bytes);
    lexer.space();
    match lexer.peek() {
        None => return Ok(head),
        Some(b'{') => {}
        Some(b'[') => return Err(Fault::Batch),
        Some(_) => {
            return match lexer.value(0) {
                Ok(_) => Err(Fault::NotAnObject),
                Err(Stop::End) => Ok(head),
                Err(Stop::Fault(fault)) => Err(fault),
            };
        }
    }
    let mut ledger = Ledger::<Part>::new();
    let read = lexer.object(0, |lexer, key| match ledger.enter(bytes, key)? {
        Some(part) => head.member(part, lexer),
        None => lexer.value(1).map(drop),
    });
    match read.and_then(|_| lexer.end()) {
        Ok(()) => head.complete = true,
        Err(Stop::End) => {}
        Err(Stop::Fault(fault)) => return Err(fault),
    }
    Ok(head)
}

/// Length and encoding; a character that is cut off at the end still may become valid.
fn check_encoding(bytes: &[u8]) -> Result<(), Fault> {
    u32::try_from(bytes.len()).map_err(|_| Fault::TooLong)?;
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_some() => {
            Err(Fault::NotUtf8 { at: Span::new(0, error.valid_up_to()).end })
        }
        _ => Ok(()),
    }
}

impl Head {
    fn member(&mut self, part: Part, lexer: &mut Lexer<'_>) -> Result<(), Stop> {
        let bytes = lexer.bytes;
        match part {
            Part::Id => {
                let span = lexer.value(1)?.span;
                if let Id::Invalid = Id::new(span, bytes) {
                    return Err(Fault::BadId.into());
                }
                self.id = Some(span);
                Ok(())
            }
            Part::Method if self.outcome.is_some() => Err(Fault::Ambiguous.into()),
            Part::Method => {
                let method = lexer.value(1)?;
                check_method(method, bytes)?;
                self.method = Some(method);
                Ok(())
            }
            Part::Result | Part::Error if self.method.is_some() || self.outcome.is_some() => {
                Err(Fault::Ambiguous.into())
            }
            Part::Result => self.result(lexer),
            Part::Error => self.error(lexer),
            Part::Version | Part::Params => lexer.value(1).map(drop),
        }
    }

    fn result(&mut self, lexer: &mut Lexer<'_>) -> Result<(), Stop> {
        let first = lexer.peek().ok_or(Stop::End)?;
        let is_object = first == b'{';
        self.outcome =
            Some(HeadOutcome::Result { start: Span::new(lexer.at, lexer.at).start, is_object });
        if !is_object {
            return lexer.value(1).map(drop);
        }
        let mut inside = lexer.clone();
        inside.at += 1;
        inside.space();
        self.result_has_members = inside.peek().map(|byte| byte != b'}');
        let mut found = false;
        let bytes = lexer.bytes;
        lexer
            .object(1, |lexer, key| {
                let value = once(lexer, bytes, key, "resultType", &mut found)?;
                let text = value.filter(|value| value.span.of(bytes).first() == Some(&b'"'));
                self.result_type = self.result_type.or(text);
                Ok(())
            })
            .map(drop)
    }

    fn error(&mut self, lexer: &mut Lexer<'_>) -> Result<(), Stop> {
        let first = lexer.peek().ok_or(Stop::End)?;
        let start = Span::new(lexer.at, lexer.at).start;
        self.outcome = Some(HeadOutcome::Error { start, code: None });
        if first != b'{' {
            return lexer.value(1).map(drop);
        }
        let mut found = false;
        let bytes = lexer.bytes;
        lexer
            .object(1, |lexer, key| {
                if let Some(value) = once(lexer, bytes, key, "code", &mut found)? {
                    let literal = std::str::from_utf8(value.span.of(bytes)).unwrap_or_default();
                    self.outcome = Some(HeadOutcome::Error { start, code: literal.parse().ok() });
                }
                Ok(())
            })
            .map(drop)
    }
}

/// Reads the value at `lexer` and gives it if its member `key` is the `wanted` one, of which there must not be two.
fn once(
    lexer: &mut Lexer<'_>,
    bytes: &[u8],
    key: Text,
    wanted: &str,
    found: &mut bool,
) -> Result<Option<Text>, Stop> {
    if !key.is(bytes, wanted) {
        return lexer.value(2).map(|_| None);
    }
    if std::mem::replace(found, true) {
        return Err(Fault::Duplicate { at: key.span.start }.into());
    }
    lexer.value(2).map(Some)
}

#[cfg(test)]
mod tests;
