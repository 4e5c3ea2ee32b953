//! Observable instruments: values that other components maintain, read on each export.

use opentelemetry::KeyValue;
use opentelemetry::metrics::AsyncInstrument;
use vmcp_telemetry::metrics::names::{Metric, MetricKind};

use super::Telemetry;

vmcp_telemetry::declare_metrics! {
    /// Failed exports to the collector.
    EXPORT_FAILURES = Counter "vmcp_telemetry_export_failures" "";
}

/// Maximum number of label values of one metric.
pub(super) const MAX_VALUES: usize = 1000;

impl Telemetry {
    /// Exports the value of `read`. Call it once per metric: the callback lives as long as this
    /// `Telemetry` and runs on the thread that exports metrics, so `read` must not block.
    /// Histograms are ignored.
    pub fn observe(&self, metric: &Metric, read: impl Fn() -> u64 + Send + Sync + 'static) {
        self.register(metric, move |gauge| gauge.observe(read(), &[]));
    }

    /// Exports the value of `read`, as long as there is one.
    pub fn observe_optional(
        &self,
        metric: &Metric,
        read: impl Fn() -> Option<u64> + Send + Sync + 'static,
    ) {
        self.register(metric, move |gauge| {
            if let Some(number) = read() {
                gauge.observe(number, &[]);
            }
        });
    }

    /// Exports several values, distinguished by `label`. `read` gets a function to call with each
    /// label value and number; values beyond 1,000 are left out.
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

    /// Exports several values, distinguished by two labels, as [`observe_each`](Self::observe_each) does for one.
    pub fn observe_each_pair(
        &self,
        metric: &Metric,
        labels: [&'static str; 2],
        read: impl Fn(&mut dyn FnMut([&str; 2], u64)) + Send + Sync + 'static,
    ) {
        self.register(metric, move |gauge| {
            let mut remaining = MAX_VALUES;
            read(&mut |values, number| {
                if remaining > 0 {
                    remaining -= 1;
                    let [first, second] =
                        [0, 1].map(|index| KeyValue::new(labels[index], values[index].to_owned()));
                    gauge.observe(number, &[first, second]);
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
        // The meter owns the callbacks; the handles of the instruments are not needed.
        match metric.kind {
            MetricKind::Counter => {
                _ = meter
                    .u64_observable_counter(metric.name)
                    .with_description(metric.description)
                    .with_callback(read)
                    .build();
            }
            MetricKind::Gauge => {
                _ = meter
                    .u64_observable_gauge(metric.name)
                    .with_description(metric.description)
                    .with_callback(read)
                    .build();
            }
            MetricKind::Histogram => {}
        }
    }
}
