//! The list of edits, in the order of their places and without overlaps.

use std::borrow::Cow;

use crate::Span;

/// Beyond this many edits the list allocates.
const INLINE: usize = 8;

/// One change of the original.
#[derive(Clone, Debug, Default)]
pub(super) struct Edit<'a> {
    /// The replaced range; empty for an insertion.
    pub(super) span: Span,
    /// The new text.
    pub(super) with: Cow<'a, [u8]>,
    pub(super) purpose: Purpose,
}

/// Purpose of an edit, as far as commas depend on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Anything.
    #[default]
    Text,
    /// A member that comes to the end of `object`; its comma is written when it is known what stands before it.
    Appended { object: Span },
    /// A member of `object` that goes; its span contains the comma only once it is `settled`.
    Removed { object: Span, settled: bool },
}

/// Edits by place; insertions stand before a replacement that begins at the same byte.
#[derive(Clone, Debug, Default)]
pub(super) struct Edits<'a> {
    inline: [Edit<'a>; INLINE],
    count: usize,
    /// All of them, once there are too many.
    spilled: Vec<Edit<'a>>,
}

impl Purpose {
    pub(super) fn removes_from(self, from: Span) -> bool {
        matches!(self, Self::Removed { object, .. } if object == from)
    }
}

impl<'a> Edits<'a> {
    pub(super) fn as_slice(&self) -> &[Edit<'a>] {
        if self.spilled.is_empty() {
            self.inline.get(..self.count).unwrap_or_default()
        } else {
            &self.spilled
        }
    }

    pub(super) fn as_mut_slice(&mut self) -> &mut [Edit<'a>] {
        if self.spilled.is_empty() {
            self.inline.get_mut(..self.count).unwrap_or_default()
        } else {
            &mut self.spilled
        }
    }

    /// Adds `new`; earlier edits that overlap it are forgotten.
    pub(super) fn add(&mut self, new: Edit<'a>) {
        let overlaps =
            |old: &Edit<'_>| old.span.start < new.span.end && new.span.start < old.span.end;
        // Sorted and disjoint, so whatever overlaps is next to the new one's place.
        let place = |edit: &Edit<'_>| (edit.span.start, !edit.span.is_empty());
        let index = self.as_slice().partition_point(|old| place(old) <= place(&new));
        let edits = self.as_slice();
        let before = index.checked_sub(1).and_then(|before| edits.get(before));
        if before.is_some_and(overlaps) || edits.get(index).is_some_and(overlaps) {
            self.forget(overlaps);
        }
        let index = self.as_slice().partition_point(|old| place(old) <= place(&new));
        self.insert(index, new);
    }

    /// Drops the edits that `unwanted` holds for.
    pub(super) fn forget(&mut self, unwanted: impl Fn(&Edit<'a>) -> bool) {
        if !self.spilled.is_empty() {
            self.spilled.retain(|edit| !unwanted(edit));
            if self.spilled.is_empty() {
                self.count = 0;
            }
            return;
        }
        let mut kept = 0;
        for index in 0..self.count {
            if !unwanted(&self.inline[index]) {
                self.inline.swap(kept, index);
                kept += 1;
            }
        }
        self.count = kept;
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
