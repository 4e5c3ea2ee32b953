//! Metrics of workflows: runs of composite tools, and their steps.

use std::sync::{Arc, RwLock};

use opentelemetry::KeyValue;
use opentelemetry::metrics::{BoundCounter, BoundHistogram, Counter, Histogram, Meter};

use crate::metrics::MAX_NAME_LEN;
use crate::metrics::labels::{counter, histogram};
use crate::metrics::names::{self, OTHER};
use crate::metrics::series::NameBudget;

/// Metrics of workflows.
#[derive(Debug)]
pub struct WorkflowMetrics {
    runs: Instruments,
    steps: Instruments,
    names: Arc<NameBudget>,
    series: RwLock<Vec<Series>>,
}

/// Outcome of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RunOutcome {
    /// The run succeeded.
    Completed,
    /// The run failed.
    Failed,
    /// The caller may not use the tool of a step.
    Denied,
    /// The user declined or cancelled a question, or did not answer in time.
    Declined,
    /// The run took longer than its timeout.
    TimedOut,
    /// The owner cancelled the run.
    Cancelled,
    /// The client left.
    Interrupted,
    /// The run is suspended until the user answers. It has not ended, and no metric counts it.
    Suspended,
}

/// Outcome of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StepOutcome {
    /// The step succeeded.
    Completed,
    /// The step failed.
    Failed,
    /// The step was not needed.
    Skipped,
    /// The run ended before the step did.
    Cancelled,
}

#[derive(Debug)]
struct Instruments {
    count: Counter<u64>,
    duration: Histogram<f64>,
}

/// Instruments bound to one set of labels.
#[derive(Debug)]
struct Series {
    /// Name of the workflow; `None` for steps.
    name: Option<Box<str>>,
    outcome: &'static str,
    count: BoundCounter<u64>,
    duration: BoundHistogram<f64>,
}

impl WorkflowMetrics {
    /// Creates the instruments of `meter`.
    #[must_use]
    pub fn new(meter: &Meter) -> Self {
        Self {
            runs: Instruments {
                count: counter(meter, &names::WORKFLOW_RUNS),
                duration: histogram(meter, &names::WORKFLOW_DURATION),
            },
            steps: Instruments {
                count: counter(meter, &names::WORKFLOW_STEPS),
                duration: histogram(meter, &names::WORKFLOW_STEP_DURATION),
            },
            names: NameBudget::new(),
            series: RwLock::default(),
        }
    }

    /// Merges all names of workflows into `_OTHER` from now on.
    pub fn hide_names(&self) {
        self.names.close();
    }

    /// Records a run that ended. `name` is one of the configuration, never one that only a client knows.
    pub fn record_run(&self, name: &str, outcome: RunOutcome, seconds: f64) {
        if outcome != RunOutcome::Suspended {
            self.record(Some(name), outcome.as_str(), seconds);
        }
    }

    /// Records a step that ended.
    pub fn record_step(&self, outcome: StepOutcome, seconds: f64) {
        self.record(None, outcome.as_str(), seconds);
    }

    /// Returns the name as a label: up to 200 of up to 128 bytes, the others are `_OTHER`.
    pub(crate) fn label<'a>(&self, name: &'a str) -> &'a str {
        if self.names.is_closed() || name.len() > MAX_NAME_LEN {
            return OTHER;
        }
        let is_known = vmcp_core::read_lock(&self.series)
            .iter()
            .any(|series| series.name.as_deref() == Some(name));
        if is_known || self.names.has_room() { name } else { OTHER }
    }

    fn record(&self, name: Option<&str>, outcome: &'static str, seconds: f64) {
        let name = name.map(|name| self.label(name));
        let record = |all: &[Series]| {
            let is_it = |it: &&Series| it.name.as_deref() == name && it.outcome == outcome;
            let found = all.iter().find(is_it);
            found.map(|series| {
                series.count.add(1);
                series.duration.record(seconds);
            })
        };
        if record(&vmcp_core::read_lock(&self.series)).is_some() {
            return;
        }
        let mut series = vmcp_core::write_lock(&self.series);
        if record(&series).is_some() {
            return;
        }
        let is_new = name.is_some() && !series.iter().any(|it| it.name.as_deref() == name);
        if is_new && name != Some(OTHER) {
            // Concurrent first runs of several workflows may exceed the limit by as many names.
            _ = self.names.take();
        }
        let outcome_label = KeyValue::new(names::WORKFLOW_OUTCOME, outcome);
        let mut labels = vec![outcome_label];
        labels.extend(name.map(|name| KeyValue::new("gen_ai.tool.name", name.to_owned())));
        let instruments = if name.is_some() { &self.runs } else { &self.steps };
        series.push(Series {
            name: name.map(Into::into),
            outcome,
            count: instruments.count.bind(&labels),
            duration: instruments.duration.bind(&labels),
        });
        record(&series);
    }
}

impl RunOutcome {
    /// Returns the value of the label `vmcp.workflow.outcome`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Denied => "denied",
            Self::Declined => "declined",
            Self::TimedOut => "timed_out",
            Self::Cancelled => "cancelled",
            Self::Interrupted => "interrupted",
            Self::Suspended => "input_required",
        }
    }
}

impl StepOutcome {
    /// Returns the value of the label `vmcp.workflow.outcome`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
            Self::Cancelled => "cancelled",
        }
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry::metrics::MeterProvider as _;
    use opentelemetry_sdk::metrics::SdkMeterProvider;

    use super::*;
    use crate::metrics::MAX_NAMES;

    fn metrics() -> WorkflowMetrics {
        WorkflowMetrics::new(&SdkMeterProvider::default().meter("tests"))
    }

    fn names(metrics: &WorkflowMetrics) -> Vec<String> {
        let series = metrics.series.read().unwrap();
        series.iter().filter_map(|series| Some(series.name.as_deref()?.to_owned())).collect()
    }

    #[test]
    fn merges_names_beyond_limit() {
        let metrics = metrics();
        for number in 0..MAX_NAMES + 50 {
            metrics.record_run(&number.to_string(), RunOutcome::Completed, 0.1);
        }
        metrics.record_run(&"x".repeat(MAX_NAME_LEN + 1), RunOutcome::Completed, 0.1);
        let names = names(&metrics);
        assert_eq!((names.len(), names.last().unwrap().as_str()), (MAX_NAMES + 1, OTHER));
        assert_eq!(metrics.label("0"), "0");
    }

    #[test]
    fn hidden_names_are_merged() {
        let metrics = metrics();
        metrics.record_run("a", RunOutcome::Completed, 0.1);
        metrics.hide_names();
        for name in ["a", "b"] {
            metrics.record_run(name, RunOutcome::Failed, 0.1);
        }
        assert_eq!(names(&metrics), ["a", OTHER]);
    }

    #[test]
    fn suspended_run_is_not_counted() {
        let metrics = metrics();
        metrics.record_run("a", RunOutcome::Suspended, 0.1);
        assert_eq!(names(&metrics).len(), 0);
    }
}
