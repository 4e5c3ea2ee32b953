//! An operation that is under way. However it ends, it becomes an event.

use std::{fmt, mem};

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use tokio::time::Instant;
use vmcp_core::{McpRequest, Rejection, Trail};

use crate::capture::Capture;
use crate::detect::{ApplicationError, Detector, Finding, MAX_MESSAGE};
use crate::event::{Data, Event, Result, Source, Target, text};
use crate::{Auditor, EventType, Outcome, Settings, message, redact, source};

/// Writes its event when it is dropped, with what is known by then, if it has not been ended before.
#[derive(Debug)]
pub(crate) struct Pending(Option<Box<Open>>);

struct Open {
    auditor: Auditor,
    trail: Trail,
    began: Instant,
    source: Source,
    endpoint: Box<str>,
    method: Method,
    /// The client asks for a stream on which the server speaks.
    listens: bool,
    answer: Option<Answer>,
    capture: Capture,
}

/// The head of the answer.
#[derive(Debug)]
struct Answer {
    status: StatusCode,
    /// It is a stream that opened; its end is no event.
    opened: bool,
    refusal: Option<(i32, Box<str>)>,
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
        let settings = &auditor.shared().settings;
        let trail = Trail::of(request.extensions_mut());
        let listens = request.method() == Method::GET && names(request.headers(), ACCEPT);
        Self(Some(Box::new(Open {
            auditor: auditor.clone(),
            trail,
            began: Instant::now(),
            source: source::of(request, settings.trusted_proxies),
            endpoint: text(request.uri().path()),
            method: request.method().clone(),
            listens,
            answer: None,
            capture: Capture::default(),
        })))
    }

    /// Takes note of the answer's head. Whether its body has to be watched: otherwise the event is out.
    pub(crate) fn answered<R: http_body::Body>(&mut self, response: &Response<R>) -> bool {
        let Some(open) = &mut self.0 else { return false };
        let settings = &open.auditor.shared().settings;
        let status = response.status();
        let opened = status.is_success() && names(response.headers(), CONTENT_TYPE) && {
            let message = open.trail.message();
            open.listens || message.is_some_and(|message| message.method() == message::LISTEN)
        };
        let detector = (settings.detect_application_errors && status.is_success())
            .then(|| Detector::new(response.headers()))
            .flatten();
        let kept = settings.include_response_data.then_some(settings.max_data_size);
        let refusal = response.extensions().get::<Rejection>();
        let refusal = refusal
            .map(|refused| (refused.code(), redact::message(refused.message(), MAX_MESSAGE)));
        open.answer = Some(Answer { status, opened, refusal });
        // The body of an answer to HEAD is never asked for.
        if opened || open.method == Method::HEAD || response.body().is_end_stream() {
            self.end(End::Whole);
            return false;
        }
        open.capture = Capture::new(detector, kept);
        true
    }

    /// A piece of the answer passes. `last` if there will be no other.
    pub(crate) fn piece(&mut self, piece: &Bytes, last: bool) {
        if let Some(open) = &mut self.0 {
            open.capture.piece(piece, last);
        }
        if last {
            self.end(End::Whole);
        }
    }

    /// The operation is over.
    pub(crate) fn end(&mut self, end: End) {
        if let Some(open) = self.0.take() {
            open.end(end);
        }
    }

    /// What the answer has to wait for before it goes out, if it has to.
    pub(crate) fn room(&self) -> Option<impl Future<Output = ()> + Send + use<>> {
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
        let opened = self.answer.as_ref().is_some_and(|answer| answer.opened);
        let kind = match message {
            _ if opened || self.listens => EventType::SseConnection,
            Some(message) => message::kind(message),
            None => EventType::HttpRequest,
        };
        if !self.auditor.wants(kind) {
            return;
        }
        let (size, finding, response) = mem::take(&mut self.capture).end();
        let result = self.result(size, &finding, end);
        let outcome = self.outcome(&result, &finding, end);
        let shared = self.auditor.shared();
        let mut event = Event::new(kind, outcome, shared.clock.now());
        event.caller = self.trail.identity().cloned();
        event.client = message.and_then(message::client);
        event.target = self.target(message, kind);
        event.request = message.and_then(|message| request(&shared.settings, message));
        event.response = response;
        event.result = result;
        event.source = mem::take(&mut self.source);
        self.auditor.record(event);
    }

    fn target(&self, message: Option<&McpRequest>, kind: EventType) -> Target {
        let mut target = message.map(message::target).unwrap_or_default();
        target.endpoint.clone_from(&self.endpoint);
        if target.method.is_empty() {
            target.method = text(self.method.as_str());
        }
        if kind == EventType::SseConnection {
            target.kind = "sse_endpoint";
        } else if target.kind.is_empty() {
            target.kind = "endpoint";
        }
        target
    }

    fn result(&self, size: u64, finding: &Finding, end: End) -> Result {
        let refusal = self.answer.as_ref().and_then(|answer| answer.refusal.as_ref());
        let (error_code, error_message) = match (&finding.error, refusal) {
            (Some(ApplicationError::Rpc { code, message }), _) => (*code, message.clone()),
            (_, Some((code, message))) => (Some(i64::from(*code)), Some(message.clone())),
            (Some(ApplicationError::Tool) | None, None) => (None, None),
        };
        Result {
            duration: Some(self.began.elapsed()),
            size: self.answer.is_some().then_some(size),
            backend: self.trail.backend().cloned(),
            error_code,
            error_message,
            tool_error: finding.error == Some(ApplicationError::Tool),
            denied: self.trail.denied(),
            // Whoever has read the answer may leave before the end of the stream.
            cancelled: end == End::Dropped && !finding.answered,
        }
    }

    fn outcome(&self, result: &Result, finding: &Finding, end: End) -> Outcome {
        if result.denied.is_some() {
            return Outcome::Denied;
        }
        let Some(answer) = &self.answer else {
            return if end == End::Broken { Outcome::Error } else { Outcome::Failure };
        };
        match answer.status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Outcome::Denied,
            status if status.is_client_error() => Outcome::Failure,
            status if status.is_server_error() => Outcome::Error,
            _ if finding.error.is_some() => Outcome::ApplicationError,
            _ if end == End::Broken && !finding.answered => Outcome::Error,
            _ if result.cancelled => Outcome::Failure,
            _ => Outcome::Success,
        }
    }
}

/// The beginning of the message, if it is to be recorded.
fn request(settings: &Settings, message: &McpRequest) -> Option<Data> {
    settings.include_request_data.then(|| {
        let start = message.bytes.get(..settings.max_data_size).unwrap_or(&message.bytes);
        Data { start: start.to_vec(), cut: start.len() < message.bytes.len() }
    })
}

/// Whether a header that names media types names an event stream.
fn names(headers: &HeaderMap, header: http::HeaderName) -> bool {
    headers
        .get_all(header)
        .iter()
        .any(|value| memchr::memmem::find(value.as_bytes(), b"text/event-stream").is_some())
}
