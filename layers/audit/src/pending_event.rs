//! The event of an operation in progress.

use std::{fmt, mem};

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use tokio::time::Instant;
use vmcp_core::{McpRequest, Rejection, RequestContext};

use crate::capture::Capture;
use crate::detector::{ApplicationError, DetectionResult, Detector, MAX_ERROR_MESSAGE};
use crate::{
    Auditor, BoundedText, Capacity, Event, EventDetails, EventSource, EventTarget, EventType,
    Outcome, PayloadExcerpt, message, source,
};

/// Error of a stream that ended without the response.
const CANCELLED: &str = "the client cancelled the request, or its session ended";

/// Event of an operation in progress. Recorded on drop with the facts known by then, unless completed before.
#[derive(Debug)]
pub(crate) struct PendingEvent(Option<Box<Operation>>);

struct Operation {
    auditor: Auditor,
    request_context: RequestContext,
    started_at: Instant,
    source: EventSource,
    endpoint: BoundedText,
    method: Method,
    /// Set if the client requested or received a stream for server messages.
    is_notification_stream: bool,
    status: Option<StatusCode>,
    details: EventDetails,
    capture: Capture,
}

/// End of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Completion {
    /// The response was sent completely, or is a stream that opened.
    Complete,
    /// The service failed, or the response was truncated.
    Aborted,
    /// The client left before the end.
    Cancelled,
}

impl PendingEvent {
    /// Starts an event and inserts a request context into the request.
    pub(crate) fn begin<B>(auditor: &Auditor, request: &mut Request<B>) -> Self {
        let settings = auditor.settings();
        let request_context = RequestContext::of(request.extensions_mut());
        let is_notification_stream =
            request.method() == Method::GET && mentions_event_stream(request.headers(), ACCEPT);
        Self(Some(Box::new(Operation {
            auditor: auditor.clone(),
            request_context,
            started_at: Instant::now(),
            source: source::from_request(request, settings.trusted_proxies),
            endpoint: request.uri().path().into(),
            method: request.method().clone(),
            is_notification_stream,
            status: None,
            details: EventDetails::default(),
            capture: Capture::default(),
        })))
    }

    /// Records the head of the response. Returns `None` if the event is complete.
    pub(crate) fn on_response<R: http_body::Body>(
        mut self,
        response: &Response<R>,
    ) -> Option<Self> {
        let operation = self.0.as_mut()?;
        let settings = operation.auditor.settings();
        let status = response.status();
        let is_opened_stream =
            status.is_success() && mentions_event_stream(response.headers(), CONTENT_TYPE) && {
                let message = operation.request_context.message();
                operation.is_notification_stream
                    || message.is_some_and(|message| message.method() == message::LISTEN)
            };
        let is_detecting = settings.detect_application_errors && status.is_success();
        let detector = is_detecting.then(|| Detector::new(response.headers())).flatten();
        let max_excerpt = settings.include_response_data.then_some(settings.max_data_size);
        if let Some(rejection) = response.extensions().get::<Rejection>() {
            operation.details.error_code = Some(rejection.code().into());
            operation.details.error_message =
                Some(PayloadExcerpt::new(rejection.message().as_bytes(), MAX_ERROR_MESSAGE));
        }
        operation.status = Some(status);
        operation.is_notification_stream |= is_opened_stream;
        // The body of a response to HEAD is never polled.
        if is_opened_stream || operation.method == Method::HEAD || response.body().is_end_stream() {
            self.complete(Completion::Complete);
            return None;
        }
        operation.capture = Capture::new(detector, max_excerpt);
        Some(self)
    }

    /// Captures a chunk of the response body.
    pub(crate) fn on_chunk(&mut self, chunk: &Bytes, last: bool) {
        if let Some(operation) = &mut self.0 {
            operation.capture.push(chunk, last);
        }
    }

    /// Completes the operation.
    pub(crate) fn complete(&mut self, completion: Completion) {
        if let Some(operation) = self.0.take() {
            operation.complete(completion);
        }
    }

    /// Returns the future of the sink's capacity, if the response has to wait for it.
    pub(crate) fn reserve(&self) -> Option<Capacity> {
        self.0.as_ref().and_then(|operation| operation.auditor.reserve())
    }
}

