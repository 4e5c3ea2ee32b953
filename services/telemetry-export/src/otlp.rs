//! Export to a collector: OTLP over an HTTP client.
//!
//! The exporters run on their own threads, each with a bounded queue that drops data when it is
//! full. A slow or unreachable collector does not delay requests.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request, Response};
use opentelemetry_http::HttpError;
use opentelemetry_otlp::{
    MetricExporter, SpanExporter, WithExportConfig as _, WithHttpConfig as _,
};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use vmcp_core::{Body, HttpClient};

use crate::{BuildError, Builder, Endpoint, Protocol, SettingsError};

mod grpc;

/// Timeout of one export attempt.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum size of a response in bytes.
const MAX_RESPONSE_SIZE: usize = 64 * 1024;

const TRACES: &str = "/v1/traces";
const METRICS: &str = "/v1/metrics";

/// HTTP client of the exporters, which sends in a task of the runtime.
struct OtlpHttpClient {
    client: HttpClient,
    runtime: Handle,
    protocol: Protocol,
    headers: Arc<[(HeaderName, HeaderValue)]>,
    failures: Arc<AtomicU64>,
}

/// Task that is aborted when this is dropped.
struct AbortOnDrop<T>(JoinHandle<T>);

/// Error of an export. Contains no part of the request, and of the response only numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum ExportError {
    #[error("the collector did not respond within {EXPORT_TIMEOUT:?}")]
    Elapsed,
    #[error("failed to connect to the collector")]
    Unreachable,
    #[error("the collector's response is invalid or too large")]
    InvalidResponse,
    #[error("the tokio runtime has shut down")]
    NoRuntime,
}

impl Builder {
    /// Sends the enabled signals to the collector over `client`. The client has to reach the origin
    /// of the endpoint; requests have absolute URIs. Trust and address policy are those of the
    /// client; each attempt is limited to 10 s and a response of 64 KiB. [`Protocol::Grpc`] needs
    /// HTTP/2 and trailers, by prior knowledge without TLS. Nothing is sent before [`Builder::build`].
    ///
    /// # Errors
    /// The endpoint is missing, the protocol is unknown, or the call is outside of a tokio runtime.
    pub fn otlp(mut self, client: impl Into<HttpClient>) -> Result<Self, BuildError> {
        let (spans, metrics) = (self.settings.sampling.is_some(), self.settings.metrics);
        if !spans && !metrics {
            return Ok(self);
        }
        let endpoint = self.settings.endpoint.clone().ok_or(SettingsError::MissingEndpoint)?;
        let variable = (self.environment)("OTEL_EXPORTER_OTLP_PROTOCOL").unwrap_or_default();
        let runtime = Handle::try_current().map_err(|_| BuildError::NoRuntime)?;
        let http_client: Arc<dyn opentelemetry_http::HttpClient> = Arc::new(OtlpHttpClient {
            client: client.into(),
            runtime,
            protocol: variable.parse()?,
            headers: self.settings.headers.0.clone().into(),
            failures: Arc::clone(&self.failures),
        });
        if spans {
            self.span_exporter = Some(span_exporter(&endpoint, Arc::clone(&http_client))?);
        }
        if metrics {
            self.metric_exporter = Some(metric_exporter(&endpoint, http_client)?);
        }
        Ok(self)
    }
}

fn span_exporter(
    endpoint: &Endpoint,
    http_client: Arc<dyn opentelemetry_http::HttpClient>,
) -> Result<SpanExporter, BuildError> {
    SpanExporter::builder()
        .with_http()
        .with_protocol(opentelemetry_otlp::Protocol::HttpBinary)
        .with_endpoint(endpoint.join(TRACES))
        .with_shared_http_client(http_client)
        .build()
        .map_err(|error| BuildError::Exporter(error.to_string()))
}

fn metric_exporter(
    endpoint: &Endpoint,
    http_client: Arc<dyn opentelemetry_http::HttpClient>,
) -> Result<MetricExporter, BuildError> {
    MetricExporter::builder()
        .with_http()
        .with_protocol(opentelemetry_otlp::Protocol::HttpBinary)
        .with_endpoint(endpoint.join(METRICS))
        .with_shared_http_client(http_client)
        .build()
        .map_err(|error| BuildError::Exporter(error.to_string()))
}

#[async_trait]
impl opentelemetry_http::HttpClient for OtlpHttpClient {
    async fn send_bytes(&self, mut request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        for (name, value) in &*self.headers {
            request.headers_mut().insert(name, value.clone());
        }
        let client = self.client.clone();
        let protocol = self.protocol;
        let exchange = async move {
            let exchange = exchange(client, request, protocol);
            let response = tokio::time::timeout(EXPORT_TIMEOUT, exchange).await;
            response.unwrap_or(Err(ExportError::Elapsed))
        };
        let mut task = AbortOnDrop(self.runtime.spawn(exchange));
        let response = (&mut task.0).await.unwrap_or(Err(ExportError::NoRuntime));
        if !response.as_ref().is_ok_and(|response| response.status().is_success()) {
            self.failures.fetch_add(1, Ordering::Relaxed);
        }
        Ok(response?)
    }
}

async fn exchange(
    client: HttpClient,
    request: Request<Bytes>,
    protocol: Protocol,
) -> Result<Response<Bytes>, ExportError> {
    let request = match protocol {
        Protocol::Http => request.map(Body::from),
        Protocol::Grpc => grpc::build_request(request).ok_or(ExportError::InvalidResponse)?,
    };
    let response = client.send(request).await.map_err(|_| ExportError::Unreachable)?;
    match protocol {
        Protocol::Http => {
            let (parts, body) = response.into_parts();
            let body = vmcp_core::collect_limited(body, MAX_RESPONSE_SIZE)
                .await
                .map_err(|_| ExportError::InvalidResponse)?;
            Ok(Response::from_parts(parts, body))
        }
        Protocol::Grpc => grpc::read_response(response).await,
    }
}

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl fmt::Debug for OtlpHttpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Carrier").field("protocol", &self.protocol).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
