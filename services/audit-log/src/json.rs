//! JSON objects, written member by member.

use std::fmt::Display;
use std::io::Write;
use std::net::IpAddr;

use vmcp_core::is_invisible;
use vmcp_wire::write_json_string;

/// JSON object under construction. A member without a value is left out.
pub(crate) struct Object<'a> {
    pub(crate) out: &'a mut Vec<u8>,
    empty: bool,
}

impl<'a> Object<'a> {
    /// Appends an object to `out`.
    pub(crate) fn write(out: &'a mut Vec<u8>, fill: impl FnOnce(&mut Object<'_>)) {
        out.push(b'{');
        fill(&mut Object { out, empty: true });
        out.push(b'}');
    }

    /// Writes the name of a member; the caller appends the value. Names are constants and need no
    /// escapes.
    #[expect(
        clippy::inline_always,
        reason = "names of known length are copied by a few instructions"
    )]
    #[inline(always)]
    pub(crate) fn name(&mut self, name: &str) {
        self.out.reserve(name.len() + 4);
        self.out.extend_from_slice(if self.empty { b"\"" } else { b",\"" });
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
        self.empty = false;
    }

    pub(crate) fn text<'t>(&mut self, name: &str, value: impl Into<Option<&'t str>>) {
        if let Some(value) = value.into() {
            self.name(name);
            let begin = self.out.len();
            write_json_string(value, self.out);
            if !value.is_ascii() {
                escape_from(begin, self.out);
            }
        }
    }

    /// Writes a constant string, which needs no escapes.
    pub(crate) fn literal(&mut self, name: &str, literal: &'static str) {
        self.name(name);
        self.out.push(b'"');
        self.out.extend_from_slice(literal.as_bytes());
        self.out.push(b'"');
    }

    /// Writes a number or a boolean.
    pub(crate) fn display(&mut self, name: &str, value: Option<impl Display>) {
        if let Some(value) = value {
            self.name(name);
            // Writing to memory cannot fail.
            _ = write!(self.out, "{value}");
        }
    }

    pub(crate) fn number(&mut self, name: &str, value: Option<u64>) {
        if let Some(value) = value {
            self.name(name);
            write_decimal(value, self.out);
        }
    }

    /// Writes an IP address. Every line has one, so IPv4 bypasses the slower formatter.
    pub(crate) fn address(&mut self, name: &str, address: IpAddr) {
        self.name(name);
        self.out.push(b'"');
        match address {
            IpAddr::V4(address) => {
                for (at, octet) in address.octets().into_iter().enumerate() {
                    if at > 0 {
                        self.out.push(b'.');
                    }
                    write_decimal(octet.into(), self.out);
                }
            }
            // Writing to memory cannot fail.
            IpAddr::V6(address) => _ = write!(self.out, "{address}"),
        }
        self.out.push(b'"');
    }

    pub(crate) fn object(&mut self, name: &str, fill: impl FnOnce(&mut Object<'_>)) {
        self.name(name);
        Object::write(self.out, fill);
    }
}

/// Replaces invisible characters at the end of `out` by JSON escapes: the log is read in terminals
/// too. The escaped JSON has the same value.
fn escape_from(begin: usize, out: &mut Vec<u8>) {
    let Some(text) = out.get(begin..).and_then(|text| std::str::from_utf8(text).ok()) else {
        return;
    };
    if !text.chars().any(is_invisible) {
        return;
    }
    let text = text.to_owned();
    out.truncate(begin);
    for character in text.chars() {
        if is_invisible(character) {
            for unit in character.encode_utf16(&mut [0; 2]) {
                // Writing to memory cannot fail.
                _ = write!(out, "\\u{unit:04x}");
            }
        } else {
            out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        }
    }
}

fn write_decimal(mut number: u64, out: &mut Vec<u8>) {
    // The largest number has 20 digits.
    let mut buffer = [b'0'; 20];
    let mut used = 0;
    for digit in buffer.iter_mut().rev() {
        *digit += (number % 10) as u8;
        number /= 10;
        used += 1;
        if number == 0 {
            break;
        }
    }
    out.extend(&buffer[buffer.len() - used..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_are_written_like_text() {
        let (mut words, mut texts) = (Vec::new(), Vec::new());
        Object::write(&mut words, |members| members.literal("a", "b c"));
        Object::write(&mut texts, |members| members.text("a", "b c"));
        assert_eq!(words, texts);
    }

    #[test]
    fn escapes_invisible_characters() {
        let text = "a\u{202e}b\u{200b}é\u{e0041}\n\"";
        let mut out = Vec::new();
        Object::write(&mut out, |members| members.text("n", text));
        let line = String::from_utf8(out).unwrap();
        assert_eq!(line, r#"{"n":"a\u202eb\u200bé\udb40\udc41\n\""}"#);
        let read: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(read["n"], text);
    }

    #[test]
    fn numbers_and_addresses_match_their_display() {
        for number in [0, 7, 10, 4096, u64::MAX - 1, u64::MAX] {
            let mut out = Vec::new();
            Object::write(&mut out, |members| members.number("n", Some(number)));
            assert_eq!(String::from_utf8(out), Ok(format!("{{\"n\":{number}}}")));
        }
        for address in ["127.0.0.1", "255.10.0.99", "::1", "2001:db8::ff00:42:8329"] {
            let mut out = Vec::new();
            Object::write(&mut out, |members| members.address("a", address.parse().unwrap()));
            assert_eq!(String::from_utf8(out), Ok(format!("{{\"a\":\"{address}\"}}")));
        }
    }
}
