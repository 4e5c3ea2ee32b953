//! JSON string literals: reading, comparing and writing them.

use std::borrow::Cow;

/// The value of a JSON string literal given with its quotes, or `None` if it is none.
#[must_use]
pub fn unquote(string: &[u8]) -> Option<Cow<'_, str>> {
    todo!()
}

/// Appends `text` to `out` as a JSON string literal with its quotes.
pub fn quote(text: &str, out: &mut Vec<u8>) {
    todo!()
}

pub(crate) fn read(literal: &[u8]) -> Cow<'_, str> {
    todo!()
}

pub(crate) fn is(literal: &[u8], expected: &str) -> bool {
    todo!()
}
