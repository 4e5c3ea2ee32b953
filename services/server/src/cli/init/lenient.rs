//! JSON with comments and trailing commas, which editors allow in their settings.

use serde_json::Value;

/// Reads it.
pub(super) fn parse(text: &str) -> Result<Value, serde_json::Error> {
    serde_json::from_str(&strict(text))
}

/// The text with comments and trailing commas replaced by spaces: positions stay.
fn strict(text: &str) -> String {
    let mut out: Vec<char> = text.trim_start_matches('\u{feff}').chars().collect();
    let mut comma = None;
    let mut at = 0;
    while at < out.len() {
        let next = out.get(at + 1).copied();
        let end = match (out[at], next) {
            ('"', _) => after_string(&out, at),
            ('/', Some('/')) => blank(&mut out, at, |text, at| text[at] == '\n'),
            ('/', Some('*')) => blank(&mut out, at, |text, at| text[at - 2..at] == ['*', '/']),
            (space, _) if space.is_whitespace() => at + 1,
            ('}' | ']', _) => {
                if let Some(comma) = comma {
                    out[comma] = ' ';
                }
                at + 1
            }
            _ => at + 1,
        };
        let seen = out[at];
        if !seen.is_whitespace() {
            comma = (seen == ',').then_some(at);
        }
        at = end;
    }
    out.into_iter().collect()
}

/// Where a string that begins at `at` has ended.
fn after_string(text: &[char], at: usize) -> usize {
    let mut end = at + 1;
    while let Some(c) = text.get(end) {
        match c {
            '"' => return end + 1,
            '\\' => end += 2,
            _ => end += 1,
        }
    }
    text.len()
}

/// Replaces a comment by spaces, up to where it `ends`. Line ends stay, so that lines keep their
/// numbers.
fn blank(text: &mut [char], at: usize, ends: impl Fn(&[char], usize) -> bool) -> usize {
    let start = at;
    // `/*/` does not end itself.
    let mut end = at + 4;
    if text[at + 1] == '/' {
        end = at + 2;
    }
    while end < text.len() && !ends(text, end) {
        end += 1;
    }
    let end = end.min(text.len());
    for c in &mut text[start..end] {
        if *c != '\n' {
            *c = ' ';
        }
    }
    end
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn comments_and_trailing_commas_are_read_over() {
        let text = r#"{
            // one
            "a": "no // comment, }", /* two, */ "b": [1, 2, /* three */ ],
            "c\"/*": {}, // four
        }"#;
        let read = parse(text).unwrap();
        assert_eq!(read, json!({"a": "no // comment, }", "b": [1, 2], "c\"/*": {}}));
    }

    #[test]
    fn what_is_left_open_is_an_error() {
        for text in ["/*", "/*/", "{\"a", "{} /", "\"\\", "//", "{,}x"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
