//! Metrics of requests to backends.

use std::sync::{Arc, RwLock};

use hashbrown::HashMap;
use opentelemetry::KeyValue;
use opentelemetry::metrics::{BoundCounter, BoundHistogram, Counter, Histogram, Meter};
use vmcp_core::Backend;

use crate::metrics::labels::{counter, histogram, operation_attributes};
use crate::metrics::names::{self, OTHER};
use crate::metrics::series::{InstrumentTable, NameBudget};
use crate::metrics::{BoundInstruments, ErrorType, Outcome};

/// Maximum number of backends that become labels, those that a reload removed included.
const MAX_BACKENDS: usize = 1000;

/// Metrics of requests to all backends.
#[derive(Debug)]
pub struct ClientMetrics {
    instruments: Arc<ClientInstruments>,
    backends: RwLock<HashMap<Backend, Arc<BackendMetrics>>>,
    budget: Arc<NameBudget>,
}

/// Metrics of requests to one backend.
#[derive(Debug)]
pub struct BackendMetrics {
    backend: Backend,
    instruments: Arc<ClientInstruments>,
    table: InstrumentTable<ClientSeries>,
}

#[derive(Debug)]
struct ClientInstruments {
    duration: Histogram<f64>,
    requests: Counter<u64>,
    errors: Counter<u64>,
    request_duration: Histogram<f64>,
    has_legacy_labels: bool,
}

/// Instruments bound to one set of labels.
#[derive(Debug)]
pub struct ClientSeries {
    /// `None` for requests that are not MCP operations.
    duration: Option<BoundHistogram<f64>>,
    requests: BoundCounter<u64>,
    request_duration: BoundHistogram<f64>,
    errors: Option<BoundCounter<u64>>,
}

impl ClientMetrics {
    /// Creates the instruments of `meter`. `legacy` adds the labels with older names.
    #[must_use]
    pub fn new(meter: &Meter, has_legacy_labels: bool) -> Self {
        let instruments = ClientInstruments {
            duration: histogram(meter, &names::CLIENT_DURATION),
            requests: counter(meter, &names::BACKEND_REQUESTS),
            errors: counter(meter, &names::BACKEND_ERRORS),
            request_duration: histogram(meter, &names::BACKEND_DURATION),
            has_legacy_labels,
        };
        Self {
            instruments: Arc::new(instruments),
            backends: RwLock::default(),
            budget: NameBudget::new(),
        }
    }

    /// Merges all names of tools and prompts into `_OTHER` from now on.
    pub fn hide_names(&self) {
        self.budget.close();
    }

    /// Returns the metrics of a backend.
    pub fn backend(&self, backend: &Backend) -> Arc<BackendMetrics> {
        let backends = vmcp_core::read_lock(&self.backends);
        if let Some(entry) = backends.get(backend) {
            return Arc::clone(entry);
        }
        drop(backends);
        let mut backends = vmcp_core::write_lock(&self.backends);
        let has_room = backends.len() < MAX_BACKENDS;
        let backend = if has_room { backend.clone() } else { Backend::new(OTHER) };
        let metrics = |backend| {
            let instruments = Arc::clone(&self.instruments);
            let table = InstrumentTable::new(Arc::clone(&self.budget));
            Arc::new(BackendMetrics { backend, instruments, table })
        };
        Arc::clone(backends.entry(backend.clone()).or_insert_with(|| metrics(backend)))
    }
}

impl BackendMetrics {
    /// Returns the backend, or `_OTHER` beyond the limit.
    #[must_use]
    pub fn backend(&self) -> &Backend {
        &self.backend
    }

    /// Returns the instruments of an operation. The name of a request to a backend is taken to exist.
    pub fn bind(&self, method: &str, name: Option<&str>) -> Arc<BoundInstruments<ClientSeries>> {
        self.table.bind(method, name, true)
    }

    /// Records a request that took `seconds`.
    pub fn record(&self, bound: &BoundInstruments<ClientSeries>, outcome: Outcome, seconds: f64) {
        bound.record(
            outcome,
            |bound, outcome| self.series(bound, outcome),
            |series| {
                series.requests.add(1);
                series.request_duration.record(seconds);
                if let Some(duration) = &series.duration {
                    duration.record(seconds);
                }
                if let Some(errors) = &series.errors {
                    errors.add(1);
                }
            },
        );
    }

    fn series(&self, bound: &BoundInstruments<ClientSeries>, outcome: &Outcome) -> ClientSeries {
        let ClientInstruments {
            duration,
            requests,
            errors,
            request_duration,
            has_legacy_labels: _,
        } = &*self.instruments;
        let labels = self.labels(bound);
        let is_failure = !outcome.is_expected()
            && !matches!(
                outcome.error_type,
                ErrorType::None | ErrorType::TOOL | ErrorType::CANCELLED
            );
        let is_operation = !bound.method().is_empty();
        let error_type =
            outcome.error_type.label().map(|error_type| KeyValue::new("error.type", error_type));
        ClientSeries {
            duration: is_operation.then(|| {
                let mut labels = operation_attributes(bound, outcome);
                labels.push(KeyValue::new(names::BACKEND, self.backend.name().to_owned()));
                duration.bind(&labels)
            }),
            requests: requests.bind(&labels),
            request_duration: request_duration.bind(&labels),
            errors: is_failure.then(|| {
                let labels: Vec<_> = labels.iter().cloned().chain(error_type).collect();
                errors.bind(&labels)
            }),
        }
    }

    fn labels(&self, bound: &BoundInstruments<ClientSeries>) -> Vec<KeyValue> {
        let name = self.backend.name().to_owned();
        let mut labels = vec![
            KeyValue::new(names::BACKEND, name.clone()),
            KeyValue::new("mcp.method.name", bound.method()),
        ];
        let tool = bound.name().filter(|_| bound.method() == "tools/call");
        labels.extend(tool.map(|tool| KeyValue::new("gen_ai.tool.name", tool.to_owned())));
        if self.instruments.has_legacy_labels {
            labels.push(KeyValue::new("target.workload_name", name));
            labels.push(KeyValue::new("action", legacy_action(bound.method())));
            labels.extend(tool.map(|tool| KeyValue::new("tool_name", tool.to_owned())));
        }
        labels
    }
}

/// Returns the legacy name of a method.
#[must_use]
pub fn legacy_action(method: &'static str) -> &'static str {
    match method {
        "tools/call" => "call_tool",
        "resources/read" => "read_resource",
        "prompts/get" => "get_prompt",
        "completion/complete" => "complete",
        "tools/list" | "prompts/list" | "resources/list" | "resources/templates/list" => {
            "list_capabilities"
        }
        other => other,
    }
}
