//! Code of the JSON-RPC error in a response.

use vmcp_core::RequestContext;
use vmcp_wire::{MessagePrefix, PrefixOutcome, may_contain_error, scan_prefix};

/// Records the error of a response, if it is one.
pub(crate) fn record_error(request_context: Option<&RequestContext>, message: &[u8]) {
    if let Some(request_context) = request_context.filter(|_| may_contain_error(message))
        && let Ok(found) = scan_prefix(message)
        && let Some(code) = error_code(&found)
    {
        request_context.record_error(code);
    }
}

/// Returns the code of a JSON-RPC error.
pub(crate) fn error_code(found: &MessagePrefix) -> Option<i64> {
    match found.outcome {
        Some(PrefixOutcome::Error { code, .. }) => code,
        Some(PrefixOutcome::Result { .. }) | None => None,
    }
}
