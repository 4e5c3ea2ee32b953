//! `Content-Type` and `Accept` of a `POST` (MCP, Streamable HTTP, Sending Messages to the Server).

use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue};
use vmcp_core::Rejection;

const JSON: &str = "application/json";
const EVENT_STREAM: &str = "text/event-stream";

/// The value of SDK clients, which is compared as a whole instead of being parsed for each request.
const BOTH: &str = "application/json, text/event-stream";

/// Rejects a body that is not JSON, and a client that does not accept both forms of a response.
///
/// A client that sends no `Accept` takes anything (RFC 9110 section 12.5.1).
pub(crate) fn check_headers(headers: &HeaderMap) -> Result<(), Rejection> {
    let json = headers.get(CONTENT_TYPE).is_some_and(|value| value == JSON || is_json(value));
    if !json {
        return Err(Rejection::unsupported_media_type());
    }
    let both = headers.get(ACCEPT).is_none_or(|first| first == BOTH);
    if !(both || accepts(headers, JSON) && accepts(headers, EVENT_STREAM)) {
        return Err(Rejection::not_acceptable("send Accept: application/json, text/event-stream"));
    }
    Ok(())
}

/// Rejects a client that opens a stream without accepting one (MCP 2025-11-25, Streamable HTTP,
/// Listening for Messages from the Server).
pub fn require_event_stream(headers: &HeaderMap) -> Result<(), Rejection> {
    if headers.contains_key(ACCEPT) && accepts(headers, EVENT_STREAM) {
        return Ok(());
    }
    Err(Rejection::not_acceptable("send Accept: text/event-stream"))
}

/// Returns `true` if a client that accepts both forms of a response names the stream first.
#[must_use]
pub fn prefers_event_stream(headers: &HeaderMap) -> bool {
    let Some(first) = headers.get(ACCEPT).and_then(|value| value.to_str().ok()) else {
        return false;
    };
    let first = first.split(',').next().unwrap_or_default();
    essence(first).eq_ignore_ascii_case(EVENT_STREAM) && !is_excluded(first)
}

fn is_json(value: &HeaderValue) -> bool {
    value.to_str().is_ok_and(|value| essence(value).eq_ignore_ascii_case(JSON))
}

/// Returns `true` if some media range of `Accept` covers `media`. A weight of zero excludes.
fn accepts(headers: &HeaderMap, media: &str) -> bool {
    let family = media.split_once('/').map_or("", |(family, _)| family);
    headers
        .get_all(ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter(|range| !is_excluded(range))
        .map(essence)
        .any(|range| {
            range.eq_ignore_ascii_case(media)
                || range == "*/*"
                || range.strip_suffix("/*").is_some_and(|start| start.eq_ignore_ascii_case(family))
        })
}

fn essence(value: &str) -> &str {
    value.split_once(';').map_or(value, |(essence, _)| essence).trim()
}

fn is_excluded(range: &str) -> bool {
    range.split(';').skip(1).any(|parameter| {
        let Some((name, weight)) = parameter.split_once('=') else { return false };
        name.trim().eq_ignore_ascii_case("q")
            && weight.trim().parse::<f32>().is_ok_and(|weight| weight <= 0.0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(accept: &[&'static str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, "Application/JSON; charset=utf-8".parse().unwrap());
        for value in accept {
            headers.append(ACCEPT, value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn accepts_ranges_that_cover_both_forms() {
        for accept in [
            &[][..],
            &["application/json, text/event-stream"],
            &["text/event-stream", "application/json"],
            &["*/*"],
            &["application/*;q=0.5, text/*"],
        ] {
            assert_eq!(check_headers(&headers(accept)), Ok(()), "{accept:?}");
        }
    }

    #[test]
    fn rejects_client_that_excludes_one_form() {
        for accept in [
            &["application/json"][..],
            &["text/event-stream"],
            &["application/json, text/event-stream;q=0"],
            &["application/json, text/event-stream;q=0.000"],
            &["text/html"],
        ] {
            assert_eq!(check_headers(&headers(accept)).unwrap_err().status(), 406, "{accept:?}");
        }
    }

    #[test]
    fn rejects_body_that_is_not_json() {
        let mut other = headers(&[]);
        other.insert(CONTENT_TYPE, "text/plain".parse().unwrap());
        assert_eq!(check_headers(&other).unwrap_err().status(), 415);
        other.remove(CONTENT_TYPE);
        assert_eq!(check_headers(&other).unwrap_err().status(), 415);
    }
}
