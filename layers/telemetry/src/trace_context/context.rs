//! Trace context (W3C Trace Context, level 1).

use std::fmt;
use std::num::NonZero;
use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue};
use vmcp_wire::find;

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// Maximum length of a propagated `tracestate` (W3C Trace Context section 3.3.1.5).
const MAX_TRACESTATE_LEN: usize = 512;

/// Position of a span in a trace: the values of `traceparent` and `tracestate`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceContext {
    trace_id: NonZero<u128>,
    span_id: NonZero<u64>,
    sampled: bool,
    tracestate: Option<Arc<str>>,
}

impl TraceContext {
    /// Creates the context of a root span.
    #[must_use]
    pub fn root(trace_id: NonZero<u128>, span_id: NonZero<u64>, sampled: bool) -> Self {
        Self { trace_id, span_id, sampled, tracestate: None }
    }

    /// Creates the context of a child span with the same sampling decision.
    #[must_use]
    pub fn child(&self, span_id: NonZero<u64>) -> Self {
        Self { span_id, ..self.clone() }
    }

    /// Returns the trace id.
    #[must_use]
    pub fn trace_id(&self) -> NonZero<u128> {
        self.trace_id
    }

    /// Returns the span id.
    #[must_use]
    pub fn span_id(&self) -> NonZero<u64> {
        self.span_id
    }

    /// Returns `true` if the span is recorded.
    #[must_use]
    pub fn is_sampled(&self) -> bool {
        self.sampled
    }

    /// Returns the value of `tracestate`.
    #[must_use]
    pub fn tracestate(&self) -> Option<&str> {
        self.tracestate.as_deref()
    }

    /// Reads the context from headers. Returns `None` without a `traceparent`, with several, or with an invalid one.
    #[must_use]
    pub fn from_headers(headers: &HeaderMap) -> Option<Self> {
        let mut parents = headers.get_all(TRACEPARENT).iter();
        let parent = parents.next()?;
        if parents.next().is_some() {
            return None;
        }
        let context = Self::parse(parent.as_bytes())?;
        let mut states = headers.get_all(TRACESTATE).iter();
        match (states.next(), states.next()) {
            (Some(tracestate), None) => Some(context.with_tracestate(tracestate.as_bytes())),
            (None, _) => Some(context),
            _ => Some(context.with_tracestate(&join_tracestates(headers))),
        }
    }

    /// Reads the context from the members `traceparent` and `tracestate` of `_meta`, a JSON object (MCP, `_meta`).
    #[must_use]
    pub fn from_meta(meta: &[u8]) -> Option<Self> {
        memchr::memmem::find(meta, b"\"traceparent\"")?;
        let context = Self::parse(plain_string(find(meta, "traceparent")?)?)?;
        match find(meta, "tracestate").and_then(plain_string) {
            Some(tracestate) => Some(context.with_tracestate(tracestate)),
            None => Some(context),
        }
    }

    /// Parses a `traceparent`. For later versions, parses the part that version 00 defines.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        let (head, rest) = text.split_at_checked(55)?;
        let [v0, v1, b'-', ..] = head else { return None };
        let version = parse_hex(&[*v0, *v1])?;
        let is_version_00 = version == 0 && rest.is_empty();
        let is_later_version =
            version != 0 && version != 0xff && (rest.is_empty() || rest.starts_with(b"-"));
        if !(is_version_00 || is_later_version)
            || head.get(35) != Some(&b'-')
            || head.get(52) != Some(&b'-')
        {
            return None;
        }
        let trace_id = NonZero::new(parse_hex(head.get(3..35)?)?)?;
        let span_id = NonZero::new(u64::try_from(parse_hex(head.get(36..52)?)?).ok()?)?;
        let flags = parse_hex(head.get(53..55)?)?;
        Some(Self::root(trace_id, span_id, flags & 1 == 1))
    }

    fn with_tracestate(mut self, tracestate: &[u8]) -> Self {
        let is_valid_length = !tracestate.is_empty() && tracestate.len() <= MAX_TRACESTATE_LEN;
        let is_plain = tracestate.iter().all(|byte| matches!(byte, 0x20..=0x7e) && *byte != b'"');
        let tracestate =
            std::str::from_utf8(tracestate).ok().filter(|_| is_valid_length && is_plain);
        self.tracestate = tracestate.map(Into::into);
        self
    }

    /// Returns the `traceparent`.
    #[must_use]
    pub fn traceparent(&self) -> [u8; 55] {
        let mut out = *b"00-00000000000000000000000000000000-0000000000000000-00";
        write_hex(&mut out[3..35], self.trace_id.get());
        write_hex(&mut out[36..52], self.span_id.get().into());
        out[54] = if self.sampled { b'1' } else { b'0' };
        out
    }

    /// Writes the context into the headers of a request and replaces an existing one.
    pub fn inject(&self, headers: &mut HeaderMap) {
        let Ok(parent) = HeaderValue::from_bytes(&self.traceparent()) else { return };
        headers.insert(TRACEPARENT, parent);
        match self
            .tracestate
            .as_deref()
            .and_then(|tracestate| HeaderValue::from_str(tracestate).ok())
        {
            Some(tracestate) => _ = headers.insert(TRACESTATE, tracestate),
            None => _ = headers.remove(TRACESTATE),
        }
    }
}

impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.traceparent()))
    }
}

/// Joins several `tracestate` headers in order (W3C Trace Context section 3.3.1.1) and skips empty ones. Stops beyond
/// the maximum length, which the caller rejects.
fn join_tracestates(headers: &HeaderMap) -> Vec<u8> {
    let states = headers.get_all(TRACESTATE).iter().map(HeaderValue::as_bytes);
    let mut out = Vec::new();
    for tracestate in states.map(<[u8]>::trim_ascii).filter(|tracestate| !tracestate.is_empty()) {
        if !out.is_empty() {
            out.push(b',');
        }
        out.extend_from_slice(tracestate);
        if out.len() > MAX_TRACESTATE_LEN {
            break;
        }
    }
    out
}

/// Returns the content of a JSON string without escapes; no valid value contains one.
fn plain_string(value: &[u8]) -> Option<&[u8]> {
    let inner = value.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    (!inner.contains(&b'\\')).then_some(inner)
}

/// Parses lower-case hexadecimal digits (W3C Trace Context section 3.2.2).
fn parse_hex(digits: &[u8]) -> Option<u128> {
    digits.iter().try_fold(0, |value, digit| {
        let digit = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        Some(value << 4 | u128::from(digit))
    })
}

fn write_hex(out: &mut [u8], mut value: u128) {
    for digit in out.iter_mut().rev() {
        *digit = b"0123456789abcdef"[(value & 15) as usize];
        value >>= 4;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn traceparent_round_trips() {
        let context = TraceContext::parse(PARENT.as_bytes()).unwrap();
        assert!(context.sampled);
        assert_eq!(context.to_string(), PARENT);
    }

    #[test]
    fn rejects_invalid_traceparent() {
        for wrong in [
            "",
            "00-4BF92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        ] {
            assert_eq!(TraceContext::parse(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn reads_known_part_of_later_version() {
        let is_later_version = format!("cc{}-more", &PARENT[2..]);
        assert!(TraceContext::parse(is_later_version.as_bytes()).is_some());
    }

    #[test]
    fn rejects_two_traceparent_headers() {
        let mut headers = HeaderMap::new();
        headers.append(TRACEPARENT, PARENT.parse().unwrap());
        assert!(TraceContext::from_headers(&headers).is_some());
        headers.append(TRACEPARENT, PARENT.parse().unwrap());
        assert_eq!(TraceContext::from_headers(&headers), None);
    }

    #[test]
    fn joins_tracestate_headers_in_order() {
        let with = |states: &[&str]| {
            let mut headers = HeaderMap::new();
            headers.append(TRACEPARENT, PARENT.parse().unwrap());
            for tracestate in states {
                headers.append(TRACESTATE, tracestate.parse().unwrap());
            }
            TraceContext::from_headers(&headers).unwrap().tracestate.as_deref().map(str::to_owned)
        };
        assert_eq!(with(&["a=1", "b=2,c=3", "d=4"]).as_deref(), Some("a=1,b=2,c=3,d=4"));
        assert_eq!(with(&["a=1", "", " b=2 "]).as_deref(), Some("a=1,b=2"));
        assert_eq!(with(&["", ""]), None);
        assert_eq!(with(&[&"x".repeat(300), &"y".repeat(300)]), None);
    }

    #[test]
    fn drops_oversized_tracestate() {
        let meta = |tracestate: &str| {
            format!(r#"{{"traceparent":"{PARENT}","tracestate":"{tracestate}"}}"#).into_bytes()
        };
        let tracestate = |meta: &[u8]| TraceContext::from_meta(meta).unwrap().tracestate;
        assert_eq!(tracestate(&meta("a=b")).as_deref(), Some("a=b"));
        assert_eq!(tracestate(&meta(&"x".repeat(513))), None);
    }

    proptest! {
        #[test]
        fn parses_arbitrary_bytes(text in proptest::collection::vec(any::<u8>(), 0..80)) {
            if let Some(context) = TraceContext::parse(&text) {
                prop_assert_eq!(&context.traceparent()[2..52], &text[2..52]);
            }
        }

        #[test]
        fn every_context_round_trips(trace in 1u128.., span in 1u64.., sampled: bool) {
            let (trace, span) = (NonZero::new(trace).unwrap(), NonZero::new(span).unwrap());
            let context = TraceContext::root(trace, span, sampled);
            prop_assert_eq!(TraceContext::parse(&context.traceparent()), Some(context));
        }
    }
}
