//! Propagation of trace context in MCP messages.

use bytes::Bytes;
use http_body_util::Full;
use vmcp_wire::{Envelope, Key, Span, Splice, find, scan, write_json_string};

use crate::trace_context::TraceContext;

/// Maximum size of an edited message in bytes. Larger ones are propagated by header only.
const MAX_MESSAGE_SIZE: usize = 1024 * 1024;

/// Propagator for the body of a request. The headers always carry the context.
///
/// Called for messages whose span is recorded, and for messages that already contain another context: receivers prefer
/// `_meta` over the header.
pub trait Propagator<B> {
    /// Returns the body with `context`.
    fn inject(&self, body: B, context: &TraceContext) -> B;
}

/// Propagator that leaves the body unchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeaderPropagation;

/// Propagator that writes `traceparent` and `tracestate` into the `_meta` of a buffered message (MCP, `_meta`). All
/// other bytes are preserved. Unchanged are messages larger than 1 MiB, `initialize`, and everything but requests and
/// notifications.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MetaPropagation;

impl<B> Propagator<B> for HeaderPropagation {
    fn inject(&self, body: B, _: &TraceContext) -> B {
        body
    }
}

impl Propagator<Full<Bytes>> for MetaPropagation {
    fn inject(&self, body: Full<Bytes>, context: &TraceContext) -> Full<Bytes> {
        let Some(message) = body.into_inner() else { return Full::default() };
        Full::new(inject_meta(&message, context).unwrap_or(message))
    }
}

fn inject_meta(message: &Bytes, context: &TraceContext) -> Option<Bytes> {
    if message.len() > MAX_MESSAGE_SIZE {
        return None;
    }
    let (Envelope::Request { method, params, .. } | Envelope::Notification { method, params, .. }) =
        scan(message).ok()?
    else {
        return None;
    };
    // Servers classify an `initialize` with a `_meta` as a stateless message.
    if method.is(message, "initialize") {
        return None;
    }
    let mut parent = Vec::with_capacity(57);
    write_json_string(&context.to_string(), &mut parent);
    let state = context.tracestate().map(|state| {
        let mut quoted = Vec::with_capacity(state.len() + 2);
        write_json_string(state, &mut quoted);
        quoted
    });
    let mut edit = Splice::new(message);
    match (params.get(Key::Meta), params.span) {
        (Some(meta), _) if meta.of(message).starts_with(b"{") => {
            edit.set_member(meta, "traceparent", &parent);
            match &state {
                Some(state) => _ = edit.set_member(meta, "tracestate", state),
                None if find(meta.of(message), "tracestate").is_some() => {
                    edit.remove_member(meta, "tracestate");
                }
                None => {}
            }
        }
        (Some(_), _) => return None,
        (None, Some(params)) => {
            edit.append_member(params, "_meta", &build_meta(&parent, state.as_deref()));
        }
        (None, None) => {
            let params =
                [b"{\"_meta\":".as_slice(), &build_meta(&parent, state.as_deref()), b"}"].concat();
            edit.append_member(object_span(message)?, "params", &params);
        }
    }
    Some(edit.finish())
}

fn build_meta(parent: &[u8], state: Option<&[u8]>) -> Vec<u8> {
    let mut meta = [b"{\"traceparent\":".as_slice(), parent].concat();
    if let Some(state) = state {
        meta.extend_from_slice(b",\"tracestate\":");
        meta.extend_from_slice(state);
    }
    meta.push(b'}');
    meta
}

/// Returns the span of the message without surrounding whitespace.
fn object_span(message: &[u8]) -> Option<Span> {
    let start = message.iter().position(|byte| *byte == b'{')?;
    let end = message.iter().rposition(|byte| *byte == b'}')? + 1;
    Some(Span { start: u32::try_from(start).ok()?, end: u32::try_from(end).ok()? })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn context(state: Option<&str>) -> TraceContext {
        let state = state.map(|state| format!(r#","tracestate":"{state}""#)).unwrap_or_default();
        let meta = format!(r#"{{"traceparent":"{PARENT}"{state}}}"#);
        TraceContext::from_meta(meta.as_bytes()).unwrap()
    }

    fn with_context(message: &str, state: Option<&str>) -> Value {
        let message = Bytes::copy_from_slice(message.as_bytes());
        serde_json::from_slice(&inject_meta(&message, &context(state)).unwrap()).unwrap()
    }

    #[test]
    fn replaces_trace_context_of_message() {
        let message = r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":{"traceparent":"x","tracestate":"y","progressToken":1}}}"#;
        let meta = with_context(message, None)["params"]["_meta"].clone();
        assert_eq!(meta, json!({"traceparent": PARENT, "progressToken": 1}));
        let meta = with_context(message, Some("a=b"))["params"]["_meta"].clone();
        assert_eq!(meta, json!({"traceparent": PARENT, "tracestate": "a=b", "progressToken": 1}));
    }

    #[test]
    fn adds_missing_meta_and_params() {
        for params in ["", r#","params":{}"#, r#","params":{"name":"a"}"#] {
            let message = format!(r#" {{"jsonrpc":"2.0","id":1,"method":"tools/call"{params}}} "#);
            let with_context = with_context(&message, Some("a=b"));
            let expected = json!({"traceparent": PARENT, "tracestate": "a=b"});
            assert_eq!(with_context["params"]["_meta"], expected, "{message}");
            assert_eq!(
                (&with_context["id"], &with_context["method"]),
                (&json!(1), &json!("tools/call"))
            );
        }
    }

    #[test]
    fn keeps_messages_that_cannot_be_edited() {
        for message in [
            "nonsense",
            r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":3}}"#,
        ] {
            assert_eq!(inject_meta(&Bytes::from(message), &context(None)), None, "{message}");
        }
    }

    proptest! {
        #[test]
        fn preserves_rest_of_message(name in "[ -~]{0,20}", number: i64, spaced: bool) {
            let space = if spaced { " " } else { "" };
            let name = serde_json::to_string(&name).unwrap();
            let message = format!(
                r#"{{"jsonrpc":"2.0","id":{number},{space}"method":"m","params":{space}{{"name":{name}}}}}"#
            );
            let mut with_context = with_context(&message, None);
            with_context["params"].as_object_mut().unwrap().remove("_meta");
            prop_assert_eq!(with_context, serde_json::from_str::<Value>(&message).unwrap());
        }
    }
}
