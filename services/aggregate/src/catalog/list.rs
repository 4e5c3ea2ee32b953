//! List that is ready to be sent: items are joined once, and pages are slices of the result.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use bytes::Bytes;

use super::Kind;
use super::string_table::StringTable;

/// Maximum number of items on a page.
pub(crate) const PAGE: usize = 1000;

/// Maximum length of a cursor, in bytes.
const LONGEST_CURSOR: usize = 8192;

/// Items in key order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct List {
    keys: StringTable,
    /// Offset of each item in `joined`, followed by the offset past the last comma.
    starts: Vec<u32>,
    joined: Bytes,
}

/// Subset of a list's items that one caller may see.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Selection {
    bits: Box<[u64]>,
    /// `true` if the subset contains all items.
    pub(crate) whole: bool,
}

/// Page of a list.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Page {
    /// Items separated by commas.
    pub(crate) items: Bytes,
    /// Cursor of the next page.
    pub(crate) next: Option<String>,
}

impl Selection {
    /// Returns the size in bytes.
    pub(crate) fn size(&self) -> usize {
        self.bits.len() * size_of::<u64>()
    }
}

impl List {
    /// Creates a list of definitions in key order. `define` appends one definition to the buffer.
    ///
    /// `size` is the estimated total size in bytes.
    pub(crate) fn new<'a, T>(
        items: impl ExactSizeIterator<Item = (&'a str, T)>,
        size: usize,
        define: impl Fn(&str, T, &mut Vec<u8>),
    ) -> Self {
        let mut keys = StringTable::with_capacity(items.len());
        let mut starts = Vec::with_capacity(items.len() + 1);
        let mut joined = Vec::with_capacity(size + items.len());
        for (key, item) in items {
            starts.push(position(&joined));
            define(key, item, &mut joined);
            joined.push(b',');
            keys.push(key, "");
        }
        starts.push(position(&joined));
        keys.shrink_to_fit();
        Self { keys, starts, joined: joined.into() }
    }

    /// Returns the keys, in order.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &str> {
        self.keys.iter()
    }

    /// Returns the page after `cursor`, or the first page without one; `None` if the cursor is not valid for this kind. A
    /// cursor stays valid when the list changes, because it contains the last key of the previous page.
    pub(crate) fn page(&self, kind: Kind, cursor: Option<&str>) -> Option<Page> {
        let first = match cursor {
            None => 0,
            Some(cursor) => {
                let last = decode(kind, cursor)?;
                self.keys.partition_point(|key| *key <= *last)
            }
        };
        let end = self.keys.len().min(first + PAGE);
        let next = (end < self.keys.len()).then(|| encode(kind, self.keys.get(end - 1)));
        Some(Page { items: self.cut(first, end), next })
    }

    /// Selects the items for which `sees` returns `true`, in key order.
    pub(crate) fn select(&self, sees: impl Fn(&str) -> bool) -> Selection {
        let mut bits = vec![0; self.keys.len().div_ceil(64)].into_boxed_slice();
        let mut count = 0;
        for (number, _) in self.keys.iter().enumerate().filter(|(_, key)| sees(key)) {
            bits[number / 64] |= 1_u64 << (number % 64);
            count += 1;
        }
        Selection { bits, whole: count == self.keys.len() }
    }

    /// Returns a list of the selected items.
    pub(crate) fn only(&self, selection: &Selection) -> Self {
        let chosen = |number: &usize| selection.bits[number / 64] >> (number % 64) & 1 == 1;
        let item = |number: usize| {
            let (start, end) = (self.starts[number], self.starts[number + 1]);
            (self.keys.get(number), &self.joined[start as usize..end as usize - 1])
        };
        let chosen: Vec<_> = (0..self.keys.len()).filter(chosen).map(item).collect();
        let size = chosen.iter().map(|(_, item)| item.len()).sum();
        Self::new(chosen.into_iter(), size, |_, item, out| out.extend_from_slice(item))
    }

    /// Returns the keys and definitions, in key order.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&str, Bytes)> {
        let starts = self.starts.windows(2);
        self.keys.iter().zip(starts).map(|(key, bounds)| {
            // Each definition is followed by a comma.
            (key, self.joined.slice(bounds[0] as usize..bounds[1] as usize - 1))
        })
    }

    /// Returns the number of items.
    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Returns the approximate size in bytes.
    pub(crate) fn size(&self) -> usize {
        self.joined.len() + self.keys.size() + self.starts.len() * size_of::<u32>()
    }

    fn cut(&self, first: usize, end: usize) -> Bytes {
        if first >= end {
            return Bytes::new();
        }
        self.joined.slice(self.starts[first] as usize..self.starts[end] as usize - 1)
    }
}

/// Returns the current offset.
fn position(joined: &[u8]) -> u32 {
    u32::try_from(joined.len()).expect("lists of limited offers are far shorter than 4 GiB")
}

fn encode(kind: Kind, last: &str) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(format!("{}\n{last}", kind.member()))
}

fn decode(kind: Kind, cursor: &str) -> Option<String> {
    if cursor.len() > LONGEST_CURSOR {
        return None;
    }
    let text = String::from_utf8(BASE64_URL_SAFE_NO_PAD.decode(cursor).ok()?).ok()?;
    let (member, last) = text.split_once('\n')?;
    (member == kind.member()).then(|| last.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(numbers: impl IntoIterator<Item = usize>) -> List {
        let keys: Vec<_> = numbers.into_iter().map(|n| (format!("t{n:05}"), n)).collect();
        let items = keys.iter().map(|(key, n)| (&**key, n));
        List::new(items, 0, |_, n, out| out.extend_from_slice(format!("{{{n}}}").as_bytes()))
    }

    #[test]
    fn pages_have_no_gap_or_overlap() {
        let list = list(0..2500);
        let mut seen = Vec::new();
        let mut cursor = None;
        loop {
            let page = list.page(Kind::Tools, cursor.as_deref()).unwrap();
            seen.extend(page.items.split(|b| *b == b',').map(<[u8]>::to_vec));
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
        let all: Vec<_> = (0..2500).map(|n| format!("{{{n}}}").into_bytes()).collect();
        assert_eq!(seen, all);
    }

    #[test]
    fn cursor_survives_removal_of_named_item() {
        let next = list(0..1500).page(Kind::Tools, None).unwrap().next.unwrap();
        let page = list((990..1010).filter(|n| *n != 999)).page(Kind::Tools, Some(&next)).unwrap();
        assert!(page.items.starts_with(b"{1000},{1001}"));
    }

    #[test]
    fn rejects_malformed_or_foreign_cursors() {
        let list = list(0..1500);
        let next = list.page(Kind::Tools, None).unwrap().next.unwrap();
        assert_eq!(list.page(Kind::Prompts, Some(&next)), None);
        assert_eq!(list.page(Kind::Tools, Some("!")), None);
        assert_eq!(list.page(Kind::Tools, Some(&"A".repeat(9000))), None);
    }

    #[test]
    fn empty_list_has_one_empty_page() {
        let page = list([]).page(Kind::Tools, None).unwrap();
        assert_eq!(page, Page { items: Bytes::new(), next: None });
        assert_eq!(List::default().page(Kind::Tools, None).unwrap().items, "");
    }
}
