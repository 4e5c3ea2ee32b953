//! HTTP statuses of responses.

use http::StatusCode;
use vmcp_core::{Generation, code};
use vmcp_wire::MessagePrefix;

use super::{ExpectedResponse, error_code};

/// Returns the HTTP status for the client. A backend of the client's generation has already chosen it; for a stateful client, a
/// JSON-RPC error is not an HTTP error.
pub(super) fn outgoing(
    status: StatusCode,
    found: &MessagePrefix,
    expected: &ExpectedResponse,
) -> StatusCode {
    match (expected.client, expected.backend) {
        (Generation::Stateful, _) => StatusCode::OK,
        (Generation::Stateless, Generation::Stateless)
            if status.is_success() || matches!(status.as_u16(), 400 | 404) =>
        {
            status
        }
        (Generation::Stateless, _) => {
            let code = error_code(found).and_then(|code| i32::try_from(code).ok());
            code.map_or(StatusCode::OK, status_of)
        }
    }
}

/// Returns the HTTP status of an error for a stateless client.
pub(crate) fn status_of(error: i32) -> StatusCode {
    match error {
        code::METHOD_NOT_FOUND => StatusCode::NOT_FOUND,
        code::INVALID_PARAMS
        | code::RESOURCE_NOT_FOUND
        | code::HEADER_MISMATCH
        | code::MISSING_CAPABILITY
        | code::UNSUPPORTED_REVISION => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    }
}
