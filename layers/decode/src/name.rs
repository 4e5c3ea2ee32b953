//! Values in `Mcp-*` headers (MCP 2026-07-28, Streamable HTTP, Value Encoding): plain, or wrapped as
//! `=?base64?…?=` when they could not travel as they are.

use std::borrow::Cow;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::HeaderValue;

const START: &str = "=?base64?";
const END: &str = "?=";

/// The header value that carries `text`. An empty text has none.
#[must_use]
pub fn encode(text: &str) -> Option<HeaderValue> {
    if text.is_empty() {
        return None;
    }
    if plain(text) {
        return HeaderValue::from_str(text).ok();
    }
    HeaderValue::from_str(&format!("{START}{}{END}", BASE64_STANDARD.encode(text))).ok()
}

/// The text that a header value carries; `None` when its wrapping is broken.
#[must_use]
pub fn decode(value: &HeaderValue) -> Option<Cow<'_, str>> {
    let text = value.to_str().ok()?.trim_matches([' ', '\t']);
    let Some(wrapped) = text.strip_prefix(START).and_then(|rest| rest.strip_suffix(END)) else {
        return Some(Cow::Borrowed(text));
    };
    let bytes = BASE64_STANDARD.decode(wrapped).ok()?;
    String::from_utf8(bytes).ok().map(Cow::Owned)
}

fn plain(text: &str) -> bool {
    let is_padded = text.starts_with(' ') || text.ends_with(' ');
    let is_wrapped = text.starts_with(START) && text.ends_with(END);
    text.bytes().all(|byte| (0x20..=0x7e).contains(&byte)) && !is_padded && !is_wrapped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_comes_back() {
        for text in ["echo", "grüße", " lead", "a b", "=?base64?eA==?=", "\u{7f}", "a\nb"] {
            let value = encode(text).unwrap();
            assert_eq!(decode(&value).as_deref(), Some(text), "{text:?}");
        }
        assert_eq!(encode(""), None);
    }

    #[test]
    fn a_broken_wrapping_is_no_text() {
        for broken in ["=?base64?SGVsbG8?=", "=?base64?SGVs!!!bG8=?=", "=?base64?/w==?="] {
            assert_eq!(decode(&HeaderValue::from_static(broken)), None, "{broken}");
        }
    }

    #[test]
    fn half_a_wrapping_is_plain_text() {
        for plain in ["SGVsbG8=", "=?base64?SGVsbG8=", "SGVsbG8=?="] {
            assert_eq!(decode(&HeaderValue::from_static(plain)).as_deref(), Some(plain));
        }
    }
}