impl Drop for PendingEvent {
    fn drop(&mut self) {
        // The inner service panicked and the stack is unwinding.
        self.complete(if std::thread::panicking() {
            Completion::Aborted
        } else {
            Completion::Cancelled
        });
    }
}

impl fmt::Debug for Operation {
    /// Omits captured data.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Operation").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

impl Operation {
    fn complete(mut self: Box<Self>, completion: Completion) {
        let message = self.request_context.message();
        let method = message.map(McpRequest::method).unwrap_or_default();
        let kind = match message {
            _ if self.is_notification_stream => EventType::SseConnection,
            Some(_) => EventType::from_method(&method),
            None => EventType::HttpRequest,
        };
        if !self.auditor.is_enabled(kind) {
            return;
        }
        let (size, detection, response) = mem::take(&mut self.capture).finish();
        let endpoint = mem::take(&mut self.endpoint);
        let target = message.map(|message| message::target(message, &method)).unwrap_or_default();
        let settings = self.auditor.settings();
        let mut details = mem::take(&mut self.details);
        if let Some(ApplicationError::Rpc { code, message }) = &detection.error {
            details.error_code = *code;
            details.error_message.clone_from(message);
        }
        let is_cancelled = settings.detect_application_errors
            && self.request_context.is_cancelled()
            && completion == Completion::Complete
            && !detection.response_passed;
        if is_cancelled {
            details.error_message =
                Some(PayloadExcerpt::new(CANCELLED.as_bytes(), MAX_ERROR_MESSAGE));
        }
        details.duration = Some(self.started_at.elapsed());
        details.size = self.status.is_some().then_some(size);
        details.backend = self.request_context.backend().cloned();
        details.tool_error = detection.error == Some(ApplicationError::Tool);
        details.denied = self.request_context.denied();
        // A client that has read the response may leave before the end of the stream.
        details.cancelled = completion == Completion::Cancelled && !detection.response_passed;
        let event = Event {
            kind,
            outcome: self.outcome(&details, &detection, completion, is_cancelled),
            at: self.auditor.now(),
            caller: self.request_context.identity().cloned(),
            client: message.and_then(message::client),
            target: self.target(target, endpoint, kind),
            details,
            request: message
                .filter(|_| settings.include_request_data)
                .map(|message| PayloadExcerpt::new(&message.bytes, settings.max_data_size)),
            response,
            source: mem::take(&mut self.source),
        };
        self.auditor.record(event);
    }

    /// Completes `target` with facts that do not depend on the message.
    fn target(
        &self,
        mut target: EventTarget,
        endpoint: BoundedText,
        kind: EventType,
    ) -> EventTarget {
        target.endpoint = endpoint;
        if target.method.is_empty() {
            target.method = self.method.as_str().into();
        }
        if kind == EventType::SseConnection {
            target.kind = "sse_endpoint";
        } else if target.kind.is_empty() {
            target.kind = "endpoint";
        }
        target
    }

    fn outcome(
        &self,
        details: &EventDetails,
        detection: &DetectionResult,
        completion: Completion,
        is_cancelled: bool,
    ) -> Outcome {
        // An outage of the identity provider is not a denial.
        let is_server_error = self.status.is_some_and(|status| status.is_server_error());
        if details.denied.is_some() && !is_server_error {
            return Outcome::Denied;
        }
        let Some(status) = self.status else {
            return if completion == Completion::Aborted {
                Outcome::Error
            } else {
                Outcome::Failure
            };
        };
        match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Outcome::Denied,
            status if status.is_client_error() => Outcome::Failure,
            status if status.is_server_error() => Outcome::Error,
            _ if detection.error.is_some() || is_cancelled => Outcome::ApplicationError,
            _ if completion == Completion::Aborted && !detection.response_passed => Outcome::Error,
            _ if details.cancelled => Outcome::Failure,
            _ => Outcome::Success,
        }
    }
}

/// Returns `true` if the header contains the media type of event streams.
fn mentions_event_stream(headers: &HeaderMap, header: http::HeaderName) -> bool {
    let mut values = headers.get_all(header).iter();
    values.any(|value| memchr::memmem::find(value.as_bytes(), b"text/event-stream").is_some())
}
