//! List in a response, parsed in the pass that checks it.

use std::borrow::Cow;

use bytes::Bytes;

use crate::envelope::scan_with;
use crate::json_string::inside;
use crate::lexer::{Lexer, Stop};
use crate::{Envelope, ScanError, Span, StringSpan, find};

/// Number of items of the earlier response that are compared before an item is parsed again. Items that were inserted,
/// replaced or removed alone or in small groups leave the rest in step.
const WINDOW: usize = 8;

/// Maximum number of item errors of one list.
const MAX_ITEM_ERRORS: usize = 32;

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

/// Error of an item that breaks a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ItemError {
    /// The value of its first key, if that is a string. Its span counts in [`ListResult::text`].
    pub key: Option<StringSpan>,
    /// The member that breaks the rule.
    pub member: &'static str,
    /// The problem.
    pub problem: &'static str,
}

/// Response whose result contains a list, with the range and key of each item.
///
/// Lists are fetched again after a change, when most items are the same. An item that equals byte for byte one of an earlier
/// [`ListResult`] at about the same position is only compared, not parsed.
#[derive(Clone, Debug)]
pub struct ListResult {
    text: Bytes,
    rules: &'static ItemRules,
    entries: Vec<Entry>,
    item_errors: Vec<ItemError>,
    next: Option<StringSpan>,
}

/// An item of a [`ListResult`]. Its spans count in [`ListResult::text`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The item, an object.
    pub item: Span,
    /// The value of the only member that has the name of the key, a string that is not empty.
    pub key: StringSpan,
}

/// Reader of a result.
struct ListReader<'a> {
    member: &'a str,
    rules: &'static ItemRules,
    before: Option<&'a ListResult>,
    /// Index of the first item of the earlier list that was not found again.
    next_before: usize,
    has_list: bool,
    has_cursor: bool,
    entries: Vec<Entry>,
    item_errors: Vec<ItemError>,
    next: Option<StringSpan>,
}

/// Reader of an item.
struct ItemReader {
    rules: &'static ItemRules,
    key: Option<StringSpan>,
    /// The members that were found, one bit each in the order of the rules.
    found: u32,
    error: Option<(&'static str, &'static str)>,
}

impl ListResult {
    /// Reads a complete message by the rules of [`scan`](crate::scan), and in the same pass the objects in the array that is
    /// the first member `member` of its result. Objects that break one of `rules`, or have one of their members twice, are
    /// left out, as is whatever else stands in that array: readers differ in which of two members counts.
    ///
    /// `before` is a list of about the same items, if there is one. It makes reading faster, and changes nothing else.
    pub fn read(
        text: &Bytes,
        member: &str,
        rules: &'static ItemRules,
        before: Option<&Self>,
    ) -> Result<(Envelope, Self), ScanError> {
        // Results of other rules are not reusable.
        let before = before.filter(|before| before.rules == rules);
        let entries = Vec::with_capacity(before.map_or(0, |before| before.entries.len()));
        let (next_before, has_list, has_cursor, next) = (0, false, false, None);
        let item_errors = Vec::new();
        let mut reader = ListReader {
            member,
            rules,
            before,
            next_before,
            has_list,
            has_cursor,
            entries,
            item_errors,
            next,
        };
        let envelope = scan_with(text, &mut |lexer| reader.result(lexer))?;
        let ListReader { mut entries, item_errors, next, .. } = reader;
        entries.shrink_to_fit();
        Ok((envelope, Self { text: text.clone(), rules, entries, item_errors, next }))
    }

    /// Returns the whole message.
    #[must_use]
    pub fn text(&self) -> &Bytes {
        &self.text
    }

    /// Returns the items in their order.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Returns the errors of the first 32 items that were left out.
    #[must_use]
    pub fn item_errors(&self) -> &[ItemError] {
        &self.item_errors
    }

    /// Keeps the items for which `wanted` holds.
    pub fn retain(&mut self, wanted: impl FnMut(&Entry) -> bool) {
        self.entries.retain(wanted);
    }

    /// Returns the value of the result's first member `nextCursor`, if that is a string.
    #[must_use]
    pub fn next_cursor(&self) -> Option<Cow<'_, str>> {
        self.next.map(|next| next.read(&self.text))
    }
}

