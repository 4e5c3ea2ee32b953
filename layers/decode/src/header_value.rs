//! Values in `Mcp-*` headers (MCP 2026-07-28, Streamable HTTP, Value Encoding): plain, or wrapped as
//! `=?base64?…?=` when they could not travel as they are.

use std::borrow::Cow;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::HeaderValue;

const PREFIX: &str = "=?base64?";
const SUFFIX: &str = "?=";

/// Encodes `text` as a header value; `None` for an empty text.
#[must_use]
pub fn encode(text: &str) -> Option<HeaderValue> {
    if text.is_empty() {
        return None;
    }
    if is_plain(text) {
        return HeaderValue::from_str(text).ok();
    }
    HeaderValue::from_str(&format!("{PREFIX}{}{SUFFIX}", BASE64_STANDARD.encode(text))).ok()
}

/// Decodes the text of a header value; `None` if its base64 form is invalid.
#[must_use]
pub fn decode(value: &HeaderValue) -> Option<Cow<'_, str>> {
    let text = value.to_str().ok()?.trim_matches([' ', '\t']);
    let Some(encoded) = text.strip_prefix(PREFIX).and_then(|rest| rest.strip_suffix(SUFFIX)) else {
        return Some(Cow::Borrowed(text));
    };
    let bytes = BASE64_STANDARD.decode(encoded).ok()?;
    String::from_utf8(bytes).ok().map(Cow::Owned)
}

fn is_plain(text: &str) -> bool {
    let is_padded = text.starts_with(' ') || text.ends_with(' ');
    let is_wrapped = text.starts_with(PREFIX) && text.ends_with(SUFFIX);
    text.bytes().all(|byte| (0x20..=0x7e).contains(&byte)) && !is_padded && !is_wrapped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decodes_encoded_values() {
        for text in ["echo", "grüße", " lead", "a b", "=?base64?eA==?=", "\u{7f}", "a\nb"] {
            let value = encode(text).unwrap();
            assert_eq!(decode(&value).as_deref(), Some(text), "{text:?}");
        }
        assert_eq!(encode(""), None);
    }

    #[test]
    fn rejects_invalid_base64_values() {
        for broken in ["=?base64?SGVsbG8?=", "=?base64?SGVs!!!bG8=?=", "=?base64?/w==?="] {
            assert_eq!(decode(&HeaderValue::from_static(broken)), None, "{broken}");
        }
    }

    #[test]
    fn treats_incomplete_base64_form_as_plain_text() {
        for plain in ["SGVsbG8=", "=?base64?SGVsbG8=", "SGVsbG8=?="] {
            assert_eq!(decode(&HeaderValue::from_static(plain)).as_deref(), Some(plain));
        }
    }
}
