//! Objects that all readers understand alike, whatever is in them: no member stands twice at any depth.

use crate::lexer::{Lexer, Stop};
use crate::{Fault, MAX_DEPTH, Span, Text};

/// From how many members on names are sorted to be told apart, instead of compared with each other.
const SORTED: usize = 32;

/// For how many members there is room at first.
const USUAL: usize = 24;

/// From how many characters on a number without an exponent may be too large for double precision.
const LONG: usize = 300;

/// Result of [`distinct`]: the members of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Distinct {
    /// The members of the object itself, in order.
    pub members: Vec<Place>,
    /// The numbers, at any depth, that double precision may have no value for: those with an exponent, and
    /// those of very many digits.
    pub wide: Vec<Span>,
}

/// Position of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its name.
    pub key: Text,
    /// The JSON text of its value, without whitespace around it.
    pub value: Span,
}

/// Reads `text`, one JSON object of at most `most` members, those of inner objects included, in which no
/// object has a member twice. Otherwise it is held to the same rules as by [`validate`](crate::validate).
///
/// # Errors
/// [`Fault::NotAnObject`], [`Fault::Duplicate`], [`Fault::Crowded`] with more than `most` members, and what is
/// wrong with any text.
pub fn distinct(text: &str, most: usize) -> Result<Distinct, Fault> {
    let bytes = text.as_bytes();
    u32::try_from(bytes.len()).map_err(|_| Fault::TooLong)?;
    let mut lexer = Lexer::whole(bytes);
    lexer.space();
    if lexer.peek() != Some(b'{') {
        crate::validate(bytes)?;
        return Err(Fault::NotAnObject);
    }
    let mut found = Distinct { members: Vec::with_capacity(USUAL), wide: Vec::new() };
    let mut inner = Inner { names: Vec::new(), left: most, wide: &mut found.wide };
    let (members, mut marks) = (&mut found.members, 0);
    let read = lexer.object(0, |lexer, key| {
        inner.count()?;
        let mark = mark(bytes, key);
        let alike = marks & mark != 0 && members.len() < SORTED;
        if alike && members.iter().any(|other| same(bytes, other.key, key)) {
            return Err(twice(key));
        }
        marks |= mark;
        let value = inner.value(lexer, 1)?;
        members.push(Place { key, value });
        Ok(())
    });
    crate::envelope::finish(read.map(drop), &mut lexer)?;
    if members.len() > SORTED {
        sorted(bytes, members.iter().map(|member| member.key))?;
    }
    Ok(found)
}

/// The inside of the object.
struct Inner<'a> {
    /// The names of the members so far of each object that is open.
    names: Vec<Text>,
    /// Number of members that may still follow.
    left: usize,
    wide: &'a mut Vec<Span>,
}

