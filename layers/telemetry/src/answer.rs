//! How an operation ended, as the bytes of its answer say.

use vmcp_core::{Media, Rejection};
use vmcp_metrics::Fault;
use vmcp_wire::{HeadOutcome, find, head, may_fail};

/// How much of a frame is looked at, in bytes.
const WINDOW: usize = 16 * 1024;

/// What a response's head says.
pub(crate) fn fault_of<R>(response: &http::Response<R>) -> Fault {
    let status = response.status();
    match response.extensions().get::<Rejection>() {
        Some(rejection) => Fault::Code(rejection.code().into()),
        None if status.is_client_error() || status.is_server_error() => {
            Fault::Status(status.as_u16())
        }
        None => Fault::None,
    }
}

/// Returns the fault that a frame of an answer tells. A message that is cut in two by frames, or longer than
/// the window, can go unseen: nothing is kept for it.
pub(crate) fn fault(media: Media, frame: &[u8]) -> Fault {
    let frame = frame.get(..WINDOW).unwrap_or(frame);
    if !may_fail(frame) {
        return Fault::None;
    }
    match media {
        Media::Json => message(frame),
        Media::Events => {
            let lines = frame.split(|byte| *byte == b'\n');
            let messages = lines.filter_map(|line| line.strip_prefix(b"data:"));
            messages.map(message).find(|fault| *fault != Fault::None).unwrap_or_default()
        }
        Media::Other => Fault::None,
    }
}

fn message(bytes: &[u8]) -> Fault {
    match head(bytes).ok().and_then(|head| head.outcome) {
        Some(HeadOutcome::Error { code, .. }) => Fault::Code(code.unwrap_or_default()),
        Some(HeadOutcome::Result { start, is_object: true }) => {
            let result = bytes.get(start as usize..).unwrap_or_default();
            if find(result, "isError") == Some(b"true") { Fault::TOOL } else { Fault::None }
        }
        Some(HeadOutcome::Result { .. }) | None => Fault::None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_error_is_known_by_its_code() {
        let body = br#"{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no"}}"#;
        assert_eq!(fault(Media::Json, body), Fault::Code(-32602));
        let events = b"event: message\ndata: {\"method\":\"notifications/message\",\"params\":{\"level\":\"error\"}}\n\ndata: {\"id\":1,\"error\":{\"code\":7}}\n\n";
        assert_eq!(fault(Media::Events, events), Fault::Code(7));
    }

    #[test]
    fn a_tool_that_says_that_it_failed_has_failed() {
        let body = br#"{"jsonrpc":"2.0","id":1,"result":{"content":[],"isError":true}}"#;
        assert_eq!(fault(Media::Json, body), Fault::TOOL);
    }

    #[test]
    fn what_a_tool_talks_of_is_no_error() {
        for body in [
            r#"{"id":1,"result":{"content":[{"text":"\"error\": {\"code\": 1}"}],"isError":false}}"#,
            r#"{"id":1,"result":{"structuredContent":{"error":{"code":1},"isError":true}}}"#,
        ] {
            assert_eq!(fault(Media::Json, body.as_bytes()), Fault::None, "{body}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_harm(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let with = [b"{\"error\"".as_slice(), &bytes].concat();
            _ = fault(Media::Json, &with);
            _ = fault(Media::Events, &with);
        }
    }
}
