//! Response future of all endpoints.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::{Request, Response, StatusCode};
use serde_json::json;
use tokio::task::JoinHandle;
use tower_service::Service;
use vmcp_core::Body;

use super::{RequestBody, ServerState, json_response};
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

impl EndpointFuture {
    /// Passes a request to the MCP endpoint.
    pub(crate) fn mcp(shared: &ServerState, is_get: bool, request: Request<RequestBody>) -> Self {
        let reloadable = shared.reloadable.load();
        let future = reloadable.mcp.clone().call(request);
        Self::Stack { future, scope: Some(reloadable.streams.clone()), is_get }
    }
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
