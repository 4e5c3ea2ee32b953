//! Objects without duplicate members at any depth, which all parsers understand alike.

use crate::lexer::{Lexer, Stop};
use crate::{MAX_DEPTH, ScanErrorKind, Span, StringSpan};

/// Number of members from which names are sorted instead of compared with each other.
const SORT_THRESHOLD: usize = 32;

/// Number of members for which memory is allocated at first.
const INITIAL_CAPACITY: usize = 24;

/// Length from which a number without an exponent may exceed double precision.
const LONG_NUMBER: usize = 300;

/// Result of [`parse_unique_object`]: the members of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UniqueObject {
    /// The members of the object itself, in order.
    pub members: Vec<MemberSpan>,
    /// The numbers, at any depth, that double precision may have no value for: those with an exponent, and
    /// those of very many digits.
    pub large_numbers: Vec<Span>,
}

/// Range of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberSpan {
    /// Its name.
    pub key: StringSpan,
    /// The JSON text of its value, without whitespace around it.
    pub value: Span,
}

/// Reads `text`, one JSON object of at most `max_members` members, those of inner objects included, in which no
/// object has a member twice. Otherwise it is held to the same rules as by [`validate`](crate::validate).
///
/// # Errors
/// [`ScanErrorKind::NotAnObject`], [`ScanErrorKind::Duplicate`], [`ScanErrorKind::TooManyMembers`] with more than
/// `max_members` members, and what is wrong with any text.
pub fn parse_unique_object(text: &str, max_members: usize) -> Result<UniqueObject, ScanErrorKind> {
    let bytes = text.as_bytes();
    u32::try_from(bytes.len()).map_err(|_| ScanErrorKind::TooLong)?;
    let mut lexer = Lexer::whole(bytes);
    lexer.space();
    if lexer.peek() != Some(b'{') {
        crate::validate(bytes)?;
        return Err(ScanErrorKind::NotAnObject);
    }
    let mut found =
        UniqueObject { members: Vec::with_capacity(INITIAL_CAPACITY), large_numbers: Vec::new() };
    let mut nested = NestedReader {
        names: Vec::new(),
        left: max_members,
        large_numbers: &mut found.large_numbers,
    };
    let (members, mut marks) = (&mut found.members, 0);
    let read = lexer.object(0, |lexer, key| {
        nested.count()?;
        let mark = mark(bytes, key);
        let may_repeat = marks & mark != 0 && members.len() < SORT_THRESHOLD;
        if may_repeat && members.iter().any(|other| same(bytes, other.key, key)) {
            return Err(duplicate(key));
        }
        marks |= mark;
        let value = nested.value(lexer, 1)?;
        members.push(MemberSpan { key, value });
        Ok(())
    });
    crate::envelope::finish(read.map(drop), &mut lexer)?;
    if members.len() > SORT_THRESHOLD {
        check_sorted(bytes, members.iter().map(|member| member.key))?;
    }
    Ok(found)
}

/// Reader of the values inside an object.
struct NestedReader<'a> {
    /// The names of the members so far of each object that is open.
    names: Vec<StringSpan>,
    /// Number of members that may still follow.
    left: usize,
    large_numbers: &'a mut Vec<Span>,
}

impl NestedReader<'_> {
    fn count(&mut self) -> Result<(), Stop> {
        self.left = self.left.checked_sub(1).ok_or(ScanErrorKind::TooManyMembers)?;
        Ok(())
    }

    fn value(&mut self, lexer: &mut Lexer<'_>, outer: usize) -> Result<Span, Stop> {
        match lexer.peek() {
            Some(b'{') => self.object(lexer, outer),
            Some(b'[') => self.array(lexer, outer),
            Some(b'-' | b'0'..=b'9') => {
                let number = lexer.value(outer)?.span;
                let digits = number.of(lexer.bytes);
                if digits.len() > LONG_NUMBER
                    || digits.iter().any(|byte| matches!(byte, b'e' | b'E'))
                {
                    self.large_numbers.push(number);
                }
                Ok(number)
            }
            _ => Ok(lexer.value(outer)?.span),
        }
    }

    fn object(&mut self, lexer: &mut Lexer<'_>, outer: usize) -> Result<Span, Stop> {
        let (bytes, first, mut marks) = (lexer.bytes, self.names.len(), 0);
        let span = lexer.object(outer, |lexer, key| {
            self.count()?;
            let names = &self.names[first..];
            let mark = mark(bytes, key);
            let may_repeat = marks & mark != 0 && names.len() < SORT_THRESHOLD;
            if may_repeat && names.iter().any(|other| same(bytes, *other, key)) {
                return Err(duplicate(key));
            }
            marks |= mark;
            self.names.push(key);
            self.value(lexer, outer + 1).map(drop)
        })?;
        if self.names.len() > first + SORT_THRESHOLD {
            check_sorted(bytes, self.names.drain(first..))?;
        }
        self.names.truncate(first);
        Ok(span)
    }

    fn array(&mut self, lexer: &mut Lexer<'_>, outer: usize) -> Result<Span, Stop> {
        let start = lexer.at;
        lexer.expect(b'[')?;
        if outer >= MAX_DEPTH {
            return Err(ScanErrorKind::TooDeep.into());
        }
        lexer.space();
        if lexer.peek() != Some(b']') {
            loop {
                self.value(lexer, outer + 1)?;
                lexer.space();
                if lexer.peek() != Some(b',') {
                    break;
                }
                lexer.at += 1;
                lexer.space();
            }
        }
        lexer.expect(b']')?;
        Ok(Span::new(start, lexer.at))
    }
}

fn duplicate(key: StringSpan) -> Stop {
    ScanErrorKind::Duplicate { at: key.span.start }.into()
}

