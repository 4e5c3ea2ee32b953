//! Access to members and elements of scanned JSON.

use std::borrow::Cow;

use crate::duplicate_detector::is_confusable;
use crate::envelope::{check_text, finish};
use crate::lexer::Lexer;
use crate::{ScanErrorKind, Span, json_string};

/// A member of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member<'a> {
    /// Its name.
    pub key: RawStr<'a>,
    /// The JSON text of its value, without whitespace around it.
    pub value: &'a [u8],
    /// Offset of the key's opening quote in the slice that was passed to [`members`].
    pub key_offset: usize,
    /// Offset of the value in that slice.
    pub value_offset: usize,
}

/// A JSON string literal with its quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawStr<'a> {
    literal: &'a [u8],
    escaped: bool,
}

/// The members of an object, in order. See [`members`].
#[derive(Clone, Debug)]
pub struct Members<'a> {
    items: Items<'a>,
}

/// The elements of an array, in order. See [`elements`].
#[derive(Clone, Debug)]
pub struct Elements<'a> {
    items: Items<'a>,
    offset: usize,
}

/// The common part of members and elements: brackets and commas.
#[derive(Clone, Debug)]
struct Items<'a> {
    lexer: Lexer<'a>,
    /// The opening bracket, or a comma, that has to come before the next item; 0 when there is none.
    before: u8,
    close: u8,
}

/// Iterates over the members of a JSON object in order, without allocation.
///
/// `object` must be valid JSON, such as a span of a scanned message or text that [`validate`] accepts; otherwise the members
/// end early. A value other than an object has no members.
#[must_use]
pub fn members(object: &[u8]) -> Members<'_> {
    Members { items: Items { lexer: Lexer::whole(object), before: b'{', close: b'}' } }
}

/// Iterates over the elements of a JSON array in order, without allocation. The array must be valid as for [`members`].
#[must_use]
pub fn elements(array: &[u8]) -> Elements<'_> {
    let items = Items { lexer: Lexer::whole(array), before: b'[', close: b']' };
    Elements { items, offset: 0 }
}

/// Returns the value of the first member whose unescaped name is `key`. The object must be valid as for [`members`].
///
/// Outside the objects whose members [`scan`](crate::scan) tells apart there may be a second one of that name.
#[must_use]
pub fn find<'a>(object: &'a [u8], key: &str) -> Option<&'a [u8]> {
    members(object).find(|member| member.key.is(key)).map(|member| member.value)
}

/// Returns the range of the value that [`find`] returns: `object` is a range of `bytes`, and so is the result.
#[must_use]
pub fn find_span(bytes: &[u8], object: Span, key: &str) -> Option<Span> {
    let member = members(object.of(bytes)).find(|member| member.key.is(key))?;
    let start = object.start as usize + member.value_offset;
    Some(Span::new(start, start + member.value.len()))
}

/// Iterates over the ranges of the elements of an array like [`elements`]: `array` is a range of `bytes`, and so are the results.
pub fn element_spans(bytes: &[u8], array: Span) -> impl Iterator<Item = Span> {
    let mut elements = elements(array.of(bytes));
    std::iter::from_fn(move || {
        let length = elements.next()?.len();
        let start = array.start as usize + elements.offset();
        Some(Span::new(start, start + length))
    })
}

/// Checks any JSON text by the same rules as [`scan`](crate::scan), apart from those on the envelope.
pub fn validate(bytes: &[u8]) -> Result<(), ScanErrorKind> {
    check_text(bytes)?;
    let mut lexer = Lexer::whole(bytes);
    lexer.space();
    finish(lexer.value(0).map(drop), &mut lexer)
}

impl<'a> RawStr<'a> {
    /// Returns the literal with its quotes.
    #[must_use]
    pub fn raw(self) -> &'a [u8] {
        self.literal
    }

    /// Returns the unescaped value, borrowed without escapes.
    #[must_use]
    pub fn read(self) -> Cow<'a, str> {
        json_string::read(self.literal)
    }

    /// Returns `true` if the value, unescaped, is exactly `expected` by code point.
    #[must_use]
    pub fn is(self, expected: &str) -> bool {
        if self.escaped {
            json_string::is(self.literal, expected)
        } else {
            json_string::inside(self.literal) == expected.as_bytes()
        }
    }

    /// Returns `true` if some parsers take the value for `expected`, an ASCII name: parsers differ on case, and some cut
    /// names at NUL.
    #[must_use]
    pub fn resembles(self, expected: &str) -> bool {
        self.is(expected) || is_confusable(self.literal, self.escaped, expected)
    }
}

impl<'a> Iterator for Members<'a> {
    type Item = Member<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        let lexer = self.items.next()?;
        let key = lexer.key();
        let value = key.and_then(|key| lexer.value(0).map(|value| (key, value)));
        let Ok((key, value)) = value else { return self.items.stop() };
        let bytes = self.items.lexer.bytes;
        Some(Member {
            key: RawStr { literal: key.span.of(bytes), escaped: key.escaped },
            value: value.span.of(bytes),
            key_offset: key.span.start as usize,
            value_offset: value.span.start as usize,
        })
    }
}

impl Elements<'_> {
    /// Returns the offset of the last yielded element in the slice that was passed to [`elements`].
    #[must_use]
    pub fn offset(&self) -> usize {
        self.offset
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<Self::Item> {
        let value = self.items.next()?.value(0);
        let Ok(value) = value else { return self.items.stop() };
        self.offset = value.span.start as usize;
        Some(value.span.of(self.items.lexer.bytes))
    }
}

impl<'a> Items<'a> {
    /// Returns the lexer at the next item.
    fn next(&mut self) -> Option<&mut Lexer<'a>> {
        self.lexer.space();
        if self.before == 0 || self.lexer.expect(self.before).is_err() {
            return self.stop();
        }
        self.lexer.space();
        if self.before != b',' && self.lexer.peek() == Some(self.close) {
            return self.stop();
        }
        self.before = b',';
        Some(&mut self.lexer)
    }

    fn stop<T>(&mut self) -> Option<T> {
        self.before = 0;
        None
    }
}

#[cfg(test)]
mod tests;
