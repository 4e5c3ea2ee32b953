//! A list in an answer, taken apart in the pass that checks it.

use std::borrow::Cow;

use bytes::Bytes;

use crate::envelope::scan_with;
use crate::lexer::{Lexer, Stop};
use crate::quote::inside;
use crate::{Envelope, Refused, Span, Text};

/// How many items of the earlier answer are looked at before an item is read anew. What was inserted, replaced or removed
/// alone or in small groups leaves the rest in step.
const WINDOW: usize = 8;

/// An answer whose result holds a list: where each item stands, and by what it is called.
///
/// Lists are asked for again when something in them has changed, and nearly all of them is as it was. An item that equals
/// byte for byte one of an earlier [`Listing`] at about the same place was checked then, and is only compared.
#[derive(Clone, Debug)]
pub struct Listing {
    text: Bytes,
    key: &'static str,
    entries: Vec<Entry>,
    next: Option<Text>,
}

/// An item of a [`Listing`]. Its spans count in [`Listing::text`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The item, an object.
    pub item: Span,
    /// The value of the first member that has the name of the key, a string that is not empty.
    pub key: Text,
}

/// What is noted on the way through a result.
struct Reading<'a> {
    member: &'a str,
    key: &'static str,
    before: Option<&'a Listing>,
    /// The first item of the earlier list that has not been met again.
    place: usize,
    listed: bool,
    paged: bool,
    entries: Vec<Entry>,
    next: Option<Text>,
}

impl Listing {
    /// Reads a complete message by the rules of [`scan`](crate::scan), and in the same pass the objects in the array that is
    /// the first member `member` of its result. Objects without a string of at least one character as their first member
    /// `key` are left out, as is whatever else stands in that array.
    ///
    /// `before` is a listing of about the same items, if there is one. It makes reading faster, and changes nothing else.
    pub fn read(
        text: &Bytes,
        member: &str,
        key: &'static str,
        before: Option<&Self>,
    ) -> Result<(Envelope, Self), Refused> {
        // The spans of another key are of no use.
        let before = before.filter(|before| before.key == key);
        let entries = Vec::with_capacity(before.map_or(0, |before| before.entries.len()));
        let (place, listed, paged, next) = (0, false, false, None);
        let mut reading = Reading { member, key, before, place, listed, paged, entries, next };
        let envelope = scan_with(text, &mut |lexer| reading.result(lexer))?;
        let Reading { mut entries, next, .. } = reading;
        entries.shrink_to_fit();
        Ok((envelope, Self { text: text.clone(), key, entries, next }))
    }

    /// The whole message.
    #[must_use]
    pub fn text(&self) -> &Bytes {
        &self.text
    }

    /// The items in their order.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Keeps the items that `wanted` holds for.
    pub fn retain(&mut self, wanted: impl FnMut(&Entry) -> bool) {
        self.entries.retain(wanted);
    }

    /// The value of the result's first member `nextCursor`, if that is a string.
    #[must_use]
    pub fn next_cursor(&self) -> Option<Cow<'_, str>> {
        self.next.map(|next| next.read(&self.text))
    }
}

impl Reading<'_> {
    /// Reads the value of `result`, which one container encloses.
    fn result(&mut self, lexer: &mut Lexer<'_>) -> Result<Span, Stop> {
        if lexer.peek() != Some(b'{') {
            return lexer.value(1).map(|value| value.span);
        }
        let bytes = lexer.bytes;
        lexer.object(1, |lexer, name| {
            if !self.listed && name.is(bytes, self.member) {
                self.listed = true;
                return self.list(lexer);
            }
            let value = lexer.value(2)?;
            if !self.paged && name.is(bytes, "nextCursor") {
                self.paged = true;
                self.next = Some(value).filter(|value| is_string(*value, bytes));
            }
            Ok(())
        })
    }

    fn list(&mut self, lexer: &mut Lexer<'_>) -> Result<(), Stop> {
        if lexer.peek() != Some(b'[') {
            return lexer.value(2).map(drop);
        }
        lexer.at += 1;
        lexer.space();
        if lexer.peek() != Some(b']') {
            loop {
                self.item(lexer)?;
                lexer.space();
                if lexer.peek() != Some(b',') {
                    break;
                }
                lexer.at += 1;
                lexer.space();
            }
        }
        lexer.expect(b']')
    }

    /// Reads an item, which three containers enclose.
    fn item(&mut self, lexer: &mut Lexer<'_>) -> Result<(), Stop> {
        if self.met_again(lexer) {
            return Ok(());
        }
        if lexer.peek() != Some(b'{') {
            return lexer.value(3).map(drop);
        }
        let bytes = lexer.bytes;
        let mut first = None;
        let item = lexer.object(3, |lexer, name| {
            let value = lexer.value(4)?;
            if name.is(bytes, self.key) {
                first.get_or_insert(value);
            }
            Ok(())
        })?;
        let named = |key: &Text| is_string(*key, bytes) && !inside(key.span.of(bytes)).is_empty();
        self.entries.extend(first.filter(named).map(|key| Entry { item, key }));
        Ok(())
    }

    /// Steps over the item at this place if the earlier list had it too, at the same depth. An object ends with its bracket:
    /// whatever follows, it is the same one.
    fn met_again(&mut self, lexer: &mut Lexer<'_>) -> bool {
        let Some(before) = self.before else { return false };
        let ahead = lexer.bytes.get(lexer.at..).unwrap_or_default();
        let known = before.entries.iter().enumerate().skip(self.place).take(WINDOW);
        for (index, old) in known {
            if !ahead.starts_with(old.item.of(&before.text)) {
                continue;
            }
            let moved = |at: u32| lexer.at + (at - old.item.start) as usize;
            let key = old.key.span;
            let key = Text { span: Span::new(moved(key.start), moved(key.end)), ..old.key };
            let item = Span::new(lexer.at, moved(old.item.end));
            self.entries.push(Entry { item, key });
            self.place = index + 1;
            lexer.at = item.end as usize;
            return true;
        }
        false
    }
}