/// Returns bits of which equal names share at least one, and few other names do.
fn mark(bytes: &[u8], key: StringSpan) -> u64 {
    match key.span.of(bytes) {
        // Behind the opening quote and before the closing one.
        [_, first, .., last, _] if !key.escaped => {
            1 << ((key.span.len() * 5 + usize::from(*first) * 3 + usize::from(*last)) % 64)
        }
        _ => u64::MAX,
    }
}

fn same(bytes: &[u8], one: StringSpan, other: StringSpan) -> bool {
    if one.escaped || other.escaped {
        return one.read(bytes) == other.read(bytes);
    }
    one.span.len() == other.span.len() && one.span.of(bytes) == other.span.of(bytes)
}

/// Checks many names for duplicates after unescaping.
fn check_sorted(bytes: &[u8], keys: impl Iterator<Item = StringSpan>) -> Result<(), ScanErrorKind> {
    let mut names: Vec<_> = keys.map(|key| (key.read(bytes), key.span.start)).collect();
    names.sort_unstable();
    let pair = names.windows(2).find(|pair| matches!(pair, [(one, _), (other, _)] if one == other));
    match pair {
        Some([_, (_, at)]) => Err(ScanErrorKind::Duplicate { at: *at }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<(String, String)> {
        let found = parse_unique_object(text, 64).unwrap();
        let bytes = text.as_bytes();
        let read = |member: &MemberSpan| {
            let value = std::str::from_utf8(member.value.of(bytes)).unwrap();
            (member.key.read(bytes).into_owned(), value.to_owned())
        };
        found.members.iter().map(read).collect()
    }

    fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
        expected.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect()
    }

    #[test]
    fn finds_outermost_members_in_order() {
        let text = r#" { "b" : [ 1 , {"c":2} ] ,"\u0061": -1.5e2, "":{} } "#;
        let expected = pairs(&[("b", r#"[ 1 , {"c":2} ]"#), ("a", "-1.5e2"), ("", "{}")]);
        assert_eq!(names(text), expected);
        assert_eq!(names("{}"), []);
    }

    #[test]
    fn rejects_duplicates_at_any_depth() {
        for text in [
            r#"{"a":1,"a":1}"#,
            r#"{"a":1,"\u0061":1}"#,
            r#"{"x":[[{"a":1,"b":{"c":2,"d":[],"\u0063":3}}]]}"#,
        ] {
            assert!(
                matches!(parse_unique_object(text, 64), Err(ScanErrorKind::Duplicate { .. })),
                "{text}"
            );
        }
        assert!(parse_unique_object(r#"{"a":{"a":{"b":1}},"b":[{"a":1},{"a":1}]}"#, 64).is_ok());
    }

    #[test]
    fn detects_duplicates_among_many_members() {
        let object = |last: &str| {
            let members: Vec<_> = (0..100).map(|at| format!("\"{at}\":{at}")).collect();
            format!("{{{},{last}:0}}", members.join(","))
        };
        for (last, error) in [("\"100\"", None), ("\"7\"", Some(())), ("\"\\u0037\"", Some(()))] {
            let (outer, inner) = (object(last), format!("{{\"in\":[{}]}}", object(last)));
            for text in [outer, inner] {
                let found = parse_unique_object(&text, 1000);
                let duplicate = matches!(found, Err(ScanErrorKind::Duplicate { .. }));
                assert_eq!(
                    (found.is_ok(), duplicate),
                    (error.is_none(), error.is_some()),
                    "{text}"
                );
            }
        }
    }

    #[test]
    fn counts_the_members_of_all_objects() {
        let text = r#"{"a":{"b":1},"c":[{"d":1}]}"#;
        assert!(parse_unique_object(text, 4).is_ok());
        assert_eq!(parse_unique_object(text, 3), Err(ScanErrorKind::TooManyMembers));
    }

    #[test]
    fn rejects_other_values_and_invalid_json() {
        for text in ["[]", "1", "\"a\""] {
            assert_eq!(parse_unique_object(text, 64), Err(ScanErrorKind::NotAnObject), "{text}");
        }
        for text in
            ["", "{", "{}{}", "{\"a\":[1,]}", "{\"a\":[1}", "{\"a\":01}", "{\"a\":\"\u{1}\"}"]
        {
            assert!(
                matches!(parse_unique_object(text, 64), Err(ScanErrorKind::Syntax { .. })),
                "{text}"
            );
        }
        let half = parse_unique_object(r#"{"a":["\ud800"]}"#, 64);
        assert!(matches!(half, Err(ScanErrorKind::LoneSurrogate { .. })), "{half:?}");
    }

    #[test]
    fn limits_nesting() {
        for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
            let nested = |depth: usize| {
                let (open, close) = (open.repeat(depth), close.repeat(depth));
                format!("{{\"a\":{open}1{close}}}")
            };
            assert!(parse_unique_object(&nested(crate::MAX_DEPTH - 1), 1000).is_ok());
            assert_eq!(
                parse_unique_object(&nested(crate::MAX_DEPTH), 1000),
                Err(ScanErrorKind::TooDeep)
            );
        }
    }

    #[test]
    fn returns_large_numbers() {
        let long = "9".repeat(LONG_NUMBER + 1);
        let text = format!(r#"{{"a":1,"b":[1e2,{{"c":-2E-3}}],"d":{long},"e":"1e5"}}"#);
        let found = parse_unique_object(&text, 64).unwrap();
        let large_numbers: Vec<_> =
            found.large_numbers.iter().map(|span| span.of(text.as_bytes())).collect();
        assert_eq!(large_numbers, [&b"1e2"[..], b"-2E-3", long.as_bytes()]);
    }
}
