//! The metrics as text, for Prometheus.

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

/// For how long a text is shown again. Nobody needs it fresher, and whoever asks more often costs
/// nothing.
const CACHE_TTL: Duration = Duration::from_secs(1);

/// Shows the metrics as text (Prometheus text format 0.0.4). A clone shows the same.
///
/// How long the text can become is bounded by the number of labels: see [`MAX_NAMES`](vmcp_metrics::MAX_NAMES).
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
            // There is one scope.
            .scope_info_enabled(false)
            .build()
            .map_err(|error| BuildError::Exporter(error.to_string()))?;
        Ok((Self(Arc::new(Inner { registry, last: Mutex::default() })), reader))
    }

    /// The text, at most a second old. Writing it anew takes some milliseconds when there are
    /// thousands of labels; who asks meanwhile waits.
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
        // What cannot be shown is left out; the buffer takes everything.
        _ = TextEncoder::new().encode(&self.0.registry.gather(), &mut text);
        let text = Bytes::from(text);
        *last = Some((now, text.clone()));
        text
    }

    /// The answer to `GET /metrics`.
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
