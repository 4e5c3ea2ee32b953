//! Edits of a message that do not rebuild it.

mod edits;

use std::borrow::Cow;

use bytes::Bytes;

use self::edits::{Edit, EditKind, Edits};
use crate::{Member, Span, members, write_json_string};

/// Edits of a message: replacements and insertions at positions of the original, applied in one copy. Everything that no edit
/// touches survives byte for byte.
///
/// Positions always count in the original, and edits may come in any order. Of two edits that overlap, the later one replaces
/// the earlier one. Up to eight edits need no allocation.
///
/// The original has to be valid JSON where the methods on members are used; on other bytes they edit nothing sensible, but
/// don't fail.
#[derive(Clone, Debug)]
pub struct Splice<'a> {
    original: &'a [u8],
    edits: Edits<'a>,
}

/// Part of an edited message.
enum Piece<'a> {
    /// Bytes of the original, inside of it: edits are cut to its length.
    Original { start: usize, end: usize },
    /// Bytes of an edit.
    New(&'a [u8]),
}

impl<'a> Splice<'a> {
    /// Creates a splice of `original` without edits.
    #[must_use]
    pub fn new(original: &'a [u8]) -> Self {
        Self { original, edits: Edits::default() }
    }

    /// Replaces `span` by `with`.
    pub fn replace(&mut self, span: Span, with: impl Into<Cow<'a, [u8]>>) -> &mut Self {
        self.add(span, with.into(), EditKind::Replacement)
    }

    /// Inserts `with` before the byte at `at`. Insertions at one position are in the order of the calls.
    pub fn insert(&mut self, at: u32, with: impl Into<Cow<'a, [u8]>>) -> &mut Self {
        self.add(Span { start: at, end: at }, with.into(), EditKind::Replacement)
    }

    /// Sets the member `key` of `object` to `value` (JSON text): replaces its value, or appends the member. If the object has
    /// several of that name, one remains. A value that is not an object stays as it is.
    pub fn set_member(&mut self, object: Span, key: &str, value: &[u8]) -> &mut Self {
        let mut found = false;
        for member in members(object.of(self.original)).filter(|member| member.key.is(key)) {
            let (whole, span) = member_spans(object, &member);
            if found {
                self.remove(object, whole);
            } else {
                self.add(span, Cow::Owned(value.to_vec()), EditKind::Replacement);
            }
            found = true;
        }
        if found { self } else { self.append_member(object, key, value) }
    }

    /// Appends the member `key` to `object`, of which the caller knows that it has none of that name, without looking through
    /// the object. A member of that name that was appended by this splice is replaced. A value that is not an object stays
    /// as it is.
    pub fn append_member(&mut self, object: Span, key: &str, value: &[u8]) -> &mut Self {
        if !object.of(self.original).trim_ascii_start().starts_with(b"{") {
            return self;
        }
        let at = self.closing_brace(object);
        self.remove_appended(object, key);
        let text = Cow::Owned(member_text(key, value));
        self.add(Span { start: at, end: at }, text, EditKind::AppendedMember { object })
    }

    /// Removes the member `key` of `object` with its comma, every one if there are several; nothing if there is none. A
    /// member of that name that was appended by this splice goes too.
    pub fn remove_member(&mut self, object: Span, key: &str) -> &mut Self {
        self.remove_appended(object, key);
        for member in members(object.of(self.original)).filter(|member| member.key.is(key)) {
            self.remove(object, member_spans(object, &member).0);
        }
        self
    }

    /// Returns the edited message.
    #[must_use]
    pub fn finish(mut self) -> Bytes {
        self.add_commas();
        let added: usize = self.edits.as_slice().iter().map(|edit| edit.with.len() + 1).sum();
        let mut out = Vec::with_capacity(self.original.len() + added);
        self.write(|piece| match piece {
            Piece::Original { start, end } => {
                out.extend_from_slice(&self.original[start..end]);
            }
            Piece::New(text) => out.extend_from_slice(text),
        });
        Bytes::from(out)
    }

    /// Returns the edited message in pieces: slices of `original`, which must be the message that this was created from, and
    /// the edits between them. Nothing of the original is copied.
    ///
    /// # Panics
    /// If `original` is shorter than that message.
    #[must_use]
    pub fn pieces(mut self, original: &Bytes) -> Vec<Bytes> {
        self.add_commas();
        let mut out: Vec<Bytes> = Vec::new();
        self.write(|piece| match piece {
            Piece::Original { start, end } => {
                out.push(original.slice(start..end));
            }
            Piece::New(text) => out.push(Bytes::copy_from_slice(text)),
        });
        out
    }

