//! Texts and characters as Go literals.

/// Returns a text as a literal in double quotes.
pub(crate) fn quote(text: &str) -> String {
    quoted(text.chars(), text.len(), '"', false)
}

/// Returns a text as a literal in double quotes that consists of ASCII.
pub(super) fn quote_ascii(text: &str) -> String {
    quoted(text.chars(), text.len(), '"', true)
}

/// Returns a character as a literal in single quotes.
pub(super) fn quote_character(character: char, is_ascii: bool) -> String {
    quoted(std::iter::once(character), character.len_utf8(), '\'', is_ascii)
}

/// Returns whether a text can be a literal in backquotes on one line.
pub(super) fn can_backquote(text: &str) -> bool {
    text.chars().all(|it| match it {
        '\t' => true,
        '`' | '\x7f' | '\u{feff}' => false,
        other => other >= ' ',
    })
}

/// Returns whether a character is a letter, mark, number, punctuation, symbol or the space, as Go defines it.
pub(super) fn is_printable(character: char) -> bool {
    if matches!(character, '"' | '\'' | '\\') {
        return true;
    }
    // After a first character, the debug form escapes what is not printable, and does not escape combining marks.
    let mut pair = String::from("a");
    pair.push(character);
    let mut escaped = pair.escape_debug().skip(1);
    escaped.next() == Some(character) && escaped.next().is_none()
}

fn quoted(
    characters: impl Iterator<Item = char>,
    bytes: usize,
    quote: char,
    is_ascii: bool,
) -> String {
    let mut literal = String::with_capacity(bytes + 2);
    literal.push(quote);
    for character in characters {
        match character {
            '\\' => literal.push_str("\\\\"),
            _ if character == quote => literal.extend(['\\', quote]),
            ' '..='~' => literal.push(character),
            '\x07' => literal.push_str("\\a"),
            '\x08' => literal.push_str("\\b"),
            '\x0c' => literal.push_str("\\f"),
            '\n' => literal.push_str("\\n"),
            '\r' => literal.push_str("\\r"),
            '\t' => literal.push_str("\\t"),
            '\x0b' => literal.push_str("\\v"),
            _ if !character.is_ascii() && !is_ascii && is_printable(character) => {
                literal.push(character);
            }
            _ => literal.push_str(&code_escape(character)),
        }
    }
    literal.push(quote);
    literal
}

fn code_escape(character: char) -> String {
    match u32::from(character) {
        code @ 0..=0x7f => format!("\\x{code:02x}"),
        code @ 0x80..=0xffff => format!("\\u{code:04x}"),
        code => format!("\\U{code:08x}"),
    }
}
