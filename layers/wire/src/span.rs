//! Byte ranges of a message and of its strings.

use std::borrow::Cow;

use bytes::Bytes;

use crate::json_string;

/// Byte range of the scanned message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// Offset of the first byte.
    pub start: u32,
    /// Offset just behind the last byte.
    pub end: u32,
}

/// Range of a JSON string literal with its quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StringSpan {
    /// The literal with its quotes.
    pub span: Span,
    /// `true` if the literal contains a backslash. Without one, its bytes are its value.
    pub escaped: bool,
}

impl Span {
    /// Returns the bytes at this range of `bytes`, which must be the scanned message; empty if the range is outside.
    #[must_use]
    pub fn of(self, bytes: &[u8]) -> &[u8] {
        bytes.get(self.start as usize..self.end as usize).unwrap_or(&[])
    }

    /// Returns the same as [`Span::of`], sharing the storage of `bytes` instead of borrowing it.
    #[must_use]
    pub fn slice(self, bytes: &Bytes) -> Bytes {
        if self.start <= self.end && self.end as usize <= bytes.len() {
            bytes.slice(self.start as usize..self.end as usize)
        } else {
            Bytes::new()
        }
    }

    /// Returns the length in bytes.
    #[must_use]
    pub fn len(self) -> usize {
        self.end.saturating_sub(self.start) as usize
    }

    /// Returns `true` for an empty range. The span of a JSON value is never empty.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.start >= self.end
    }

    /// Returns the range of all of `bytes`.
    ///
    /// # Panics
    /// If `bytes` are longer than [`u32::MAX`], which no scanned message is.
    #[must_use]
    pub fn whole(bytes: &[u8]) -> Self {
        Self::new(0, bytes.len())
    }

    /// Creates the range `start..end`.
    ///
    /// # Panics
    /// If an offset is greater than [`u32::MAX`], which none of a scanned message is.
    #[must_use]
    pub fn new(start: usize, end: usize) -> Self {
        let offset =
            |at| u32::try_from(at).expect("messages longer than `u32::MAX` are rejected unread");
        Self { start: offset(start), end: offset(end) }
    }
}

impl StringSpan {
    /// Returns the unescaped value, borrowed without escapes. `bytes` must be the scanned message.
    #[must_use]
    pub fn read(self, bytes: &[u8]) -> Cow<'_, str> {
        let literal = self.span.of(bytes);
        match std::str::from_utf8(json_string::inside(literal)) {
            Ok(value) if !self.escaped => Cow::Borrowed(value),
            _ => json_string::read(literal),
        }
    }

    /// Returns `true` if the value, unescaped, is exactly `expected` by code point.
    #[must_use]
    pub fn is(self, bytes: &[u8], expected: &str) -> bool {
        let literal = self.span.of(bytes);
        if self.escaped {
            json_string::is(literal, expected)
        } else {
            literal.len() == expected.len() + 2
                && json_string::inside(literal) == expected.as_bytes()
        }
    }
}