impl Inner<'_> {
    fn count(&mut self) -> Result<(), Stop> {
        self.left = self.left.checked_sub(1).ok_or(Fault::Crowded)?;
        Ok(())
    }

    fn value(&mut self, lexer: &mut Lexer<'_>, outer: usize) -> Result<Span, Stop> {
        match lexer.peek() {
            Some(b'{') => self.object(lexer, outer),
            Some(b'[') => self.array(lexer, outer),
            Some(b'-' | b'0'..=b'9') => {
                let number = lexer.value(outer)?.span;
                let digits = number.of(lexer.bytes);
                if digits.len() > LONG || digits.iter().any(|byte| matches!(byte, b'e' | b'E')) {
                    self.wide.push(number);
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
            let names = self.names.get(first..).unwrap_or_default();
            let mark = mark(bytes, key);
            let alike = marks & mark != 0 && names.len() < SORTED;
            if alike && names.iter().any(|other| same(bytes, *other, key)) {
                return Err(twice(key));
            }
            marks |= mark;
            self.names.push(key);
            self.value(lexer, outer + 1).map(drop)
        })?;
        if self.names.len() > first + SORTED {
            sorted(bytes, self.names.drain(first..))?;
        }
        self.names.truncate(first);
        Ok(span)
    }

    fn array(&mut self, lexer: &mut Lexer<'_>, outer: usize) -> Result<Span, Stop> {
        let start = lexer.at;
        lexer.expect(b'[')?;
        if outer >= MAX_DEPTH {
            return Err(Fault::TooDeep.into());
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

fn twice(key: Text) -> Stop {
    Fault::Duplicate { at: key.span.start }.into()
}

/// Bits of which equal names share one at least, and few others do.
fn mark(bytes: &[u8], key: Text) -> u64 {
    match key.span.of(bytes) {
        // Behind the opening quote and before the closing one.
        [_, first, .., last, _] if !key.escaped => {
            1 << ((key.span.len() * 5 + usize::from(*first) * 3 + usize::from(*last)) % 64)
        }
        _ => u64::MAX,
    }
}

fn same(bytes: &[u8], one: Text, other: Text) -> bool {
    if one.escaped || other.escaped {
        return one.read(bytes) == other.read(bytes);
    }
    one.span.len() == other.span.len() && one.span.of(bytes) == other.span.of(bytes)
}

/// Tells many names apart, however they are written.
fn sorted(bytes: &[u8], keys: impl Iterator<Item = Text>) -> Result<(), Fault> {
    let mut names: Vec<_> = keys.map(|key| (key.read(bytes), key.span.start)).collect();
    names.sort_unstable();
    let twice =
        names.windows(2).find(|pair| matches!(pair, [(one, _), (other, _)] if one == other));
    match twice {
        Some([_, (_, at)]) => Err(Fault::Duplicate { at: *at }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<(String, String)> {
        let found = distinct(text, 64).unwrap();
        let bytes = text.as_bytes();
        let read = |member: &Place| {
            let value = std::str::from_utf8(member.value.of(bytes)).unwrap();
            (member.key.read(bytes).into_owned(), value.to_owned())
        };
        found.members.iter().map(read).collect()
    }

    fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
        expected.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect()
    }

    #[test]
    fn finds_the_outermost_members_in_their_order() {
        let text = r#" { "b" : [ 1 , {"c":2} ] ,"\u0061": -1.5e2, "":{} } "#;
        let expected = pairs(&[("b", r#"[ 1 , {"c":2} ]"#), ("a", "-1.5e2"), ("", "{}")]);
        assert_eq!(names(text), expected);
        assert_eq!(names("{}"), []);
    }

    #[test]
    fn refuses_a_duplicate_at_any_depth_however_it_is_written() {
        for text in [
            r#"{"a":1,"a":1}"#,
            r#"{"a":1,"\u0061":1}"#,
            r#"{"x":[[{"a":1,"b":{"c":2,"d":[],"\u0063":3}}]]}"#,
        ] {
            assert!(matches!(distinct(text, 64), Err(Fault::Duplicate { .. })), "{text}");
        }
        assert!(distinct(r#"{"a":{"a":{"b":1}},"b":[{"a":1},{"a":1}]}"#, 64).is_ok());
    }

    #[test]
    fn tells_many_members_apart_too() {
        let object = |last: &str| {
            let members: Vec<_> = (0..100).map(|at| format!("\"{at}\":{at}")).collect();
            format!("{{{},{last}:0}}", members.join(","))
        };
        for (last, fault) in [("\"100\"", None), ("\"7\"", Some(())), ("\"\\u0037\"", Some(()))] {
            let (outer, inner) = (object(last), format!("{{\"in\":[{}]}}", object(last)));
            for text in [outer, inner] {
                let found = distinct(&text, 1000);
                let twice = matches!(found, Err(Fault::Duplicate { .. }));
                assert_eq!((found.is_ok(), twice), (fault.is_none(), fault.is_some()), "{text}");
            }
        }
    }

    #[test]
    fn counts_the_members_of_all_objects() {
        let text = r#"{"a":{"b":1},"c":[{"d":1}]}"#;
        assert!(distinct(text, 4).is_ok());
        assert_eq!(distinct(text, 3), Err(Fault::Crowded));
    }

    #[test]
    fn refuses_what_is_no_object_or_no_json() {
        for text in ["[]", "1", "\"a\""] {
            assert_eq!(distinct(text, 64), Err(Fault::NotAnObject), "{text}");
        }
        for text in
            ["", "{", "{}{}", "{\"a\":[1,]}", "{\"a\":[1}", "{\"a\":01}", "{\"a\":\"\u{1}\"}"]
        {
            assert!(matches!(distinct(text, 64), Err(Fault::Syntax { .. })), "{text}");
        }
        let half = distinct(r#"{"a":["\ud800"]}"#, 64);
        assert!(matches!(half, Err(Fault::LoneSurrogate { .. })), "{half:?}");
    }

    #[test]
    fn nesting_is_bounded_as_elsewhere() {
        for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
            let nested = |depth: usize| {
                let (open, close) = (open.repeat(depth), close.repeat(depth));
                format!("{{\"a\":{open}1{close}}}")
            };
            assert!(distinct(&nested(crate::MAX_DEPTH - 1), 1000).is_ok());
            assert_eq!(distinct(&nested(crate::MAX_DEPTH), 1000), Err(Fault::TooDeep));
        }
    }

    #[test]
    fn numbers_that_may_be_too_large_are_told() {
        let long = "9".repeat(LONG + 1);
        let text = format!(r#"{{"a":1,"b":[1e2,{{"c":-2E-3}}],"d":{long},"e":"1e5"}}"#);
        let found = distinct(&text, 64).unwrap();
        let wide: Vec<_> = found.wide.iter().map(|span| span.of(text.as_bytes())).collect();
        assert_eq!(wide, [&b"1e2"[..], b"-2E-3", long.as_bytes()]);
    }
}
