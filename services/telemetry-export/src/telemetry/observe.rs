//! Numbers that somebody else keeps, read whenever metrics are sent or shown.

use opentelemetry::KeyValue;
use opentelemetry::metrics::AsyncInstrument;
use vmcp_metrics::names::{Kind, Metric};

use super::Telemetry;

/// How many values of its label one metric shows.
pub(super) const MAX_VALUES: usize = 1000;

impl Telemetry {
    /// Shows the number that `read` gives. To be called once for a metric: it is read for as long as
    /// this exists, on the thread that sends or shows metrics, so `read` must not wait. A histogram
    /// cannot be shown so; nothing happens then.
    pub fn observe(&self, metric: &Metric, read: impl Fn() -> u64 + Send + Sync + 'static) {
        self.register(metric, move |gauge| gauge.observe(read(), &[]));
    }

    /// The same for several numbers, told apart by the values of `label`. `read` is given what it
    /// calls for each value and its number; of more than 1,000 the rest is not shown.
    pub fn observe_each(
        &self,
        metric: &Metric,
        label: &'static str,
        read: impl Fn(&mut dyn FnMut(&str, u64)) + Send + Sync + 'static,
    ) {
        self.register(metric, move |gauge| {
            let mut remaining = MAX_VALUES;
            read(&mut |value, number| {
                if remaining > 0 {
                    remaining -= 1;
                    gauge.observe(number, &[KeyValue::new(label, value.to_owned())]);
                }
            });
        });
    }

    fn register(
        &self,
        metric: &Metric,
        read: impl Fn(&dyn AsyncInstrument<u64>) + Send + Sync + 'static,
    ) {
        if !self.0.has_reader {
            return;
        }
        let meter = self.meter();
        // The meter keeps the callbacks; the instruments' handles have no use.
        match metric.kind {
            Kind::Counter => {
                _ = meter
                    .u64_observable_counter(metric.name)
                    .with_description(metric.description)
                    .with_callback(read)
                    .build();
            }
            Kind::Gauge => {
                _ = meter
                    .u64_observable_gauge(metric.name)
                    .with_description(metric.description)
                    .with_callback(read)
                    .build();
            }
            Kind::Histogram => {}
        }
    }
}
