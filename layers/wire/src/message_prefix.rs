//! Facts that the first bytes of a backend's message contain.

use crate::duplicate_detector::DuplicateDetector;
use crate::envelope::{EnvelopeKey, Id, check_method};
use crate::lexer::{Lexer, Stop};
use crate::{ScanErrorKind, Span, StringSpan};

/// Facts of a message as far as its bytes have arrived. See [`scan_prefix`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessagePrefix {
    /// The id's literal, complete; `null` is possible.
    pub id: Option<Span>,
    /// Outcome of the request, once its member has begun.
    pub outcome: Option<PrefixOutcome>,
    /// The string `resultType` of the result (revision 2026-07-28).
    pub result_type: Option<StringSpan>,
    /// `true` if the result object has members; `None` before its first byte behind the brace, and for another value.
    pub result_has_members: Option<bool>,
    /// The method: the message is a request (with an id) or a notification of the backend, not a response.
    pub method: Option<StringSpan>,
    /// `true` once the whole message has arrived.
    pub complete: bool,
}

/// Outcome of a request, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrefixOutcome {
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
pub fn scan_prefix(bytes: &[u8]) -> Result<MessagePrefix, ScanErrorKind> {
    check_encoding(bytes)?;
    let mut prefix = MessagePrefix::default();
    let mut lexer = Lexer::prefix(bytes);
    lexer.space();
    match lexer.peek() {
        None => return Ok(prefix),
        Some(b'{') => {}
        Some(b'[') => return Err(ScanErrorKind::Batch),
        Some(_) => {
            return match lexer.value(0) {
                Ok(_) => Err(ScanErrorKind::NotAnObject),
                Err(Stop::End) => Ok(prefix),
                Err(Stop::Error(kind)) => Err(kind),
            };
        }
    }
    let mut detector = DuplicateDetector::<EnvelopeKey>::new();
    let read = lexer.object(0, |lexer, key| match detector.insert(bytes, key)? {
        Some(key) => prefix.member(key, lexer),
        None => lexer.value(1).map(drop),
    });
    match read.and_then(|_| lexer.end()) {
        Ok(()) => prefix.complete = true,
        Err(Stop::End) => {}
        Err(Stop::Error(kind)) => return Err(kind),
    }
    Ok(prefix)
}

/// Checks length and encoding; a character that is cut off at the end may still become valid.
fn check_encoding(bytes: &[u8]) -> Result<(), ScanErrorKind> {
    u32::try_from(bytes.len()).map_err(|_| ScanErrorKind::TooLong)?;
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_some() => {
            Err(ScanErrorKind::NotUtf8 { at: Span::new(0, error.valid_up_to()).end })
        }
        _ => Ok(()),
    }
}

impl MessagePrefix {
    fn member(&mut self, key: EnvelopeKey, lexer: &mut Lexer<'_>) -> Result<(), Stop> {
        let bytes = lexer.bytes;
        match key {
            EnvelopeKey::Id => {
                let span = lexer.value(1)?.span;
                if let Id::Invalid = Id::new(span, bytes) {
                    return Err(ScanErrorKind::BadId.into());
                }
                self.id = Some(span);
                Ok(())
            }
            EnvelopeKey::Method if self.outcome.is_some() => Err(ScanErrorKind::Ambiguous.into()),
            EnvelopeKey::Method => {
                let method = lexer.value(1)?;
                check_method(method, bytes)?;
                self.method = Some(method);
                Ok(())
            }
            EnvelopeKey::Result | EnvelopeKey::Error
                if self.method.is_some() || self.outcome.is_some() =>
            {
                Err(ScanErrorKind::Ambiguous.into())
            }
            EnvelopeKey::Result => self.result(lexer),
            EnvelopeKey::Error => self.error(lexer),
            EnvelopeKey::Version | EnvelopeKey::Params => lexer.value(1).map(drop),
        }
    }

    fn result(&mut self, lexer: &mut Lexer<'_>) -> Result<(), Stop> {
        let first = lexer.peek().ok_or(Stop::End)?;
        let is_object = first == b'{';
        self.outcome =
            Some(PrefixOutcome::Result { start: Span::new(lexer.at, lexer.at).start, is_object });
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
                let value = unique_value(lexer, bytes, key, "resultType", &mut found)?;
                let text = value.filter(|value| value.span.of(bytes).first() == Some(&b'"'));
                self.result_type = self.result_type.or(text);
                Ok(())
            })
            .map(drop)
    }

    fn error(&mut self, lexer: &mut Lexer<'_>) -> Result<(), Stop> {
        let first = lexer.peek().ok_or(Stop::End)?;
        let start = Span::new(lexer.at, lexer.at).start;
        self.outcome = Some(PrefixOutcome::Error { start, code: None });
        if first != b'{' {
            return lexer.value(1).map(drop);
        }
        let mut found = false;
        let bytes = lexer.bytes;
        lexer
            .object(1, |lexer, key| {
                if let Some(value) = unique_value(lexer, bytes, key, "code", &mut found)? {
                    let literal = std::str::from_utf8(value.span.of(bytes)).ok();
                    let code = literal.and_then(|literal| literal.parse().ok());
                    self.outcome = Some(PrefixOutcome::Error { start, code });
                }
                Ok(())
            })
            .map(drop)
    }
}

/// Reads the value at `lexer` and returns it if its member `key` is the `wanted` one, which must be unique.
fn unique_value(
    lexer: &mut Lexer<'_>,
    bytes: &[u8],
    key: StringSpan,
    wanted: &str,
    found: &mut bool,
) -> Result<Option<StringSpan>, Stop> {
    if !key.is(bytes, wanted) {
        return lexer.value(2).map(|_| None);
    }
    if std::mem::replace(found, true) {
        return Err(ScanErrorKind::Duplicate { at: key.span.start }.into());
    }
    lexer.value(2).map(Some)
}

#[cfg(test)]
mod tests;
