//! An operation that is under way. However it ends, it becomes an event.

use std::{fmt, mem};

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use tokio::time::Instant;
use vmcp_core::{McpRequest, Rejection, Trail};

use crate::capture::Capture;
use crate::detect::{ApplicationError, Detector, Finding, MAX_MESSAGE};
use crate::{
    Auditor, Data, Details, Event, EventType, Outcome, Room, Source, Target, Text, message, source,
};

/// Writes its event when it is dropped, with what is known by then, if it has not been ended before.
#[derive(Debug)]
pub(crate) struct Pending(Option<Box<Open>>);

struct Open {
    auditor: Auditor,
    trail: Trail,
    began: Instant,
    source: Source,
    endpoint: Text,
    method: Method,
    /// The client asks for a stream on which the server speaks, or has got one.
    listens: bool,
    status: Option<StatusCode>,
    details: Details,
    capture: Capture,
}

/// How an operation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The answer went out as a whole, or it is a stream that opened.
    Whole,
    /// The service gave no answer, or the answer broke off.
    Broken,
    /// Nobody waited for it.
    Dropped,
}

impl Pending {
    /// Puts a trail into the request and begins to watch.
    pub(crate) fn open<B>(auditor: &Auditor, request: &mut Request<B>) -> Self {
        let settings = auditor.settings();
        let trail = Trail::of(request.extensions_mut());
        let listens = request.method() == Method::GET && names(request.headers(), ACCEPT);
        Self(Some(Box::new(Open {
            auditor: auditor.clone(),
            trail,
            began: Instant::now(),
            source: source::of(request, settings.trusted_proxies),
            endpoint: request.uri().path().into(),
            method: request.method().clone(),
            listens,
            status: None,
            details: Details::default(),
            capture: Capture::default(),
        })))
    }

    /// Takes note of the answer's head. `None` if its body need not be watched: the event is out.
    pub(crate) fn answered<R: http_body::Body>(mut self, response: &Response<R>) -> Option<Self> {
        let open = self.0.as_mut()?;
        let settings = open.auditor.settings();
        let status = response.status();
        let opened = status.is_success() && names(response.headers(), CONTENT_TYPE) && {
            let message = open.trail.message();
            open.listens || message.is_some_and(|message| message.method() == message::LISTEN)
        };
        let detects = settings.detect_application_errors && status.is_success();
        let detector = detects.then(|| Detector::new(response.headers())).flatten();
        let kept = settings.include_response_data.then_some(settings.max_data_size);
        if let Some(refused) = response.extensions().get::<Rejection>() {
            open.details.error_code = Some(refused.code().into());
            open.details.error_message = Some(Data::new(refused.message().as_bytes(), MAX_MESSAGE));
        }
        open.status = Some(status);
        open.listens |= opened;
        // The body of an answer to HEAD is never asked for.
        if opened || open.method == Method::HEAD || response.body().is_end_stream() {
            self.end(End::Whole);
            return None;
        }
        open.capture = Capture::new(detector, kept);
        Some(self)
    }

    /// A piece of the answer passes, the `last` one or not.
    pub(crate) fn piece(&mut self, piece: &Bytes, last: bool) {
        if let Some(open) = &mut self.0 {
            open.capture.piece(piece, last);
        }
    }

    /// The operation is over.
    pub(crate) fn end(&mut self, end: End) {
        if let Some(open) = self.0.take() {
            open.end(end);
        }
    }

    /// What the answer has to wait for before it goes out, if it has to.
    pub(crate) fn room(&self) -> Option<Room> {
        self.0.as_ref().and_then(|open| open.auditor.room())
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        // A panic further in unwinds through here.
        self.end(if std::thread::panicking() { End::Broken } else { End::Dropped });
    }
}

impl fmt::Debug for Open {
    /// What passes is not shown.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Open").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

impl Open {
    fn end(mut self: Box<Self>, end: End) {
        let message = self.trail.message();
        let method = message.map(McpRequest::method).unwrap_or_default();
        let kind = match message {
            _ if self.listens => EventType::SseConnection,
            Some(_) => EventType::of_method(&method),
            None => EventType::HttpRequest,
        };
        if !self.auditor.wants(kind) {
            return;
        }
        let (size, finding, response) = mem::take(&mut self.capture).end();
        let endpoint = mem::take(&mut self.endpoint);
        let target = message.map(|message| message::target(message, &method)).unwrap_or_default();
        let settings = self.auditor.settings();
        let mut details = mem::take(&mut self.details);
        if let Some(ApplicationError::Rpc { code, message }) = &finding.error {
            details.error_code = *code;
            details.error_message.clone_from(message);
        }
        details.duration = Some(self.began.elapsed());
        details.size = self.status.is_some().then_some(size);
        details.backend = self.trail.backend().cloned();
        details.tool_error = finding.error == Some(ApplicationError::Tool);
        details.denied = self.trail.denied();
        // Whoever has read the answer may leave before the end of the stream.
        details.cancelled = end == End::Dropped && !finding.answered;
        let event = Event {
            kind,
            outcome: self.outcome(&details, &finding, end),
            at: self.auditor.now(),
            caller: self.trail.identity().cloned(),
            client: message.and_then(message::client),
            target: self.target(target, endpoint, kind),
            details,
            request: message
                .filter(|_| settings.include_request_data)
                .map(|message| Data::new(&message.bytes, settings.max_data_size)),
            response,
            source: mem::take(&mut self.source),
        };
        self.auditor.record(event);
    }

    /// `target`, with what is known of it without the message.
    fn target(&self, mut target: Target, endpoint: Text, kind: EventType) -> Target {
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

    fn outcome(&self, details: &Details, finding: &Finding, end: End) -> Outcome {
        // Who cannot be let in because nobody can tell who it is has not been denied.
        let faulty = self.status.is_some_and(|status| status.is_server_error());
        if details.denied.is_some() && !faulty {
            return Outcome::Denied;
        }
        let Some(status) = self.status else {
            return if end == End::Broken { Outcome::Error } else { Outcome::Failure };
        };
        match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Outcome::Denied,
            status if status.is_client_error() => Outcome::Failure,
            status if status.is_server_error() => Outcome::Error,
            _ if finding.error.is_some() => Outcome::ApplicationError,
            _ if end == End::Broken && !finding.answered => Outcome::Error,
            _ if details.cancelled => Outcome::Failure,
            _ => Outcome::Success,
        }
    }
}

/// Whether a header that names media types names an event stream.
fn names(headers: &HeaderMap, header: http::HeaderName) -> bool {
    let mut values = headers.get_all(header).iter();
    values.any(|value| memchr::memmem::find(value.as_bytes(), b"text/event-stream").is_some())
}
