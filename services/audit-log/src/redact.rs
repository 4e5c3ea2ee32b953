//! Redaction of secrets in recorded payloads: JSON, truncated JSON, or other text.
//!
//! A payload may be truncated, framed as an event stream, or have JSON inside a string, so no
//! function relies on valid JSON.

use std::borrow::Cow;

use vmcp_audit::PayloadExcerpt;
use vmcp_wire::{parse_json_string, write_json_string};

/// Replacement of a secret.
const REDACTED: &str = "[redacted]";

/// Mark at the end of truncated text.
const TRUNCATION_MARK: &str = "…[cut]";

/// Words that mark a name as that of a secret.
const SENSITIVE_WORDS: [&str; 8] =
    ["password", "token", "secret", "key", "auth", "credential", "private", "passwd"];

/// Characters between a name, its separator and the value.
const BLANKS: [char; 2] = [' ', '\t'];

/// Maximum depth of JSON inside strings inside JSON. Deeper strings with escaped quotes are
/// redacted as a whole.
const MAX_NESTING: usize = 4;

/// Secret that follows a word.
struct SecretMatch<'a> {
    /// Text between the word and the secret.
    separator: &'a str,
    /// Secret and the text after it.
    value: &'a str,
    /// Returns whether a character ends the secret.
    is_end: fn(char) -> bool,
}

/// Returns the recorded beginning of a request or response, redacted, with a mark if it is
/// truncated.
pub(crate) fn excerpt(data: &PayloadExcerpt) -> String {
    let mut clean = redact_text(&decode_lossy(data));
    if data.truncated || clean.len() > data.limit {
        clean.truncate(floor_char_boundary(&clean, data.limit));
        clean.push_str(TRUNCATION_MARK);
    }
    clean
}

/// Returns an error message, redacted: it may quote the request.
pub(crate) fn message(data: &PayloadExcerpt) -> String {
    let mut clean = redact_text(&decode_lossy(data));
    clean.truncate(floor_char_boundary(&clean, data.limit));
    clean
}

/// Decodes the payload as text. Drops a character that the limit cut in two instead of replacing
/// it.
fn decode_lossy(data: &PayloadExcerpt) -> Cow<'_, str> {
    match std::str::from_utf8(&data.prefix) {
        Err(error) if data.truncated && error.error_len().is_none() => {
            String::from_utf8_lossy(&data.prefix[..error.valid_up_to()])
        }
        _ => String::from_utf8_lossy(&data.prefix),
    }
}

/// Redacts the values of members with sensitive names, bearer tokens and JWTs.
fn redact_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    redact_scan(text, 0, &mut out);
    out
}

