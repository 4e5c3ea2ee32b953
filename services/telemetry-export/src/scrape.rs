//! Metrics as Prometheus text.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use opentelemetry_prometheus::PrometheusExporter;
use prometheus::proto::Metric;
use prometheus::{Encoder as _, Registry, TextEncoder};
use tokio::time::Instant;
use vmcp_telemetry::metrics::NAME_ATTRIBUTES;
use vmcp_telemetry::metrics::names::OTHER;

use crate::BuildError;

/// Time for which the encoded text is cached: frequent scrapes cost nothing.
const CACHE_TTL: Duration = Duration::from_secs(1);

/// Metrics as text (Prometheus text format 0.0.4). Clones share the cache.
///
/// The number of labels bounds the length of the text; see [`MAX_NAMES`](vmcp_telemetry::metrics::MAX_NAMES).
#[derive(Clone)]
pub struct Scrape(Arc<Inner>);

struct Inner {
    registry: Registry,
    shown: Mutex<ScrapeState>,
}

#[derive(Default)]
struct ScrapeState {
    /// The last text, and when it was written.
    last: Option<(Instant, Bytes)>,
    /// Leaves out series with names of tools and prompts.
    hides_names: bool,
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
        Ok((Self(Arc::new(Inner { registry, shown: Mutex::default() })), reader))
    }

    /// Returns the text, at most a second old. Encoding takes some milliseconds with thousands of
    /// labels; concurrent callers wait for it.
    #[must_use]
    pub fn text(&self) -> Bytes {
        let mut shown = self.shown();
        let now = Instant::now();
        if let Some((at, text)) = &shown.last
            && now.duration_since(*at) < CACHE_TTL
        {
            return text.clone();
        }
        let mut families = self.0.registry.gather();
        if shown.hides_names {
            for family in &mut families {
                family.mut_metric().retain(|metric| !has_name(metric));
            }
            // The encoder stops at a family without a series.
            families.retain(|family| !family.get_metric().is_empty());
        }
        let mut text = Vec::new();
        // Metrics that cannot be encoded are left out; writes to the buffer cannot fail.
        _ = TextEncoder::new().encode(&families, &mut text);
        let text = Bytes::from(text);
        shown.last = Some((now, text.clone()));
        text
    }

    /// Leaves out the series of single tools and prompts from now on.
    pub(crate) fn hide_names(&self) {
        // The last text may have names.
        *self.shown() = ScrapeState { last: None, hides_names: true };
    }

    fn shown(&self) -> MutexGuard<'_, ScrapeState> {
        vmcp_core::lock(&self.0.shown)
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

/// Returns whether a series is that of a single tool or prompt.
fn has_name(metric: &Metric) -> bool {
    metric.get_label().iter().any(|label| {
        NAME_ATTRIBUTES.iter().any(|attribute| is_label_of(label.name(), attribute))
            && !["", OTHER].contains(&label.value())
    })
}

/// Returns whether `label` is the name of `attribute` in Prometheus.
fn is_label_of(label: &str, attribute: &str) -> bool {
    label.bytes().eq(attribute.bytes().map(|byte| if byte == b'.' { b'_' } else { byte }))
}

impl fmt::Debug for Scrape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scrape").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry::metrics::MeterProvider as _;
    use opentelemetry_sdk::metrics::SdkMeterProvider;
    use vmcp_core::Backend;
    use vmcp_telemetry::metrics::{ClientMetrics, ErrorType, Outcome, ServerMetrics};

    use super::*;

    /// Records an operation of each kind that has a name, on both sides.
    fn record(server: &ServerMetrics, client: &ClientMetrics, name: &str) {
        let backend = client.backend(&Backend::new("a"));
        for method in ["tools/call", "prompts/get", "resources/read"] {
            for fault in [ErrorType::None, ErrorType::RpcCode(-32603)] {
                let outcome = Outcome {
                    http_method: "POST",
                    status: 200,
                    error_type: fault,
                    ..Outcome::default()
                };
                server.record(&server.bind(method, Some(name), true), outcome, 0.1);
                backend.record(&backend.bind(method, Some(name)), outcome, 0.1);
            }
        }
    }

    #[test]
    fn hidden_names_are_in_no_series() {
        let (scrape, reader) = Scrape::new().unwrap();
        let provider = SdkMeterProvider::builder().with_reader(reader).build();
        let meter = provider.meter("test");
        let server = ServerMetrics::new(&meter, "s".to_owned());
        let client = ClientMetrics::new(&meter, true);
        let text = || String::from_utf8(scrape.text().to_vec()).unwrap();
        record(&server, &client, "canary");
        let before = text();
        assert!(before.contains("canary"), "{before}");
        let families = |text: &str| -> Vec<String> {
            let types = text.lines().filter(|line| line.starts_with("# TYPE "));
            types.map(str::to_owned).collect()
        };
        server.hide_names();
        client.hide_names();
        scrape.hide_names();
        let hidden = text();
        assert!(!hidden.contains("canary"), "{hidden}");
        assert!(hidden.contains("resources/read"), "{hidden}");
        // Calls go on to be counted, summed up.
        record(&server, &client, "canary");
        scrape.shown().last = None;
        let after = text();
        assert!(!after.contains("canary") && after.contains(OTHER), "{after}");
        assert_eq!(families(&after), families(&before));
    }
}
