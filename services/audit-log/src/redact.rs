//! Recorded data without its secrets, whether it is JSON, the beginning of some, or other text.
//!
//! What is recorded may be cut off, framed as an event stream, or hold JSON inside a string, so nothing
//! here relies on the text being valid.

use std::borrow::Cow;

use vmcp_audit::Data;
use vmcp_wire::{quote, unquote};

/// What stands in the place of a secret.
const REDACTED: &str = "[redacted]";

/// What follows text that was cut.
const TRUNCATION_MARK: &str = "…[cut]";

/// A name that contains one of these belongs to a secret.
const SENSITIVE_WORDS: [&str; 8] =
    ["password", "token", "secret", "key", "auth", "credential", "private", "passwd"];

/// What may stand between a name, what separates it from its value, and that.
const BLANKS: [char; 2] = [' ', '\t'];

/// How deep JSON inside strings inside JSON is looked into; deeper, a string with escaped quotes is
/// taken out as a whole.
const MAX_NESTING: usize = 4;

/// A secret that follows a word.
struct SecretMatch<'a> {
    /// What stands between.
    separator: &'a str,
    /// It, and what follows.
    value: &'a str,
    /// What it does not have in it.
    is_end: fn(char) -> bool,
}

/// The beginning of a request or an answer as it is written: without its secrets, and with a mark if
/// that is not all of it.
pub(crate) fn excerpt(data: &Data) -> String {
    let mut clean = redact_text(&decode_lossy(data));
    if data.cut || clean.len() > data.limit {
        clean.truncate(floor_char_boundary(&clean, data.limit));
        clean.push_str(TRUNCATION_MARK);
    }
    clean
}

/// An error's message, which may quote what was asked, without its secrets.
pub(crate) fn message(data: &Data) -> String {
    let mut clean = redact_text(&decode_lossy(data));
    clean.truncate(floor_char_boundary(&clean, data.limit));
    clean
}

/// As text. A character that the limit cut in two is left out rather than replaced.
fn decode_lossy(data: &Data) -> Cow<'_, str> {
    match std::str::from_utf8(&data.start) {
        Err(error) if data.cut && error.error_len().is_none() => {
            String::from_utf8_lossy(data.start.get(..error.valid_up_to()).unwrap_or_default())
        }
        _ => String::from_utf8_lossy(&data.start),
    }
}

/// `text` without the values of members with telling names, bearer tokens and JWTs.
fn redact_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    redact_scan(text, 0, &mut out);
    out
}

/// The last place at or before `limit` at which `text` can be cut.
fn floor_char_boundary(text: &str, limit: usize) -> usize {
    (0..=limit.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

/// Goes from string literal to string literal.
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
                rest = value.get(value_end(value)..).unwrap_or_default();
            }
            Some(_) => {
                out.push_str(literal);
                rest = after;
            }
            None => {
                // A name without quotes, as in YAML.
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

/// A literal that is a value: JSON inside it is looked into as well.
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
    quote(&clean, &mut quoted);
    out.push_str(&String::from_utf8_lossy(&quoted));
}

/// The value of a literal, also of one that is cut off or has escapes that JSON does not know.
fn unescape(literal: &str) -> Cow<'_, str> {
    if let Some(value) = unquote(literal.as_bytes()) {
        return value;
    }
    let inside = literal.strip_prefix('"').unwrap_or(literal);
    // Up to the last place at which an escape is not cut in two.
    for cut in 0..=12 {
        let Some(shorter) = inside.len().checked_sub(cut).and_then(|end| inside.get(..end)) else {
            continue;
        };
        if let Some(value) = unquote(format!("\"{shorter}\"").as_bytes()) {
            return Cow::Owned(value.into_owned());
        }
    }
    Cow::Owned(inside.replace("\\\"", "\""))
}

fn is_sensitive(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SENSITIVE_WORDS.iter().any(|word| name.contains(word))
}

/// Where the literal that `text` begins with ends, its closing quote included.
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

/// Where the value that `text` begins with ends.
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

/// Text outside of names: takes out what looks like a token.
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
        rest = value.get(end..).unwrap_or_default();
    }
    out.push_str(rest);
}

impl<'a> SecretMatch<'a> {
    /// The one that what stands `after` the word begins with.
    fn find(word: &str, after: &'a str) -> Option<Self> {
        let of = |value: &'a str, is_end| {
            let separator = after.get(..after.len() - value.len())?;
            Some(Self { separator, value, is_end })
        };
        if word.eq_ignore_ascii_case("bearer") && after.starts_with(' ') {
            return of(after.trim_start_matches(' '), ends_secret);
        }
        // The user's password in a URL (RFC 3986 section 3.2.1).
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
            // What follows is hidden as a bearer's.
            Some((scheme, _)) if scheme.eq_ignore_ascii_case("bearer") => None,
            Some((scheme, value)) if scheme.eq_ignore_ascii_case("basic") => {
                of(value.trim_start_matches(' '), ends_secret)
            }
            _ => of(value, ends_secret),
        }
    }
}

/// Whether a text ends with a secret's name and what separates it from its value.
fn names_secret(text: &str) -> bool {
    let name = text.trim_end().strip_suffix(['=', ':']).map(str::trim_end);
    let word = |name: &str| name.rsplit(|c| !is_token_char(c)).next().is_some_and(is_sensitive);
    name.is_some_and(word)
}

/// Whether a word is what stands before the password in a URL.
fn is_user(word: &str) -> bool {
    word.strip_prefix("//").is_some_and(|user| !user.contains('/'))
}

fn ends_authority(c: char) -> bool {
    ends_secret(c) || matches!(c, '/' | '?' | '#')
}

/// The alphabet of names, and of tokens but for `=` (RFC 6750 section 2.1).
fn is_token_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_' | '~' | '+' | '/' | '%')
}

fn ends_secret(c: char) -> bool {
    c.is_whitespace()
        || matches!(c, '&' | ';' | ',' | '"' | '\'' | '<' | '>' | '\\' | ')' | '}' | ']')
}

/// A JSON object in base64url, a dot, and more (RFC 7519 section 3).
fn is_jwt(word: &str) -> bool {
    word.len() > 16
        && word
            .match_indices("eyJ")
            .any(|(at, _)| word.get(at..).is_some_and(|token| token.contains('.')))
}

#[cfg(test)]
mod tests;
