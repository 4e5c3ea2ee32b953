//! Metrics in the text format of Prometheus.

use std::time::Duration;

use http::Request;
use kube::Client;
use kube::client::Body;
use prometheus::{
    Encoder, HistogramOpts, HistogramVec, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
    TextEncoder,
};

use tower::service_fn;

use crate::key::Kind;
use crate::stores::Stores;

/// Metrics of the operator.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    reconciles: IntCounterVec,
    durations: HistogramVec,
    requests: IntCounterVec,
    queued: IntGauge,
    objects: IntGaugeVec,
    leading: IntGauge,
    reviews: IntCounterVec,
    certificate: IntGauge,
}

// === impl Metrics ===

impl Metrics {
    pub(crate) fn new() -> Self {
        Self::registered().expect("the names of the metrics are valid and differ")
    }

    fn registered() -> Result<Self, prometheus::Error> {
        let registry = Registry::new();
        let counters = |name: &str, help: &str, labels: &[&str]| {
            let vector = IntCounterVec::new(Opts::new(name, help), labels)?;
            registry.register(Box::new(vector.clone()))?;
            Ok::<_, prometheus::Error>(vector)
        };
        let reconciles = counters(
            "vmcp_operator_reconciles_total",
            "Reconciles by kind and result.",
            &["kind", "result"],
        )?;
        let requests = counters(
            "vmcp_operator_api_requests_total",
            "Requests to the API server by method and status.",
            &["method", "status"],
        )?;
        let durations = HistogramVec::new(
            HistogramOpts::new(
                "vmcp_operator_reconcile_duration_seconds",
                "Time of a reconcile by kind.",
            ),
            &["kind"],
        )?;
        let objects = IntGaugeVec::new(
            Opts::new("vmcp_operator_watched_objects", "Watched objects by kind."),
            &["kind"],
        )?;
        let queued =
            IntGauge::new("vmcp_operator_queued_objects", "Objects that wait for a reconcile.")?;
        let leading = IntGauge::new("vmcp_operator_leader", "1 if this replica leads.")?;
        let reviews = counters(
            "vmcp_operator_webhook_reviews_total",
            "Reviews of the webhook by kind and outcome.",
            &["kind", "outcome"],
        )?;
        let certificate = IntGauge::new(
            "vmcp_operator_webhook_certificate_seconds",
            "Time until the end of the webhook's certificate; 0 without one.",
        )?;
        registry.register(Box::new(certificate.clone()))?;
        registry.register(Box::new(durations.clone()))?;
        registry.register(Box::new(objects.clone()))?;
        registry.register(Box::new(queued.clone()))?;
        registry.register(Box::new(leading.clone()))?;
        Ok(Self {
            registry,
            reconciles,
            durations,
            requests,
            queued,
            objects,
            leading,
            reviews,
            certificate,
        })
    }

    pub(crate) fn count_reconcile(&self, kind: Kind, is_ok: bool, time: Duration) {
        let result = if is_ok { "success" } else { "error" };
        self.reconciles.with_label_values(&[kind.as_str(), result]).inc();
        self.durations.with_label_values(&[kind.as_str()]).observe(time.as_secs_f64());
    }

    /// Returns a client that sends requests through another one and counts them.
    pub(crate) fn count_requests_of(&self, client: Client) -> Client {
        let namespace = client.default_namespace().to_owned();
        let requests = self.requests.clone();
        let service = service_fn(move |request: Request<Body>| {
            let (client, requests) = (client.clone(), requests.clone());
            async move {
                let method = request.method().clone();
                let result = client.send(request).await;
                let status = match &result {
                    Ok(response) => response.status().as_str().to_owned(),
                    Err(_) => "error".to_owned(),
                };
                requests.with_label_values(&[method.as_str(), &status]).inc();
                result
            }
        });
        Client::new(service, namespace)
    }

    pub(crate) fn set_leading(&self, is_leading: bool) {
        self.leading.set(is_leading.into());
    }

    /// Counts a request to the webhook; the kind is empty if it is not a review.
    pub(crate) fn count_review(&self, kind: &str, outcome: &str) {
        self.reviews.with_label_values(&[kind, outcome]).inc();
    }

    /// Sets the time until the end of the webhook's certificate.
    pub(crate) fn set_certificate_left(&self, seconds: i64) {
        self.certificate.set(seconds);
    }

    /// Returns all metrics as text.
    pub(crate) fn text(&self, stores: &Stores) -> String {
        self.queued.set(i64::try_from(stores.queue.len()).unwrap_or(i64::MAX));
        for (kind, count) in stores.counts() {
            let gauge = self.objects.with_label_values(&[kind.as_str()]);
            gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
        }
        let mut text = Vec::new();
        if let Err(error) = TextEncoder::new().encode(&self.registry.gather(), &mut text) {
            tracing::warn!(%error, "metrics not encoded");
        }
        String::from_utf8_lossy(&text).into_owned()
    }
}
