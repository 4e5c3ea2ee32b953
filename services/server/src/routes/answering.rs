//! Answer to a request, which may still be on its way.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::{Request, Response};
use hyper::body::Incoming;
use tower_service::Service;
use vmcp_core::Body;

use crate::serve::Quiet;
use crate::stack::McpService;
use crate::stream_scope::StreamScope;

/// The MCP service's future, or an answer that is there.
pub(crate) enum Answering {
    /// From the MCP endpoint, or one of those for old clients: both have this type.
    Mcp {
        future: <McpService as Service<Request<Quiet<Incoming>>>>::Future,
        /// How long streams may last.
        scope: Option<StreamScope>,
        is_get: bool,
    },
    /// From one of the others.
    Done(Option<Response<Body>>),
}

impl Future for Answering {
    type Output = Result<Response<Body>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut *self {
            Self::Mcp { future, scope, is_get } => {
                let Ok(response) = ready!(Pin::new(future).poll(cx));
                Poll::Ready(Ok(match scope {
                    Some(scope) => scope.bound(response, *is_get),
                    None => response,
                }))
            }
            Self::Done(response) => {
                response.take().map_or(Poll::Pending, |response| Poll::Ready(Ok(response)))
            }
        }
    }
}
