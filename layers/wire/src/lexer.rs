//! The grammar of RFC 8259, read from left to right without recursion or allocation.

use crate::{MAX_DEPTH, ScanErrorKind, Span, StringSpan};

/// Lexer at a position of JSON text. The text may be a prefix; then its end is not an error.
#[derive(Clone, Debug)]
pub(crate) struct Lexer<'a> {
    pub(crate) bytes: &'a [u8],
    /// Position, at most the length of `bytes`.
    pub(crate) at: usize,
    /// `true` if nothing follows `bytes`: the end of the text ends a number.
    whole: bool,
}

/// Reason of an early stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The bytes ran out.
    End,
    /// The bytes are wrong.
    Error(ScanErrorKind),
}

impl From<ScanErrorKind> for Stop {
    fn from(kind: ScanErrorKind) -> Self {
        Self::Error(kind)
    }
}

impl<'a> Lexer<'a> {
    /// Creates a lexer of a complete text.
    pub(crate) fn whole(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, whole: true }
    }

    /// Creates a lexer of a text of which `bytes` have arrived so far.
    pub(crate) fn prefix(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, whole: false }
    }

    /// Returns the next byte.
    #[inline]
    pub(crate) fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    /// Skips whitespace (RFC 8259 2).
    #[inline]
    pub(crate) fn space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    /// Returns the error of a byte that does not fit, or of bytes that ran out.
    #[cold]
    pub(crate) fn stop(&self) -> Stop {
        if self.at < self.bytes.len() { Stop::Error(self.syntax()) } else { Stop::End }
    }

    /// Returns [`ScanErrorKind::Syntax`] at this position.
    pub(crate) fn syntax(&self) -> ScanErrorKind {
        ScanErrorKind::Syntax { at: self.offset() }
    }

    /// Steps over `byte`.
    #[inline]
    pub(crate) fn expect(&mut self, byte: u8) -> Result<(), Stop> {
        if self.peek() != Some(byte) {
            return Err(self.stop());
        }
        self.at += 1;
        Ok(())
    }

    /// Checks that only whitespace follows.
    pub(crate) fn end(&mut self) -> Result<(), Stop> {
        self.space();
        if self.at == self.bytes.len() { Ok(()) } else { Err(self.stop()) }
    }

    /// Reads a member's name and steps over its colon to the value.
    #[inline]
    pub(crate) fn key(&mut self) -> Result<StringSpan, Stop> {
        let key = self.string()?;
        self.space();
        self.expect(b':')?;
        self.space();
        Ok(key)
    }

    /// Reads the object at this position, which `outer` containers enclose. `member` gets each name and must read its value.
    pub(crate) fn object(
        &mut self,
        outer: usize,
        mut member: impl FnMut(&mut Self, StringSpan) -> Result<(), Stop>,
    ) -> Result<Span, Stop> {
        let start = self.at;
        self.expect(b'{')?;
        if outer >= MAX_DEPTH {
            return Err(ScanErrorKind::TooDeep.into());
        }
        self.space();
        if self.peek() != Some(b'}') {
            loop {
                let key = self.key()?;
                member(self, key)?;
                self.space();
                if self.peek() != Some(b',') {
                    break;
                }
                self.at += 1;
                self.space();
            }
        }
        self.expect(b'}')?;
        Ok(Span::new(start, self.at))
    }

    /// Reads any value, which `outer` containers enclose. `escaped` of the result holds for strings only.
    #[inline]
    pub(crate) fn value(&mut self, outer: usize) -> Result<StringSpan, Stop> {
        match self.peek() {
            Some(b'"') => self.string(),
            Some(b'{' | b'[') => {
                let start = self.at;
                self.container(outer)?;
                Ok(StringSpan { span: Span::new(start, self.at), escaped: false })
            }
            _ => {
                let start = self.at;
                self.scalar()?;
                Ok(StringSpan { span: Span::new(start, self.at), escaped: false })
            }
        }
    }

    /// Skips an object or array with everything in it.
    fn container(&mut self, outer: usize) -> Result<(), Stop> {
        // One bit per open container, innermost lowest: whether it is an object.
        let mut open = 0u128;
        let mut depth = outer;
        loop {
            match self.peek() {
                Some(byte @ (b'{' | b'[')) => {
                    if depth == MAX_DEPTH {
                        return Err(ScanErrorKind::TooDeep.into());
                    }
                    depth += 1;
                    open = open << 1 | u128::from(byte == b'{');
                    self.at += 1;
                    self.space();
                    // '{' and '[' lie two below their counterparts.
                    if self.peek() != Some(byte + 2) {
                        if byte == b'{' {
                            self.key()?;
                        }
                        continue;
                    }
                }
                Some(b'"') => {
                    self.string()?;
                }
                _ => self.scalar()?,
            }
            if self.close(outer, &mut depth, &mut open)? {
                return Ok(());
            }
        }
    }

    /// Skips closing brackets and the comma after a value. Returns whether the outermost container was closed.
    #[inline]
    fn close(&mut self, outer: usize, depth: &mut usize, open: &mut u128) -> Result<bool, Stop> {
        while *depth > outer {
            let object = *open & 1 == 1;
            self.space();
            match self.peek() {
                Some(b',') => {
                    self.at += 1;
                    self.space();
                    if object {
                        self.key()?;
                    }
                    return Ok(false);
                }
                Some(b'}') if object => {}
                Some(b']') if !object => {}
                _ => return Err(self.stop()),
            }
            self.at += 1;
            *depth -= 1;
            *open >>= 1;
        }
        Ok(true)
    }

    /// Skips a number or one of the three words.
    fn scalar(&mut self) -> Result<(), Stop> {
        match self.peek() {
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.word(b"true"),
            Some(b'f') => self.word(b"false"),
            Some(b'n') => self.word(b"null"),
            _ => Err(self.stop()),
        }
    }

    fn word(&mut self, word: &[u8]) -> Result<(), Stop> {
        for &byte in word {
            self.expect(byte)?;
        }
        Ok(())
    }

    /// Skips a number (RFC 8259 6).
    fn number(&mut self) -> Result<(), Stop> {
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.digits()?;
        }
        if self.at == self.bytes.len() && !self.whole { Err(Stop::End) } else { Ok(()) }
    }

    fn digits(&mut self) -> Result<(), Stop> {
        let start = self.at;
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
        if self.at == start { Err(self.stop()) } else { Ok(()) }
    }

    /// Reads a string (RFC 8259 7) without lone surrogates.
    ///
    /// Names are short and have no escapes, so that case is read without a call.
    #[inline]
    pub(crate) fn string(&mut self) -> Result<StringSpan, Stop> {
        let start = self.at;
        self.expect(b'"')?;
        for _ in 0..4 {
            let Some(word) = word(self.bytes, self.at) else { break };
            let hits = special(word);
            self.at += before(hits);
            if hits != 0 {
                if self.peek() != Some(b'"') {
                    break;
                }
                self.at += 1;
                return Ok(StringSpan { span: Span::new(start, self.at), escaped: false });
            }
        }
        self.rest_of_string(start)
    }

    /// Goes on reading the string that began at `start`.
    #[inline(never)]
    fn rest_of_string(&mut self, start: usize) -> Result<StringSpan, Stop> {
        let mut escaped = false;
        loop {
            self.at += plain(&self.bytes[self.at..]);
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(StringSpan { span: Span::new(start, self.at), escaped });
                }
                Some(b'\\') => {
                    escaped = true;
                    self.escape()?;
                }
                _ => return Err(self.stop()),
            }
        }
    }

    fn escape(&mut self) -> Result<(), Stop> {
        let start = self.offset();
        self.at += 1;
        match self.peek() {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {
                self.at += 1;
                Ok(())
            }
            Some(b'u') => match self.unit()? {
                0xD800..=0xDBFF => self.low_surrogate(start),
                0xDC00..=0xDFFF => Err(ScanErrorKind::LoneSurrogate { at: start }.into()),
                _ => Ok(()),
            },
            _ => Err(self.stop()),
        }
    }

    /// Reads the second half of a pair that began at `start`.
    fn low_surrogate(&mut self, start: u32) -> Result<(), Stop> {
        let lone = ScanErrorKind::LoneSurrogate { at: start };
        for byte in *b"\\u" {
            match self.peek() {
                Some(found) if found == byte => self.at += 1,
                Some(_) => return Err(lone.into()),
                None => return Err(Stop::End),
            }
        }
        self.at -= 1;
        if let 0xDC00..=0xDFFF = self.unit()? { Ok(()) } else { Err(lone.into()) }
    }

    /// Reads the four digits after the `u` at this position.
    fn unit(&mut self) -> Result<u16, Stop> {
        self.at += 1;
        let mut unit = 0;
        for _ in 0..4 {
            let digit = match self.peek() {
                Some(byte @ b'0'..=b'9') => byte - b'0',
                Some(byte @ b'a'..=b'f') => byte - b'a' + 10,
                Some(byte @ b'A'..=b'F') => byte - b'A' + 10,
                _ => return Err(self.stop()),
            };
            unit = unit << 4 | u16::from(digit);
            self.at += 1;
        }
        Ok(unit)
    }

    fn offset(&self) -> u32 {
        Span::new(self.at, self.at).start
    }
}

