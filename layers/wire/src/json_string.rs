//! JSON string literals: reading, comparing and writing them.

use std::borrow::Cow;
use std::str::Chars;

use crate::lexer::{Lexer, plain};

/// Iterator over the unescaped characters of a literal.
#[derive(Clone, Debug)]
pub(crate) struct UnescapedChars<'a> {
    rest: Chars<'a>,
}

/// Returns the value of a JSON string literal with its quotes, or `None` if `string` is not such a literal, or has half of a
/// surrogate pair.
#[must_use]
pub fn parse_json_string(string: &[u8]) -> Option<Cow<'_, str>> {
    let mut lexer = Lexer::whole(string);
    let text = lexer.string().ok()?;
    (lexer.at == string.len()).then_some(())?;
    let inside = std::str::from_utf8(inside(string)).ok()?;
    Some(if text.escaped { UnescapedChars::new(inside).collect() } else { Cow::Borrowed(inside) })
}

/// Appends `text` to `out` as a JSON string literal with its quotes.
pub fn write_json_string(text: &str, out: &mut Vec<u8>) {
    out.reserve(text.len() + 2);
    out.push(b'"');
    let mut rest = text.as_bytes();
    loop {
        let (plain, special) = rest.split_at(plain(rest));
        out.extend_from_slice(plain);
        let Some((byte, behind)) = special.split_first() else { break };
        escape(*byte, out);
        rest = behind;
    }
    out.push(b'"');
}

fn escape(byte: u8, out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    match byte {
        b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
        0x08 => out.extend_from_slice(b"\\b"),
        0x0C => out.extend_from_slice(b"\\f"),
        b'\n' => out.extend_from_slice(b"\\n"),
        b'\r' => out.extend_from_slice(b"\\r"),
        b'\t' => out.extend_from_slice(b"\\t"),
        _ => {
            out.extend_from_slice(b"\\u00");
            out.extend_from_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
        }
    }
}

/// Returns the value of a scanned literal.
pub(crate) fn read(literal: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(inside(literal)) {
        Ok(inside) if inside.contains('\\') => UnescapedChars::new(inside).collect(),
        Ok(inside) => Cow::Borrowed(inside),
        Err(_) => String::from_utf8_lossy(inside(literal)),
    }
}

/// Returns `true` if a scanned literal has exactly this value.
pub(crate) fn is(literal: &[u8], expected: &str) -> bool {
    let inside = inside(literal);
    if memchr::memchr(b'\\', inside).is_none() {
        return inside == expected.as_bytes();
    }
    std::str::from_utf8(inside).is_ok_and(|inside| UnescapedChars::new(inside).eq(expected.chars()))
}

/// Returns the bytes between the quotes.
pub(crate) fn inside(literal: &[u8]) -> &[u8] {
    match literal {
        [b'"', inside @ .., b'"'] => inside,
        _ => &[],
    }
}

impl<'a> UnescapedChars<'a> {
    /// Creates the iterator for the text between the quotes.
    pub(crate) fn new(inside: &'a str) -> Self {
        Self { rest: inside.chars() }
    }

    fn unit(&mut self) -> u32 {
        let digits = self.rest.by_ref().take(4);
        digits.filter_map(|digit| digit.to_digit(16)).fold(0, |unit, digit| unit << 4 | digit)
    }

    fn code_point(&mut self) -> char {
        let mut code = self.unit();
        if let 0xD800..=0xDBFF = code {
            let mut behind = self.clone();
            if behind.rest.next() == Some('\\') && behind.rest.next() == Some('u') {
                let low = behind.unit();
                if let 0xDC00..=0xDFFF = low {
                    *self = behind;
                    code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
                }
            }
        }
        char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)
    }
}

impl Iterator for UnescapedChars<'_> {
    type Item = char;

    fn next(&mut self) -> Option<char> {
        let first = self.rest.next()?;
        if first != '\\' {
            return Some(first);
        }
        Some(match self.rest.next()? {
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'u' => self.code_point(),
            itself => itself,
        })
    }
}

#[cfg(test)]
mod tests;
