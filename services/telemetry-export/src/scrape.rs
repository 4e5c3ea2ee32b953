//! Metrics as Prometheus text.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use opentelemetry_prometheus::PrometheusExporter;
use prometheus::{Encoder as _, Registry, TextEncoder};
use tokio::time::Instant;

use crate::BuildError;

/// Time for which the encoded text is cached: frequent scrapes cost nothing.
const CACHE_TTL: Duration = Duration::from_secs(1);

/// Metrics as text (Prometheus text format 0.0.4). Clones share the cache.
///
/// The number of labels bounds the length of the text; see [`MAX_NAMES`](vmcp_metrics::MAX_NAMES).
#[derive(Clone)]
pub struct Scrape(Arc<Inner>);

struct Inner {
    registry: Registry,
    last: Mutex<Option<(Instant, Bytes)>>,
}

impl Scrape {
    pub(crate) fn new() -> Result<(Self, PrometheusExporter), BuildError> {
        let registry = Registry::new();
        let reader = opentelemetry_prometheus::exporter()
            .with_registry(registry.clone())
            // There is only one scope.
            .scope_info_enabled(false)
            .build()
            .map_err(|error| BuildError::Exporter(error.to_string()))?;
        Ok((Self(Arc::new(Inner { registry, last: Mutex::default() })), reader))
    }

    /// Returns the text, at most a second old. Encoding takes some milliseconds with thousands of
    /// labels; concurrent callers wait for it.
    #[must_use]
    pub fn text(&self) -> Bytes {
        let mut last = self.0.last.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if let Some((at, text)) = &*last
            && now.duration_since(*at) < CACHE_TTL
        {
            return text.clone();
        }
        let mut text = Vec::new();
        // Metrics that cannot be encoded are left out; writes to the buffer cannot fail.
        _ = TextEncoder::new().encode(&self.0.registry.gather(), &mut text);
        let text = Bytes::from(text);
        *last = Some((now, text.clone()));
        text
    }

    /// Returns the response to `GET /metrics`.
    #[must_use]
    pub fn response<B: From<Bytes>>(&self) -> Response<B> {
        let mut response = Response::new(B::from(self.text()));
        *response.status_mut() = StatusCode::OK;
        let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
        response.headers_mut().insert(CONTENT_TYPE, kind);
        response
    }
}

impl fmt::Debug for Scrape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scrape").finish_non_exhaustive()
    }
}
