//! The instruments of requests to backends.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use opentelemetry::KeyValue;
use opentelemetry::metrics::{BoundCounter, BoundHistogram, Counter, Histogram, Meter};
use vmcp_core::Backend;

use crate::answer::Fault;
use crate::names::{self, OTHER};
use crate::series::{Budget, Outcome, Slot, Table};
use crate::server_side::{counter, histogram, operation};

/// How many backends become labels, those that a reload took away included.
const MAX_BACKENDS: usize = 1000;

/// What requests to backends are recorded with.
#[derive(Debug)]
pub(crate) struct ClientSide {
    duration: Histogram<f64>,
    requests: Counter<u64>,
    errors: Counter<u64>,
    request_duration: Histogram<f64>,
    legacy: bool,
    backends: RwLock<HashMap<Backend, Arc<Table<Series>>>>,
    budget: Arc<Budget>,
}

/// The instruments, for one set of labels.
#[derive(Debug)]
pub(crate) struct Series {
    /// Absent for what is no MCP operation.
    duration: Option<BoundHistogram<f64>>,
    requests: BoundCounter<u64>,
    request_duration: BoundHistogram<f64>,
    errors: Option<BoundCounter<u64>>,
}

impl ClientSide {
    pub(crate) fn new(meter: &Meter, legacy: bool) -> Self {
        Self {
            duration: histogram(meter, &names::CLIENT_DURATION),
            requests: counter(meter, &names::BACKEND_REQUESTS),
            errors: counter(meter, &names::BACKEND_ERRORS),
            request_duration: histogram(meter, &names::BACKEND_DURATION),
            legacy,
            backends: RwLock::default(),
            budget: Budget::new(),
        }
    }

    /// Where requests to `backend` are recorded.
    pub(crate) fn table(&self, backend: &Backend) -> (Backend, Arc<Table<Series>>) {
        let backends = self.backends.read().unwrap_or_else(PoisonError::into_inner);
        if let Some((backend, table)) = backends.get_key_value(backend) {
            return (backend.clone(), Arc::clone(table));
        }
        drop(backends);
        let mut backends = self.backends.write().unwrap_or_else(PoisonError::into_inner);
        let fits = backends.len() < MAX_BACKENDS;
        let backend = if fits { backend.clone() } else { Backend::new(OTHER) };
        let table = || Arc::new(Table::new(Arc::clone(&self.budget)));
        let table = Arc::clone(backends.entry(backend.clone()).or_insert_with(table));
        (backend, table)
    }

    pub(crate) fn record(
        &self,
        backend: &Backend,
        slot: &Slot<Series>,
        outcome: Outcome,
        seconds: f64,
    ) {
        slot.record(
            outcome,
            |slot, outcome| self.series(backend, slot, outcome),
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

    fn series(&self, backend: &Backend, slot: &Slot<Series>, outcome: &Outcome) -> Series {
        let labels = self.labels(backend, slot);
        let failed = !matches!(outcome.fault, Fault::None | Fault::TOOL | Fault::CANCELLED);
        let is_operation = !slot.method.is_empty();
        let fault = outcome.fault.label().map(|fault| KeyValue::new("error.type", fault));
        Series {
            duration: is_operation.then(|| {
                let mut labels = operation(slot, outcome);
                labels.push(KeyValue::new(names::BACKEND, backend.name().to_owned()));
                self.duration.bind(&labels)
            }),
            requests: self.requests.bind(&labels),
            request_duration: self.request_duration.bind(&labels),
            errors: failed.then(|| {
                let labels: Vec<_> = labels.iter().cloned().chain(fault).collect();
                self.errors.bind(&labels)
            }),
        }
    }

    fn labels(&self, backend: &Backend, slot: &Slot<Series>) -> Vec<KeyValue> {
        let name = backend.name().to_owned();
        let mut labels = vec![
            KeyValue::new(names::BACKEND, name.clone()),
            KeyValue::new("mcp.method.name", slot.method),
        ];
        let tool = slot.name.as_deref().filter(|_| slot.method == "tools/call");
        labels.extend(tool.map(|tool| KeyValue::new("gen_ai.tool.name", tool.to_owned())));
        if self.legacy {
            labels.push(KeyValue::new("target.workload_name", name));
            labels.push(KeyValue::new("action", action(slot.method)));
            labels.extend(tool.map(|tool| KeyValue::new("tool_name", tool.to_owned())));
        }
        labels
    }
}

/// The older word for what is asked of a backend.
pub(crate) fn action(method: &'static str) -> &'static str {
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