/// Returns the number of leading bytes that are neither quote nor backslash nor control character.
///
/// Blocks that the compiler turns into vector code come first, then words of eight bytes.
pub(crate) fn plain(bytes: &[u8]) -> usize {
    let mut at = plain_blocks(bytes);
    while let Some(word) = word(bytes, at) {
        let hits = special(word);
        at += before(hits);
        if hits != 0 {
            return at;
        }
    }
    let rest = &bytes[at..];
    at + rest.iter().position(|&byte| is_special(byte)).unwrap_or(rest.len())
}

/// Returns the number of leading bytes in whole blocks without a special byte.
#[inline]
fn plain_blocks(bytes: &[u8]) -> usize {
    const BLOCK: usize = 32;
    let (blocks, _) = bytes.as_chunks::<BLOCK>();
    let clean =
        |block: &[u8; BLOCK]| !block.iter().fold(false, |hit, &byte| hit | is_special(byte));
    blocks.iter().take_while(|block| clean(block)).count() * BLOCK
}

/// Returns the eight bytes at `at`, the first one lowest.
#[inline]
fn word(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk::<8>().map(|word| u64::from_le_bytes(*word))
}

/// Returns the number of bytes of a word before the first of `hits`.
#[inline]
fn before(hits: u64) -> usize {
    hits.trailing_zeros() as usize / 8
}

