//! Changing a message without rebuilding it.

use std::borrow::Cow;

use bytes::Bytes;

use crate::Span;

/// Edits of a message. See [`Splice::new`].
#[derive(Debug)]
pub struct Splice<'a> {
    original: &'a [u8],
}

impl<'a> Splice<'a> {
    /// No edits yet. `original` is a message that was scanned.
    #[must_use]
    pub fn new(original: &'a [u8]) -> Self {
        todo!()
    }

    /// Puts `with` in the place of `span`.
    pub fn replace(&mut self, span: Span, with: impl Into<Cow<'a, [u8]>>) -> &mut Self {
        todo!()
    }

    /// Puts `with` before the byte at `at`. Insertions at one place stand in the order of the calls.
    pub fn insert(&mut self, at: u32, with: impl Into<Cow<'a, [u8]>>) -> &mut Self {
        todo!()
    }

    /// Gives the member `key` of `object` the value `value` (JSON text): replaces it, or appends the member.
    pub fn set_member(&mut self, object: Span, key: &str, value: &[u8]) -> &mut Self {
        todo!()
    }

    /// Appends the member `key` to `object`, which has none of that name.
    pub fn append_member(&mut self, object: Span, key: &str, value: &[u8]) -> &mut Self {
        todo!()
    }

    /// Removes the member `key` of `object` with its comma, if there is one.
    pub fn remove_member(&mut self, object: Span, key: &str) -> &mut Self {
        todo!()
    }

    /// The edited message.
    #[must_use]
    pub fn finish(self) -> Bytes {
        todo!()
    }
}
