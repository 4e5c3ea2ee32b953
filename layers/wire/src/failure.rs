//! A first look at an answer: most are no errors, and reading a message only to see that takes long.

use std::sync::LazyLock;

use memchr::memmem::Finder;

/// The end of `"error"` and of `"isError"`.
static END: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"rror\""));

/// Returns `true` if JSON text, or an event stream of it, may contain a JSON-RPC error or a result with `isError`.
///
/// `false` is sure of all that is in `bytes`; `true` says that it has to be read. It is some twenty times as fast as
/// [`head`](crate::head).
#[must_use]
pub fn may_fail(bytes: &[u8]) -> bool {
    let names = END.find_iter(bytes).any(|at| {
        let (before, behind) = bytes.split_at(at);
        before.ends_with(b"\"e") || before.ends_with(b"\"isE") && !is_false(behind)
    });
    names || spells(bytes)
}

/// Returns `true` if a colon and `false` follow `rror"`.
fn is_false(text: &[u8]) -> bool {
    let value = text.get(5..).and_then(|text| text.trim_ascii_start().strip_prefix(b":"));
    value.is_some_and(|value| value.trim_ascii_start().starts_with(b"false"))
}

/// Returns `true` if an ASCII character may be written as an escape, so that a name can look different.
fn spells(bytes: &[u8]) -> bool {
    memchr::memchr_iter(b'\\', bytes)
        .any(|at| bytes.get(at + 1..).is_some_and(|rest| rest.starts_with(b"u00")))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{HeadOutcome, find, head};

    #[test]
    fn what_most_answers_look_like_need_not_be_read() {
        for fine in [
            r#"{"jsonrpc":"2.0","id":1,"result":{"content":[],"isError":false}}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{"content":[],"isError" : false}}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"an error\n\"isError\":true"}]}}"#,
        ] {
            assert!(!may_fail(fine.as_bytes()), "{fine}");
        }
    }

    #[test]
    fn errors_are_read_however_they_are_written() {
        for error in [
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m"}}"#,
            r#"{"jsonrpc":"2.0","id":1,"\u0065rror":{"code":1,"message":"m"}}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{"isError":true}}"#,
            "{\"result\":{\"isError\"\n: \ttrue}}",
            r#"{"result":{"isError":1"#,
            r#"{"result":{"isError""#,
        ] {
            assert!(may_fail(error.as_bytes()), "{error}");
        }
    }

    proptest! {
        #[test]
        fn no_error_goes_by(
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
            let failed = match head(text.as_bytes()).ok().and_then(|head| head.outcome) {
                Some(HeadOutcome::Error { .. }) => true,
                Some(HeadOutcome::Result { start, .. }) =>
                    find(&text.as_bytes()[start as usize..], "isError") == Some(b"true"),
                None => false,
            };
            prop_assert!(!failed || may_fail(text.as_bytes()), "{}", text);
        }
    }
}
