//! Response future of all endpoints.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::{Response, StatusCode};
use serde_json::json;
use tokio::task::JoinHandle;
use vmcp_core::Body;

use super::json_response;
use crate::stack::BoxResponseFuture;
use crate::stream_scope::StreamScope;

/// Response future of all endpoints.
pub(crate) enum EndpointFuture {
    /// Request to a stack.
    Stack {
        future: BoxResponseFuture,
        /// Scope of event streams in the response.
        scope: Option<StreamScope>,
        is_get: bool,
    },
    /// Immediate response.
    Immediate(Option<Response<Body>>),
    /// Response that a blocking thread renders.
    Blocking(JoinHandle<Response<Body>>),
}

impl Future for EndpointFuture {
    type Output = Result<Response<Body>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut *self {
            Self::Stack { future, scope, is_get } => {
                let Ok(response) = ready!(Pin::new(future).poll(cx));
                Poll::Ready(Ok(match scope {
                    Some(scope) => scope.bind(response, *is_get),
                    None => response,
                }))
            }
            Self::Blocking(response) => {
                let response = ready!(Pin::new(response).poll(cx));
                Poll::Ready(Ok(response.unwrap_or_else(|_panicked| {
                    let error = json!({"error": "internal_error"});
                    json_response(StatusCode::INTERNAL_SERVER_ERROR, &error)
                })))
            }
            Self::Immediate(response) => {
                response.take().map_or(Poll::Pending, |response| Poll::Ready(Ok(response)))
            }
        }
    }
}
