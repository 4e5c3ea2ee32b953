//! Fast check whether a response may contain an error. Most do not, and parsing each would take long.

use std::sync::LazyLock;

use memchr::memmem::Finder;

/// The end of `"error"` and of `"isError"`.
static END: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"rror\""));

/// Returns `true` if JSON text, or an event stream of it, may contain a JSON-RPC error or a result with `isError`.
///
/// `false` is certain; after `true`, the text has to be parsed. It is some twenty times as fast as
/// [`scan_prefix`](crate::scan_prefix).
#[must_use]
pub fn may_contain_error(bytes: &[u8]) -> bool {
    let names = END.find_iter(bytes).any(|at| {
        let (before, behind) = bytes.split_at(at);
        before.ends_with(b"\"e") || before.ends_with(b"\"isE") && !is_false(behind)
    });
    names || has_ascii_escape(bytes)
}

/// Returns `true` if a colon and `false` follow `rror"`.
fn is_false(text: &[u8]) -> bool {
    let value = text.get(5..).and_then(|text| text.trim_ascii_start().strip_prefix(b":"));
    value.is_some_and(|value| value.trim_ascii_start().starts_with(b"false"))
}

/// Returns `true` if an ASCII character may be written as an escape, so that a name can look different.
fn has_ascii_escape(bytes: &[u8]) -> bool {
    memchr::memchr_iter(b'\\', bytes)
        .any(|at| bytes.get(at + 1..).is_some_and(|rest| rest.starts_with(b"u00")))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{PrefixOutcome, find, scan_prefix};

    #[test]
    fn rules_out_usual_results() {
        for fine in [
            r#"{"jsonrpc":"2.0","id":1,"result":{"content":[],"isError":false}}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{"content":[],"isError" : false}}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"an error\n\"isError\":true"}]}}"#,
        ] {
            assert!(!may_contain_error(fine.as_bytes()), "{fine}");
        }
    }

    #[test]
    fn detects_errors_in_any_spelling() {
        for error in [
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m"}}"#,
            r#"{"jsonrpc":"2.0","id":1,"\u0065rror":{"code":1,"message":"m"}}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{"isError":true}}"#,
            "{\"result\":{\"isError\"\n: \ttrue}}",
            r#"{"result":{"isError":1"#,
            r#"{"result":{"isError""#,
        ] {
            assert!(may_contain_error(error.as_bytes()), "{error}");
        }
    }

    proptest! {
        #[test]
        fn misses_no_error(
            names in prop::collection::vec(
                prop::sample::select(&["error", "isError", "\\u0069sError", "err\\u006fr", "x", "rror"]), 0..4),
            values in prop::collection::vec(
                prop::sample::select(&["true", "false", "{\"code\":1}", "\"\\\"error\\\"\"", " true", "{\"isError\":true}"]), 4),
            within in any::<bool>(),
        ) {
            let members: Vec<_> =
                names.iter().zip(&values).map(|(name, value)| format!("\"{name}\":{value}")).collect();
            let members = members.join(",");
            let text = if within { format!("{{\"id\":1,\"result\":{{{members}}}}}") } else { format!("{{{members}}}") };
            let is_error = match scan_prefix(text.as_bytes()).ok().and_then(|head| head.outcome) {
                Some(PrefixOutcome::Error { .. }) => true,
                Some(PrefixOutcome::Result { start, .. }) =>
                    find(&text.as_bytes()[start as usize..], "isError") == Some(b"true"),
                None => false,
            };
            prop_assert!(!is_error || may_contain_error(text.as_bytes()), "{}", text);
        }
    }
}