/// Returns `true` for the quote, the backslash and control characters: with one bit flipped, the quote and the control
/// characters, and no others, are below 0x21.
#[inline]
fn is_special(byte: u8) -> bool {
    byte ^ 0x02 < 0x21 || byte == b'\\'
}

/// Returns the high bit of each byte of `word` that is special. Bits above the lowest one may be wrong, as borrows carry
/// upward.
#[inline]
fn special(word: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHS: u64 = 0x8080_8080_8080_8080;
    // As in `is_special`. Neither exclusive or touches high bits, so one mask is for both.
    let quotes_or_controls = (word ^ (ONES * 0x02)).wrapping_sub(ONES * 0x21);
    let backslashes = (word ^ (ONES * 0x5C)).wrapping_sub(ONES);
    (quotes_or_controls | backslashes) & !word & HIGHS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stops_at_each_special_byte() {
        for byte in 0..=u8::MAX {
            for length in [1, 7, 8, 9, 31, 32, 33, 95, 96, 97, 200] {
                for at in 0..length {
                    let mut bytes = vec![b'a'; length];
                    bytes[at] = byte;
                    let special = matches!(byte, b'"' | b'\\' | 0..0x20);
                    assert_eq!(plain(&bytes), if special { at } else { length }, "{byte} at {at}");
                }
            }
        }
    }

    #[test]
    fn stops_at_the_first_of_several_special_bytes() {
        for (first, second) in [(b'"', b'\\'), (0x1F, b'"'), (b'\\', 0), (b' ', b'"'), (b'!', b'"')]
        {
            let bytes = [b'x', first, second, b'y', b'z', 0xFF, 0x80, b'#', b'"'];
            let expected = bytes.iter().position(|&byte| is_special(byte)).unwrap();
            assert_eq!(plain(&bytes), expected);
        }
    }
}
