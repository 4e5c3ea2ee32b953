//! A list in an answer, taken apart in the pass that checks it.

use std::borrow::Cow;

use bytes::Bytes;

use crate::envelope::scan_with;
use crate::lexer::{Lexer, Stop};
use crate::quote::inside;
use crate::{Envelope, Refused, Span, Text, find};

/// Number of items of the earlier response that are compared before an item is parsed again. Items that were inserted,
/// replaced or removed alone or in small groups leave the rest in step.
const WINDOW: usize = 8;

/// The most items of one listing whose faults are kept.
const MAX_FAULTS: usize = 32;

/// Form of an item, as its protocol defines it.
#[derive(Debug, PartialEq, Eq)]
pub struct ItemRules {
    /// The member that an item is called by, a string of at least one character.
    pub key: &'static str,
    /// The other members that are checked, 32 at most.
    pub members: &'static [MemberRule],
}

/// Form of one member of an item.
#[derive(Debug, PartialEq, Eq)]
pub struct MemberRule {
    /// Its name.
    pub name: &'static str,
    /// Its type.
    pub kind: MemberType,
    /// `true` if each item needs it.
    pub is_required: bool,
}

/// JSON type of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberType {
    /// A string.
    String,
    /// A number.
    Number,
    /// An object.
    Object,
    /// An array.
    Array,
    /// A JSON Schema of objects: an object whose `type` is `object`.
    ObjectSchema,
}

/// Item that breaks a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ItemFault {
    /// The value of its first key, if that is a string. Its span counts in [`Listing::text`].
    pub key: Option<Text>,
    /// The member that is at fault.
    pub member: &'static str,
    /// The fault.
    pub problem: &'static str,
}

/// An answer whose result holds a list: where each item stands, and by what it is called.
///
/// Lists are asked for again when something in them has changed, and nearly all of them is as it was. An item that equals
/// byte for byte one of an earlier [`Listing`] at about the same place was checked then, and is only compared.
#[derive(Clone, Debug)]
pub struct Listing {
    text: Bytes,
    rules: &'static ItemRules,
    entries: Vec<Entry>,
    faults: Vec<ItemFault>,
    next: Option<Text>,
}

/// An item of a [`Listing`]. Its spans count in [`Listing::text`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The item, an object.
    pub item: Span,
    /// The value of the only member that has the name of the key, a string that is not empty.
    pub key: Text,
}

/// State of a pass over a result.
struct Reading<'a> {
    member: &'a str,
    rules: &'static ItemRules,
    before: Option<&'a Listing>,
    /// The first item of the earlier list that has not been met again.
    place: usize,
    listed: bool,
    paged: bool,
    entries: Vec<Entry>,
    faults: Vec<ItemFault>,
    next: Option<Text>,
}

/// State of a pass over an item.
struct ItemReading {
    rules: &'static ItemRules,
    key: Option<Text>,
    /// The members that were met, one bit each in the order of the rules.
    met: u32,
    fault: Option<(&'static str, &'static str)>,
}

