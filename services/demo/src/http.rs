//! HTTP server of the examples.

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, Limited, StreamBody};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, mpsc};
use vmcp_core::{Body, code};

use crate::mcp_server::{ClientChannel, McpServer, RpcError};

/// Maximum size of a message, in bytes.
const MAX_MESSAGE_SIZE: usize = 1 << 20;

/// Maximum number of connections: those of the gateway and of any other client on this machine.
const MAX_CONNECTIONS: usize = 512;

/// Capacity of a stream's message queue.
pub(crate) const QUEUE_CAPACITY: usize = 16;

/// Server of one protocol generation.
pub(crate) trait ProtocolServer: Send + Sync + 'static {
    type McpServer: McpServer;

    /// Responds to one HTTP request. The message is null if the request has none.
    fn respond(
        self: Arc<Self>,
        method: Method,
        headers: HeaderMap,
        message: Value,
    ) -> impl Future<Output = Response<Body>> + Send;
}

/// Serves an example until the future is dropped.
pub(crate) async fn serve<S: ProtocolServer>(listener: TcpListener, server: Arc<S>) {
    let permits = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    while let Ok(permit) = Arc::clone(&permits).acquire_owned().await {
        let Ok((stream, _)) = listener.accept().await else { continue };
        let server = Arc::clone(&server);
        tokio::spawn(async move {
            let service = service_fn(|request| {
                let server = Arc::clone(&server);
                async move { Ok::<_, Infallible>(handle(server, request).await) }
            });
            // A connection error affects that connection alone.
            _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
            drop(permit);
        });
    }
}

async fn handle<S: ProtocolServer>(server: Arc<S>, request: Request<Incoming>) -> Response<Body> {
    let (parts, body) = request.into_parts();
    // Only browsers send an origin; the gateway does not.
    if parts.headers.contains_key(http::header::ORIGIN) {
        return status(StatusCode::FORBIDDEN);
    }
    if parts.uri.path() != "/mcp" {
        return status(StatusCode::NOT_FOUND);
    }
    let message = if parts.method == Method::POST {
        let Ok(body) = Limited::new(body, MAX_MESSAGE_SIZE).collect().await else {
            return status(StatusCode::PAYLOAD_TOO_LARGE);
        };
        let Ok(message) = serde_json::from_slice(&body.to_bytes()) else {
            let error =
                RpcError { code: code::PARSE, message: "the body is not valid JSON".to_owned() };
            return json_response(StatusCode::BAD_REQUEST, &error_response(&Value::Null, error));
        };
        message
    } else {
        Value::Null
    };
    server.respond(parts.method, parts.headers, message).await
}

/// Handles a request in its own stream: messages first, then the response. The request is canceled when the client
/// disconnects.
pub(crate) fn stream_response<S, F>(
    id: Value,
    handling: impl FnOnce(ClientChannel) -> F,
    client: S,
) -> Response<Body>
where
    S: FnOnce(mpsc::Sender<Value>) -> ClientChannel,
    F: Future<Output = Result<Value, RpcError>> + Send + 'static,
{
    let (sender, response) = event_stream();
    let handling = handling(client(sender.clone()));
    tokio::spawn(async move {
        let outcome = tokio::select! {
            outcome = handling => outcome,
            () = sender.closed() => return,
        };
        _ = sender.send(to_response(&id, outcome)).await;
    });
    response
}

/// Creates an event stream and its sender.
pub(crate) fn event_stream() -> (mpsc::Sender<Value>, Response<Body>) {
    let (sender, messages) = mpsc::channel::<Value>(QUEUE_CAPACITY);
    // The stream owns the receiver, so that the sender notices a disconnect.
    let events = stream::unfold(messages, |mut messages| async move {
        let message = messages.recv().await?;
        let event = Bytes::from(format!("event: message\ndata: {message}\n\n"));
        Some((Ok::<_, Infallible>(Frame::data(event)), messages))
    });
    let mut response = Response::new(Body::wrap(StreamBody::new(events)));
    let kind = HeaderValue::from_static("text/event-stream");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    (sender, response)
}

/// Returns the response to a request.
pub(crate) fn to_response(id: &Value, outcome: Result<Value, RpcError>) -> Value {
    match outcome {
        Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
        Err(error) => error_response(id, error),
    }
}

/// Returns the error response to a request.
pub(crate) fn error_response(id: &Value, RpcError { code, message }: RpcError) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
}

pub(crate) fn json_response(status: StatusCode, message: &Value) -> Response<Body> {
    let mut response = Response::new(Body::from(Bytes::from(message.to_string())));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

pub(crate) fn status(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}