fn is_string(value: Text, bytes: &[u8]) -> bool {
    value.span.of(bytes).first() == Some(&b'"')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(result: &str) -> Bytes {
        format!(r#"{{"jsonrpc":"2.0","id":1,"result":{result}}}"#).into()
    }

    fn read(result: &str, before: Option<&Listing>) -> Listing {
        Listing::read(&answer(result), "tools", "name", before).unwrap().1
    }

    fn items(listing: &Listing) -> Vec<(String, String)> {
        let text = listing.text();
        let own = |entry: &Entry| {
            let item = String::from_utf8(entry.item.of(text).to_vec()).unwrap();
            (entry.key.read(text).into_owned(), item)
        };
        listing.entries().iter().map(own).collect()
    }

    #[test]
    fn names_each_item_and_the_next_page() {
        let listing = read(
            r#"{"tools":[{"a":{"name":"no"},"n\u0061me":"\u0061","name":"b"},1,{"name":""},{"name":2},{},
            {"name":"c"} ],"tools":[{"name":"d"}],"nextCursor":"\n","nextCursor":"no"}"#,
            None,
        );
        let first = r#"{"a":{"name":"no"},"n\u0061me":"\u0061","name":"b"}"#;
        let expected = [("a", first), ("c", r#"{"name":"c"}"#)];
        assert_eq!(items(&listing), expected.map(|(key, item)| (key.to_owned(), item.to_owned())));
        assert_eq!(listing.next_cursor().as_deref(), Some("\n"));
    }

    #[test]
    fn a_result_without_such_a_list_is_empty() {
        for result in
            ["[]", "1", "{}", r#"{"tools":{"name":"a"}}"#, r#"{"tools":[],"nextCursor":1}"#]
        {
            let listing = read(result, None);
            assert_eq!((items(&listing), listing.next_cursor()), (vec![], None), "{result}");
        }
    }

    #[test]
    fn what_was_known_before_changes_nothing() {
        let list = |names: &[u32]| {
            let tools: Vec<_> =
                names.iter().map(|n| format!(r#"{{"x":[{n}],"name":"t{n}"}}"#)).collect();
            format!(r#"{{"tools":[{}]}}"#, tools.join(" ,\n"))
        };
        let all: Vec<u32> = (0..40).collect();
        let before = read(&list(&all), None);
        let turned: Vec<u32> = all.iter().rev().copied().collect();
        let replaced: Vec<u32> =
            all.iter().map(|n| if n % 7 == 0 { n + 100 } else { *n }).collect();
        let inserted: Vec<u32> = all.iter().flat_map(|n| [*n, *n, *n + 200]).collect();
        let (head, tail) = (&all[..20], &all[12..]);
        for names in [&all[..], &turned, &replaced, &inserted, head, tail, &[]] {
            let result = list(names);
            assert_eq!(
                items(&read(&result, Some(&before))),
                items(&read(&result, None)),
                "{names:?}"
            );
        }
    }

    #[test]
    fn faults_are_found_behind_what_was_known() {
        let before = read(r#"{"tools":[{"name":"a"},{"name":"b"}]}"#, None);
        for bad in [r#"{"tools":[{"name":"a"}{"name":"b"}]}"#, r#"{"tools":[{"name":"a"},]}"#] {
            let text = answer(bad);
            let refused = Listing::read(&text, "tools", "name", Some(&before)).unwrap_err();
            assert_eq!(Some(refused), crate::scan(&text).err(), "{bad}");
        }
    }

    #[test]
    fn an_earlier_listing_by_another_key_is_not_used() {
        let text = answer(r#"{"tools":[{"uri":"u","name":"a"}]}"#);
        let (_, before) = Listing::read(&text, "tools", "uri", None).unwrap();
        let (_, listing) = Listing::read(&text, "tools", "name", Some(&before)).unwrap();
        assert_eq!(items(&listing)[0].0, "a");
    }
}
