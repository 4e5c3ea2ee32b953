//! OTLP messages as unary gRPC calls.
//!
//! OTLP over HTTP and over gRPC carry the same protobuf messages. gRPC differs in the path, five
//! bytes before the message, and a status in the trailers, which needs no gRPC stack (gRPC over
//! HTTP/2, "Requests" and "Responses").

use std::future::poll_fn;
use std::pin::pin;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, TE};
use http::uri::PathAndQuery;
use http::{Request, Response, StatusCode, Uri, Version};
use http_body::Body as _;
use vmcp_core::Body;

use super::{ExportError, MAX_RESPONSE_SIZE, METRICS, TRACES};

const TRACE_SERVICE: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
const METRICS_SERVICE: &str = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export";

const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");

/// Flag of an uncompressed message, before its length.
const UNCOMPRESSED: u8 = 0;

/// Converts an OTLP request over HTTP to a gRPC call; `None` for an unknown path.
pub(super) fn build_request(request: Request<Bytes>) -> Option<Request<Body>> {
    let (mut parts, message) = request.into_parts();
    let path = parts.uri.path();
    let path = if let Some(base) = path.strip_suffix(TRACES) {
        format!("{base}{TRACE_SERVICE}")
    } else {
        format!("{}{METRICS_SERVICE}", path.strip_suffix(METRICS)?)
    };
    let mut uri = parts.uri.into_parts();
    uri.path_and_query = Some(PathAndQuery::try_from(path).ok()?);
    parts.uri = Uri::from_parts(uri).ok()?;
    parts.version = Version::HTTP_2;
    parts.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    parts.headers.insert(TE, HeaderValue::from_static("trailers"));
    let length = u32::try_from(message.len()).ok()?.to_be_bytes();
    let mut framed = Vec::with_capacity(message.len() + 5);
    framed.push(UNCOMPRESSED);
    framed.extend_from_slice(&length);
    framed.extend_from_slice(&message);
    Some(Request::from_parts(parts, Body::from(Bytes::from(framed))))
}

/// Converts the response to that of OTLP over HTTP.
pub(super) async fn read_response(
    response: Response<Body>,
) -> Result<Response<Bytes>, ExportError> {
    let (parts, body) = response.into_parts();
    if !parts.status.is_success() {
        return Ok(http_response(parts.status, Bytes::new()));
    }
    // A response without a message has its status in the headers.
    let mut status = grpc_status(&parts.headers);
    let (mut body, mut message) = (pin!(body), Vec::new());
    while let Some(frame) = poll_fn(|cx| body.as_mut().poll_frame(cx)).await {
        match frame.map_err(|_| ExportError::InvalidResponse)?.into_data() {
            Ok(data) if message.len() + data.len() > MAX_RESPONSE_SIZE => {
                return Err(ExportError::InvalidResponse);
            }
            Ok(data) => message.extend_from_slice(&data),
            Err(frame) => {
                let trailers = frame.into_trailers().unwrap_or_default();
                status = status.or_else(|| grpc_status(&trailers));
            }
        }
    }
    match status {
        Some(0) => Ok(http_response(
            StatusCode::OK,
            decode_frame(&message).ok_or(ExportError::InvalidResponse)?,
        )),
        // Status codes after which OTLP allows a retry.
        Some(1 | 4 | 8 | 10 | 11 | 14 | 15) => {
            Ok(http_response(StatusCode::SERVICE_UNAVAILABLE, Bytes::new()))
        }
        Some(7 | 16) => Ok(http_response(StatusCode::UNAUTHORIZED, Bytes::new())),
        Some(_) => Ok(http_response(StatusCode::BAD_REQUEST, Bytes::new())),
        None => Err(ExportError::InvalidResponse),
    }
}

fn grpc_status(headers: &HeaderMap) -> Option<u32> {
    headers.get(GRPC_STATUS)?.to_str().ok()?.parse().ok()
}

fn decode_frame(framed: &[u8]) -> Option<Bytes> {
    match framed {
        [] => Some(Bytes::new()),
        [UNCOMPRESSED, a, b, c, d, message @ ..] => {
            let length = u32::from_be_bytes([*a, *b, *c, *d]);
            let is_complete = usize::try_from(length) == Ok(message.len());
            is_complete.then(|| Bytes::copy_from_slice(message))
        }
        _ => None,
    }
}

fn http_response(status: StatusCode, body: Bytes) -> Response<Bytes> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response
}
