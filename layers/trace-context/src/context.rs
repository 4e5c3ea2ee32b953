//! Where in a trace a request stands (W3C Trace Context, level 1).

use std::fmt;
use std::num::NonZero;
use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue};
use vmcp_wire::find;

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// The longest `tracestate` that is passed on (W3C Trace Context section 3.3.1.5).
const MAX_STATE: usize = 512;

/// A place in a trace: what `traceparent` and `tracestate` say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceContext {
    trace_id: NonZero<u128>,
    span_id: NonZero<u64>,
    sampled: bool,
    state: Option<Arc<str>>,
}

impl TraceContext {
    /// The first place in a trace.
    #[must_use]
    pub fn root(trace_id: NonZero<u128>, span_id: NonZero<u64>, sampled: bool) -> Self {
        Self { trace_id, span_id, sampled, state: None }
    }

    /// The place of a span right below this one: recorded if this is.
    #[must_use]
    pub fn child(&self, span_id: NonZero<u64>) -> Self {
        Self { span_id, ..self.clone() }
    }

    /// The id of the trace.
    #[must_use]
    pub fn trace_id(&self) -> NonZero<u128> {
        self.trace_id
    }

    /// The id of the span.
    #[must_use]
    pub fn span_id(&self) -> NonZero<u64> {
        self.span_id
    }

    /// Whether the span is recorded.
    #[must_use]
    pub fn sampled(&self) -> bool {
        self.sampled
    }

    /// What `tracestate` says.
    #[must_use]
    pub fn state(&self) -> Option<&str> {
        self.state.as_deref()
    }

    /// What the headers say; `None` when there is no `traceparent`, several, or one that is none.
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
            (Some(state), None) => Some(context.with_state(state.as_bytes())),
            (None, _) => Some(context),
            _ => Some(context.with_state(&joined(headers))),
        }
    }

    /// What `_meta`, a JSON object, says in its members `traceparent` and `tracestate` (MCP, `_meta`).
    #[must_use]
    pub fn from_meta(meta: &[u8]) -> Option<Self> {
        memchr::memmem::find(meta, b"\"traceparent\"")?;
        let context = Self::parse(text(find(meta, "traceparent")?)?)?;
        match find(meta, "tracestate").and_then(text) {
            Some(state) => Some(context.with_state(state)),
            None => Some(context),
        }
    }

    /// Reads a `traceparent`. Of a version to come, the part that version 00 has.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        let (head, rest) = text.split_at_checked(55)?;
        let [v0, v1, b'-', ..] = head else { return None };
        let version = hex(&[*v0, *v1])?;
        let known = version == 0 && rest.is_empty();
        let later = version != 0 && version != 0xff && (rest.is_empty() || rest.starts_with(b"-"));
        if !(known || later) || head.get(35) != Some(&b'-') || head.get(52) != Some(&b'-') {
            return None;
        }
        let trace_id = NonZero::new(hex(head.get(3..35)?)?)?;
        let span_id = NonZero::new(u64::try_from(hex(head.get(36..52)?)?).ok()?)?;
        let flags = hex(head.get(53..55)?)?;
        Some(Self::root(trace_id, span_id, flags & 1 == 1))
    }

    fn with_state(mut self, state: &[u8]) -> Self {
        let fits = !state.is_empty() && state.len() <= MAX_STATE;
        let plain = state.iter().all(|byte| matches!(byte, 0x20..=0x7e) && *byte != b'"');
        let state = std::str::from_utf8(state).ok().filter(|_| fits && plain);
        self.state = state.map(Into::into);
        self
    }

    /// Its `traceparent`.
    #[must_use]
    pub fn traceparent(&self) -> [u8; 55] {
        let mut out = *b"00-00000000000000000000000000000000-0000000000000000-00";
        write_hex(&mut out[3..35], self.trace_id.get());
        write_hex(&mut out[36..52], self.span_id.get().into());
        out[54] = if self.sampled { b'1' } else { b'0' };
        out
    }

    /// Writes it into the headers of a request, in the place of what stood there.
    pub fn write(&self, headers: &mut HeaderMap) {
        let Ok(parent) = HeaderValue::from_bytes(&self.traceparent()) else { return };
        headers.insert(TRACEPARENT, parent);
        match self.state.as_deref().and_then(|state| HeaderValue::from_str(state).ok()) {
            Some(state) => _ = headers.insert(TRACESTATE, state),
            None => _ = headers.remove(TRACESTATE),
        }
    }
}

impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.traceparent()))
    }
}

/// Joins several `tracestate` headers in their order (W3C Trace Context section 3.3.1.1); empty ones count for
/// nothing. What is longer than one state may be is cut off, and refused as too long.
fn joined(headers: &HeaderMap) -> Vec<u8> {
    let states = headers.get_all(TRACESTATE).iter().map(HeaderValue::as_bytes);
    let mut out = Vec::new();
    for state in states.map(<[u8]>::trim_ascii).filter(|state| !state.is_empty()) {
        if !out.is_empty() {
            out.push(b',');
        }
        out.extend_from_slice(state);
        if out.len() > MAX_STATE {
            break;
        }
    }
    out
}

/// A JSON string without escapes: nothing that is looked for here needs one.
fn text(value: &[u8]) -> Option<&[u8]> {
    let inner = value.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    (!inner.contains(&b'\\')).then_some(inner)
}

/// Lower-case only (W3C Trace Context section 3.2.2).
fn hex(digits: &[u8]) -> Option<u128> {
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
    fn what_was_read_is_written_as_it_was() {
        let context = TraceContext::parse(PARENT.as_bytes()).unwrap();
        assert!(context.sampled);
        assert_eq!(context.to_string(), PARENT);
    }

    #[test]
    fn what_is_no_traceparent_is_none() {
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
    fn of_a_later_version_the_known_part_is_read() {
        let later = format!("cc{}-more", &PARENT[2..]);
        assert!(TraceContext::parse(later.as_bytes()).is_some());
    }

    #[test]
    fn two_parents_are_none() {
        let mut headers = HeaderMap::new();
        headers.append(TRACEPARENT, PARENT.parse().unwrap());
        assert!(TraceContext::from_headers(&headers).is_some());
        headers.append(TRACEPARENT, PARENT.parse().unwrap());
        assert_eq!(TraceContext::from_headers(&headers), None);
    }

    #[test]
    fn several_states_are_one_list_in_their_order() {
        let with = |states: &[&str]| {
            let mut headers = HeaderMap::new();
            headers.append(TRACEPARENT, PARENT.parse().unwrap());
            for state in states {
                headers.append(TRACESTATE, state.parse().unwrap());
            }
            TraceContext::from_headers(&headers).unwrap().state.as_deref().map(str::to_owned)
        };
        assert_eq!(with(&["a=1", "b=2,c=3", "d=4"]).as_deref(), Some("a=1,b=2,c=3,d=4"));
        assert_eq!(with(&["a=1", "", " b=2 "]).as_deref(), Some("a=1,b=2"));
        assert_eq!(with(&["", ""]), None);
        assert_eq!(with(&[&"x".repeat(300), &"y".repeat(300)]), None);
    }

    #[test]
    fn a_state_that_is_too_long_is_left_out() {
        let meta = |state: &str| {
            format!(r#"{{"traceparent":"{PARENT}","tracestate":"{state}"}}"#).into_bytes()
        };
        let state = |meta: &[u8]| TraceContext::from_meta(meta).unwrap().state;
        assert_eq!(state(&meta("a=b")).as_deref(), Some("a=b"));
        assert_eq!(state(&meta(&"x".repeat(513))), None);
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_harm(text in proptest::collection::vec(any::<u8>(), 0..80)) {
            if let Some(context) = TraceContext::parse(&text) {
                prop_assert_eq!(&context.traceparent()[2..52], &text[2..52]);
            }
        }

        #[test]
        fn every_context_survives_being_written(trace in 1u128.., span in 1u64.., sampled: bool) {
            let (trace, span) = (NonZero::new(trace).unwrap(), NonZero::new(span).unwrap());
            let context = TraceContext::root(trace, span, sampled);
            prop_assert_eq!(TraceContext::parse(&context.traceparent()), Some(context));
        }
    }
}
