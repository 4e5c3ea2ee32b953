//! Where both layers record.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Meter, MeterProvider as _, NoopMeterProvider};
use opentelemetry::trace::{SpanKind, Status};
use vmcp_metrics::{ClientMetrics, HttpMetrics, ServerMetrics};
use vmcp_trace_context::TraceContext;

use crate::{ClientTelemetryLayer, ServerTelemetryLayer};

/// Makes both layers. A clone records to the same place.
#[derive(Clone, Debug)]
pub struct Recorder(Arc<Inner>);

/// What is recorded. The default records nothing.
#[derive(Clone, Default)]
pub struct TelemetryOptions {
    /// The name of the server that is asked, as labels and spans have it.
    pub server: String,
    /// Where metrics go. Without one nothing is measured.
    pub meter: Option<Meter>,
    /// Where spans go. Without one nothing is traced.
    pub spans: Option<Arc<dyn SpanRecorder>>,
    /// Whether older names of attributes stand beside those of the conventions.
    pub legacy_attributes: bool,
}

/// Samples and takes spans. The SDK of OpenTelemetry is behind it in `vmcp-telemetry-export`.
pub trait SpanRecorder: Send + Sync {
    /// Where a new span stands: below `parent`, and recorded if that is, or else at the beginning of a
    /// trace of its own.
    fn new_context(&self, parent: Option<&TraceContext>) -> TraceContext;

    /// Takes a span that has ended. Only those come whose place is sampled.
    fn record(&self, span: EndedSpan);
}

/// A span that has ended.
#[derive(Clone, Debug)]
pub struct EndedSpan {
    /// Where it stands.
    pub context: TraceContext,
    /// What it stands below.
    pub parent: Option<TraceContext>,
    /// Whether that belongs to another process.
    pub parent_is_remote: bool,
    /// The method, and the tool or prompt. Neither resources nor paths are in it.
    pub name: String,
    /// Whether it is that of a server or a client.
    pub kind: SpanKind,
    /// When it began.
    pub start: SystemTime,
    /// When it ended.
    pub end: SystemTime,
    /// What it says.
    pub attributes: Vec<KeyValue>,
    /// How it went.
    pub status: Status,
}

/// What all requests share.
pub(crate) struct Inner {
    pub(crate) server: ServerMetrics,
    pub(crate) client: ClientMetrics,
    pub(crate) http: HttpMetrics,
    /// Whether anybody looks at metrics.
    pub(crate) has_meter: bool,
    pub(crate) spans: Option<Arc<dyn SpanRecorder>>,
    pub(crate) name: String,
    pub(crate) legacy: bool,
}

impl Recorder {
    /// Has names of tools and prompts summed up in metrics from now on: for metrics that more people read than may know
    /// all names.
    pub fn hide_names(&self) {
        self.0.server.hide_names();
        self.0.client.hide_names();
    }

    /// Records what `options` say.
    #[must_use]
    pub fn new(options: TelemetryOptions) -> Self {
        let TelemetryOptions { server: name, meter, spans, legacy_attributes: legacy } = options;
        let has_meter = meter.is_some();
        let meter = meter.unwrap_or_else(|| NoopMeterProvider::new().meter("vmcp"));
        Self(Arc::new(Inner {
            server: ServerMetrics::new(&meter, name.clone()),
            client: ClientMetrics::new(&meter, legacy),
            http: HttpMetrics::new(&meter),
            has_meter,
            spans,
            name,
            legacy,
        }))
    }

    /// Around the gateway, outermost but for what catches panics.
    #[must_use]
    pub fn server_layer(&self) -> ServerTelemetryLayer {
        ServerTelemetryLayer::new(Arc::clone(&self.0), true)
    }

    /// Around endpoints that do not speak MCP: by the template in a response's [`Route`](crate::Route).
    #[must_use]
    pub fn endpoint_layer(&self) -> ServerTelemetryLayer {
        ServerTelemetryLayer::new(Arc::clone(&self.0), false)
    }

    /// Around the way to a backend, outermost.
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
