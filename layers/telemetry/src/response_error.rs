//! Errors in responses.

use crate::metrics::ErrorType;
use vmcp_core::{MediaType, Rejection};
use vmcp_wire::{PrefixOutcome, find, may_contain_error, scan_prefix};

/// Inspected bytes of a frame.
const MAX_INSPECTED: usize = 16 * 1024;

/// Returns the error that the head of a response reports.
pub(crate) fn response_error<R>(response: &http::Response<R>) -> ErrorType {
    let status = response.status();
    match response.extensions().get::<Rejection>() {
        Some(rejection) => ErrorType::RpcCode(rejection.code().into()),
        None if status.is_client_error() || status.is_server_error() => {
            ErrorType::Status(status.as_u16())
        }
        None => ErrorType::None,
    }
}

/// Returns the error that a frame of a response reports. A message that spans several frames, or exceeds the inspected
/// prefix, can go unnoticed: frames are not buffered.
pub(crate) fn frame_error(media: MediaType, frame: &[u8]) -> ErrorType {
    let frame = frame.get(..MAX_INSPECTED).unwrap_or(frame);
    if !may_contain_error(frame) {
        return ErrorType::None;
    }
    match media {
        MediaType::Json => message_error(frame),
        MediaType::EventStream => {
            let lines = frame.split(|byte| *byte == b'\n');
            let messages = lines.filter_map(|line| line.strip_prefix(b"data:"));
            messages.map(message_error).find(|error| *error != ErrorType::None).unwrap_or_default()
        }
        MediaType::Other => ErrorType::None,
    }
}

fn message_error(bytes: &[u8]) -> ErrorType {
    match scan_prefix(bytes).ok().and_then(|head| head.outcome) {
        Some(PrefixOutcome::Error { code, .. }) => ErrorType::RpcCode(code.unwrap_or_default()),
        Some(PrefixOutcome::Result { start, is_object: true }) => {
            let result = bytes.get(start as usize..).unwrap_or_default();
            if find(result, "isError") == Some(b"true") { ErrorType::TOOL } else { ErrorType::None }
        }
        Some(PrefixOutcome::Result { .. }) | None => ErrorType::None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn detects_json_rpc_error_code() {
        let body = br#"{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no"}}"#;
        assert_eq!(frame_error(MediaType::Json, body), ErrorType::RpcCode(-32602));
        let events = b"event: message\ndata: {\"method\":\"notifications/message\",\"params\":{\"level\":\"error\"}}\n\ndata: {\"id\":1,\"error\":{\"code\":7}}\n\n";
        assert_eq!(frame_error(MediaType::EventStream, events), ErrorType::RpcCode(7));
    }

    #[test]
    fn detects_tool_error() {
        let body = br#"{"jsonrpc":"2.0","id":1,"result":{"content":[],"isError":true}}"#;
        assert_eq!(frame_error(MediaType::Json, body), ErrorType::TOOL);
    }

    #[test]
    fn ignores_error_text_in_results() {
        for body in [
            r#"{"id":1,"result":{"content":[{"text":"\"error\": {\"code\": 1}"}],"isError":false}}"#,
            r#"{"id":1,"result":{"structuredContent":{"error":{"code":1},"isError":true}}}"#,
        ] {
            assert_eq!(frame_error(MediaType::Json, body.as_bytes()), ErrorType::None, "{body}");
        }
    }

    proptest! {
        #[test]
        fn accepts_arbitrary_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let with = [b"{\"error\"".as_slice(), &bytes].concat();
            _ = frame_error(MediaType::Json, &with);
            _ = frame_error(MediaType::EventStream, &with);
        }
    }
}
