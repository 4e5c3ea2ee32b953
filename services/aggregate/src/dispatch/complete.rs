//! Completions, which the gateway declares whether or not the selected backend supports them.

use std::sync::Arc;

use http::Response;
use http_body::Body as _;
use http_body_util::BodyExt;
use vmcp_core::{Body, Rejection, code};
use vmcp_wire::scan_prefix;

use crate::bridge::Bridge;
use crate::call::Call;
use crate::response;

/// Maximum length of a response that is checked for an error. Longer responses are not errors.
const REFUSAL: u64 = 16 << 10;

/// Processes `completion/complete`. If the backend does not know the method, the result is empty: the gateway has declared
/// completions, so the request is valid.
pub(crate) async fn complete(
    bridge: &Arc<Bridge>,
    call: Arc<Call>,
) -> Result<Response<Body>, Rejection> {
    let response = bridge.forward(Arc::clone(&call), "completion/complete").await?;
    if response.body().size_hint().exact().is_none_or(|size| size > REFUSAL) {
        return Ok(response);
    }
    let (parts, body) = response.into_parts();
    let message = body.collect().await.map_err(|_| Rejection::internal())?.to_bytes();
    let refused = scan_prefix(&message).ok().as_ref().and_then(response::error_code);
    if refused != Some(i64::from(code::METHOD_NOT_FOUND)) {
        return Ok(Response::from_parts(parts, Body::from(message)));
    }
    let nothing: &[u8] = match call.session {
        Some(_) => br#"{"completion":{"values":[]}}"#,
        None => br#"{"resultType":"complete","completion":{"values":[]}}"#,
    };
    let mut response = response::result(&call.id(), nothing);
    *response.extensions_mut() = parts.extensions;
    Ok(response)
}
