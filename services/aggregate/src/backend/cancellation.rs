//! `notifications/cancelled` for a request to a stateful backend (MCP 2025-11-25, Cancellation).

use std::borrow::Cow;

use bytes::Bytes;
use vmcp_breaker::CircuitOpen;
use vmcp_core::{BoxError, CredentialError, NotSentError, cause_ref};
use vmcp_timeout::Elapsed;

use super::error::BackendError;
use crate::catalog::define_literal;

/// Builds the notification for the request with this id, which is JSON.
pub(crate) fn cancellation(id: &[u8], reason: &str) -> Bytes {
    let start = br#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"#;
    [&start[..], id, br#","reason":"#, &define_literal(reason), b"}}"].concat().into()
}

/// Returns the cancellation reason for a failed call; `None` if the backend has responded or does not process the call.
pub(crate) fn reason(error: &BoxError) -> Option<Cow<'static, str>> {
    let error: &(dyn std::error::Error + 'static) = error.as_ref();
    if cause_ref::<NotSentError>(error).is_some()
        || cause_ref::<CircuitOpen>(error).is_some()
        || cause_ref::<CredentialError>(error).is_some()
    {
        return None;
    }
    if let Some(Elapsed { limit }) = cause_ref(error) {
        return Some(format!("no message for {limit:?}").into());
    }
    match cause_ref::<BackendError>(error) {
        Some(BackendError::ServerRequest(problem)) => Some(Cow::Borrowed(problem)),
        Some(BackendError::Detached { reason, .. }) => reason.map(Cow::Borrowed),
        // The connection failed, not the call.
        None | Some(BackendError::Ended) => Some("the response was lost".into()),
        Some(
            BackendError::SessionGone
            | BackendError::Status(_)
            | BackendError::ContentType
            | BackendError::Malformed(_)
            | BackendError::Rpc { .. }
            | BackendError::Handshake { .. }
            | BackendError::TooLarge { .. }
            | BackendError::StepOutput
            | BackendError::NoRoom
            | BackendError::Offer(_)
            | BackendError::Generation
            | BackendError::Revision
            | BackendError::Busy
            | BackendError::Cancelled
            | BackendError::Capability(_)
            | BackendError::Task(_),
        ) => None,
    }
}