impl ListReader<'_> {
    /// Reads the value of `result`, which one container encloses.
    fn result(&mut self, lexer: &mut Lexer<'_>) -> Result<Span, Stop> {
        if lexer.peek() != Some(b'{') {
            return lexer.value(1).map(|value| value.span);
        }
        let bytes = lexer.bytes;
        lexer.object(1, |lexer, name| {
            if !self.has_list && name.is(bytes, self.member) {
                self.has_list = true;
                return self.list(lexer);
            }
            let value = lexer.value(2)?;
            if !self.has_cursor && name.is(bytes, "nextCursor") {
                self.has_cursor = true;
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
        if self.skip_unchanged(lexer) {
            return Ok(());
        }
        if lexer.peek() != Some(b'{') {
            return lexer.value(3).map(drop);
        }
        let bytes = lexer.bytes;
        let mut reader = ItemReader { rules: self.rules, key: None, found: 0, error: None };
        let item = lexer.object(3, |lexer, name| {
            let value = lexer.value(4)?;
            reader.member(bytes, name, value);
            Ok(())
        })?;
        match reader.finish(bytes) {
            Ok(key) => self.entries.push(Entry { item, key }),
            Err(error) if self.item_errors.len() < MAX_ITEM_ERRORS => self.item_errors.push(error),
            Err(_) => {}
        }
        Ok(())
    }

    /// Skips the item at this position if the earlier list has it at the same depth. Its closing bracket ends it, so an equal
    /// prefix is the same item.
    fn skip_unchanged(&mut self, lexer: &mut Lexer<'_>) -> bool {
        let Some(before) = self.before else { return false };
        let ahead = &lexer.bytes[lexer.at..];
        let candidates = before.entries.iter().enumerate().skip(self.next_before).take(WINDOW);
        for (index, old) in candidates {
            if !ahead.starts_with(old.item.of(&before.text)) {
                continue;
            }
            let moved = |at: u32| lexer.at + (at - old.item.start) as usize;
            let key = old.key.span;
            let key = StringSpan { span: Span::new(moved(key.start), moved(key.end)), ..old.key };
            let item = Span::new(lexer.at, moved(old.item.end));
            self.entries.push(Entry { item, key });
            self.next_before = index + 1;
            lexer.at = item.end as usize;
            return true;
        }
        false
    }
}

impl ItemReader {
    fn member(&mut self, bytes: &[u8], name: StringSpan, value: StringSpan) {
        if name.is(bytes, self.rules.key) {
            if self.key.replace(value).is_some() {
                self.error.get_or_insert((self.rules.key, "appears twice"));
            }
            return;
        }
        let mut rules = self.rules.members.iter().enumerate();
        let Some((at, rule)) = rules.find(|(_, rule)| name.is(bytes, rule.name)) else { return };
        if self.found >> at & 1 == 1 {
            self.error.get_or_insert((rule.name, "appears twice"));
        }
        self.found |= 1 << at;
        if let Err(problem) = rule.kind.check(value.span.of(bytes)) {
            self.error.get_or_insert((rule.name, problem));
        }
    }

    /// Returns the key of the item, or its first error.
    fn finish(self, bytes: &[u8]) -> Result<StringSpan, ItemError> {
        let key = self.key.filter(|key| is_string(*key, bytes));
        let error = |(member, problem)| ItemError { key, member, problem };
        if let Some(found) = self.error {
            return Err(error(found));
        }
        let mut rules = self.rules.members.iter().enumerate();
        if let Some((_, rule)) =
            rules.find(|(at, rule)| rule.is_required && self.found >> at & 1 == 0)
        {
            return Err(error((rule.name, "is missing")));
        }
        let named = key.filter(|key| !inside(key.span.of(bytes)).is_empty());
        named.ok_or_else(|| error((self.rules.key, "is not a string of at least one character")))
    }
}

impl MemberType {
    fn check(self, value: &[u8]) -> Result<(), &'static str> {
        let first = *value.first().expect("a JSON value has at least one byte");
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

fn is_string(value: StringSpan, bytes: &[u8]) -> bool {
    value.span.of(bytes).first() == Some(&b'"')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(result: &str) -> Bytes {
        format!(r#"{{"jsonrpc":"2.0","id":1,"result":{result}}}"#).into()
    }

    const NAME: &ItemRules = &ItemRules { key: "name", members: &[] };
    const URI: &ItemRules = &ItemRules { key: "uri", members: &[] };

    fn read(result: &str, before: Option<&ListResult>) -> ListResult {
        ListResult::read(&response(result), "tools", NAME, before).unwrap().1
    }

    fn items(listing: &ListResult) -> Vec<(String, String)> {
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
    fn omits_invalid_items() {
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
        let text = response(&format!(r#"{{"tools":[{}]}}"#, all.join(",")));
        let (_, listing) = ListResult::read(&text, "tools", RULES, None).unwrap();
        assert_eq!(items(&listing), [("good".to_owned(), good.to_owned())]);
        let item_errors: Vec<_> =
            listing.item_errors().iter().map(|it| (it.member, it.problem)).collect();
        assert_eq!(item_errors, bad.map(|(_, member, problem)| (member, problem)));
        let repeated = ListResult::read(&text, "tools", RULES, Some(&listing)).unwrap().1;
        assert_eq!(
            (items(&repeated), repeated.item_errors()),
            (items(&listing), listing.item_errors())
        );
        let many = vec![r#"{"name":"a"}"#; MAX_ITEM_ERRORS + 1].join(",");
        let text = response(&format!(r#"{{"tools":[{many}]}}"#));
        let listing = ListResult::read(&text, "tools", RULES, None).unwrap().1;
        assert_eq!(listing.item_errors().len(), MAX_ITEM_ERRORS);
    }

    #[test]
    fn result_without_the_list_is_empty() {
        for result in
            ["[]", "1", "{}", r#"{"tools":{"name":"a"}}"#, r#"{"tools":[],"nextCursor":1}"#]
        {
            let listing = read(result, None);
            assert_eq!((items(&listing), listing.next_cursor()), (vec![], None), "{result}");
        }
    }

    #[test]
    fn earlier_list_does_not_change_the_result() {
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
    fn finds_errors_after_unchanged_items() {
        let before = read(r#"{"tools":[{"name":"a"},{"name":"b"}]}"#, None);
        for bad in [r#"{"tools":[{"name":"a"}{"name":"b"}]}"#, r#"{"tools":[{"name":"a"},]}"#] {
            let text = response(bad);
            let error = ListResult::read(&text, "tools", NAME, Some(&before)).unwrap_err();
            assert_eq!(Some(error), crate::scan(&text).err(), "{bad}");
        }
    }

    #[test]
    fn ignores_earlier_list_with_another_key() {
        let text = response(r#"{"tools":[{"uri":"u","name":"a"}]}"#);
        let (_, before) = ListResult::read(&text, "tools", URI, None).unwrap();
        let (_, listing) = ListResult::read(&text, "tools", NAME, Some(&before)).unwrap();
        assert_eq!(items(&listing)[0].0, "a");
    }
}
