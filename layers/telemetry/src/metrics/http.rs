//! Metrics of requests to endpoints that do not speak MCP.

use std::sync::RwLock;

use opentelemetry::KeyValue;
use opentelemetry::metrics::{BoundHistogram, Histogram, Meter};

use crate::metrics::labels::histogram;
use crate::metrics::names::{self, OTHER};
use crate::metrics::{ErrorType, Outcome};

/// Maximum number of label sets.
const MAX_ROUTE_SERIES: usize = 500;

/// Metrics of requests to other endpoints (OpenTelemetry semantic conventions for HTTP).
#[derive(Debug)]
pub struct HttpMetrics {
    duration: Histogram<f64>,
    series: RwLock<Vec<Series>>,
}

/// Instrument bound to one set of labels.
#[derive(Debug)]
struct Series {
    route: Option<Box<str>>,
    outcome: Outcome,
    duration: BoundHistogram<f64>,
}

impl HttpMetrics {
    /// Creates the instrument of `meter`.
    #[must_use]
    pub fn new(meter: &Meter) -> Self {
        Self { duration: histogram(meter, &names::HTTP_DURATION), series: RwLock::default() }
    }

    /// Records a request that took `seconds`. `route` is the route template of the server, never the path; `None` for
    /// an unknown route.
    pub fn record(&self, route: Option<&str>, outcome: Outcome, seconds: f64) {
        let record_existing = |all: &[Series], route: Option<&str>, outcome: &Outcome| {
            let matches_key =
                |entry: &&Series| entry.route.as_deref() == route && entry.outcome == *outcome;
            all.iter().find(matches_key).map(|entry| entry.duration.record(seconds)).is_some()
        };
        if record_existing(&vmcp_core::read_lock(&self.series), route, &outcome) {
            return;
        }
        let mut series = vmcp_core::write_lock(&self.series);
        let (route, outcome) = if series.len() < MAX_ROUTE_SERIES {
            (route, outcome)
        } else {
            (Some(OTHER), Outcome::OTHER)
        };
        if !record_existing(&series, route, &outcome) {
            let duration = self.duration.bind(&labels(route, &outcome));
            duration.record(seconds);
            series.push(Series { route: route.map(Into::into), outcome, duration });
        }
    }
}

fn labels(route: Option<&str>, outcome: &Outcome) -> Vec<KeyValue> {
    let mut labels = vec![
        KeyValue::new("http.request.method", outcome.http_method),
        KeyValue::new("url.scheme", "http"),
        KeyValue::new("http.response.status_code", i64::from(outcome.status)),
    ];
    labels.extend(route.map(|route| KeyValue::new("http.route", route.to_owned())));
    let http_version = Some(outcome.http_version).filter(|http_version| !http_version.is_empty());
    labels.extend(
        http_version.map(|http_version| KeyValue::new("network.protocol.version", http_version)),
    );
    // A client error is not an error of the server.
    let error_type = match outcome.error_type {
        ErrorType::Status(400..500) => None,
        error_type => error_type.label(),
    };
    labels.extend(error_type.map(|error_type| KeyValue::new("error.type", error_type)));
    labels
}

#[cfg(test)]
mod tests {
    use opentelemetry::metrics::MeterProvider as _;
    use opentelemetry_sdk::metrics::SdkMeterProvider;

    use super::*;

    fn metrics() -> HttpMetrics {
        HttpMetrics::new(&SdkMeterProvider::default().meter("tests"))
    }

    #[test]
    fn bounds_number_of_outcomes() {
        let metrics = metrics();
        for status in 0..2000 {
            let outcome = Outcome { http_method: "GET", status, ..Outcome::default() };
            metrics.record(Some("/a"), outcome, 0.1);
        }
        assert_eq!(metrics.series.read().unwrap().len(), MAX_ROUTE_SERIES + 1);
    }

    #[test]
    fn client_errors_have_no_error_type() {
        for (error_type, expected) in [
            (ErrorType::None, None),
            (ErrorType::Status(404), None),
            (ErrorType::Status(503), Some("503")),
            (ErrorType::CANCELLED, Some("cancelled")),
        ] {
            let outcome =
                Outcome { http_method: "GET", status: 200, error_type, ..Outcome::default() };
            let labels = labels(Some("/a"), &outcome);
            let error = labels.iter().find(|label| label.key.as_str() == "error.type");
            assert_eq!(error.map(|error| error.value.to_string()).as_deref(), expected);
        }
    }
}
