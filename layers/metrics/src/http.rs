//! The instrument of requests to endpoints that do not speak MCP.

use std::sync::{PoisonError, RwLock};

use opentelemetry::KeyValue;
use opentelemetry::metrics::{BoundHistogram, Histogram, Meter};

use crate::labels::histogram;
use crate::names::{self, OTHER};
use crate::{Fault, Outcome};

/// How many sets of labels there are, before the rest is summed up.
const MAX: usize = 500;

/// What requests to endpoints beside MCP are recorded with (OpenTelemetry semantic conventions for HTTP).
#[derive(Debug)]
pub struct HttpMetrics {
    duration: Histogram<f64>,
    series: RwLock<Vec<Series>>,
}

/// The instrument, for one set of labels.
#[derive(Debug)]
struct Series {
    route: Option<Box<str>>,
    outcome: Outcome,
    duration: BoundHistogram<f64>,
}

impl HttpMetrics {
    /// The instrument of `meter`.
    #[must_use]
    pub fn new(meter: &Meter) -> Self {
        Self { duration: histogram(meter, &names::HTTP_DURATION), series: RwLock::default() }
    }

    /// Records a request that has ended after `seconds`. `route` is the template that it fits, as the server has it,
    /// never the path; `None` if it fits none.
    pub fn record(&self, route: Option<&str>, outcome: Outcome, seconds: f64) {
        let find = |all: &[Series], route: Option<&str>, outcome: &Outcome| {
            let is = |one: &&Series| one.route.as_deref() == route && one.outcome == *outcome;
            all.iter().find(is).map(|one| one.duration.record(seconds)).is_some()
        };
        if find(&self.series.read().unwrap_or_else(PoisonError::into_inner), route, &outcome) {
            return;
        }
        let mut series = self.series.write().unwrap_or_else(PoisonError::into_inner);
        let (route, outcome) =
            if series.len() < MAX { (route, outcome) } else { (Some(OTHER), Outcome::OTHER) };
        if !find(&series, route, &outcome) {
            let duration = self.duration.bind(&labels(route, &outcome));
            duration.record(seconds);
            series.push(Series { route: route.map(Into::into), outcome, duration });
        }
    }
}

fn labels(route: Option<&str>, outcome: &Outcome) -> Vec<KeyValue> {
    let mut labels = vec![
        KeyValue::new("http.request.method", outcome.verb),
        KeyValue::new("url.scheme", "http"),
        KeyValue::new("http.response.status_code", i64::from(outcome.status)),
    ];
    labels.extend(route.map(|route| KeyValue::new("http.route", route.to_owned())));
    let http = Some(outcome.http).filter(|http| !http.is_empty());
    labels.extend(http.map(|http| KeyValue::new("network.protocol.version", http)));
    // What a client did wrong is no error of the server.
    let fault = match outcome.fault {
        Fault::Status(400..500) => None,
        fault => fault.label(),
    };
    labels.extend(fault.map(|fault| KeyValue::new("error.type", fault)));
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
    fn a_flood_of_outcomes_takes_no_more_room() {
        let metrics = metrics();
        for status in 0..2000 {
            let outcome = Outcome { verb: "GET", status, ..Outcome::default() };
            metrics.record(Some("/a"), outcome, 0.1);
        }
        assert_eq!(metrics.series.read().unwrap().len(), MAX + 1);
    }

    #[test]
    fn what_a_client_did_wrong_is_no_error() {
        for (fault, expected) in [
            (Fault::None, None),
            (Fault::Status(404), None),
            (Fault::Status(503), Some("503")),
            (Fault::CANCELLED, Some("cancelled")),
        ] {
            let outcome = Outcome { verb: "GET", status: 200, fault, ..Outcome::default() };
            let labels = labels(Some("/a"), &outcome);
            let error = labels.iter().find(|label| label.key.as_str() == "error.type");
            assert_eq!(error.map(|error| error.value.to_string()).as_deref(), expected);
        }
    }
}