/// Returns the last character boundary at or before `limit`.
fn floor_char_boundary(text: &str, limit: usize) -> usize {
    (0..=limit.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

/// Redacts string literal by string literal.
fn redact_scan(text: &str, depth: usize, out: &mut String) {
    let mut rest = text;
    while let Some(at) = rest.find('"') {
        let (before, literal) = rest.split_at(at);
        redact_tokens(before, out);
        let (literal, after) = literal.split_at(literal_end(literal));
        let value = after.trim_start().strip_prefix(':').map(str::trim_start);
        match value {
            Some(value) if is_sensitive(&unescape(literal)) => {
                out.push_str(literal);
                out.push_str(":\"");
                out.push_str(REDACTED);
                out.push('"');
                rest = &value[value_end(value)..];
            }
            Some(_) => {
                out.push_str(literal);
                rest = after;
            }
            None => {
                // An unquoted name, as in YAML.
                if names_secret(before) {
                    out.push('"');
                    out.push_str(REDACTED);
                    out.push('"');
                } else {
                    redact_literal(literal, depth, out);
                }
                rest = after;
            }
        }
    }
    redact_tokens(rest, out);
}

/// Redacts a literal that is a value, including JSON inside it.
fn redact_literal(literal: &str, depth: usize, out: &mut String) {
    if !literal.contains('\\') {
        redact_tokens(literal, out);
        return;
    }
    if depth == MAX_NESTING {
        out.push('"');
        out.push_str(REDACTED);
        out.push('"');
        return;
    }
    let inside = unescape(literal);
    let mut clean = String::with_capacity(inside.len());
    redact_scan(&inside, depth + 1, &mut clean);
    if clean == inside {
        out.push_str(literal);
        return;
    }
    let mut quoted = Vec::with_capacity(clean.len() + 2);
    write_json_string(&clean, &mut quoted);
    out.push_str(&String::from_utf8_lossy(&quoted));
}

/// Unescapes a literal, also one that is truncated or has escapes that are not of JSON.
fn unescape(literal: &str) -> Cow<'_, str> {
    if let Some(value) = parse_json_string(literal.as_bytes()) {
        return value;
    }
    let inside = literal.strip_prefix('"').unwrap_or(literal);
    // Up to the last position that does not cut an escape in two.
    for cut in 0..=12 {
        let Some(shorter) = inside.len().checked_sub(cut).and_then(|end| inside.get(..end)) else {
            continue;
        };
        if let Some(value) = parse_json_string(format!("\"{shorter}\"").as_bytes()) {
            return Cow::Owned(value.into_owned());
        }
    }
    Cow::Owned(inside.replace("\\\"", "\""))
}

fn is_sensitive(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SENSITIVE_WORDS.iter().any(|word| name.contains(word))
}

/// Returns the end of the literal at the beginning of `text`, after its closing quote: a character
/// boundary.
fn literal_end(text: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Returns the end of the value at the beginning of `text`: a character boundary.
fn value_end(text: &str) -> usize {
    let mut open = 0_usize;
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        let step = match rest.as_bytes().first() {
            Some(b'"') => literal_end(rest),
            Some(b'{' | b'[') => {
                open += 1;
                1
            }
            Some(b'}' | b']' | b',' | b'\n' | b'\r') if open == 0 => return at,
            Some(b'}' | b']') => {
                open -= 1;
                1
            }
            _ => rest.chars().next().map_or(1, char::len_utf8),
        };
        at += step;
        if open == 0 && matches!(rest.as_bytes().first(), Some(b'"' | b'}' | b']')) {
            return at;
        }
    }
    text.len()
}

/// Redacts tokens in text outside of names.
fn redact_tokens(text: &str, out: &mut String) {
    let mut rest = text;
    while let Some(at) = rest.find(is_token_char) {
        let (before, word) = rest.split_at(at);
        out.push_str(before);
        let end = word.find(|c| !is_token_char(c)).unwrap_or(word.len());
        let (word, after) = word.split_at(end);
        out.push_str(if is_jwt(word) { REDACTED } else { word });
        rest = after;
        let Some(SecretMatch { separator, value, is_end }) = SecretMatch::find(word, after) else {
            continue;
        };
        out.push_str(separator);
        let end = value.find(is_end).unwrap_or(value.len());
        if end > 0 {
            out.push_str(REDACTED);
        }
        rest = &value[end..];
    }
    out.push_str(rest);
}

impl<'a> SecretMatch<'a> {
    /// Finds the secret at the beginning of `after`, the text after a word.
    fn find(word: &str, after: &'a str) -> Option<Self> {
        let of = |value: &'a str, is_end| {
            let separator = after.get(..after.len() - value.len())?;
            Some(Self { separator, value, is_end })
        };
        if word.eq_ignore_ascii_case("bearer") && after.starts_with(' ') {
            return of(after.trim_start_matches(' '), ends_secret);
        }
        // Password in a URL (RFC 3986 section 3.2.1).
        if let Some(value) = after.strip_prefix(':').filter(|_| is_user(word)) {
            let end = value.find(|c| c == '@' || ends_authority(c))?;
            return of(value, |c| c == '@').filter(|_| value[end..].starts_with('@'));
        }
        let value = after.trim_start_matches(BLANKS).strip_prefix(['=', ':']);
        let value = value.filter(|_| is_sensitive(word))?.trim_start_matches(BLANKS);
        if let Some(quoted) = value.strip_prefix('\'') {
            return of(quoted, |c| matches!(c, '\'' | '"' | '\n'));
        }
        match value.split_once(' ') {
            // The next word redacts the bearer token.
            Some((scheme, _)) if scheme.eq_ignore_ascii_case("bearer") => None,
            Some((scheme, value)) if scheme.eq_ignore_ascii_case("basic") => {
                of(value.trim_start_matches(' '), ends_secret)
            }
            _ => of(value, ends_secret),
        }
    }
}

/// Returns whether a text ends with the name of a secret and a separator.
fn names_secret(text: &str) -> bool {
    let name = text.trim_end().strip_suffix(['=', ':']).map(str::trim_end);
    let word = |name: &str| name.rsplit(|c| !is_token_char(c)).next().is_some_and(is_sensitive);
    name.is_some_and(word)
}

/// Returns whether a word is the user before a password in a URL.
fn is_user(word: &str) -> bool {
    word.strip_prefix("//").is_some_and(|user| !user.contains('/'))
}

fn ends_authority(c: char) -> bool {
    ends_secret(c) || matches!(c, '/' | '?' | '#')
}

/// Alphabet of names, and of tokens without `=` (RFC 6750 section 2.1).
fn is_token_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_' | '~' | '+' | '/' | '%')
}

fn ends_secret(c: char) -> bool {
    c.is_whitespace()
        || matches!(c, '&' | ';' | ',' | '"' | '\'' | '<' | '>' | '\\' | ')' | '}' | ']')
}

/// Returns whether a word is a JSON object in base64url followed by a dot (RFC 7519 section 3).
fn is_jwt(word: &str) -> bool {
    word.len() > 16
        && word
            .match_indices("eyJ")
            .any(|(at, _)| word.get(at..).is_some_and(|token| token.contains('.')))
}

#[cfg(test)]
mod tests;