    /// Passes the parts of the edited message on, in order.
    fn write<'b>(&'b self, mut add: impl FnMut(Piece<'b>)) {
        let mut copied = 0;
        let mut appended_to = None;
        for edit in self.edits.as_slice() {
            let (start, end) = (edit.span.start as usize, edit.span.end as usize);
            if copied < start {
                add(Piece::Original { start: copied, end: start });
            }
            copied = copied.max(end);
            if let EditKind::AppendedMember { object } = edit.kind {
                if appended_to == Some(object) || self.keeps_members(object) {
                    add(Piece::New(b","));
                }
                appended_to = Some(object);
            }
            add(Piece::New(&edit.with));
        }
        if copied < self.original.len() {
            add(Piece::Original { start: copied, end: self.original.len() });
        }
    }

    /// Returns the position of the closing brace of `object`. White space may follow it in the span of a whole message.
    fn closing_brace(&self, object: Span) -> u32 {
        let end = object.of(self.original).trim_ascii_end().len().saturating_sub(1);
        Span::new(object.start as usize + end, 0).start
    }

    fn remove_appended(&mut self, object: Span, key: &str) {
        let (start, kind) = (member_text(key, b""), EditKind::AppendedMember { object });
        self.edits.remove_where(|edit| edit.kind == kind && edit.with.starts_with(&start));
    }

    fn remove(&mut self, object: Span, member: Span) {
        self.add(member, Cow::Borrowed(&[]), EditKind::RemovedMember { object, has_comma: false });
    }

    fn add(&mut self, span: Span, with: Cow<'a, [u8]>, kind: EditKind) -> &mut Self {
        let length = Span::new(0, self.original.len()).end;
        let end = span.end.min(length);
        let span = Span { start: span.start.min(end), end };
        self.edits.add(Edit { span, with, kind });
        self
    }

    /// Returns `true` if members of the original `object` remain.
    fn keeps_members(&self, object: Span) -> bool {
        let edits = self.edits.as_slice().iter();
        let removed = edits.filter(|edit| edit.kind.removes_from(object)).count();
        members(object.of(self.original)).nth(removed).is_some()
    }

    /// Extends each removal by its comma: the one before it, or, where no member before it remains, everything up to the next
    /// member. So removals never overlap, and what remains is separated by one comma each.
    fn add_commas(&mut self) {
        let without_comma = |edit: &Edit<'_>| match edit.kind {
            EditKind::RemovedMember { object, has_comma: false } => Some(object),
            _ => None,
        };
        let mut next = 0;
        while let Some(edit) = self.edits.as_slice().get(next) {
            if let Some(object) = without_comma(edit) {
                self.add_commas_in(object, next);
            }
            next += 1;
        }
    }

    /// Extends the removals from one object, the first of which is the edit at `index`.
    fn add_commas_in(&mut self, object: Span, mut index: usize) {
        let original = self.original;
        let edits = self.edits.as_mut_slice();
        let (mut remains, mut last_end) = (false, object.start);
        // A removal that has to reach to the next member, if there is one.
        let mut open: Option<usize> = None;
        for member in members(object.of(original)) {
            let (whole, _) = member_spans(object, &member);
            if let Some(edit) = open.take().and_then(|open| edits.get_mut(open)) {
                edit.span.end = whole.start;
            }
            let theirs =
                |edit: &Edit<'_>| edit.kind.removes_from(object) && edit.span.start >= whole.start;
            while edits.get(index).is_some_and(|edit| !theirs(edit)) {
                index += 1;
            }
            match edits.get_mut(index) {
                Some(edit) if edit.span.start == whole.start => {
                    edit.kind = EditKind::RemovedMember { object, has_comma: true };
                    if remains {
                        edit.span.start = last_end;
                    } else {
                        open = Some(index);
                    }
                    index += 1;
                }
                _ => remains = true,
            }
            last_end = whole.end;
        }
    }
}

/// Returns the ranges of a whole member of `object` and of its value in the original.
fn member_spans(object: Span, member: &Member<'_>) -> (Span, Span) {
    let base = object.start as usize;
    let start = base + member.value_offset;
    let value = Span::new(start, start + member.value.len());
    (Span { start: Span::new(base + member.key_offset, 0).start, end: value.end }, value)
}

/// Returns a member as JSON text.
fn member_text(key: &str, value: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(key.len() + value.len() + 4);
    write_json_string(key, &mut text);
    text.push(b':');
    text.extend_from_slice(value);
    text
}

#[cfg(test)]
mod tests;
