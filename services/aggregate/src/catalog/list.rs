//! A list that is ready to be sent: its items joined once, its pages cut out of that.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use bytes::{Bytes, BytesMut};

use super::Kind;

/// The most items on a page.
pub(crate) const PAGE: usize = 1000;

/// The longest cursor that is read, in bytes.
const LONGEST_CURSOR: usize = 8192;

/// Items in the order of their keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct List {
    keys: Vec<Box<str>>,
    /// Where each item begins in `joined`, and one more past the last comma.
    starts: Vec<u32>,
    joined: Bytes,
}

/// Some of a list.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Page {
    /// Items with commas between them.
    pub(crate) items: Bytes,
    /// How to ask for what follows.
    pub(crate) next: Option<String>,
}

impl List {
    /// A list of definitions, in any order, by key.
    pub(crate) fn new(mut items: Vec<(Box<str>, Bytes)>) -> Self {
        items.sort_by(|(a, _), (b, _)| a.cmp(b));
        let size = items.iter().map(|(_, raw)| raw.len() + 1).sum();
        let mut list = Self::default();
        let mut joined = BytesMut::with_capacity(size);
        for (key, raw) in items {
            list.starts.push(position(&joined));
            joined.extend_from_slice(&raw);
            joined.extend_from_slice(b",");
            list.keys.push(key);
        }
        list.starts.push(position(&joined));
        list.joined = joined.freeze();
        list
    }

    #[cfg(test)]
    pub(crate) fn keys(&self) -> impl Iterator<Item = &str> {
        self.keys.iter().map(|key| &**key)
    }

    /// The page behind `cursor`; the first one without. `None` if the cursor is not one of this
    /// list's kind. A cursor stays good when the list changes: it names the last key that was seen.
    pub(crate) fn page(&self, kind: Kind, cursor: Option<&str>) -> Option<Page> {
        let first = match cursor {
            None => 0,
            Some(cursor) => {
                let last = decode(kind, cursor)?;
                self.keys.partition_point(|key| **key <= *last)
            }
        };
        let end = self.keys.len().min(first + PAGE);
        let next = (end < self.keys.len()).then(|| encode(kind, &self.keys[end - 1]));
        Some(Page { items: self.cut(first, end), next })
    }

    fn cut(&self, first: usize, end: usize) -> Bytes {
        if first >= end {
            return Bytes::new();
        }
        self.joined.slice(self.starts[first] as usize..self.starts[end] as usize - 1)
    }
}

/// Lists stay far below 4 GiB: what is read of a backend is capped.
fn position(joined: &BytesMut) -> u32 {
    u32::try_from(joined.len()).unwrap_or(u32::MAX)
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

    fn list(count: usize) -> List {
        let item = |n: usize| (format!("t{n:05}").into(), Bytes::from(format!("{{{n}}}")));
        List::new((0..count).rev().map(item).collect())
    }

    #[test]
    fn pages_follow_each_other_without_gap_or_overlap() {
        let list = list(2500);
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
    fn a_cursor_outlives_the_item_that_it_names() {
        let next = list(1500).page(Kind::Tools, None).unwrap().next.unwrap();
        let items = (990..1010)
            .filter(|n| *n != 999)
            .map(|n| (format!("t{n:05}").into(), Bytes::from(n.to_string())));
        let page = List::new(items.collect()).page(Kind::Tools, Some(&next)).unwrap();
        assert!(page.items.starts_with(b"1000,1001"));
    }

    #[test]
    fn a_cursor_of_another_kind_or_make_is_refused() {
        let list = list(1500);
        let next = list.page(Kind::Tools, None).unwrap().next.unwrap();
        assert_eq!(list.page(Kind::Prompts, Some(&next)), None);
        assert_eq!(list.page(Kind::Tools, Some("!")), None);
        assert_eq!(list.page(Kind::Tools, Some(&"A".repeat(9000))), None);
    }

    #[test]
    fn an_empty_list_is_one_empty_page() {
        let page = List::new(Vec::new()).page(Kind::Tools, None).unwrap();
        assert_eq!(page, Page { items: Bytes::new(), next: None });
        assert_eq!(List::default().page(Kind::Tools, None).unwrap().items, "");
    }
}
