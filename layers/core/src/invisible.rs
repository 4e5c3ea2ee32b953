//! Characters that a reader does not see, or that change how the text around them reads.

use std::borrow::Cow;
use std::fmt::Write;

/// Returns `true` for a character that is invisible or changes how the text around it reads: control characters,
/// bidirectional formatting (Unicode Standard Annex 9), line separators, and characters that are ignored by default.
#[must_use]
pub fn is_invisible(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{ad}'
                | '\u{34f}'
                | '\u{61c}'
                | '\u{115f}'..='\u{1160}'
                | '\u{17b4}'..='\u{17b5}'
                | '\u{180b}'..='\u{180f}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{2800}'
                | '\u{3164}'
                | '\u{fe00}'..='\u{fe0f}'
                | '\u{feff}'
                | '\u{ffa0}'
                | '\u{fff0}'..='\u{fffb}'
                | '\u{1bca0}'..='\u{1bca3}'
                | '\u{1d173}'..='\u{1d17a}'
                | '\u{e0000}'..='\u{e0fff}'
        )
}

/// Writes [invisible](is_invisible) characters of a text as `\u{202e}`, for people who are shown it.
#[must_use]
pub fn escape_invisible(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_invisible) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        if is_invisible(character) {
            // Writing into memory does not fail.
            _ = write!(escaped, "{}", character.escape_unicode());
        } else {
            escaped.push(character);
        }
    }
    Cow::Owned(escaped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_invisible_characters() {
        for (text, shown) in [
            ("Editor – Ünïcode 編集 🚀", "Editor – Ünïcode 編集 🚀"),
            ("a\u{202e}b", "a\\u{202e}b"),
            ("a\u{200b}b\u{2066}c\u{2069}", "a\\u{200b}b\\u{2066}c\\u{2069}"),
            ("a\u{e0041}", "a\\u{e0041}"),
            ("a\u{ad}b\u{3164}\u{feff}", "a\\u{ad}b\\u{3164}\\u{feff}"),
            ("a\nb\u{1b}[2J\u{85}", "a\\u{a}b\\u{1b}[2J\\u{85}"),
        ] {
            assert_eq!(escape_invisible(text), shown);
        }
        assert!(matches!(escape_invisible("plain"), Cow::Borrowed("plain")));
    }
}
