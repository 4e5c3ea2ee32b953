//! Completions: the gateway has them, whether or not the backend that is asked has any.

use std::sync::Arc;

use http::Response;
use http_body::Body as _;
use http_body_util::BodyExt;
use vmcp_core::{Body, Rejection, code};
use vmcp_wire::head;

use super::{Call, answer};

/// The longest answer that is looked at: what is no error is longer, or costs little to look at.
const REFUSAL: u64 = 16 << 10;

/// Answers `completion/complete`. A backend that does not know the method has nothing to propose: to the client,
/// which was told that there are completions here, it is no fault of the request.
pub(crate) async fn complete(call: Arc<Call>) -> Result<Response<Body>, Rejection> {
    let response = Arc::clone(&call).forward("completion/complete").await?;
    if response.body().size_hint().exact().is_none_or(|size| size > REFUSAL) {
        return Ok(response);
    }
    let (parts, body) = response.into_parts();
    let message = body.collect().await.map_err(|_| Rejection::internal())?.to_bytes();
    let refused = head(&message).ok().as_ref().and_then(answer::error_code);
    if refused != Some(i64::from(code::METHOD_NOT_FOUND)) {
        return Ok(Response::from_parts(parts, Body::from(message)));
    }
    let nothing: &[u8] = match call.session {
        Some(_) => br#"{"completion":{"values":[]}}"#,
        None => br#"{"resultType":"complete","completion":{"values":[]}}"#,
    };
    let mut response = answer::result(&call.id(), nothing);
    *response.extensions_mut() = parts.extensions;
    Ok(response)
}
