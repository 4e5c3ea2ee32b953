//! Media types of responses.

use http::HeaderMap;
use http::header::CONTENT_TYPE;

/// Media type of a response, as far as MCP tells them apart (MCP 2025-11-25 and 2026-07-28, Streamable HTTP).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MediaType {
    /// `application/json`: one message.
    Json,
    /// `text/event-stream`: messages as they come.
    EventStream,
    /// Any other, or none.
    Other,
}

impl MediaType {
    /// Reads `Content-Type`. Case and parameters do not matter (RFC 9110, section 8.3.1).
    #[must_use]
    pub fn of(headers: &HeaderMap) -> Self {
        let Some(value) = headers.get(CONTENT_TYPE) else { return Self::Other };
        let value = value.as_bytes();
        let essence = value.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
        if essence.eq_ignore_ascii_case(b"application/json") {
            Self::Json
        } else if essence.eq_ignore_ascii_case(b"text/event-stream") {
            Self::EventStream
        } else {
            Self::Other
        }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn ignores_case_and_parameters() {
        for (value, media) in [
            ("text/event-stream", MediaType::EventStream),
            ("Text/Event-Stream ; charset=utf-8", MediaType::EventStream),
            ("application/json;charset=UTF-8", MediaType::Json),
            ("APPLICATION/JSON", MediaType::Json),
            ("text/event-streams", MediaType::Other),
            ("application/json+x", MediaType::Other),
            ("", MediaType::Other),
        ] {
            let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(value))]);
            assert_eq!(MediaType::of(&headers), media, "{value}");
        }
        assert_eq!(MediaType::of(&HeaderMap::new()), MediaType::Other);
    }
}
