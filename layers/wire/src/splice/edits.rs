//! List of edits in the order of their positions, without overlaps.

use std::borrow::Cow;

use crate::Span;

/// Number of edits that need no allocation.
const INLINE: usize = 8;

/// One change of the original.
#[derive(Clone, Debug, Default)]
pub(super) struct Edit<'a> {
    /// The replaced range; empty for an insertion.
    pub(super) span: Span,
    /// The new text.
    pub(super) with: Cow<'a, [u8]>,
    pub(super) kind: EditKind,
}

/// Kind of an edit, as far as commas depend on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum EditKind {
    /// Any replacement or insertion.
    #[default]
    Replacement,
    /// A member at the end of `object`. Its comma is written once the preceding members are known.
    AppendedMember { object: Span },
    /// A removed member of `object`.
    RemovedMember {
        object: Span,
        /// `true` once the span contains the comma.
        has_comma: bool,
    },
}

/// Edits by position; insertions are before a replacement that begins at the same byte.
#[derive(Clone, Debug, Default)]
pub(super) struct Edits<'a> {
    inline: [Edit<'a>; INLINE],
    /// Number of edits in `inline`, at most [`INLINE`].
    count: usize,
    /// All edits, once there are more than [`INLINE`].
    spilled: Vec<Edit<'a>>,
}

impl EditKind {
    pub(super) fn removes_from(self, from: Span) -> bool {
        matches!(self, Self::RemovedMember { object, .. } if object == from)
    }
}

impl<'a> Edits<'a> {
    pub(super) fn as_slice(&self) -> &[Edit<'a>] {
        if self.spilled.is_empty() { &self.inline[..self.count] } else { &self.spilled }
    }

    pub(super) fn as_mut_slice(&mut self) -> &mut [Edit<'a>] {
        if self.spilled.is_empty() { &mut self.inline[..self.count] } else { &mut self.spilled }
    }

    /// Adds `new` and removes earlier edits that overlap it.
    pub(super) fn add(&mut self, new: Edit<'a>) {
        let overlaps =
            |old: &Edit<'_>| old.span.start < new.span.end && new.span.start < old.span.end;
        // Sorted and disjoint, so whatever overlaps is next to the position of the new one.
        let position = |edit: &Edit<'_>| (edit.span.start, !edit.span.is_empty());
        let index = self.as_slice().partition_point(|old| position(old) <= position(&new));
        let edits = self.as_slice();
        let before = index.checked_sub(1).and_then(|before| edits.get(before));
        if before.is_some_and(overlaps) || edits.get(index).is_some_and(overlaps) {
            self.remove_where(overlaps);
        }
        let index = self.as_slice().partition_point(|old| position(old) <= position(&new));
        self.insert(index, new);
    }

    /// Removes the edits for which `unwanted` holds.
    pub(super) fn remove_where(&mut self, unwanted: impl Fn(&Edit<'a>) -> bool) {
        if !self.spilled.is_empty() {
            self.spilled.retain(|edit| !unwanted(edit));
            if self.spilled.is_empty() {
                self.count = 0;
            }
            return;
        }
        let mut remaining = 0;
        for index in 0..self.count {
            if !unwanted(&self.inline[index]) {
                self.inline.swap(remaining, index);
                remaining += 1;
            }
        }
        self.count = remaining;
    }

    fn insert(&mut self, index: usize, new: Edit<'a>) {
        if self.spilled.is_empty() && self.count < INLINE {
            self.inline[self.count] = new;
            self.count += 1;
            self.inline[index..self.count].rotate_right(1);
            return;
        }
        if self.spilled.is_empty() {
            self.spilled.extend(self.inline.iter_mut().map(std::mem::take));
        }
        self.spilled.insert(index, new);
    }
}
