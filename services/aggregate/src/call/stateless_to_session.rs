//! Stateless client, stateful backend.
use http::Response;
use vmcp_core::{Body, BoxError, Rejection};
use super::{Call, Target};
pub(crate) async fn call(_: Call, _: Target) -> Result<Result<Response<Body>, Rejection>, BoxError> { Ok(Err(Rejection::internal())) }
