//! The recorder of all layers.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use crate::metrics::{ClientMetrics, HttpMetrics, ServerMetrics, WorkflowMetrics};
use crate::trace_context::TraceContext;
use opentelemetry::KeyValue;
use opentelemetry::metrics::{Meter, MeterProvider as _, NoopMeterProvider};
use opentelemetry::trace::{SpanKind, Status};

use crate::{ClientTelemetryLayer, ServerTelemetryLayer};

/// Creates the layers. Clones record to the same destination.
#[derive(Clone, Debug)]
pub struct Recorder(Arc<Inner>);

/// Options of a [`Recorder`]. The default records nothing.
#[derive(Clone, Default)]
pub struct TelemetryOptions {
    /// The name of the server in labels and spans.
    pub server: String,
    /// The meter. Without one, no metrics are recorded.
    pub meter: Option<Meter>,
    /// The destination of spans. Without one, no spans are recorded.
    pub spans: Option<Arc<dyn SpanRecorder>>,
    /// Adds the attributes with older names.
    pub legacy_attributes: bool,
}

/// Sampler and destination of spans. `vmcp-telemetry-export` implements it with the OpenTelemetry SDK.
pub trait SpanRecorder: Send + Sync {
    /// Creates the context of a new span: a child of `parent` with its sampling decision, otherwise the root of a new
    /// trace.
    fn new_context(&self, parent: Option<&TraceContext>) -> TraceContext;

    /// Records a sampled span that has ended.
    fn record(&self, span: EndedSpan);
}

/// Span that has ended.
#[derive(Clone, Debug)]
pub struct EndedSpan {
    /// The context.
    pub context: TraceContext,
    /// The context of the parent.
    pub parent: Option<TraceContext>,
    /// Set if the parent belongs to another process.
    pub parent_is_remote: bool,
    /// The method and the name of the tool or prompt, without URIs and paths.
    pub name: String,
    /// The kind: server, client or internal.
    pub kind: SpanKind,
    /// The start time.
    pub start: SystemTime,
    /// The end time.
    pub end: SystemTime,
    /// The attributes.
    pub attributes: Vec<KeyValue>,
    /// The status.
    pub status: Status,
}

/// State shared by all requests.
pub(crate) struct Inner {
    pub(crate) server: ServerMetrics,
    pub(crate) client: ClientMetrics,
    pub(crate) http: HttpMetrics,
    pub(crate) workflow: WorkflowMetrics,
    /// Set if metrics are recorded.
    pub(crate) has_meter: bool,
    pub(crate) spans: Option<Arc<dyn SpanRecorder>>,
    pub(crate) name: String,
    pub(crate) legacy: bool,
}

impl Recorder {
    /// Merges all names of tools and prompts in metrics into `_OTHER` from now on, for metrics whose readers may not
    /// know all names.
    pub fn hide_names(&self) {
        self.0.server.hide_names();
        self.0.client.hide_names();
        self.0.workflow.hide_names();
    }

    /// Creates a recorder.
    #[must_use]
    pub fn new(options: TelemetryOptions) -> Self {
        let TelemetryOptions { server: name, meter, spans, legacy_attributes: legacy } = options;
        let has_meter = meter.is_some();
        let meter = meter.unwrap_or_else(|| NoopMeterProvider::new().meter("vmcp"));
        Self(Arc::new(Inner {
            server: ServerMetrics::new(&meter, name.clone()),
            client: ClientMetrics::new(&meter, legacy),
            http: HttpMetrics::new(&meter),
            workflow: WorkflowMetrics::new(&meter),
            has_meter,
            spans,
            name,
            legacy,
        }))
    }

    /// Creates the layer for a gateway or server. Place it outermost, inside the layer that catches panics.
    #[must_use]
    pub fn server_layer(&self) -> ServerTelemetryLayer {
        ServerTelemetryLayer::new(Arc::clone(&self.0), true)
    }

    /// Creates the layer for endpoints that do not speak MCP, recorded by the response's [`Route`](crate::Route).
    #[must_use]
    pub fn endpoint_layer(&self) -> ServerTelemetryLayer {
        ServerTelemetryLayer::new(Arc::clone(&self.0), false)
    }

    /// Creates the layer for the client of a backend. Place it outermost.
    #[must_use]
    pub fn client_layer(&self) -> ClientTelemetryLayer {
        ClientTelemetryLayer::new(Arc::clone(&self.0))
    }
}

impl fmt::Debug for TelemetryOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options").field("server", &self.server).finish_non_exhaustive()
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("name", &self.name).finish_non_exhaustive()
    }
}
