//! Looking into JSON that was already scanned.

use std::borrow::Cow;

use crate::Fault;

/// A member of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member<'a> {
    /// Its name.
    pub key: RawStr<'a>,
    /// The JSON text of its value, without whitespace around it.
    pub value: &'a [u8],
    /// Where the key's opening quote stands in the slice that [`members`] was given.
    pub key_offset: usize,
    /// Where the value begins in that slice.
    pub value_offset: usize,
}

/// A JSON string literal with its quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawStr<'a> {
    literal: &'a [u8],
}

/// The members of an object, in order. See [`members`].
#[derive(Clone, Debug)]
pub struct Members<'a> {
    bytes: &'a [u8],
}

/// The elements of an array, in order. See [`elements`].
#[derive(Clone, Debug)]
pub struct Elements<'a> {
    bytes: &'a [u8],
    offset: usize,
}

/// The members of a JSON object, in order, without allocation.
#[must_use]
pub fn members(object: &[u8]) -> Members<'_> {
    todo!()
}

/// The elements of a JSON array.
#[must_use]
pub fn elements(array: &[u8]) -> Elements<'_> {
    todo!()
}

/// The value of the first member whose unescaped name is `key`.
#[must_use]
pub fn find<'a>(object: &'a [u8], key: &str) -> Option<&'a [u8]> {
    todo!()
}

/// Checks any JSON text by the same rules as [`scan`](crate::scan), apart from those on the envelope.
pub fn validate(bytes: &[u8]) -> Result<(), Fault> {
    todo!()
}

impl<'a> RawStr<'a> {
    /// The literal, quotes included.
    #[must_use]
    pub fn raw(self) -> &'a [u8] {
        self.literal
    }

    /// The value, unescaped.
    #[must_use]
    pub fn read(self) -> Cow<'a, str> {
        todo!()
    }

    /// Whether the value, unescaped, is exactly `expected` by code point.
    #[must_use]
    pub fn is(self, expected: &str) -> bool {
        todo!()
    }
}

impl<'a> Iterator for Members<'a> {
    type Item = Member<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        todo!()
    }
}

impl Elements<'_> {
    /// Where the element that was yielded last begins in the slice that [`elements`] was given.
    #[must_use]
    pub fn offset(&self) -> usize {
        self.offset
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<Self::Item> {
        todo!()
    }
}
