//! Stateful client, stateless backend.
use std::sync::Arc;
use http::Response;
use vmcp_core::{Body, BoxError, Rejection};
use super::{Call, Target};
use crate::session::Session;
pub(crate) async fn call(_: Call, _: Arc<Session>, _: Target) -> Result<Result<Response<Body>, Rejection>, BoxError> { Ok(Err(Rejection::internal())) }