impl Listing {
    /// Reads a complete message by the rules of [`scan`](crate::scan), and in the same pass the objects in the array that is
    /// the first member `member` of its result. Objects that break one of `rules`, or have one of their members twice, are
    /// left out, as is whatever else stands in that array: readers differ in which of two members counts.
    ///
    /// `before` is a listing of about the same items, if there is one. It makes reading faster, and changes nothing else.
    pub fn read(
        text: &Bytes,
        member: &str,
        rules: &'static ItemRules,
        before: Option<&Self>,
    ) -> Result<(Envelope, Self), Refused> {
        // What follows other rules is of no use.
        let before = before.filter(|before| before.rules == rules);
        let entries = Vec::with_capacity(before.map_or(0, |before| before.entries.len()));
        let (place, listed, paged, next) = (0, false, false, None);
        let faults = Vec::new();
        let mut reading =
            Reading { member, rules, before, place, listed, paged, entries, faults, next };
        let envelope = scan_with(text, &mut |lexer| reading.result(lexer))?;
        let Reading { mut entries, faults, next, .. } = reading;
        entries.shrink_to_fit();
        Ok((envelope, Self { text: text.clone(), rules, entries, faults, next }))
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

    /// The first 32 items that were left out because of a rule.
    #[must_use]
    pub fn faults(&self) -> &[ItemFault] {
        &self.faults
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
        let mut reading = ItemReading { rules: self.rules, key: None, met: 0, fault: None };
        let item = lexer.object(3, |lexer, name| {
            let value = lexer.value(4)?;
            reading.member(bytes, name, value);
            Ok(())
        })?;
        match reading.finish(bytes) {
            Ok(key) => self.entries.push(Entry { item, key }),
            Err(fault) if self.faults.len() < MAX_FAULTS => self.faults.push(fault),
            Err(_) => {}
        }
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

impl ItemReading {
    fn member(&mut self, bytes: &[u8], name: Text, value: Text) {
        if name.is(bytes, self.rules.key) {
            if self.key.replace(value).is_some() {
                self.fault.get_or_insert((self.rules.key, "appears twice"));
            }
            return;
        }
        let mut rules = self.rules.members.iter().enumerate();
        let Some((at, rule)) = rules.find(|(_, rule)| name.is(bytes, rule.name)) else { return };
        if self.met >> at & 1 == 1 {
            self.fault.get_or_insert((rule.name, "appears twice"));
        }
        self.met |= 1 << at;
        if let Err(problem) = rule.kind.check(value.span.of(bytes)) {
            self.fault.get_or_insert((rule.name, problem));
        }
    }

    /// The key of the item, or its first fault.
    fn finish(self, bytes: &[u8]) -> Result<Text, ItemFault> {
        let key = self.key.filter(|key| is_string(*key, bytes));
        let fault = |(member, problem)| ItemFault { key, member, problem };
        if let Some(found) = self.fault {
            return Err(fault(found));
        }
        let mut rules = self.rules.members.iter().enumerate();
        if let Some((_, rule)) =
            rules.find(|(at, rule)| rule.is_required && self.met >> at & 1 == 0)
        {
            return Err(fault((rule.name, "is missing")));
        }
        let named = key.filter(|key| !inside(key.span.of(bytes)).is_empty());
        named.ok_or_else(|| fault((self.rules.key, "is not a string of at least one character")))
    }
}

impl MemberType {
    fn check(self, value: &[u8]) -> Result<(), &'static str> {
        let first = value.first().copied().unwrap_or_default();
        let (is_right, problem) = match self {
            Self::String => (first == b'"', "is not a string"),
            Self::Number => (first == b'-' || first.is_ascii_digit(), "is not a number"),
            Self::Object => (first == b'{', "is not an object"),
            Self::Array => (first == b'[', "is not an array"),
            Self::ObjectSchema => (
                first == b'{' && find(value, "type").is_some_and(|kind| kind == b"\"object\""),
                "is not a JSON Schema whose type is object",
            ),
        };
        if is_right { Ok(()) } else { Err(problem) }
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

    const NAME: &ItemRules = &ItemRules { key: "name", members: &[] };
    const URI: &ItemRules = &ItemRules { key: "uri", members: &[] };

    fn read(result: &str, before: Option<&Listing>) -> Listing {
        Listing::read(&answer(result), "tools", NAME, before).unwrap().1
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
            r#"{"tools":[{"a":{"name":"no"},"n\u0061me":"\u0061"},1,{"name":""},{"name":2},{},
            {"name":"c"} ],"tools":[{"name":"d"}],"nextCursor":"\n","nextCursor":"no"}"#,
            None,
        );
        let first = r#"{"a":{"name":"no"},"n\u0061me":"\u0061"}"#;
        let expected = [("a", first), ("c", r#"{"name":"c"}"#)];
        assert_eq!(items(&listing), expected.map(|(key, item)| (key.to_owned(), item.to_owned())));
        assert_eq!(listing.next_cursor().as_deref(), Some("\n"));
    }

    #[test]
    fn leaves_out_items_that_break_a_rule() {
        const RULES: &ItemRules = &ItemRules {
            key: "name",
            members: &[
                MemberRule { name: "d", kind: MemberType::String, is_required: false },
                MemberRule { name: "s", kind: MemberType::ObjectSchema, is_required: true },
            ],
        };
        let good = r#"{"name":"good","s":{"x":1,"type":"object"},"d":"","x":1,"x":2}"#;
        let bad = [
            (r#"{"name":"a","s":{"type":"object"},"n\u0061me":"b"}"#, "name", "appears twice"),
            (r#"{"name":"a","s":{"type":"object"},"s":{"type":"object"}}"#, "s", "appears twice"),
            (r#"{"name":"a"}"#, "s", "is missing"),
            (r#"{"name":"a","s":{}}"#, "s", "is not a JSON Schema whose type is object"),
            (r#"{"name":"a","s":null}"#, "s", "is not a JSON Schema whose type is object"),
            (r#"{"d":null,"name":"a","s":{"type":"object"}}"#, "d", "is not a string"),
            (r#"{"s":{"type":"object"}}"#, "name", "is not a string of at least one character"),
        ];
        let all: Vec<_> = [good].into_iter().chain(bad.map(|(item, ..)| item)).collect();
        let text = answer(&format!(r#"{{"tools":[{}]}}"#, all.join(",")));
        let (_, listing) = Listing::read(&text, "tools", RULES, None).unwrap();
        assert_eq!(items(&listing), [("good".to_owned(), good.to_owned())]);
        let faults: Vec<_> = listing.faults().iter().map(|it| (it.member, it.problem)).collect();
        assert_eq!(faults, bad.map(|(_, member, problem)| (member, problem)));
        let again = Listing::read(&text, "tools", RULES, Some(&listing)).unwrap().1;
        assert_eq!((items(&again), again.faults()), (items(&listing), listing.faults()));
        let many = vec![r#"{"name":"a"}"#; MAX_FAULTS + 1].join(",");
        let text = answer(&format!(r#"{{"tools":[{many}]}}"#));
        let listing = Listing::read(&text, "tools", RULES, None).unwrap().1;
        assert_eq!(listing.faults().len(), MAX_FAULTS);
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
            let refused = Listing::read(&text, "tools", NAME, Some(&before)).unwrap_err();
            assert_eq!(Some(refused), crate::scan(&text).err(), "{bad}");
        }
    }

    #[test]
    fn an_earlier_listing_by_another_key_is_not_used() {
        let text = answer(r#"{"tools":[{"uri":"u","name":"a"}]}"#);
        let (_, before) = Listing::read(&text, "tools", URI, None).unwrap();
        let (_, listing) = Listing::read(&text, "tools", NAME, Some(&before)).unwrap();
        assert_eq!(items(&listing)[0].0, "a");
    }
}
